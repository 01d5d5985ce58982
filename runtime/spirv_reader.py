"""Kernels of a SPIR-V module: parameters, subgroup size, work-group size.

Source of the numbers: SPIR-V specification 1.6, sections 3.49 (instructions), 3.6 (execution
modes), 3.7 (storage classes).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from triton_xe.errors import DeviceError, UnsupportedError
from triton_xe.spirv import instructions, is_spirv

_ENTRY_POINT, _EXECUTION_MODE = 15, 16
_TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT, _TYPE_POINTER, _TYPE_FUNCTION = 20, 21, 22, 32, 33
_FUNCTION = 54
_KERNEL_MODEL = 6
_LOCAL_SIZE, _SUBGROUP_SIZE = 17, 35
_WORKGROUP_STORAGE, _CROSS_WORKGROUP_STORAGE = 4, 5
_POINTER_NAMES = {_CROSS_WORKGROUP_STORAGE: "ptr", 2: "ptr", _WORKGROUP_STORAGE: "slm"}
_NEWEST_VERSION = (1, 6)
_INTEGER_BITS = (8, 16, 32, 64)


@dataclass(frozen=True)
class EntryPoint:
    """One kernel of a module.

    `argument_types` has ptr, slm, i1, i8, i16, i32, i64, f16, f32 or f64 per parameter.
    `subgroup_size` is 0 and `group_size` is (0, 0, 0) if the module does not fix them.
    """

    name: str
    argument_types: tuple[str, ...]
    subgroup_size: int = 0
    group_size: tuple[int, int, int] = (0, 0, 0)


@dataclass
class _Module:
    types: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    functions: dict[int, int] = field(default_factory=dict)
    entries: dict[int, str] = field(default_factory=dict)
    modes: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)


def entry_points(binary: bytes) -> dict[str, EntryPoint]:
    """The kernels of a SPIR-V module by name; `DeviceError` if the module is damaged."""
    module = read_module(binary)
    found = {}
    for function, name in module.entries.items():
        if function not in module.functions:
            raise DeviceError(f"damaged SPIR-V module: entry point {name!r} has no function")
        modes = module.modes.get(function, {})
        x, y, z = modes.get(_LOCAL_SIZE, (0, 0, 0))[:3]
        (subgroup,) = modes.get(_SUBGROUP_SIZE, (0,))[:1]
        found[name] = EntryPoint(name, _arguments(module, function, name), subgroup, (x, y, z))
    return found


def entry_point(binary: bytes, name: str) -> EntryPoint:
    """The kernel called `name`; `DeviceError` lists the existing ones."""
    found = entry_points(binary)
    if name not in found:
        raise DeviceError(
            f"the SPIR-V module has no kernel {name!r}; it has: {', '.join(found) or 'none'}"
        )
    return found[name]


def read_module(binary: bytes) -> _Module:
    """Read the parts of a module that a launch needs."""
    module = _Module()
    _check_version(binary)
    for opcode, start, length in instructions(binary):
        words = struct.unpack_from(f"<{length // 4 - 1}I", binary, start + 4)
        if opcode == _FUNCTION:
            module.functions[words[1]] = words[3]
        elif opcode == _ENTRY_POINT and words[0] == _KERNEL_MODEL:
            module.entries[words[1]] = _text(binary, start + 12, start + length)
        elif opcode == _EXECUTION_MODE:
            module.modes.setdefault(words[0], {})[words[1]] = words[2:]
        elif _TYPE_BOOL <= opcode <= _TYPE_FUNCTION:
            module.types[words[0]] = (opcode, words[1:])
    return module


def _check_version(binary: bytes) -> None:
    """Refuse a version that Intel's driver does not know, because it would end the process."""
    if not is_spirv(binary):
        raise DeviceError("not a SPIR-V module: wrong magic number or length")
    (word,) = struct.unpack_from("<I", binary, 4)
    version = (word >> 16, word >> 8 & 0xFF)
    if not (1, 0) <= version <= _NEWEST_VERSION:
        raise DeviceError(
            f"SPIR-V version {version[0]}.{version[1]} is not supported; known: 1.0 to 1.6"
        )


def _arguments(module: _Module, function: int, name: str) -> tuple[str, ...]:
    _, operands = module.types[module.functions[function]]
    return tuple(_type_name(module, each, name, n) for n, each in enumerate(operands[1:]))


def _type_name(module: _Module, type_id: int, kernel: str, index: int) -> str:
    """Name of a parameter's type, as `i32` or `f16`; raise for types that no launch can pass."""
    opcode, operands = module.types[type_id]
    if opcode == _TYPE_POINTER and operands[0] in _POINTER_NAMES:
        return _POINTER_NAMES[operands[0]]
    if opcode == _TYPE_BOOL:
        return "i1"
    if opcode == _TYPE_INT and operands[0] in _INTEGER_BITS:
        return f"i{operands[0]}"
    if opcode == _TYPE_FLOAT and len(operands) == 1:
        return f"f{operands[0]}"
    raise UnsupportedError(
        f"parameter {index} of kernel {kernel!r} has a type that cannot be passed at launch "
        f"(SPIR-V type opcode {opcode}); pass pointers, integers or floats"
    )


def _text(binary: bytes, start: int, end: int) -> str:
    return binary[start : binary.index(0, start, end)].decode()
