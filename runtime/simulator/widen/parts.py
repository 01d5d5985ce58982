"""Values that a widener has: known before, decided, and kept of the code that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from triton_xe.hardware import dpas
from triton_xe.llvm import I32, Function, Instruction, Operand, constant
from triton_xe.llvm.facts import Facts
from triton_xe.runtime.simulator.analysis.lane_groups import LaneGroups
from triton_xe.runtime.simulator.analysis.shapes import Shape, ShapeAnalysis
from triton_xe.runtime.simulator.analysis.shared_image import SharedImage
from triton_xe.runtime.simulator.library.names import Preparation
from triton_xe.runtime.simulator.widen.host_function import SG
from triton_xe.runtime.simulator.widen.values import Tabled, Value


@dataclass(frozen=True)
class Source:
    """The function that is widened, and facts about its values."""

    function: Function
    facts: Facts
    shapes: ShapeAnalysis
    sg: Operand = SG
    """Number of the subgroup, which may be a constant."""

    def for_subgroup(self, number: int) -> Source:
        """The function as one subgroup runs it."""
        shapes = ShapeAnalysis(self.shapes.module, self.shapes.lanes, number)
        return replace(self, shapes=shapes, sg=constant(I32, number))

    @cached_property
    def lane_groups(self) -> LaneGroups:
        return LaneGroups(self.facts, self.shape, self.shapes.lanes)

    @cached_property
    def has_half(self) -> bool:
        """True if the function has fp16 values."""
        return any(o.type.scalar.name == "half" for i in self.function.instructions()
                   for o in i.operands)

    def shape(self, operand: Operand) -> Shape:
        return self.shapes.of(self.function, operand)

    def result_shape(self, i: Instruction) -> Shape:
        return self.shapes.values[self.function.name].get(i.result or "", Shape(False))


@dataclass(frozen=True)
class Forms:
    """Forms of values that are decided before any code is written."""

    roles: Mapping[str, set[Preparation]]
    """Operand of DPAS -> the preparations that it needs."""
    slots: Mapping[str, Operand]
    """Accumulator -> its memory."""
    orders: Mapping[str, int]
    """Phi in memory order -> number of neighbouring elements."""
    granules: Mapping[str, int]
    """Private array -> size of its smallest access in bytes."""


@dataclass(frozen=True)
class Dpas:
    """One DPAS on memory: host pointers of the accumulator and the prepared operands."""

    shape: dpas.Dpas
    accumulator: str
    slot: Operand
    a: Operand
    b: Operand


@dataclass(frozen=True)
class PredictedRead:
    """Predicted next position of a block read, as host integers, and its number of rows."""

    start: Operand
    pitch: Operand
    rows: int


@dataclass
class Matrices:
    """Matrix operands and accumulators, and their host instructions."""

    prepared: dict[tuple[str, Preparation], Operand] = field(default_factory=dict)
    """Memory of operands, by name of the value and role."""
    calls: dict[Instruction, Dpas] = field(default_factory=dict)
    """Calls that are one DPAS; `dpas_groups` merges them."""
    predicted_reads: dict[Instruction, PredictedRead] = field(default_factory=dict)
    """Instruction that predicts a block read -> the prediction."""


@dataclass
class Shared:
    """Shared local memory, if one function runs all subgroups, whose stores are then in order."""

    image: SharedImage[Operand]
    offsets: dict[str, int] = field(default_factory=dict)
    """Name of a pointer that is equal in all lanes -> its offset."""
    is_read: bool = False
    """True if some load has an unknown result, so that memory is needed."""
    stores: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True)
class BlockArguments:
    """Host operands of the surface and position, and the constants of the message."""

    surface: tuple[Operand, ...]
    """base, width - 1, height - 1, pitch - 1, x, y"""
    bits: int
    tile_width: int
    tile_height: int
    blocks: int
    transpose: bool
    vnni: bool

    @property
    def mode(self) -> str:
        return "transpose" if self.transpose else "vnni" if self.vnni else "plain"


@dataclass(frozen=True)
class Stored:
    """A store that was written, with the address of its elements."""

    instruction: Instruction
    address: Value
    fine: Operand
    value: Value
    mask: Value | None
    place: Tabled | None
    """The address in the kernel, if it is known relative to a base."""
    is_first: Operand
    """True if no store came before to its elements, which are distinct, for certain."""
