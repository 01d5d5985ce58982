"""Source locations of instructions in the user's Python, for reports of the simulator.

Calls and memory accesses have metadata `xe.at`: a node of file, line and column.  LLVM's own debug
information would contain the same, but it also changes the code of Intel's compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.ir import Attribute, Operation

from triton_xe import llvm as ir
from triton_xe.dialects.text.locations import source_of
from triton_xe.llvm.records import escaped
from triton_xe.lowering.emit.builder import Builder
from triton_xe.lowering.emit.values import instruction_of
from triton_xe.spirv import FITS_NODE

_MAY_FAIL = frozenset(("sdiv", "udiv", "srem", "urem", "fptosi", "fptoui"))
"""Operations that have no result for some operands."""
_STORES = frozenset(("store", "call"))
_NAMED = frozenset(("load", "store", "call", "atomicrmw", "cmpxchg")) | _MAY_FAIL


class LocatedBuilder(Builder):
    """A builder whose calls and accesses, or all instructions, say where they come from.

    A location is the number of its node in the module's metadata.
    """

    def __init__(
        self, module: ir.Module, function: ir.Function, block: ir.Block, *,
        locates_all: bool = False,
    ) -> None:
        super().__init__(function, block)
        self.module = module
        self._locates_all = locates_all
        self.location: int | None = None
        self._known: dict[tuple[str, int, int], int] = {}
        self._of_locations: dict[int, tuple[Attribute, int | None]] = {}
        self._begins_store = self._adds = False

    def enter_location(self, op: Operation) -> int | None:
        """Attribute the next instructions to `op`; return the location before, to restore it."""
        before = self.location
        known = self._of_locations.get(id(op.location))
        if known is None:  # the location is kept, so that its id stays its own
            known = self._of_locations[id(op.location)] = (op.location, self._node_of(op))
        if known[1] is not None:
            self.location = known[1]
        return before

    def _node_of(self, op: Operation) -> int | None:
        """Metadata with the user's source line of an operation; None if it has none."""
        found = source_of(op)
        source = None if found is None else found.users_own
        if source is None:
            return None
        key = (source.file, source.line, source.column)
        if key not in self._known:
            file, line, column = key
            self._known[key] = self.module.add_metadata(
                f'!{{!"{escaped(file)}", i32 {line}, i32 {column}}}')
        return self._known[key]

    @contextmanager
    def from_location(self, location: int | None) -> Iterator[None]:
        """Attribute the instructions in this context to a location."""
        outer, self.location = self.location, location
        yield
        self.location = outer

    @contextmanager
    def added(self, really: bool) -> Iterator[None]:
        """Mark calls in this context, if `really`, as barriers that the program does not have."""
        self._adds = really
        yield
        self._adds = False

    def begin_store(self) -> None:
        """Mark the next store as the first of those that store one tensor."""
        self._begins_store = True

    def mark_fitting(self, comparison: ir.Operand, node: str = FITS_NODE) -> None:
        """Mark a comparison without which an operation of the kernel is undefined."""
        if (made := instruction_of(comparison)) is not None:
            made.defines, made.debug = node, self.location

    def append(self, i: ir.Instruction) -> ir.Instruction:
        """Append an instruction with its source location and marks."""
        if self._locates_all or i.opcode in _NAMED:
            i.debug = self.location
        i.added = self._adds and i.opcode == "call"
        if self._begins_store and i.opcode in _STORES:
            i.first, self._begins_store = True, False
        return super().append(i)
