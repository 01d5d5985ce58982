"""Calls of Intel's OpenCL library, replaced by what the library makes of them.

    call <8 x float> @llvm.fma.v8f32(...)     an instruction that the library defines
 -> call <8 x float> @each.llvm~fma.v8f32(...)  whose body calls `llvm~fma.f32` for each element

Intel's compiler reads and links its library if a module calls any function of it.  Without these
calls IGC 2.40 takes 60 to 80 % of the time for kernels of a few hundred instructions.  The native
code is the same.

The imported functions are intrinsics of LLVM and of Intel's compiler, which recognises them by
name.  `~` stands for the first dot of LLVM's own ones, which would otherwise be written as
instructions of the library (`calls`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from triton_xe.intrinsics import find, genisa, opencl, spirv
from triton_xe.intrinsics.mangling import is_unsigned, suffix
from triton_xe.lowering.spirv import error_function, remainders

_FLOATS, _SINGLE, _WIDE = ("half", "float", "double"), ("half", "float"), ("float", "double")
_INTEGERS = ("i16", "i32", "i64")
NATIVE = {
    "llvm.fma": ("llvm~fma", _FLOATS),
    "llvm.minnum": ("llvm~minnum", _FLOATS),
    "llvm.maxnum": ("llvm~maxnum", _FLOATS),
    "llvm.fabs": ("llvm~fabs", _WIDE),
    "llvm.copysign": ("llvm~copysign", _WIDE),
    "llvm.floor": ("llvm~floor", _SINGLE),
    "llvm.ceil": ("llvm~ceil", _SINGLE),
    "llvm.trunc": ("llvm~trunc", _SINGLE),
    "llvm.rint": (genisa.PREFIX + "ROUNDNE", _SINGLE),
    "native_exp2": ("llvm~exp2", _SINGLE),
    "native_log2": ("llvm~log2", _SINGLE),
    "native_sin": ("llvm~sin", _SINGLE),
    "native_cos": ("llvm~cos", _SINGLE),
    "native_sqrt": ("llvm~sqrt", _SINGLE),
    "rsqrt": (genisa.PREFIX + "rsq", _SINGLE),
    "llvm.smin": ("llvm~smin", _INTEGERS),
    "llvm.smax": ("llvm~smax", _INTEGERS),
    "llvm.umin": ("llvm~umin", _INTEGERS),
    "llvm.umax": ("llvm~umax", _INTEGERS),
    "llvm.ctpop": ("llvm~ctpop", ("i32",)),
    "mul_hi": (genisa.PREFIX + "imulH", ("i32",)),
    "mul_hi unsigned": (genisa.PREFIX + "umulH", ("i32",)),
}
"""The intrinsic for a function of the library, and the types for which its code is no longer."""

OWN: dict[str, Callable[[str, int], str]] = {
    "erf": error_function.definition, "fmod": remainders.definition}
"""Functions that Intel's compiler gets as LLVM IR, because that of its library takes longer."""
_DECLARATION = re.compile(
    r'^declare (spir_func |)((?:<(\d+) x )?(\w+)>?) @"?([^"(]+)"?\((.*)\).*\n', re.MULTILINE)
_BARRIER = re.compile(
    rf'call spir_func void (@"{spirv.CONTROL_BARRIER.symbol("void", ["i32"] * 3)}")'
    r'\(i32 2, i32 2, i32 (\d+)\)')
_PORTS = {256: 3, 512: 0}
"""Ports of LSC by the bits of semantics: shared local and global memory, as IGC orders fences."""
_FENCE = f'call void @"{genisa.LSC_FENCE.name}"(i32 {{port}}, i32 0, i32 0)\n  '
_MEET = f'call void @"{genisa.GROUP_BARRIER.name}"()'
_DECLARED = f'''
declare void @"{genisa.LSC_FENCE.name}"(i32, i32, i32) convergent
declare void @"{genisa.GROUP_BARRIER.name}"() convergent
'''


_SIMD_BROADCAST = {kind: genisa.SIMD_BROADCAST.name + suffix
                   for kind, suffix in (("i8", "_c"), ("i16", "_us"), ("i32", ""))}
"""Functions that Intel's compiler knows itself.

Its intrinsics for lanes, called by name, lack the attribute that removes them if they are read at
their uses: they would write a move.
"""
_BROADCAST = re.compile(
    rf'call spir_func ({"|".join(_SIMD_BROADCAST)}) '
    rf'@"_Z\d+{opencl.BROADCAST.name}\w+"\(\w+ ([^,]+), i32 (\d+)\)')
