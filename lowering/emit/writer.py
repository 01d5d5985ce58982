"""Writes instructions of one function, and remembers the values that are written once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xdsl.ir import Operation

from triton_xe import llvm as ir
from triton_xe.errors import LegalityError
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import Family, Intrinsic, opencl
from triton_xe.lowering.allocate_slm import Region, SlmPlan
from triton_xe.lowering.emit.source_locations import LocatedBuilder
from triton_xe.lowering.emit.types import I32, I64, POINTER, PRIVATE_POINTER, number, undefined

T = TypeVar("T")


@dataclass
class ModuleState:
    """State shared by all functions of one LLVM module."""

    llvm: ir.Module
    target: Target
    num_warps: int
    lanes: int
    module: Operation
    contract: bool = True
    tests_promises: bool = False
    locates_all: bool = False
    slm_bytes: int = 0
    slm_kept: int = 0
    slm: ir.Global | None = None
    slm_plan: SlmPlan = field(default_factory=SlmPlan)
    slm_bases: list[tuple[ir.Instruction, Region]] = field(default_factory=list)
    debug_sites: list[dict[str, Any]] = field(default_factory=list)
    precise: bool = False
    """fp32 divisions and roots must be correctly rounded."""
    narrows_doubles: bool = False
    """fp64 values become fp32 values."""
    dpas: int = 0
    block_loads: int = 0
    carried_bytes: int = 0
    """Size of the largest set of loop-carried vectors: it decides the register file."""
    kept_bytes: int = 0
    """Loop-carried bytes without addresses."""
    _symbols: dict[tuple[Hashable, ...], tuple[str, ir.Type]] = field(default_factory=dict)

    def callee(
        self, row: Intrinsic, arguments: Sequence[ir.Type], result: ir.Type | None = None,
        *, unsigned: bool = False,
    ) -> tuple[str, ir.Type]:
        """Symbol and result of a function of the table; refuse one that the device lacks.

        Give `result` if the row does not determine it.  `unsigned` says how a builtin takes its
        integers.
        """
        key = (id(row), result, unsigned, *arguments)
        known = self._symbols.get(key)
        if known is None:
            known = self._symbols[key] = self._new(row, arguments, result, unsigned)
        return known

    def _new(
        self, row: Intrinsic, arguments: Sequence[ir.Type], result: ir.Type | None, unsigned: bool
    ) -> tuple[str, ir.Type]:
        if result is None:
            result = _RESULTS.get(row.result) or arguments[row.result_like]
        row.check(result, arguments)
        if not row.available(self.target):
            raise LegalityError(f"{self.target.name} has no {row.name}")
        return row.symbol(result, arguments, unsigned=unsigned), result

    def call(
        self, row: Intrinsic, arguments: Sequence[ir.Operand], result: ir.Type | None = None,
        *, unsigned: bool = False,
    ) -> ir.Instruction:
        """A call of a function of the table, not yet in a block."""
        name, kind = self.callee(row, [a.type for a in arguments], result, unsigned=unsigned)
        return ir.Instruction("call", kind, list(arguments), callee=name,
                              attributes=BUILTIN if row.is_builtin else "")


BUILTIN = "spir_func"
"""Calling convention of builtins, and of functions with a body that are not kernels."""
_RESULTS = {"void": ir.VOID, "i32": I32, "i64": I64, "p": PRIVATE_POINTER}


class Writer:
    """A function that is being written; `b` is the builder at the current position."""

    def __init__(self, state: ModuleState, function: ir.Function, block: ir.Block) -> None:
        self.state = state
        self.target = state.target
        self.function = function
        self.b = LocatedBuilder(state.llvm, function, block, locates_all=state.locates_all)
        self._memory: dict[Hashable, tuple[int, Any]] = {}
        self._scope = 0
        self._open = {0}
        self._scopes = 0

    # -- scopes: a value written in a scope may be used there and in the scopes inside it ------

    def knows(self, key: Hashable) -> bool:
        """True if a value for `key` was created that is still visible."""
        known = self._memory.get(key)
        return known is not None and known[0] in self._open

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value written for `key` where it is still visible, else a new one."""
        known = self._memory.get(key)
        if known is not None and known[0] in self._open:
            found: T = known[1]
            return found
        made = make()
        self._memory[key] = (self._scope, made)
        return made

    def enter(self) -> int:
        """Open a scope, and return the outer one, for `leave`."""
        outer = self._scope
        self._scopes += 1
        self._scope = self._scopes
        self._open.add(self._scope)
        return outer

    def leave(self, outer: int) -> None:
        self._open.discard(self._scope)
        self._scope = outer

    # -- small instructions --------------------------------------------------------------------

    def splat(self, scalar: ir.Operand, count: int) -> ir.Operand:
        """The scalar in every element of a vector."""
        if count == 1:
            return scalar
        if scalar.is_constant:
            return ir.splat(scalar, count)

        def make() -> ir.Operand:
            one = self.b.insert(undefined(scalar.type, count), scalar, 0)
            return self.b.shuffle(one, one, [0] * count)

        return self.remember(("splat", scalar, count), make)

    def shuffle(self, first: ir.Operand, second: ir.Operand, mask: Sequence[int]) -> ir.Operand:
        """Elements of two vectors picked by constant positions."""
        return self.b.shuffle(first, second, mask)

    def pack(self, kind: ir.Type, scalars: Sequence[ir.Operand]) -> ir.Operand:
        """A vector of the given scalars."""
        if len(scalars) == 1:
            return scalars[0]
        value: ir.Operand = undefined(kind, len(scalars))
        for i, scalar in enumerate(scalars):
            value = self.b.insert(value, scalar, i)
        return value

    def call(
        self, row: Intrinsic, arguments: Sequence[ir.Operand], result: ir.Type | None = None,
        *, unsigned: bool = False,
    ) -> ir.Operand:
        """Call a function of the table; ids and sizes are asked for once per scope."""
        if row.family is not Family.ID or not row.pure:
            return self.write(self.state.call(row, arguments, result, unsigned=unsigned))
        key = ("call", id(row), unsigned, *arguments)
        return self.remember(key, lambda: self.write(
            self.state.call(row, arguments, result, unsigned=unsigned)))

    def write(self, i: ir.Instruction) -> ir.Operand:
        """Append an instruction; the operand is of type void if it has no result."""
        if i.type is not ir.VOID:
            return self.b.emit(i)
        self.b.append(i)
        return NOTHING

    def lane_id(self) -> ir.Operand:
        return self.call(opencl.LANE_ID, [])

    def warp_id(self) -> ir.Operand:
        if self.state.num_warps == 1:
            return number(0)
        return self.call(opencl.SUB_GROUP_ID, [])

    def bits_to_coordinate(
        self, value: ir.Operand, bases: Sequence[int], what: Hashable
    ) -> ir.Operand | None:
        """The xor of bases[i] over the set bits of `value`; None when that is always 0."""
        runs = _runs(bases)
        if not runs:
            return None

        def make() -> ir.Operand:
            total: ir.Operand | None = None
            for low, count, shift in runs:
                part = self.b.lshr(value, low) if low else value
                if low + count < len(bases):
                    part = self.b.and_(part, (1 << count) - 1)
                part = self.b.shl(part, shift) if shift else part
                total = part if total is None else self.b.xor(total, part)
            assert total is not None
            return total

        return self.remember(("coordinate", what, tuple(bases)), make)

    def global_pointer(self, address: ir.Operand) -> ir.Operand:
        """An i64 address as a pointer to global memory."""
        if address.type.kind == "ptr":
            return address
        return self.b.inttoptr(address, POINTER)

    def address(self, pointer: ir.Operand) -> ir.Operand:
        """A pointer as an i64 address."""
        if pointer.type.kind == "ptr":
            return self.remember(("address", pointer), lambda: self.b.ptrtoint(pointer, I64))
        return pointer


NOTHING = ir.Operand(ir.VOID, "void")


def _runs(bases: Sequence[int]) -> list[tuple[int, int, int]]:
    """(first bit, number of bits, shift) of runs whose bases double; others one by one."""
    runs: list[tuple[int, int, int]] = []
    for bit, base in enumerate(bases):
        remaining = base
        while remaining:
            low = remaining & -remaining
            remaining ^= low
            shift = low.bit_length() - 1
            if runs and remaining == 0 and low == base:
                first, count, at = runs[-1]
                if first + count == bit and at + count == shift:
                    runs[-1] = (first, count + 1, at)
                    continue
            runs.append((bit, 1, shift))
    return runs
