"""Functions whose body is vISA, built by Intel's compiler and executed on the emulated bmg."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from triton_xe.intrinsics import opencl
from triton_xe.llvm.parser import parse_module
from triton_xe.lowering.spirv.emit_spirv import definition, write_spirv
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.tools import intel

LANES = 16
GROUP = (LANES, 1, 1)
BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "half": 2}
LANE = opencl.LANE_ID.symbol("i32", [])
HEADER = f"declare spir_func i32 @{LANE}()\n"
TAIL = f"!0 = !{{i32 {LANES}}}\n!1 = !{{i32 {LANES}, i32 1, i32 1}}\n"
Image = np.ndarray[Any, np.dtype[np.uint8]]


class NativeFunctions:
    """The functions of these symbols, each in a kernel of one module."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self._types = {symbol: _types(definition(symbol)) for symbol in symbols}
        self._names = {symbol: f"k{n}" for n, symbol in enumerate(self._types)}
        text = HEADER + "".join(
            definition(symbol) + _kernel(self._names[symbol], symbol, *types)
            for symbol, types in self._types.items()) + TAIL
        self._binary = intel.compile_spirv(write_spirv(text), "bmg", dump_asm=False).binary

    def __call__(self, symbol: str, *given: np.ndarray[Any, Any]) -> Image:
        """The registers of the result, as bytes, for those of the arguments.

        An argument of one number for all lanes is a float.  Of the others what is too long is
        left out.
        """
        result, kinds = self._types[symbol]
        space, (count, size) = AddressSpace(), _shape(result)
        out = space.put(np.zeros(count * size * LANES, np.uint8))
        arguments = [values.tobytes() if kind == "float" else space.put(_by_lane(values, kind))
                     for kind, values in zip(kinds, given, strict=True)]
        program = Program.from_zebin("bmg", self._binary, self._names[symbol])
        Launch.from_zebin(
            program, self._binary, space, (1, 1, 1), [out, *arguments], GROUP).run()
        lanes = space.get(out, f"V{size}", (LANES, count))
        return np.ascontiguousarray(lanes.T).view(np.uint8).reshape(-1)


@cache
def functions(*symbols: str) -> NativeFunctions:
    return NativeFunctions(symbols)


def _types(text: str) -> tuple[str, tuple[str, ...]]:
    """The types of the result and the arguments of a function."""
    (function,) = parse_module(text).functions.values()
    return function.result.text, tuple(t.text for _, t in function.parameters)


def _shape(kind: str) -> tuple[int, int]:
    """Elements of a type, and the bytes of one."""
    *count, element = kind.strip("<>").split(" x ")
    return int(count[0]) if count else 1, BYTES[element]


def _by_lane(values: np.ndarray[Any, Any], kind: str) -> Image:
    """The bytes of each lane, from registers."""
    count, size = _shape(kind)
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)[: count * size * LANES]
    return np.ascontiguousarray(raw.view(f"V{size}").reshape(count, LANES).T).view(np.uint8)


def _kernel(name: str, symbol: str, result: str, kinds: tuple[str, ...]) -> str:
    """A kernel that loads each lane's arguments, and stores what the function returns."""
    pointer = "ptr addrspace(1)"
    given = "".join(f", {'float %x' if kind == 'float' else f'{pointer} %p'}{n}"
                    for n, kind in enumerate(kinds))
    loads = "".join(
        f"  %q{n} = getelementptr {kind}, {pointer} %p{n}, i32 %i\n"
        f"  %x{n} = load {kind}, {pointer} %q{n}\n"
        for n, kind in enumerate(kinds) if kind != "float")
    passed = ", ".join(f"{kind} %x{n}" for n, kind in enumerate(kinds))
    return (f"define spir_kernel void @{name}({pointer} %out{given}) "
            "!intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {\n"
            f"  %i = call spir_func i32 @{LANE}()\n{loads}"
            f'  %r = call spir_func {result} @"{symbol}"({passed})\n'
            f"  %o = getelementptr {result}, {pointer} %out, i32 %i\n"
            f"  store {result} %r, {pointer} %o\n  ret void\n}}\n")
