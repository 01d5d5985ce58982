"""DPAS element types and shapes, as the simulator stores them.

Codes are those of IGC's enum, used by `llvm.genx.GenISA.sub.group.dpas`.
"""

from __future__ import annotations

from dataclasses import dataclass

from triton_xe.errors import LegalityError

# code -> (name, bits, is float)
PRECISIONS: dict[int, tuple[str, int, bool]] = {
    1: ("u8", 8, False),
    2: ("u4", 4, False),
    3: ("u2", 2, False),
    4: ("s8", 8, False),
    5: ("s4", 4, False),
    6: ("s2", 2, False),
    7: ("bf8", 8, True),
    8: ("hf8", 8, True),
    10: ("tf32", 32, True),
    11: ("bf16", 16, True),
    12: ("f16", 16, True),
}


@dataclass(frozen=True)
class DpasShape:
    """One DPAS: element types, M = `rows`, `k`, and N = `columns`."""

    a: str
    b: str
    bits_a: int
    bits_b: int
    is_float: bool
    rows: int
    k: int
    columns: int

    @property
    def role_a(self) -> str:
        """`a_<type>_<rows>x<k>_<bytes prepared>`: fp32 or i16 rows."""
        return f"a_{self.a}_{self.rows}x{self.k}_{self.rows * self.k * self.unit}"

    @property
    def role_b(self) -> str:
        """`b_<type>_<k>x<columns>_<bytes prepared>`: fp32 rows, or rows of i16 pairs."""
        return f"b_{self.b}_{self.k}x{self.columns}_{self.k * self.columns * self.unit}"

    @property
    def unit(self) -> int:
        """Bytes of a prepared element."""
        return 4 if self.is_float else 2

    @property
    def bytes_a(self) -> int:
        return self.rows * self.k * self.bits_a // 8

    @property
    def bytes_b(self) -> int:
        return self.k * self.columns * self.bits_b // 8


def dpas_shape(code_a: int, code_b: int, rows: int, columns: int) -> DpasShape:
    """The shape of a DPAS; `LegalityError` for types that do not go together.

    K is 8 stages of as many elements of the wider type as fit in 32 bits.
    """
    if code_a not in PRECISIONS or code_b not in PRECISIONS:
        raise LegalityError(f"DPAS precision codes {code_a}, {code_b} are not known")
    a, bits_a, float_a = PRECISIONS[code_a]
    b, bits_b, float_b = PRECISIONS[code_b]
    eight = {"bf8", "hf8"}
    if float_a != float_b or (float_a and a != b and not {a, b} <= eight):
        raise LegalityError(f"DPAS cannot multiply {a} by {b}")
    widest = max(bits_a, bits_b) if not float_a else bits_a
    k = 8 * (32 // max(widest, 4))
    return DpasShape(a, b, bits_a, bits_b, float_a, rows, k, columns)
