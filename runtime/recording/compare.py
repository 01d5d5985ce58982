"""Compare memory after a replay with the recorded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics.definitions.conversions import bf16_to_float
from triton_xe.runtime.recording.folder import Recording, View, elements_of
from triton_xe.runtime.recording.memory import Bytes

TOLERANCES = {
    "float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5), "float8_e4m3fn": (0.125, 2**-9), "float8_e5m2": (0.25, 2**-16),
}
"""(relative, absolute) tolerance by type.

They are those of `torch.testing.assert_close`.  For 8-bit floats they are
one unit in the last place.  Elements of other types must be equal.
"""


@dataclass(frozen=True)
class Difference:
    """Difference in one tensor, or (`shape` is None) in a block outside of all tensors."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    count: int
    """Elements that differ in at least one bit."""
    beyond: int
    """Elements that differ by more than the tolerance."""
    block: int
    """Number of the block of memory."""
    first: tuple[int, ...]
    """Coordinates of the first element beyond the tolerance, or else of the first that differs."""
    at: tuple[int, int]
    """First and end byte of that element in the block."""
    got: Any
    wanted: Any
    largest: float
    """Largest absolute difference; NaN outside of tensors."""
    def __str__(self) -> str:
        if self.shape is None:
            return (f"{self.name}: {self.count} bytes outside of all tensors differ, the first is "
                    f"byte {self.first[0]}: {self.got}, recorded {self.wanted}")
        within = "all within the tolerance" if not self.beyond else (
            "all beyond the tolerance" if self.beyond == self.count else
            f"{self.beyond} beyond the tolerance")
        return (f"{self.name}: {self.dtype} {self.shape}: {self.count} elements differ, {within}; "
                f"element {self.first} is {self.got}, recorded {self.wanted}; the largest "
                f"difference is {self.largest:g}")


def differences(
    recording: Recording, got: dict[int, Bytes], wanted: dict[int, Bytes],
    tolerance: tuple[float, float] | None = None,
) -> Iterator[Difference]:
    """Yield the difference of every tensor that is not bitwise equal, and of memory outside of
    tensors.
    """
    for number in got:
        differs = got[number] != wanted[number]
        if not differs.any():
            continue
        seen = set()
        rest = differs.copy()
        for argument in recording.arguments:
            if argument.type != "ptr" or argument.block != number:
                continue
            view = elements_of(argument, recording.blocks[number])
            if (argument.value, view) in seen:
                continue
            seen.add((argument.value, view))
            offset = int(argument.value) - recording.blocks[number].low
            parts = [elements(data, offset, view)
                     for data in (differs, got[number], wanted[number])]
            if parts[0].any():
                yield _tensor(argument.name, view, number, offset, parts,
                              tolerance or TOLERANCES.get(view.dtype, (0, 0)))
            elements(rest, offset, view)[...] = False
        if rest.any():
            yield _outside(number, rest, got[number], wanted[number])


def elements(data: NDArray[Any], offset: int, view: View) -> NDArray[Any]:
    """View the elements of a tensor in the bytes of its block.

    The result shares memory with `data`.  Its last dimension is the bytes of one element.
    """
    if 0 in view.shape:
        return np.empty((*view.shape, view.itemsize), data.dtype)
    return np.ndarray((*view.shape, view.itemsize), data.dtype, data.data, offset,
                      (*view.steps, 1))


def numbers(raw: Bytes, dtype: str) -> NDArray[Any]:
    """Numbers from the bytes of elements (the last dimension)."""
    raw = np.ascontiguousarray(raw)
    size = raw.shape[-1]
    bits: NDArray[Any] = raw.view(f"u{size}")[..., 0] if size in (1, 2, 4, 8) else raw[..., 0]
    if dtype == "bfloat16":
        return bf16_to_float(bits)
    if dtype == "float8_e5m2":
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    if dtype == "float8_e4m3fn":
        return _e4m3(bits)
    known = getattr(np, dtype, None) if dtype.startswith(("float", "int", "uint")) else None
    return bits if known is None or np.dtype(known).itemsize != size else bits.view(known)


def _e4m3(bits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert 8-bit floats without infinities, whose largest code is NaN."""
    exponent, fraction = bits >> 3 & 15, (bits & 7).astype(np.float32)
    scaled = np.where(exponent == 0, fraction * 2, fraction + 8) * np.exp2(exponent - 10.0)
    signed = np.where(bits & 128, -scaled, scaled)
    return np.where(bits & 127 == 127, np.nan, signed).astype(np.float32)


def _tensor(
    name: str, view: View, block: int, offset: int, parts: list[NDArray[Any]],
    tolerance: tuple[float, float],
) -> Difference:
    """Summarise the differences of a tensor: their number, the first, and the largest."""
    differs = parts[0].any(axis=-1)
    got, wanted = (numbers(part, view.dtype)[differs] for part in parts[1:])
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
        is_close = error <= tolerance[1] + tolerance[0] * np.abs(wanted.astype(np.float64))
        is_close |= (got == wanted) | ((got != got) & (wanted != wanted))
    worst = int(np.argmax(~is_close))  # the first that is not close, else the first of all
    first = tuple(int(each[worst]) for each in np.nonzero(differs))
    at = offset + sum(x * step for x, step in zip(first, view.steps, strict=True))
    largest = np.nanmax(error) if not np.isnan(error).all() else np.nan
    return Difference(
        name, view.dtype, view.shape, int(differs.sum()), int((~is_close).sum()), block, first,
        (at, at + view.itemsize), got[worst].item(), wanted[worst].item(), float(largest))


def _outside(block: int, rest: NDArray[Any], got: Bytes, wanted: Bytes) -> Difference:
    """The first difference in bytes of a block that belong to no argument."""
    at = int(np.argmax(rest))
    count = int(rest.sum())
    return Difference(f"block {block}", "uint8", None, count, count, block, (at,), (at, at + 1),
                      int(got[at]), int(wanted[at]), float("nan"))
