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

from collections.abc import Callable
from dataclasses import replace

from triton_xe.intrinsics import find, genisa, opencl, spirv
from triton_xe.intrinsics.mangling import is_unsigned, suffix
from triton_xe.llvm import I32, VOID, Block, Function, Instruction, Module, Type, constant, undef
from triton_xe.llvm.builder import define
from triton_xe.llvm.parser import parse_module
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
_PORTS = {256: 3, 512: 0}
"""Ports of LSC by the bits of semantics: shared local and global memory, as IGC orders fences."""
_WORK_GROUP = 2
_SIMD_BROADCAST = {"i8": "_c", "i16": "_us", "i32": ""}
"""Suffixes, by type, of broadcasts that Intel's compiler knows itself.

Its intrinsics for lanes, called by name, lack the attribute that removes them if they are read at
their uses: they would write a move.
"""
_NATIVE_ATTRIBUTES = "nounwind memory(none)"


def for_intel(module: Module) -> Module:
    """The module with barriers and functions of Intel's library as its compiler has them."""
    return _Translation(module).result()


class _Translation:
    """A module that is being translated; functions without such calls are those of the source."""

    def __init__(self, module: Module) -> None:
        self.source = module
        self.made = replace(module, functions={}, attributes=dict(module.attributes))
        self.waiting = list(module.functions.values())
        self.names: dict[str, str | None] = {}
        """Callee -> what is called instead; None if it remains."""

    def result(self) -> Module:
        for function in self.waiting:  # which grows
            self.made.functions[function.name] = self.translated(function)
        return self.made

    def translated(self, function: Function) -> Function:
        blocks = [self.block(each) for each in function.blocks]
        changed = any(new is not old for new, old in zip(blocks, function.blocks, strict=True))
        return replace(function, blocks=blocks) if changed else function

    def block(self, block: Block) -> Block:
        found = [self.call(i) if i.opcode == "call" else (i,) for i in block.instructions]
        if all(new == (old,) for new, old in zip(found, block.instructions, strict=True)):
            return block
        return Block(block.label, [i for each in found for i in each])

    def call(self, i: Instruction) -> tuple[Instruction, ...]:
        """The instructions that replace a call."""
        row = find(i.callee)
        if row is spirv.CONTROL_BARRIER:
            return self.barrier(i)
        if row is opencl.BROADCAST:
            return (self.broadcast(i),)
        if i.callee not in self.names:
            self.names[i.callee] = self.function(i)
        name = self.names[i.callee]
        return (i if name is None else _of(i, name),)

    def barrier(self, i: Instruction) -> tuple[Instruction, ...]:
        """Fences and a barrier of the work-group."""
        *scopes, semantics = (operand.integer_value() for operand in i.operands)
        if scopes != [_WORK_GROUP] * 2 or semantics is None:
            return (i,)
        fences = [self.intrinsic(genisa.LSC_FENCE.name, port, 0, 0)
                  for bit, port in _PORTS.items() if semantics & bit]
        return (*fences, self.intrinsic(genisa.GROUP_BARRIER.name))

    def intrinsic(self, name: str, *numbers: int) -> Instruction:
        self.made.attributes[name] = "convergent"
        return Instruction("call", VOID, [constant(I32, n) for n in numbers], callee=name)

    def broadcast(self, i: Instruction) -> Instruction:
        """A broadcast of a known lane, which Intel's compiler reads at its uses."""
        end = _SIMD_BROADCAST.get(i.type.text)
        if end is None or i.operands[1].integer_value() is None:
            return i
        name = genisa.SIMD_BROADCAST.name + end
        self.made.attributes[name] = "convergent"
        return _of(i, name)

    def function(self, i: Instruction) -> str | None:
        """The name of what replaces a function of the library; None if nothing does."""
        row, kind = find(i.callee), i.type
        if i.callee in self.source.functions:
            return None
        if row.name in OWN and kind.scalar.text == "float":
            name = f"xe.{row.name}.{suffix(kind.text)}"
            self.add(parse_module(OWN[row.name](name, kind.lanes)))
            return name
        native, types = NATIVE.get(row.name + " unsigned" * is_unsigned(i.callee), ("", ()))
        if kind.scalar.text not in types:
            return None
        name = f"{native}.{suffix(kind.scalar.text)}"
        self.made.attributes[name] = _NATIVE_ATTRIBUTES
        if kind.kind != "vec":
            return name
        each = f"each.{native}.{suffix(kind.text)}"
        self.waiting.append(_elementwise_function(kind, each, name, len(i.operands)))
        return each

    def add(self, module: Module) -> None:
        self.waiting += module.functions.values()
        self.made.attributes.update(module.attributes)


def _of(i: Instruction, callee: str) -> Instruction:
    """The call with another callee."""
    made = i.with_operands(i.operands)
    made.callee = callee
    return made


def _elementwise_function(kind: Type, name: str, inner: str, number: int) -> Function:
    """A function of vectors that calls `inner` for each element of its `number` arguments."""
    b = define(name, kind, [(f"a{k}", kind) for k in range(number)], internal=True)
    whole = undef(kind)
    for n in range(kind.count):
        taken = [b.extract(x, n) for x in b.arguments]
        whole = b.insert(whole, b.call(inner, kind.scalar, taken), n)
    b.ret(whole)
    return b.function
