"""Writes one function: binds SSA values to LLVM values, runs the table of lowerings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from llvmlite import ir
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from triton_xe.dialects.text.locations import source_of
from triton_xe.errors import UnsupportedError, XeError
from triton_xe.hardware.target import Target
from triton_xe.layout import LinearLayout, to_linear_layout
from triton_xe.lowering.allocate_slm import Region, SlmPlan
from triton_xe.lowering.emit.debug_sites import DebugSites
from triton_xe.lowering.emit.source_locations import PlacingBuilder
from triton_xe.lowering.emit.tensors.registers import Registers, eager
from triton_xe.lowering.emit.tensors.view import View, view_of
from triton_xe.lowering.emit.types import I32, I64, POINTER, argument_type, scalar_type, vector_of
from triton_xe.lowering.surfaces.axis_info import AxisAnalysis
from triton_xe.lowering.tiles.sink_loads import orders_memory

Lowering = Callable[["Emitter", Operation], None]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Enter a function into the table of lowerings."""

    def enter(function: Lowering) -> Lowering:
        for name in names:
            LOWERINGS[name] = function
        return function

    return enter


@dataclass
class ModuleState:
    """What all functions of one LLVM module share."""

    llvm: ir.Module
    target: Target
    num_warps: int
    lanes: int
    module: Operation
    contract: bool = True
    slm_bytes: int = 0
    slm_kept: int = 0
    slm: ir.GlobalVariable | None = None
    slm_plan: SlmPlan = field(default_factory=SlmPlan)
    slm_bases: list[tuple[Any, Region]] = field(default_factory=list)
    debug: DebugSites = field(default_factory=DebugSites)
    facts: dict[str, Any] = field(default_factory=dict)

    def declare(self, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
        """A function defined elsewhere, declared once."""
        known = self.llvm.globals.get(name)
        if known is not None:
            return known
        made = ir.Function(self.llvm, ir.FunctionType(result, arguments), name)
        if not name.startswith("llvm."):
            made.calling_convention = "spir_func"
        return made


class OpenRead(Protocol):
    """Values that are read from memory when they are used, in the same LLVM block.

    Without a region of shared local memory, they lie in global memory.
    """

    @property
    def region(self) -> Region | None: ...

    def finish(self) -> None:
        """Read what has not been read."""


class Emitter:
    """State while one function is written; `b` is the builder at the current place."""

    def __init__(self, state: ModuleState, function: ir.Function) -> None:
        self.state = state
        self.target = state.target
        self.function = function
        self.entry = function.append_basic_block("entry")
        self.body = function.append_basic_block("body")
        self.b = PlacingBuilder(self.body)
        self.b.before_leaving = self.finish_reads
        self.open_reads: list[OpenRead] = []
        self.allocas = ir.IRBuilder(self.entry)
        self.values: dict[SSAValue, Any] = {}
        self.axis = AxisAnalysis()
        self._memory: dict[Hashable, tuple[int, ir.Value]] = {}
        self._scope = 0
        self._open = {0}
        self._scopes = 0
        self.loop_depth = 0
        self.frames: list[Any] = []
        self.targets: dict[Block, ir.Block] = {}
        self.joins: dict[SSAValue, list[Any]] = {}

    # -- values ------------------------------------------------------------------------------

    def bind(self, value: SSAValue, held: Any) -> None:
        self.values[value] = held

    def get(self, value: SSAValue) -> Any:
        return self.values[value]

    def registers(self, value: SSAValue) -> Registers:
        held = self.values[value]
        assert isinstance(held, Registers), f"{value} is not a tensor"
        return held

    def scalar(self, value: SSAValue) -> ir.Value:
        held = self.values[value]
        assert isinstance(held, ir.Value), f"{value} is not a scalar"
        return held

    def layout(self, kind: Attribute) -> LinearLayout:
        """The linear layout of a tensor type."""
        assert isinstance(kind, TensorType)
        return to_linear_layout(encoding_of(kind), tuple(kind.get_shape()))

    def view(self, value: SSAValue | Attribute) -> View:
        """The view of a tensor value's, or tensor type's, layout."""
        return view_of(self.layout(value.type if isinstance(value, SSAValue) else value))

    # -- scopes: a value written in a scope may be used there and in the scopes inside it ------

    def remember(self, key: Hashable, make: Callable[[], ir.Value]) -> ir.Value:
        """The value written for `key` where it is still visible, else a new one."""
        known = self._memory.get(key)
        if known is not None and known[0] in self._open:
            return known[1]
        made = make()
        self._memory[key] = (self._scope, made)
        return made

    def enter(self) -> int:
        """Open a scope; returns what `leave` needs."""
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
            one = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, I32(0))
            return self.shuffle(one, one, [0] * count)

        return self.remember(("splat", scalar, count), make)

    def shuffle(self, first: ir.Value, second: ir.Value, mask: Sequence[int]) -> ir.Value:
        """Elements of two vectors picked by constant positions."""
        kind = ir.VectorType(I32, len(mask))
        return self.b.shuffle_vector(first, second, ir.Constant(kind, list(mask)))

    def pack(self, kind: ir.Type, scalars: Sequence[ir.Value]) -> ir.Value:
        """A vector of the given scalars."""
        if len(scalars) == 1:
            return scalars[0]
        value: ir.Value = ir.Constant(vector_of(kind, len(scalars)), ir.Undefined)
        for i, scalar in enumerate(scalars):
            value = self.b.insert_element(value, scalar, I32(i))
        return value

    def call(
        self, name: str, result: ir.Type, arguments: Sequence[ir.Value], pure: bool = False
    ) -> ir.Value:
        """Call a function by name; a pure one is called once per scope for equal arguments."""
        function = self.state.declare(name, result, [a.type for a in arguments])

        def make() -> ir.Value:
            called = self.b.call(function, arguments)
            called.cconv = function.calling_convention
            return called

        if not pure:
            return make()
        return self.remember(("call", name, *map(_identity, arguments)), make)

    def lane_id(self) -> ir.Value:
        return self.call("_Z22get_sub_group_local_idv", I32, [], pure=True)

    def warp_id(self) -> ir.Value:
        if self.state.num_warps == 1:
            return I32(0)
        return self.call("_Z16get_sub_group_idv", I32, [], pure=True)

    def bits_to_coordinate(
        self, value: ir.Value, bases: Sequence[int], what: str
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

    def thread_part(self, view: View, dim: int) -> ir.Value | None:
        """What lane and warp add to coordinate `dim`."""
        lane = self.bits_to_coordinate(self.lane_id(), [c[dim] for c in view.lanes], "lane")
        warp = self.bits_to_coordinate(self.warp_id(), [c[dim] for c in view.warps], "warp")
        if lane is None or warp is None:
            return lane if warp is None else warp
        return self.remember(("thread", view, dim), lambda: self.b.add(lane, warp)
                             if disjoint(view, dim) else self.b.xor(lane, warp))

    def finish_reads(self, *, shared: bool = True) -> None:
        """Read now what was to be read where it is used; without `shared`, from global memory."""
        waiting, self.open_reads = self.open_reads, []
        for read in waiting:
            if shared or read.region is None:
                read.finish()
            else:
                self.open_reads.append(read)

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

    def alloca(self, kind: ir.Type, count: int, align: int = 64) -> ir.Value:
        """Private memory, made in the entry block."""
        made = self.allocas.alloca(vector_of(kind, count))
        made.align = align
        return made

    # -- driving -------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write every operation of a block but its terminator's control flow."""
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        lowering = LOWERINGS.get(op.name)
        if lowering is None:
            missing = UnsupportedError(f"{op.name} is not supported on {self.target.name}")
            _locate(missing, op)
            raise missing
        if self.open_reads and orders_memory(op):
            self.finish_reads(shared=False)
        outer = self.b.at(op)
        try:
            lowering(self, op)
        except XeError as error:
            _locate(error, op)
            raise
        self.b.back(outer)


def _locate(error: XeError, op: Operation) -> None:
    """Let an error know the source line of the innermost operation that it is about."""
    source = source_of(op)
    if source is not None and not error.location:
        error.location = f"{source.file}:{source.line}"


def encoding_of(kind: TensorType[Any]) -> Any:
    """The layout encoding of a tensor type, as `triton_xe.layout` knows it."""
    return kind.encoding.encoding  # type: ignore[attr-defined]


def flatten(em: Emitter, value: Any) -> tuple[list[ir.Value], Callable[[list[ir.Value]], Any]]:
    """A bound value as LLVM values, and how to make it again from others like them."""
    if isinstance(value, Registers):
        width = value.width
        return value.all_chunks(em), lambda parts: eager(value.kind, parts, width)
    if isinstance(value, ir.Value):
        return [value], lambda parts: parts[0]
    return value.flatten(em)


def registers_of_type(em: Emitter, kind: Attribute, parts: Sequence[ir.Value]) -> Registers:
    """Registers of a tensor type from its chunks."""
    count = len(em.view(kind).registers)
    return eager(scalar_type(kind), parts, min(count, 8))


def disjoint(view: View, dim: int) -> bool:
    """Whether register, lane and warp set different bits of a coordinate."""
    parts = [
        _union(c[dim] for c in view.registers),
        _union(c[dim] for c in view.lanes),
        _union(c[dim] for c in view.warps),
    ]
    bits = [b for group in (view.lanes, view.warps) for b in (c[dim] for c in group)]
    return sum(p.bit_count() for p in parts) == _union(parts).bit_count() and all(
        b & (b - 1) == 0 for b in bits
    )


def _union(values: Any) -> int:
    out = 0
    for value in values:
        out |= value
    return out


def _identity(value: ir.Value) -> Hashable:
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


__all__ = [
    "Emitter", "Lowering", "ModuleState", "argument_type", "disjoint", "encoding_of", "flatten",
    "lowers", "registers_of_type",
]
