"""Writes instructions of one function, and remembers the values that are written once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from xdsl.ir import Operation

from triton_xe.errors import LegalityError
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import Family, Intrinsic, opencl
from triton_xe.lowering.allocate_slm import Region, SlmPlan
from triton_xe.lowering.emit.source_locations import LocatedBuilder
from triton_xe.lowering.emit.types import (
    I32,
    I64,
    POINTER,
    PRIVATE_POINTER,
    number,
    numbers,
    undefined,
    vector_of,
)


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
    slm: ir.GlobalVariable | None = None
    slm_plan: SlmPlan = field(default_factory=SlmPlan)
    slm_bases: list[tuple[Any, Region]] = field(default_factory=list)
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
    _declared: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)

    def declare(
        self, row: Intrinsic, arguments: Sequence[ir.Type], result: ir.Type | None = None,
        *, unsigned: bool = False,
    ) -> ir.Function:
        """Declare a function of the table, once; give `result` if the row does not determine it.

        `unsigned` says how a builtin takes its integers.
        """
        key = (id(row), id(result), unsigned, *map(id, arguments))
        if key in self._declared:
            return self._declared[key][0]
        made = self._new_or_known(row, arguments, result, unsigned)
        self._declared[key] = made, row, result, tuple(arguments)  # alive, as their ids are the key
        return made

    def _new_or_known(
        self, row: Intrinsic, arguments: Sequence[ir.Type], result: ir.Type | None, unsigned: bool
    ) -> ir.Function:
        """Declare an intrinsic for these types, once; refuse one that the device lacks."""
        if result is None:
            result = _RESULTS.get(row.result) or arguments[row.result_like]
        name = row.symbol(result, arguments, unsigned=unsigned)
        known = self.llvm.globals.get(name)
        if known is not None:
            return known
        row.check(result, arguments)
        if not row.available(self.target):
            raise LegalityError(f"{self.target.name} has no {row.name}")
        made = ir.Function(self.llvm, ir.FunctionType(result, arguments), name)
        if row.is_builtin:
            made.calling_convention = "spir_func"
        return made


_RESULTS = {"void": ir.VoidType(), "i32": I32, "i64": I64, "p": PRIVATE_POINTER}


class Writer:
    """A function that is being written; `b` is the builder at the current position."""

    def __init__(self, state: ModuleState, block: ir.Block) -> None:
        self.state = state
        self.target = state.target
        self.function: ir.Function = block.function
        self.b = LocatedBuilder(block, locates_all=state.locates_all)
        self._memory: dict[Hashable, tuple[int, ir.Value]] = {}
        self._scope = 0
        self._open = {0}
        self._scopes = 0

    # -- scopes: a value written in a scope may be used there and in the scopes inside it ------

    def knows(self, key: Hashable) -> bool:
        """True if a value for `key` was created that is still visible."""
        known = self._memory.get(key)
        return known is not None and known[0] in self._open

    def remember(self, key: Hashable, make: Callable[[], ir.Value]) -> ir.Value:
        """The value written for `key` where it is still visible, else a new one."""
        known = self._memory.get(key)
        if known is not None and known[0] in self._open:
            return known[1]
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

    def splat(self, scalar: ir.Value, count: int) -> ir.Value:
        """The scalar in every element of a vector."""
        if count == 1:
            return scalar
        kind = vector_of(scalar.type, count)
        if isinstance(scalar, ir.Constant) and not isinstance(scalar.constant, str):
            return ir.Constant(kind, [scalar.constant] * count)

        def make() -> ir.Value:
            one = self.b.insert_element(undefined(scalar.type, count), scalar, number(0))
            return self.shuffle(one, one, [0] * count)

        return self.remember(("splat", scalar, count), make)

    def shuffle(self, first: ir.Value, second: ir.Value, mask: Sequence[int]) -> ir.Value:
        """Elements of two vectors picked by constant positions."""
        return self.b.shuffle(first, second, numbers(tuple(mask)), max(mask))

    def pack(self, kind: ir.Type, scalars: Sequence[ir.Value]) -> ir.Value:
        """A vector of the given scalars."""
        if len(scalars) == 1:
            return scalars[0]
        value: ir.Value = undefined(kind, len(scalars))
        for i, scalar in enumerate(scalars):
            value = self.b.insert_element(value, scalar, number(i))
        return value

    def call(
        self, row: Intrinsic, arguments: Sequence[ir.Value], result: ir.Type | None = None,
        *, unsigned: bool = False,
    ) -> ir.Value:
        """Call a function of the table; ids and sizes are asked for once per scope."""
        types = [a.type for a in arguments]
        function = self.state.declare(row, types, result, unsigned=unsigned)
        if row.family is not Family.ID or not row.pure:
            return self.b.call(function, arguments)
        key = ("call", function.name, *map(identity, arguments))
        return self.remember(key, lambda: self.b.call(function, arguments))

    def lane_id(self) -> ir.Value:
        return self.call(opencl.LANE_ID, [])

    def warp_id(self) -> ir.Value:
        if self.state.num_warps == 1:
            return I32(0)
        return self.call(opencl.SUB_GROUP_ID, [])

    def bits_to_coordinate(
        self, value: ir.Value, bases: Sequence[int], what: Hashable
    ) -> ir.Value | None:
        """The xor of bases[i] over the set bits of `value`; None when that is always 0."""
        runs = _runs(bases)
        if not runs:
            return None

        def make() -> ir.Value:
            total: ir.Value | None = None
            for low, count, shift in runs:
                part = self.b.lshr(value, I32(low)) if low else value
                if low + count < len(bases):
                    part = self.b.and_(part, I32((1 << count) - 1))
                part = self.b.shl(part, I32(shift)) if shift else part
                total = part if total is None else self.b.xor(total, part)
            assert total is not None
            return total

        return self.remember(("coordinate", what, tuple(bases)), make)

    def global_pointer(self, address: ir.Value) -> ir.Value:
        """An i64 address as a pointer to global memory."""
        if isinstance(address.type, ir.PointerType):
            return address
        return self.b.inttoptr(address, POINTER)

    def address(self, pointer: ir.Value) -> ir.Value:
        """A pointer as an i64 address."""
        if isinstance(pointer.type, ir.PointerType):
            return self.remember(("address", pointer), lambda: self.b.ptrtoint(pointer, I64))
        return pointer


def identity(value: ir.Value) -> Hashable:
    """A key of a value; equal constants have equal keys."""
    return str(value) if isinstance(value, ir.Constant) else value


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
