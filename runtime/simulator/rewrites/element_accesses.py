"""Merge accesses to single elements of a lane into one access, if they are adjacent in memory.

    %p = inttoptr (extractelement %v, 0)            %m = shufflevector %masks, [0, 1]
    %x = PredicatedLoad.f32(%p, %m0)                %w = PredicatedLoad.v2f32(%p, %m)
    %q = inttoptr (extractelement %v, 1)      ->    %x = extractelement %w, 0
    %y = PredicatedLoad.f32(%q, %m1)                %y = extractelement %w, 1

A device needs a message per element if the masks of a lane's elements differ, or if their alignment
is unknown.  A host does not.  The masks of one access differ between elements only after
this rewrite.  Accesses without masks may be of vectors already, of at most 16 bytes per lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find
from triton_xe.intrinsics.genisa import PREDICATED_LOAD, PREDICATED_STORE
from triton_xe.llvm import Block, Function, Instruction, Operand, Type
from triton_xe.runtime.simulator.rewrites.rewriter import Rewriter

_Offsets = tuple[int, ...] | None


@dataclass(frozen=True)
class _Element:
    """Element `index` of a vector."""

    vector: Operand
    index: int

    def precedes(self, other: _Element) -> bool:
        return self.vector.text == other.vector.text and self.index + 1 == other.index


@dataclass(frozen=True)
class _Access:
    """An access to one element, at an address that is extracted from a vector of addresses."""

    i: Instruction
    address: _Element | None
    start: tuple[str, int]
    """The address as a pointer and a byte offset."""
    mask: _Element | None
    other: str
    """Text of the value that a load returns if its mask is false."""

    @property
    def is_load(self) -> bool:
        return self.i.result is not None


def joined_accesses(function: Function, *, most: int = 0) -> Function:
    """Merge adjacent accesses in a copy of the function.

    `most` is for checked kernels, and limits the bytes of an access.  Then only masked accesses of
    one source location are merged, even if calls of the sanitizer are between them.
    """
    joiner = _Joiner(function, most)
    runs = [part for block in function.blocks for run in joiner.runs(block)
            for part in _parted(run) if len(part) > 1]
    if not runs:
        return function
    places = {a.i: (run, k) for run in runs for k, a in enumerate(run)}
    return replace(function, blocks=[
        Block(b.label, [x for i in b.instructions for x in joiner.rewrite(i, places)])
        for b in function.blocks])


_MERGED = "%xe.whole."


def is_joined(i: Instruction) -> bool:
    """True if a load was merged from several."""
    return i.result is not None and i.result.startswith(_MERGED)


class _Joiner(Rewriter):
    def __init__(self, function: Function, most: int) -> None:
        super().__init__(function, "%xe.j")
        self.most = most
        self.known: dict[str, _Offsets] = {}

    # --- find mergeable accesses --------------------------------------------------------------

    def runs(self, block: Block) -> list[list[_Access]]:
        """Runs of accesses that can be merged: nothing between them touches memory."""
        found: list[list[_Access]] = []
        is_open = False
        for i in block.instructions:
            access = self._access(i)
            if access is not None:
                if is_open and self._fits(found[-1], access) and (
                        self._follows(found[-1][-1], access)):
                    found[-1].append(access)
                else:
                    found.append([access])
                is_open = True
            elif not i.is_pure and not (self.most and i.opcode == "call"
                                        and find(i.callee).family is Family.SHADOW):
                is_open = False
        return found

    def _fits(self, run: Sequence[_Access], access: _Access) -> bool:
        """True if one more access may be merged; `most` limits those of checked kernels."""
        size = _element(access.i).size * (len(run) + 1)
        return not self.most or (
            size <= self.most and access.mask is not None and access.i.debug == run[0].i.debug)

    def _access(self, i: Instruction) -> _Access | None:
        """Address, start and mask of an access that may be merged; None for others."""
        parts = access_parts(i)
        if parts is None or i.shadow:
            return None
        pointer, t, mask, other = parts
        address = self._extracted(self._cast(pointer))
        lanes = None if mask is None else self._extracted(mask)
        if t.scalar.kind == "ptr" or not other.is_constant or (t.lanes > 1 and mask is not None):
            return None
        if mask is not None and lanes is None:
            return None
        return _Access(i, address, self._start(pointer), lanes, other.text)

    def _start(self, pointer: Operand) -> tuple[str, int]:
        """The address as a pointer and a constant byte offset."""
        made = self.facts.maker(pointer)
        if made is None or made.opcode != "getelementptr" or len(made.operands) != 2:
            return pointer.text, 0
        steps = made.operands[1].integer_value()
        if steps is None or made.element is None:
            return pointer.text, 0
        return made.operands[0].text, steps * made.element.size

    def _cast(self, pointer: Operand) -> Operand:
        made = self.facts.maker(pointer)
        is_cast = made is not None and made.opcode == "inttoptr"
        return made.operands[0] if made is not None and is_cast else pointer

    def _extracted(self, x: Operand) -> _Element | None:
        """The vector and index that an element is extracted from; None for other values."""
        taken = self.facts.extraction(x)
        return None if taken is None else _Element(*taken)

    def _follows(self, first: _Access, second: _Access) -> bool:
        """True if the second access is the same operation on the next element and mask."""
        if first.i.callee != second.i.callee or first.i.opcode != second.i.opcode:
            return False
        if first.mask is None or second.mask is None:
            lanes = first.mask is second.mask
        else:
            lanes = first.mask.precedes(second.mask)
        t = _element(first.i)
        if not (lanes and t is _element(second.i) and first.other == second.other):
            return False
        (base, at), beside = first.start, second.start
        if (base, at + t.size) == beside:
            return True
        if first.address is None or second.address is None or not (
                first.address.precedes(second.address)):
            return False
        offsets = self.offsets(first.address.vector)
        k = first.address.index
        return offsets is not None and offsets[k + 1] - offsets[k] == t.size

    def offsets(self, x: Operand) -> _Offsets:
        """Offset of each element of a vector from a common base; None if unknown."""
        if x.local is None:
            values = [e.integer_value() for e in x.elements] or [0 if x.is_zero else None]
            known = tuple(v for v in values if v is not None)
            return known * (x.type.lanes // len(values)) if len(known) == len(values) else None
        if x.local not in self.known:
            self.known[x.local] = None
            self.known[x.local] = self._computed(self.facts.maker(x))
        return self.known[x.local]

    def _computed(self, i: Instruction | None) -> _Offsets:
        """Offsets of a vector's elements, if it is one number plus constants; None for others."""
        if i is None or i.type.lanes == 1:
            return None
        if i.opcode == "shufflevector" and len(set(i.indices)) == 1:
            return (0,) * i.type.lanes
        parts = [self.offsets(o) for o in i.operands]
        if i.opcode in ("sext", "zext"):
            return parts[0]
        if i.opcode not in ("add", "mul", "shl") or len(parts) < 2:
            return None
        x, y = parts
        if x is None or y is None:
            return None
        if i.opcode == "add":
            return tuple(a + b for a, b in zip(x, y, strict=True))
        if i.operands[1].local is not None or len(set(y)) > 1:
            return None
        scale = y[0] if i.opcode == "mul" else 1 << y[0]
        return tuple(a * scale for a in x)

    # --- merge --------------------------------------------------------------------------------

    def rewrite(
        self, i: Instruction, places: dict[Instruction, tuple[list[_Access], int]]
    ) -> Iterator[Instruction]:
        """Instructions that replace an instruction."""
        run, k = places.get(i, ([], 0))
        if not run:
            yield i
        elif run[0].is_load:
            if k == 0:
                yield from self._load(run)
            n = i.type.lanes
            whole = Operand(_merged_type(run), f"{_MERGED}{run[0].i.result}")
            moved = replace(i, callee="", align=0, unfilled=False)
            if i.type.kind == "vec":
                yield replace(moved, opcode="shufflevector", operands=[whole, whole],
                              indices=tuple(range(k * n, k * n + n)))
            else:
                yield replace(moved, opcode="extractelement",
                              operands=[whole, ir.constant(ir.I32, k)])
        elif k == len(run) - 1:
            yield from self._store(run)

    def _load(self, run: list[_Access]) -> Iterator[Instruction]:
        """One load in place of a run."""
        i, t = run[0].i, _merged_type(run)
        operands = list(i.operands)
        if run[0].mask is not None:
            lanes, made = self._taken([a.mask for a in run if a.mask is not None], i)
            yield from made
            operands[2:] = [lanes, ir.constant(t, run[0].other)]
        yield replace(i, type=t, operands=operands, result=f"{_MERGED}{i.result}")

    def _store(self, run: list[_Access]) -> Iterator[Instruction]:
        """One store in place of a run, at its last instruction."""
        last, operands = run[-1].i, list(run[0].i.operands)
        at = 0 if last.opcode == "store" else 1
        value, made = self._build_vector([a.i.operands[at] for a in run], last)
        yield from made
        operands[at] = value
        if run[0].mask is not None:
            operands[3], made = self._taken([a.mask for a in run if a.mask is not None], last)
            yield from made
        yield replace(last, operands=operands, first=run[0].i.first)

    def _build_vector(
        self, values: Sequence[Operand], at: Instruction
    ) -> tuple[Operand, list[Instruction]]:
        """These values as a vector, and the instructions that build it."""
        if values[0].type.kind == "vec":
            made = self.concatenated(values, at)
            return made[-1].value, made
        found = [p for p in map(self._extracted, values) if p is not None]
        if len(found) == len(values) and all(
                a.precedes(b) for a, b in pairwise(found)):
            return self._taken(found, at)
        made = []
        x = Operand(ir.vector(len(values), values[0].type), "poison")
        for k, value in enumerate(values):
            made.append(self.new("insertelement", x.type, [x, value, ir.constant(ir.I32, k)], at))
            x = made[-1].value
        return x, made

    def _taken(
        self, found: Sequence[_Element], at: Instruction
    ) -> tuple[Operand, list[Instruction]]:
        """Consecutive elements of a vector, as a vector."""
        source, first = found[0].vector, found[0].index
        if (first, len(found)) == (0, source.type.lanes):
            return source, []
        t = ir.vector(len(found), source.type.scalar)
        made = self.new("shufflevector", t, [source, source], at, range(first, first + len(found)))
        return made.value, [made]


