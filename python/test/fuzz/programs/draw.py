"""What programs of all kinds draw: types, places in memory, whole functions from lines."""

import random
from collections.abc import Iterable

FLOATS = ("float16", "bfloat16", "float32")
SIZE = {"float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5}
"""Of one rounding to the type; of 0 where numbers are integers."""


class Draw(random.Random):
    """A source of decisions."""

    def some(self, *of):
        return self.choice(of)

    def yes(self, share: float = 0.5) -> bool:
        return self.random() < share

    def place(self) -> str:
        """Arguments of `tensor`: aligned as torch's own tensors mostly, or by a few elements."""
        return (f"pad={self.some(0, 0, 0, 1, 3, 8, 16, 32)}, "
                f"offset={self.some(0, 0, 0, 1, 2, 4, 8, 16, 32)}")

    def vector_place(self) -> str:
        return f"offset={self.some(0, 0, 1, 4)}"

    def sizes(self, block: int, blocks: int, even: bool) -> int:
        """A length: whole blocks, or any."""
        return block * self.randint(1, blocks) if even else self.randint(1, blocks * block + 9)


def whole_rows(columns: int, dtype: str) -> str:
    """The `pad` that brings a row to 16 bytes, as descriptors want it."""
    return f"pad={-columns * SIZE[dtype] % 16 // SIZE[dtype]}"


def kernel(parameters: str, lines: Iterable[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"@triton.jit\ndef kernel({parameters}):\n{body}\n\n"


def masked(*conditions: str, other: str = "0") -> str:
    """The arguments of a load under these conditions; nothing without any."""
    return f", mask={' & '.join(conditions)}, other={other}" if conditions else ""
