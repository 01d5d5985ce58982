"""`Emitter`: bind SSA values to LLVM values and run the table of lowerings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.advice import remedy_of
from triton_xe.dialects.text.locations import source_of
from triton_xe.errors import UnsupportedError, XeError
from triton_xe.intrinsics import llvm
from triton_xe.layout import LinearLayout, to_linear_layout
from triton_xe.lowering.emit.builder import Builder
from triton_xe.lowering.emit.tensors.registers import Registers, eager
from triton_xe.lowering.emit.writer import ModuleState, Writer
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.analysis import Facts, has_promises
from triton_xe.lowering.facts.values import states_facts
from triton_xe.lowering.facts.view import View, view_of
from triton_xe.lowering.rewriting import below

T = TypeVar("T")
Lowering = Callable[["Emitter", Any], None]
LOWERINGS: dict[type[Operation], Lowering] = {}


def lowers(*kinds: type[Operation]) -> Callable[[Lowering], Lowering]:
    """Register a function in the table of lowerings."""

    def enter(function: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(kinds, function))
        return function

    return enter


class Emitter(Writer):
    """Writer of the operations of one function; SSA values are bound to registers or values.

    The code begins in a block of its own: in the entry block, IGC 2.40 writes a pointwise kernel
    with 3 % more instructions.
    """

    def __init__(self, state: ModuleState, function: ir.Function, source: Operation) -> None:
        function.blocks += (ir.Block("%entry"), ir.Block("%body"))
        self.entry, body = function.blocks
        super().__init__(state, function, body)
        Builder(function, self.entry).branch(body)
        self.source = source
        self._analyses: dict[tuple[Callable[..., Any], Operation], Any] = {}
        self.values: dict[SSAValue, Any] = {}
        self.axis = Facts()
        self.proven = Facts(trusting=False) if has_promises(below(source)) else self.axis
        self.affine = Affine(self.proven)
        self.loop_depth = 0
        self.has_arrived = False
        """True from `xe.barrier_arrive` to `xe.barrier_wait`; no other barrier is allowed there."""
        self.frames: list[Any] = []
        self.targets: dict[Block, ir.Block] = {}
        self.joins: dict[SSAValue, list[Any]] = {}

    # -- values ------------------------------------------------------------------------------

    def bind(self, value: SSAValue, held: Any) -> None:
        self.values[value] = held
        if self.state.locates_all and getattr(held, "location", self) is None:
            held.location = self.b.location

    def get(self, value: SSAValue) -> Any:
        return self.values[value]

    def registers(self, value: SSAValue) -> Registers:
        held = self.values[value]
        assert isinstance(held, Registers), f"{value} is not a tensor"
        return held

    def scalar(self, value: SSAValue) -> ir.Operand:
        held = self.values[value]
        assert isinstance(held, ir.Operand), f"{value} is not a scalar"
        return held

    def layout(self, kind: Attribute) -> LinearLayout:
        """The linear layout of a tensor type."""
        assert isinstance(kind, TensorType)
        return to_linear_layout(encoding_of(kind), tuple(kind.get_shape()))

    def view(self, value: SSAValue | Attribute) -> View:
        """The view of a tensor value's, or tensor type's, layout."""
        return view_of(self.layout(value.type if isinstance(value, SSAValue) else value))

    def thread_part(self, view: View, dim: int) -> ir.Operand | None:
        """The part of coordinate `dim` that depends on lane and warp."""
        lane = self.bits_to_coordinate(self.lane_id(), [c[dim] for c in view.lanes], "lane")
        warp = self.bits_to_coordinate(self.warp_id(), [c[dim] for c in view.warps], "warp")
        if lane is None or warp is None:
            return lane if warp is None else warp
        return self.remember(("thread", view, dim), lambda: self.b.add(lane, warp)
                             if disjoint(view, dim) else self.b.xor(lane, warp))

    def analysis(self, analyse: Callable[[Operation, int], T]) -> T:
        """Result of an analysis of the function that is being written, computed once."""
        key = analyse, self.source
        if key not in self._analyses:
            self._analyses[key] = analyse(self.source, self.state.lanes)
        found: T = self._analyses[key]
        return found

    # -- driving -------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write every operation of a block but its terminator's control flow."""
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """Write one operation; errors get its source location."""
        lowering = LOWERINGS.get(type(op))
        if lowering is None:
            missing = UnsupportedError(
                f"{op.name} is not supported on {self.target.name}; {remedy_of(op.name)}")
            _locate(missing, op)
            raise missing
        outer = self.b.enter_location(op)
        try:
            lowering(self, op)
        except XeError as error:
            _locate(error, op)
            raise
        if self.state.tests_promises and "tt.divisibility" in op.attributes:
            self._assume_multiple(op)
        self.b.location = outer

    def _assume_multiple(self, op: Operation) -> None:
        """Assume that an integer is a multiple of the number that the program states."""
        stated = list(getattr(op.attributes["tt.divisibility"], "get_values", tuple)())
        kind = op.results[0].type
        if (len(stated) != 1 or not isinstance(kind, IntegerType) or stated[0] < 2
                or not states_facts(op)):
            return
        value = self.scalar(op.results[0])
        rest = self.b.urem(value, stated[0])
        self.call(llvm.ASSUME, [self.b.icmp("eq", rest, 0)])


def _locate(error: XeError, op: Operation) -> None:
    """Add the source line of the innermost operation to an error that has none."""
    source = source_of(op)
    if source is not None and not error.location:
        error.location = f"{source.file}:{source.line}"


def encoding_of(kind: Attribute) -> Any:
    """The layout encoding of a tensor type, as `triton_xe.layout` knows it."""
    return kind.encoding.encoding  # type: ignore[attr-defined]


def flatten(em: Emitter, value: Any) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
    """A bound value as LLVM values, and a function that rebuilds it from other such values."""
    if isinstance(value, Registers):
        width = value.width
        return value.all_chunks(em), lambda parts: eager(value.kind, parts, width)
    if isinstance(value, ir.Operand):
        return [value], lambda parts: parts[0]
    return value.flatten(em)


def disjoint(view: View, dim: int) -> bool:
    """True if register, lane and warp set different bits of a coordinate."""
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
