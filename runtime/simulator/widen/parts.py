"""State of a widener about private arrays, matrix operands and 2D blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from triton_xe.hardware import dpas
from triton_xe.llvm import Instruction, Operand
from triton_xe.runtime.simulator.analysis.shared_image import SharedImage
from triton_xe.runtime.simulator.analysis.tile_tables import NO_TABLES, TileTables
from triton_xe.runtime.simulator.library.names import Preparation
from triton_xe.runtime.simulator.widen.values import Tabled, Value


@dataclass(frozen=True)
class Arrays:
    """Private arrays, by the name of their alloca in the kernel."""

    pointers: Mapping[str, tuple[str, int | None]] = field(default_factory=dict)
    """Pointer -> array, and offset in bytes where it is known."""
    granules: Mapping[str, int] = field(default_factory=dict)
    """Array -> size of its smallest access in bytes."""
    direct_kinds: Mapping[str, str] = field(default_factory=dict)
    """Array -> element kind, for arrays of prepared operands instead of an image."""
    tables: TileTables = NO_TABLES
    """Tables in which block reads look for tiles that another subgroup prepared."""
    memory: dict[str, Operand] = field(default_factory=dict)
    """Host memory of the arrays that have some."""
    host_granules: dict[Operand, int] = field(default_factory=dict)
    """Host memory -> element size."""
    direct: dict[Operand, Operand] = field(default_factory=dict)
    """Host memory -> memory of prepared operands."""
    filled: set[Instruction] = field(default_factory=set)
    """Stores of loaded tiles that the load has done already."""


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

    roles: Mapping[str, set[Preparation]] = field(default_factory=dict)
    """The preparations that a value needs, by its name."""
    slots: Mapping[str, Operand] = field(default_factory=dict)
    """Memory of accumulators."""
    prepared: dict[tuple[str, Preparation], Operand] = field(default_factory=dict)
    """Memory of operands, by name of the value and role."""
    calls: dict[Instruction, Dpas] = field(default_factory=dict)
    """Calls that are one DPAS; `dpas_groups` merges them."""
    slot_stores: dict[Instruction, Operand] = field(default_factory=dict)
    """Stores to the memory of an accumulator -> that memory."""
    own_memory: set[Instruction] = field(default_factory=set)
    """Instructions that only write the memory of one value, and read no other memory."""
    predicted_reads: dict[Instruction, PredictedRead] = field(default_factory=dict)
    """Instruction that predicts a block read -> the prediction."""
    in_loop: bool = False
    """True if the current block is part of a loop."""


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


@dataclass
class Here:
    """The block of the source that is being widened."""

    label: str = ""
    """Its label, with a mark for each barrier before this point."""
    is_resumed: bool = False
    """True if a barrier may precede this point: see `Widener._here`."""
    in_loop: bool = False
    """True if the block is part of a loop."""
    inner: frozenset[str] = frozenset()
    """Values that only the block uses, if barriers cut it."""


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


@dataclass
class Checked:
    """State of the checks of stores."""

    stored: list[Stored] = field(default_factory=list)
    """Stores of the current tensor store so far."""
    early: dict[Instruction, Operand] = field(default_factory=dict)
    """Later stores -> flag that is true if they were checked, together with loads."""
