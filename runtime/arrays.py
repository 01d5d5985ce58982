"""Arrays of other libraries as kernel arguments: numpy, DLPack, and array interfaces.

An argument is read by the first of these interfaces that it has:

| interface | its memory |
|---|---|
| a buffer of this runtime (`triton_xe.runtime.put`) | the device |
| `numpy.ndarray`, and other objects with `__array_interface__` | the host |
| `__sycl_usm_array_interface__`, `__cuda_array_interface__` | according to its address |
| `__dlpack__` | according to `__dlpack_device__` |

The simulator's memory is the host's, so it takes all but those of another vendor's GPU.  Level
Zero's launch asks the driver about each address, and refuses plain memory of the host.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triton_xe.errors import DeviceError

_INTERFACES = ("__array_interface__", "__sycl_usm_array_interface__", "__cuda_array_interface__")
_KINDS = {"i": "int", "u": "uint", "f": "float"}
"""Letter of a `typestr` -> type name without its bits."""
_DLPACK_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_DLPACK_NAMES = {(10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2"}
_OTHER_GPUS = {2: "CUDA", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed"}
"""DLDeviceType of memory that neither the simulator nor an Intel GPU can use."""
_ELEMENTS = frozenset({
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
})


@dataclass(frozen=True)
class Array:
    """An array in memory from `low` to `high` (exclusive), with its first element at `address`.

    `dtype` is numpy's name of its elements.  Triton reads it like a tensor.
    """

    address: int
    dtype: str
    low: int
    high: int
    is_writable: bool = True

    def data_ptr(self) -> int:
        return self.address


class ArrayError(DeviceError, TypeError):
    """A kernel argument is an array that kernels cannot use."""


def find(value: Any) -> Array | None:
    """The memory of an array; None if the value is not an array.

    Raise `ArrayError` if a kernel cannot use its elements or its memory.
    """
    if hasattr(value, "pointer") and hasattr(value, "nbytes"):
        return _of_buffer(value)
    _refuse_numbers(value)
    for name in _INTERFACES:
        interface = getattr(value, name, None)
        if isinstance(interface, Mapping):
            return _of_interface(value, interface)
    return _of_dlpack(value) if hasattr(value, "__dlpack__") else None


def address_of(value: Any) -> int:
    """The address of a pointer argument: an integer, None, a tensor or an array."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if hasattr(value, "data_ptr"):
        return operator.index(value.data_ptr())
    found = getattr(value, "pointer", None) if hasattr(value, "nbytes") else None
    if found is not None:
        return int(found)
    array = find(value)
    if array is None:
        raise ArrayError(f"{type(value).__name__} is no tensor, no array and no address")
    return array.address


def _refuse_numbers(value: Any) -> None:
    """Refuse numpy's scalars: the memory of their array interface is freed at once."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        raise ArrayError(f"it is one number, a numpy.{value.dtype}; pass a number: x.item()")


def _of_buffer(buffer: Any) -> Array:
    dtype = getattr(buffer, "dtype", "")
    if not dtype:
        raise ArrayError(
            "this buffer does not say what its elements are; make it with "
            "triton_xe.runtime.put(device, array), or set its dtype: buffer.dtype = 'float32'"
        )
    address = int(buffer.pointer)
    return Array(address, _checked(str(dtype)), address, address + int(buffer.nbytes))


def _of_interface(value: Any, interface: Mapping[str, Any]) -> Array:
    """The array that a mapping of numpy's array interface, or a similar one, describes."""
    name = str(getattr(getattr(value, "dtype", None), "name", "") or "")
    if missing := sorted({"shape", "typestr"} - interface.keys()):
        raise ArrayError(f"its array interface lacks {' and '.join(missing)}")
    code = str(interface["typestr"])
    size = int(code[2:]) if code[2:].isdigit() else 0
    if name not in _ELEMENTS:
        name = "bool" if code[1] == "b" else f"{_KINDS.get(code[1], '')}{8 * size}"
    dtype = _checked(name, code)
    if code[0] == ">":
        raise ArrayError("its bytes are in big-endian order; call .astype with the native type")
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise ArrayError("it does not say where its memory is")
    found = _array_of(int(data[0]), dtype, size, interface["shape"], interface.get("strides"))
    return replace(found, is_writable=not data[1])


class DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h, version 0 and 1."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )


def _of_dlpack(value: Any) -> Array:
    """The array of an object's DLPack capsule.

    The capsule is released at once, so the caller must keep `value` alive.
    """
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before DLPack 1.0
        capsule = value.__dlpack__()
    at, is_writable = _tensor_of_capsule(capsule)
    tensor = DLTensor.from_address(at)
    if tensor.device_type in _OTHER_GPUS:
        raise ArrayError(
            f"it is in {_OTHER_GPUS[tensor.device_type]} memory; copy it to the host first")
    kind = (tensor.code, tensor.bits)
    name = _DLPACK_NAMES.get(kind) or f"{_DLPACK_KINDS.get(tensor.code, '')}{tensor.bits}"
    name = "bool" if tensor.code == 6 else name
    shown = f"of DLPack type {tensor.code} with {tensor.bits} bits"
    size = tensor.bits * tensor.lanes // 8
    shape = tensor.shape[: tensor.ndim]
    strides = [step * size for step in tensor.strides[: tensor.ndim]] if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    found = _array_of(address, _checked(name, shown), size, shape, strides)
    return replace(found, is_writable=is_writable)


def _tensor_of_capsule(capsule: Any) -> tuple[int, bool]:
    """Address of a capsule's DLTensor, and True if its memory may be written.

    Since DLPack 1.0, version, context, deleter and flags precede the DLTensor.
    """
    api, name = ctypes.pythonapi, b"dltensor_versioned"
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if not api.PyCapsule_IsValid(capsule, name):
        return int(api.PyCapsule_GetPointer(capsule, b"dltensor")), True
    start = int(api.PyCapsule_GetPointer(capsule, name))
    return start + 32, not ctypes.c_uint64.from_address(start + 24).value & 1


def _array_of(
    address: int, dtype: str, size: int, shape: Sequence[int], strides: Sequence[int] | None
) -> Array:
    """An array with steps in bytes, and the memory from its lowest to its highest element.

    >>> _array_of(100, "int8", 1, (4,), (-2,))
    Array(address=100, dtype='int8', low=94, high=101, is_writable=True)
    """
    if 0 in shape:
        return Array(address, dtype, address, address)
    if strides is None:
        return Array(address, dtype, address, address + size * math.prod(shape))
    ends = [step * (length - 1) for length, step in zip(shape, strides, strict=True)]
    low = address + sum(end for end in ends if end < 0)
    return Array(address, dtype, low, address + sum(end for end in ends if end > 0) + size)


def _checked(name: str, shown: str = "") -> str:
    if name in _ELEMENTS:
        return name
    raise ArrayError(
        f"its elements are {shown or name}, which kernels do not have; use one of "
        + ", ".join(sorted(_ELEMENTS))
    )
