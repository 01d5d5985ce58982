"""Tensor arguments of a checked launch: their names, extents, and elements by address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from triton_xe.runtime.device import TensorArguments


def tensors_of(given: TensorArguments | None) -> dict[int, Tensor]:
    """The tensors of a launch by the number of the parameter."""
    if given is None:
        return {}
    return {k: Tensor(name, value) for (k, name), value in zip(*given, strict=True)}


@dataclass(frozen=True)
class Tensor:
    """An argument of the kernel by name: a tensor, or another object that has an address."""

    name: str
    value: Any

    @property
    def _has_elements(self) -> bool:
        kind = type(self.value)
        if kind not in _HAS_ELEMENTS:
            _HAS_ELEMENTS[kind] = all(hasattr(kind, name) for name in _ELEMENTS)
        return _HAS_ELEMENTS[kind] or all(hasattr(self.value, name) for name in _ELEMENTS)

    @property
    def _shape(self) -> tuple[int, ...] | None:
        """The shape; None for an object without strides."""
        if not self._has_elements or not hasattr(self.value, "stride"):
            return None
        return tuple(self.value.shape)

    @property
    def extent(self) -> tuple[int, int] | None:
        """First address and end address of its elements; None if unknown."""
        shape = self._shape
        if shape is None or 0 in shape:
            return None
        below = above = 0
        for n, step in zip(shape, self.value.stride(), strict=True):
            if step < 0:
                below += (n - 1) * step
            else:
                above += (n - 1) * step
        at, size = self.value.data_ptr(), self.value.element_size()
        return at + below * size, at + (above + 1) * size

    @property
    def integer_bytes(self) -> int:
        """Bytes of an integer element of more than a byte; 0 for others."""
        if self._shape is None or not _is_integer(self.value.dtype):
            return 0
        return int(self.value.element_size())

    def describe(self, address: int) -> str:
        """The argument with its shape, and which of its elements an address is."""
        if not self._has_elements:
            return f"argument {self.name!r}"
        dtype = str(self.value.dtype).removeprefix("torch.")
        if self._shape is None:
            return f"argument {self.name!r}: pointer to {dtype}, {self.element(address)}"
        return (f"argument {self.name!r}: {dtype} tensor of shape {self._shape}, strides "
                f"{tuple(self.value.stride())}, {self.element(address)}")

    def element(self, address: int) -> str:
        """The element at an address, as an index."""
        if not self._has_elements:
            return ""
        offset, rest = divmod(address - self.value.data_ptr(), self.value.element_size())
        if self._shape is None:
            return f"element offset {offset}" + f", byte {rest} of it" * bool(rest)
        return _element(offset, self._shape, tuple(self.value.stride()))


_ELEMENTS = "data_ptr", "element_size", "dtype"
_HAS_ELEMENTS: dict[type, bool] = {}
"""Class -> True if all of its objects have shapes and strides."""


@cache
def _is_integer(dtype: object) -> bool:
    return "int" in str(dtype)


def _element(offset: int, shape: tuple[int, ...], strides: Sequence[int]) -> str:
    """`offset`, in elements, as an index; the first index exceeds its size if it must."""
    index, rest = [0] * len(shape), offset
    for k in sorted(range(len(shape)), key=lambda k: (-strides[k], k)):
        if strides[k] > 0 and (shape[k] > 1 or k == 0):
            index[k] = rest // strides[k]
            rest -= index[k] * strides[k]
    text = f"element {tuple(index)}" if rest == 0 and offset >= 0 else f"element offset {offset}"
    inside = all(0 <= x < n for x, n in zip(index, shape, strict=True))
    return text if inside and offset >= 0 else f"{text}, which it does not have"
