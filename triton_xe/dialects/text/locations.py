"""Read source locations: the line of the user's Python that an operation was compiled from.

`source_of(op)` reads xDSL's `op.location`.  libtriton writes a source location there
(`"file":line:column`), perhaps with the name of the assigned variable (`"acc"(location)`).  For
inlined code it adds the location of the call (`callsite(location at location)`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

_LIBRARY = "/triton/language/"


@dataclass(frozen=True)
class Source:
    """A location in Python; `name` is the variable assigned there, `caller` that of the call."""

    file: str
    line: int
    column: int
    name: str = ""
    caller: Source | None = None

    def __str__(self) -> str:
        here = f"{self.file}:{self.line}:{self.column}"
        return here if self.caller is None else f"{here} (called from {self.caller})"

    @property
    def outermost(self) -> Source:
        """The location in the kernel itself: the caller of all inlined functions."""
        return self if self.caller is None else self.caller.outermost

    @property
    def users_own(self) -> Source:
        """The location in the user's code where a function of Triton's own library was called."""
        is_library = self.caller is not None and _LIBRARY in self.file
        return self.caller.users_own if is_library and self.caller is not None else self


def source_of(thing: Operation | SSAValue) -> Source | None:
    """The source location of an op or value; None if libtriton did not know it."""
    if isinstance(thing, SSAValue) and not isinstance(thing, BlockArgument):
        owner = thing.owner
        return source_of(owner) if isinstance(owner, Operation) else None
    return source_of_location(thing.location)


def source_of_location(location: Attribute, name: str = "") -> Source | None:
    """The source location of a location attribute."""
    match location:
        case FileLineColLoc():
            file, line, column = location.filename.data, location.line.data, location.column.data
            return Source(file, line, column, name)
        case NameLoc():
            return source_of_location(location.location, name or location.desc.data)
        case CallSiteLoc():
            callee = source_of_location(location.callee, name)
            caller = source_of_location(location.caller)
            if callee is None:
                return caller
            return Source(callee.file, callee.line, callee.column, callee.name, caller)
        case FusedLoc():
            sources = (source_of_location(part, name) for part in parts_of(location))
            return next((source for source in sources if source is not None), None)
        case _:
            return None


def parts_of(location: FusedLoc) -> tuple[Attribute, ...]:
    """The locations that an op was fused from."""
    parts = location.locations
    return parts.data if isinstance(parts, ArrayAttr) else ()