_BROADCAST_DECLARATION = re.compile(
    rf'declare spir_func \w+ (@"_Z\d+{opencl.BROADCAST.name}\w+").*\n')


def for_intel(text: str) -> str:
    """Replace barriers and functions of Intel's library by what Intel's compiler makes of them."""
    return _functions(_own_functions(_broadcasts(_barriers(text))))


def _barriers(text: str) -> str:
    if not (found := _BARRIER.search(text)):
        return text
    text = re.sub(f"declare spir_func void {found[1]}.*", _DECLARED, text)
    return _BARRIER.sub(_fences_and_barrier, text)


def _fences_and_barrier(call: re.Match[str]) -> str:
    memories = (port for bit, port in _PORTS.items() if int(call[2]) & bit)
    return "".join(_FENCE.format(port=port) for port in memories) + _MEET


def _broadcasts(text: str) -> str:
    """Replace broadcasts of a known lane, which Intel's compiler reads at their uses."""
    kinds = {found[1] for found in _BROADCAST.finditer(text)}
    if not kinds:
        return text
    text = _BROADCAST.sub(
        lambda found: f"call spir_func {found[1]} @{_SIMD_BROADCAST[found[1]]}"
                      f"({found[1]} {found[2]}, i32 {found[3]})", text)
    text = _BROADCAST_DECLARATION.sub(
        lambda found: found[0] if text.count(found[1]) > 1 else "", text)
    return text + "\n" + "".join(
        f"declare spir_func {kind} @{_SIMD_BROADCAST[kind]}({kind}, i32) convergent\n"
        for kind in sorted(kinds))


def _own_functions(text: str) -> str:
    """Replace functions of fp32 that have a definition here."""
    for found in list(_DECLARATION.finditer(text)):
        _, kind, count, scalar, symbol, _ = found.groups()
        function = find(symbol).name
        if function in OWN and scalar == "float":
            name = f"xe.{function}.{suffix(kind)}"
            text = text.replace(found[0], "").replace(f'@"{symbol}"', f'@"{name}"')
            text += OWN[function](name, int(count or 1))
    return text


def _functions(text: str) -> str:
    renamed, added = dict[str, str](), dict[str, str]()
    for found in _DECLARATION.finditer(text):
        convention, kind, count, scalar, symbol, arguments = found.groups()
        native, types = NATIVE.get(find(symbol).name + " unsigned" * is_unsigned(symbol), ("", ()))
        if scalar not in types:
            continue
        name, number = f"{native}.{suffix(scalar)}", arguments.count(",") + 1
        kinds = ", ".join([scalar] * number)
        added[name] = f'declare {convention}{scalar} @"{name}"({kinds}) nounwind memory(none)\n'
        renamed[symbol] = name
        if count:
            renamed[symbol] = f"each.{native}.{suffix(kind)}"
            added[symbol] = _elementwise_function(convention, kind, renamed[symbol], name, number)
    if not renamed:
        return text
    text = _DECLARATION.sub(lambda found: "" if found[5] in renamed else found[0], text)
    names = "|".join(map(re.escape, renamed))
    text = re.sub(f'@"?({names})"?\\(', lambda found: f'@"{renamed[found[1]]}"(', text)
    return text + "".join(added.values())


def _elementwise_function(convention: str, kind: str, name: str, inner: str, number: int) -> str:
    """A function of vectors that calls `inner` for each element of its `number` arguments."""
    count, scalar = re.findall(r"\w+", kind.replace(" x ", " "))
    lines, whole = [], "undef"
    for n in range(int(count)):
        taken = [f"%e{n}.{k}" for k in range(number)]
        lines += [f"{value} = extractelement {kind} %a{k}, i32 {n}"
                  for k, value in enumerate(taken)]
        given = ", ".join(f"{scalar} {value}" for value in taken)
        lines += [f'%c{n} = call {convention}{scalar} @"{inner}"({given})',
                  f"%r{n} = insertelement {kind} {whole}, {scalar} %c{n}, i32 {n}"]
        whole = f"%r{n}"
    parameters = ", ".join(f"{kind} %a{k}" for k in range(number))
    body = "\n  ".join([*lines, f"ret {kind} {whole}"])
    return f'define internal {convention}{kind} @"{name}"({parameters}) {{\n  {body}\n}}\n'
