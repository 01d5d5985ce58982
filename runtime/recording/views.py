"""Tensors and arrays as arguments: their memory and their elements."""

from __future__ import annotations

import sys
from typing import Any

from triton_xe.errors import DeviceError
from triton_xe.runtime import arrays
from triton_xe.runtime.device import Device, MemoryBlock
from triton_xe.runtime.recording.folder import View

_NAMES = {"fp8e5": "float8_e5m2", "fp8e4nv": "float8_e4m3fn", "bf16": "bfloat16"}
"""torch's names of the types to which Triton reinterprets tensors, by Triton's names."""


def root_of(device: Device, tensor: Any, address: int) -> MemoryBlock | None:
    """The whole memory that an argument is a part of; None if unknown.

    For torch's tensors on a GPU it is their storage, because an allocation contains many.
    """
    if not address:
        return None
    known = device.block_of(address)
    if known is None:
        return _of_array(tensor) if device.is_simulated else None
    storage = None if device.is_simulated else _storage(tensor)
    if storage is None or not known.low <= storage[0] <= storage[1] <= known.high:
        return known
    return MemoryBlock(*storage, known.kind)


def _storage(tensor: Any) -> tuple[int, int] | None:
    """First address and end of a tensor's storage; None for objects without one."""
    if not hasattr(tensor, "untyped_storage"):
        return None
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _is_array(value: Any) -> bool:
    """True if it may be an array of another library: no tensor, no buffer of ours, no address."""
    has_address = hasattr(value, "data_ptr") or hasattr(value, "pointer")
    return not (value is None or isinstance(value, int) or has_address)


def _of_array(value: Any) -> MemoryBlock | None:
    """Memory of another library's array; for numpy that of the array that it is a view of."""
    if not _is_array(value):
        return None
    numpy = sys.modules.get("numpy")
    while numpy is not None and isinstance(getattr(value, "base", None), numpy.ndarray):
        value = value.base
    try:
        found = arrays.find(value)
    except DeviceError:
        return None
    return None if found is None else MemoryBlock(found.low, found.high, "host")


def array_extent(value: Any) -> tuple[int, int] | None:
    """Memory of another library's array that the simulator knows: its elements, no more."""
    if not _is_array(value):
        return None
    found = arrays.find(value)
    return None if found is None else (found.low, found.high)


def view_of(value: Any) -> View | None:
    """The elements of a tensor or array; None if its type does not describe them."""
    if hasattr(value, "element_size"):
        size = int(value.element_size())
        return _view(value.dtype, value.shape, [step * size for step in value.stride()], size)
    if hasattr(value, "itemsize") and hasattr(value, "strides"):
        return _view(value.dtype, value.shape, value.strides, value.itemsize)
    return None


def _view(dtype: Any, shape: Any, steps: Any, size: int) -> View:
    name = str(dtype).removeprefix("torch.")
    return View(_NAMES.get(name, name), tuple(map(int, shape)), tuple(map(int, steps)), size)
