"""Instructions that llvmlite lacks, and a builder without those that crash Intel's compiler.

The former are volatile loads, and atomics with scope and alignment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions

from triton_xe.lowering.emit.building.quick_builder import QuickBuilder
from triton_xe.lowering.emit.types import bits_of, filled, opcode_of, scalar_of


class VolatileLoad(ir.LoadInstr):
    """A load that compilers do not move or merge."""

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append(text[0].replace("load ", "load volatile ", 1))


class _Monotonic(ir.Instruction):
    """An atomic access without an order, of one scope; of the whole system without a scope."""

    scope = ""

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        scope = f'syncscope("{self.scope}") ' if self.scope else ""
        before, order, after = text[0].rstrip("\n").partition("monotonic")
        align = max(bits_of(self.operands[1].type) // 8, 1)
        buf.append(f"{before}{scope}{order}{after.rstrip()}, align {align}\n")


class AtomicRmw(_Monotonic, instructions.AtomicRMW):
    """Combine a value with memory, and return the old value."""


class CompareAndSwap(_Monotonic, instructions.CmpXchg):
    """Write a value if memory has the expected one; return the old value, and the comparison."""


def volatile_load(b: ir.IRBuilder, pointer: ir.Value, kind: ir.Type, align: int) -> ir.Value:
    """Load from memory each time that it is executed."""
    made = VolatileLoad(b.block, pointer, typ=kind)
    made.align = align
    b._insert(made)
    return made


def atomic_rmw(
    b: ir.IRBuilder, operation: str, pointer: ir.Value, value: ir.Value, scope: str
) -> ir.Value:
    """`atomicrmw`, monotonic."""
    return _inserted(b, scope, AtomicRmw(b.block, operation, pointer, value, "monotonic", ""))


def compare_and_swap(
    b: ir.IRBuilder, pointer: ir.Value, expected: ir.Value, wanted: ir.Value, scope: str
) -> ir.Value:
    """`cmpxchg`, monotonic: the old value, and true if it was replaced."""
    order = "monotonic"
    return _inserted(
        b, scope, CompareAndSwap(b.block, pointer, expected, wanted, order, order, ""))


def _inserted(b: ir.IRBuilder, scope: str, instruction: Any) -> ir.Value:
    instruction.scope = scope
    b._insert(instruction)
    return instruction


class Builder(QuickBuilder):
    """Builder that avoids instructions that crash Intel's compiler."""

    def __init__(self, block: ir.Block) -> None:
        super().__init__(block)
        self._written: defaultdict[Any, dict[Hashable, Any]] = defaultdict(dict)

    def zext(self, value: Any, typ: ir.Type, name: str = "") -> Any:
        """Zero-extend; a value that was truncated or sign-extended is masked instead.

        Intel's compiler crashes on bytes that are truncated and extended, and then shifted.
        """
        if opcode_of(value) not in ("trunc", "sext"):
            return super().zext(value, typ, name)
        source, kept = value.operands[0], (1 << bits_of(scalar_of(value.type))) - 1
        if value.opname == "sext":
            source = self.sext(source, typ)
        elif bits_of(scalar_of(source.type)) > bits_of(scalar_of(typ)):
            source = self.trunc(source, typ)
        return super().zext(self.and_(source, filled(source.type, kept)), typ, name)

    def select(
        self, cond: ir.Value, lhs: ir.Value, rhs: ir.Value, name: str = "",
        flags: Sequence[str] = (),
    ) -> ir.Value:
        """Select element by element if LLVM would form a saturating difference with a constant.

        (x > 7 ? x - 7 : 0) of vectors crashes Intel's compiler.
        """
        if not isinstance(lhs.type, ir.VectorType) or not any(
            opcode_of(arm) in ("add", "sub") and arm.operands[0] in cond.operands
            for arm in (lhs, rhs) if isinstance(cond, ir.Instruction)
        ):
            return super().select(cond, lhs, rhs, name, flags)
        made: ir.Value = ir.Constant(lhs.type, ir.Undefined)
        for i in map(ir.IntType(32), range(lhs.type.count)):
            parts = (self.extract_element(v, i) for v in (cond, lhs, rhs))
            made = self.insert_element(made, super().select(*parts), i)
        return made


LONG = 4000
"""Instructions of a block from which on none is created twice.

Most index arithmetic of long code is a repetition.
"""


def _once(opname: str) -> Callable[..., Any]:
    """The builder's method, which reuses an equal instruction at the end of the same long block.

    Bit operations are always created, because some are marked for the simulator's checks.  Pointers
    to shared local memory are too, because their offsets are filled in later.
    """
    plain = getattr(Builder, opname)

    def write(self: Builder, *operands: Any, **options: Any) -> Any:
        if len(self._block.instructions) < LONG or getattr(operands[0].type, "width", 0) == 1:
            return plain(self, *operands, **options)
        key = (opname, *operands, *options.values())
        known = self._written[self._block]
        if key not in known:
            known[key] = plain(self, *operands, **options)
        return known[key]

    return write


for _name in ("add", "sub", "mul", "and_", "or_", "xor", "shl", "lshr", "sext"):
    setattr(Builder, _name, _once(_name))