_MOST_BYTES = 64
"""Largest number of bytes of a lane in one access to vectors."""


def _parted(run: list[_Access]) -> Iterator[list[_Access]]:
    """Split a run into merged accesses; those of vectors merge a power of two."""
    t = _element(run[0].i)
    if t.kind != "vec":
        yield run
        return
    while run:
        count = 1 << min(len(run), max(1, _MOST_BYTES // t.size)).bit_length() - 1
        yield run[:count]
        run = run[count:]


def _merged_type(run: list[_Access]) -> Type:
    """The type of all elements of a run."""
    t = _element(run[0].i)
    return ir.vector(len(run) * t.lanes, t.scalar)


def access_parts(i: Instruction) -> tuple[Operand, Type, Operand | None, Operand] | None:
    """Address, type, mask and default value of lane accesses to global memory; None for others."""
    nothing = Operand(ir.I32, "undef")
    if i.opcode == "call":
        known = find(i.callee)
        if known is PREDICATED_LOAD:
            return i.operands[0], i.type, i.operands[2], i.operands[3]
        if known is PREDICATED_STORE:
            return i.operands[0], i.operands[1].type, i.operands[3], nothing
    elif i.opcode in ("load", "store") and not i.flags and not i.orderings:
        pointer = i.operands[-1]
        t = i.type if i.opcode == "load" else i.operands[0].type
        return (pointer, t, None, nothing) if pointer.type.space == 1 else None
    return None


def _element(i: Instruction) -> Type:
    """The type that an access moves per lane."""
    parts = access_parts(i)
    assert parts is not None
    return parts[1]
