"""Source locations of instructions in the user's Python, for reports of the simulator.

Calls and memory accesses have metadata `xe.at`: a node of file, line and column.  LLVM's own debug
information would contain the same, but it also changes the code of Intel's compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions
from xdsl.ir import Attribute, Operation

from triton_xe.dialects.text.locations import source_of
from triton_xe.lowering.emit.instructions import Builder
from triton_xe.spirv import ADDED_NODE, FIRST_NODE, FITS_NODE, SOURCE_NODE

_MAY_FAIL = frozenset(("sdiv", "udiv", "srem", "urem", "fptosi", "fptoui"))
"""Operations that have no result for some operands."""
_STORES = instructions.StoreInstr, instructions.CallInstr
_NAMED = (
    instructions.LoadInstr, instructions.StoreInstr, instructions.CallInstr,
    instructions.AtomicRMW, instructions.CmpXchg,
)


class LocatedBuilder(Builder):
    """A builder whose calls and accesses, or all instructions, say where they come from."""

    def __init__(self, block: ir.Block, *, locates_all: bool = False) -> None:
        super().__init__(block)
        self._locates_all = locates_all
        self._location: ir.MDValue | None = None
        self._known: dict[tuple[str, int, int], ir.MDValue] = {}
        self._of_locations: dict[int, tuple[Attribute, ir.MDValue | None]] = {}
        self._begins_store = self._adds = False

    def enter_location(self, op: Operation) -> ir.MDValue | None:
        """Attribute the next instructions to `op`; return the location before, to restore it."""
        before = self._location
        known = self._of_locations.get(id(op.location))
        if known is None:  # the location is kept, so that its id stays its own
            known = self._of_locations[id(op.location)] = (op.location, self._node_of(op))
        if known[1] is not None:
            self._location = known[1]
        return before

    def _node_of(self, op: Operation) -> ir.MDValue | None:
        """Metadata with the user's source line of an operation; None if it has none."""
        found = source_of(op)
        source = None if found is None else found.users_own
        if source is None:
            return None
        key = (source.file, source.line, source.column)
        if key not in self._known:
            self._known[key] = self._node(*key)
        return self._known[key]

    def restore_location(self, location: ir.MDValue | None) -> None:
        """Restore a location that `enter_location` returned."""
        self._location = location

    @property
    def location(self) -> ir.MDValue | None:
        """Source location of the instructions being created."""
        return self._location

    @contextmanager
    def from_location(self, location: ir.MDValue | None) -> Iterator[None]:
        """Attribute the instructions in this context to a location."""
        outer, self._location = self._location, location
        yield
        self._location = outer

    @contextmanager
    def added(self, really: bool) -> Iterator[None]:
        """Mark calls in this context, if `really`, as barriers that the program does not have."""
        self._adds = really
        yield
        self._adds = False

    def begin_store(self) -> None:
        """Mark the next store as the first of those that store one tensor."""
        self._begins_store = True

    def mark_fitting(self, comparison: ir.Value, node: str = FITS_NODE) -> None:
        """Mark a comparison without which an operation of the kernel is undefined."""
        if isinstance(comparison, instructions.Instruction):
            comparison.set_metadata(node, self.module.add_metadata([]))
            if self._location is not None:
                comparison.set_metadata(SOURCE_NODE, self._location)

    def _node(self, file: str, line: int, column: int) -> ir.MDValue:
        kind = ir.IntType(32)
        parts = [ir.MetaDataString(self.module, file), kind(line), kind(column)]
        return self.module.add_metadata(parts)

    def _insert(self, instr: Any) -> None:
        """Insert an instruction with its source location and marks."""
        if self._location is not None and (
                self._locates_all or isinstance(instr, _NAMED) or instr.opname in _MAY_FAIL):
            instr.metadata[SOURCE_NODE] = self._location
        if self._adds and isinstance(instr, instructions.CallInstr):
            instr.set_metadata(ADDED_NODE, self.module.add_metadata([]))
        if self._begins_store and isinstance(instr, _STORES):
            instr.set_metadata(FIRST_NODE, self.module.add_metadata([]))
            self._begins_store = False
        super()._insert(instr)
