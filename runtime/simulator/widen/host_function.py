"""Builder of a host function, whose values have the forms of `values`.

The builder knows nothing of the kernel's function, which `widener` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from triton_xe import llvm as ir
from triton_xe.llvm.records import Function, Instruction, Operand, constant, pin, poison
from triton_xe.llvm.types import I1, I8, I32, I64, PTR, VOID, Type, vector
from triton_xe.runtime.simulator.analysis.shapes import Table, normalise
from triton_xe.runtime.simulator.context import Context
from triton_xe.runtime.simulator.library.names import Preparation
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.widen.values import (
    REGISTER_BYTES,
    Lazy,
    Moved,
    Pieces,
    Slot,
    Tabled,
    Uniform,
    Value,
    Wide,
    as_moved,
    best_order,
    can_move,
    in_order,
    index_of,
    places,
    selected,
    slice_mask,
    wide_type,
)

CTX, SG, LANE = Operand(PTR, "%ctx"), Operand(I32, "%sg"), Operand(I32, "%lane")
"""Parameters of host functions: the work-group's `Context`, the number of the subgroup, and the
lane (of functions that run lane by lane)."""
ARGS, SLM, ERROR, SITES_AT = (
    Operand(PTR, f"%{name}") for name in ("args", "slm", "err", "barrier_sites_at"))
"""Values that the entry of a host function defines."""


class NotData(Exception):
    """A value without a vector of its bits is used as data."""


@dataclass
class Here:
    """The block of the source that is being widened."""

    label: str = ""
    """Its label, with a mark for each barrier before this point."""
    is_resumed: bool = False
    """True if a barrier may precede this point: see `HostFunction._pin_here`."""
    in_loop: bool = False
    """True if the block is part of a loop."""
    repeats_dpas: bool = False
    """True if the block is part of a loop and has DPAS."""
    inner: frozenset[str] = frozenset()
    """Values that only the block uses, if barriers cut it."""


class HostFunction(ir.Builder):
    """Builder of the host function, with the operands that it can use again."""

    def __init__(self, lanes: int) -> None:
        super().__init__(Function("", VOID, [], [ir.Block("%entry")]))
        self.lanes = lanes
        self.here = Here()
        self.frame: list[Instruction] = []
        """Instructions at the very beginning of the entry: memory in the frame, and constants."""
        self.sums: dict[str, tuple[Operand, tuple[int, ...]]] = {}
        """Uniform vectors that are one number plus constants, by name."""
        self.makers: dict[str, Instruction] = {}
        """Instructions that compute values, by name."""
        self.program_ids: dict[str, int] = {}
        """Axes of the grid, by name of the program's number."""
        self.following: dict[tuple[str, str], Operand] = {}
        """Label of a block and value -> the value in the next program; see `prefetch`."""
        self._constants: dict[tuple[str, int, Type], Operand] = {}
        """Numbers of `loaded_once`, by base, offset and type."""
        self._in_block: dict[tuple[str, str, object], Operand] = {}
        """Operands of `once`, by label of the block, kind and key."""

    def emit(self, i: Instruction) -> Operand:
        made = super().emit(i)
        self.makers[made.text] = i
        return made

    def temporary(self, nbytes: int) -> Operand:
        """A 64-byte aligned array in the frame."""
        name = self.name()
        self.frame.append(Instruction("alloca", PTR, [], name, element=ir.array(nbytes, I8),
                                      align=64))
        return Operand(PTR, name)

    def is_argument(self, i: Instruction) -> bool:
        """True if an instruction loads an argument of the kernel, or a word of the work-group."""
        if i.opcode != "load":
            return False
        base = self.makers.get(i.operands[0].text)
        return (i.operands[0] if base is None else base.operands[0]) in (ARGS, CTX)

    def context_word(self, word: Context, t: Type = PTR) -> Operand:
        return self.load(t, self.at(CTX, word.offset))

    def loaded_once(self, base: Operand, offset: int, t: Type = PTR) -> Operand:
        """A number in memory that does not change while the function runs, loaded in its entry."""
        key = base.text, offset, t
        if key not in self._constants:
            block, self.block = self.block, ir.Block("")
            self._constants[key] = self.load(t, self.at(base, offset))
            self.frame += self.block.instructions
            self.block = block
        return self._constants[key]

    def once(self, kind: str, key: object, make: Callable[[], Operand]) -> Operand:
        """The operand for a key in this block; made at its first use."""
        place = (self.here.label, kind, key)
        found = self._in_block.get(place)
        if found is None:
            found = self._in_block[place] = make()
        return found

    @contextmanager
    def unless(self, flag: Operand) -> Iterator[None]:
        """Write code that runs unless a flag is set; it defines nothing for later code."""
        inside, after, known = self.label(), self.label(), len(self._in_block)
        self.cond_br(flag, after, inside)
        self.start(inside)
        yield
        self.br(after)
        self.start(after)
        while len(self._in_block) > known:
            self._in_block.popitem()

    def or_else(self, flag: Operand, other: Callable[[], Operand]) -> Operand:
        """A flag, or, where it is not set, the one that `other` writes code for."""
        before = self.block.label
        with self.unless(flag):
            found, last = other(), self.block.label
        return self.phi(I1, (ir.TRUE, before), (found, last)).value

    def resume(self) -> None:
        """Continue after a suspension: values are reloaded or recomputed."""
        self.here.label += "'"
        self.here.is_resumed = True

    def continue_in_new_block(self) -> str:
        """Continue in a new block, in which values are recomputed; return its label."""
        label = self.label("met")
        self.br(label)
        self.start(label)
        self.here.label += "'"
        return label

    def _pin_here(self, x: Operand) -> Operand:
        """A scalar that forces values computed from it to be computed at this point.

        Otherwise equal values from before a barrier could be used, and would be live across it.
        """
        if not self.here.is_resumed:
            return x
        return self.once("here", x.text, lambda: self.made_here(x))

    def made_here(self, x: Operand) -> Operand:
        """A scalar that LLVM computes at this point, neither later nor again."""
        bank = {"int": "r", "float": host_cpu().float_bank}.get(x.type.kind)
        if bank is None or x.type.bits < 32 or x.is_constant:
            return x
        return self.call(pin(bank), x.type, [x])

    # --- forms of a value -----------------------------------------------------------------------

    def type_of(self, t: Type) -> Type:
        """The flat host vector of a value of type `t`."""
        return wide_type(t, self.lanes)

    def wide(self, value: Value) -> Operand:
        """The flat host vector of a value, in register order."""
        return self.ordered(value, 1)

    def ordered(self, value: Value, group: int) -> Operand:
        """The flat host vector of a value, in the given order."""
        if isinstance(value, Uniform):
            return self._broadcast(value, group)
        if isinstance(value, Tabled):
            return self._tabled(value, group)
        if isinstance(value, Moved):
            return self.once("moved", (value, group), lambda: self._flatten(value, group))
        own = value.group if isinstance(value, Wide | Lazy) else 1
        if isinstance(value, Lazy):
            kept = own if own > 1 else group
            own, x = kept, self.once(
                "lazy", (value, kept), lambda: self._operation(value, kept))
        else:
            x = value.value if isinstance(value, Wide) else self._flat(value)
        if own == group or value.type.lanes == 1:
            return x
        mask = [index_of(e, lane, self.lanes, own)
                for e, lane in places(value.type.lanes, self.lanes, group)]
        return self.once("order", (x.text, group), lambda: self.shuffle(x, None, mask))

    def as_is(self, value: Value) -> tuple[Operand, int]:
        """The flat host vector of a value, and its order: the one that it has, or the cheapest."""
        group = value.group if isinstance(value, Wide | Lazy) else 1
        if isinstance(value, Moved):
            group = best_order([value], value.type.lanes)
        return self.ordered(value, group), group

    def _broadcast(self, value: Uniform, group: int = 1) -> Operand:
        """A vector of a value that is equal in all lanes."""
        t, s, x = value.type, self.lanes, value.value
        if x.is_constant and not x.text.startswith("@"):
            return broadcast_constant(x, s, group)
        if t.lanes == 1:
            return self.once("broadcast", x.text, lambda: self.broadcast(self._pin_here(x), s))
        order = [e for e, _ in places(t.lanes, s, group)]
        if x.text not in self.sums:
            return self.once("broadcast", (x.text, group),
                                lambda: self.shuffle(x, None, order))
        return self._sum(x, [self.sums[x.text][1][e] for e in order])

    def _sum(self, base: Operand, terms: Sequence[int]) -> Operand:
        """A flat vector: the number of a base that is in `sums`, plus constants."""
        one, count = self.sums[base.text][0], len(terms)
        spread = self.once("spread", (one.text, count),
                              lambda: self.broadcast(self._pin_here(one), count))
        if not any(terms):
            return spread
        return self.once("sum", (one.text, tuple(terms)), lambda: self.add(
            spread, ir.integers(one.type, [int(x) for x in normalise(np.array(terms), one.type)])))

    def _tabled(self, value: Tabled, group: int) -> Operand:
        """A vector of base + table."""
        t, s = value.type, self.lanes
        table = np.broadcast_to(value.table, (t.lanes, s))
        flat = tuple(int(table[place]) for place in places(t.lanes, s, group))
        key = (value.base.text if value.base is not None else "", flat)
        if t.kind == "ptr":
            base = value.base if value.base is not None else constant(PTR, 0)
            return self.once(
                "table", key, lambda: self.gep(I8, base, ir.integers(I64, flat)))
        if value.base is None:
            return ir.integers(t.scalar, flat)
        if value.base.text in self.sums:
            terms = self.sums[value.base.text][1]
            rows = [terms[e] for e, _ in places(t.lanes, s, group)]
            return self._sum(value.base, [x + y for x, y in zip(flat, rows, strict=True)])
        uniform = Uniform(value.base, t)
        return self.once(
            "table", key, lambda: self.add(self._broadcast(uniform, group),
                                             ir.integers(t.scalar, flat)))

    def _operation(self, value: Lazy, group: int) -> Operand:
        """Compute an operation that was delayed, in the given order."""
        i = value.instruction
        chosen = 1 if i.opcode == "select" else 0
        operands = [self.mask(v, value.type.lanes, group) for v in value.operands[:chosen]]
        operands += [self.ordered(v, group) for v in value.operands[chosen:]]
        t = wide_type(value.type, self.lanes)
        return self.emit(Instruction(i.opcode, t, operands, flags=i.flags, extra=i.extra))

    def _flat(self, value: Value) -> Operand:
        """The flat vector of a value that is computed in pieces, or is in a slot."""
        if isinstance(value, Pieces):
            parts = [self.wide(p) for p in value.parts]
            return self.joined(
                [None if p.text == "poison" else p for p in parts], value.type.scalar)
        if isinstance(value, Slot):
            return self.load(self.type_of(value.type), value.pointer, align=64)
        raise NotData("a private pointer or struct is used as data")

    def joined(
        self, parts: Sequence[Operand | None], scalar: Type, width: int = 0
    ) -> Operand:
        """Concatenate vectors of one size, each of one element per lane; None is undefined."""
        width = width or self.lanes
        total = len(parts) * width
        parts = list(parts)
        while len(parts) > 1:
            if len(parts) % 2:
                parts.append(None)
            pair = vector(width, scalar)
            mask = slice_mask(0, 2 * width)
            parts = [
                None if a is b is None
                else self.shuffle(poison(pair) if a is None else a, b, mask)
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        whole = parts[0] if parts[0] is not None else poison(vector(width, scalar))
        return whole if width == total else self.shuffle(whole, None, slice_mask(0, total))

    def moved(self, value: Value) -> Moved | None:
        """A value in the form of `Moved`; None if its elements cannot be represented so."""
        if not can_move(value.type):
            return None
        if isinstance(value, Moved):
            return value
        if isinstance(value, Pieces):
            parts = [self.moved(p) for p in value.parts]
            found = [p for p in parts if p is not None]
            return selected(found, range(len(found)), value.type) if found == parts else None
        if isinstance(value, Uniform | Tabled):
            return None
        x, group = self.as_is(value)
        return as_moved(Wide(x, value.type, group), self.lanes)

    def _flatten(self, value: Moved, group: int) -> Operand:
        """Moved elements as a flat vector."""
        t, flat = wide_type(value.type, self.lanes), in_order(value, group)
        scalar = t.scalar if t.scalar.size == value.size else ir.integer(8 * value.size)
        sources = [self._recast(x, vector(value.piece_count(x), scalar)) for x in value.sources]
        if not sources:
            return poison(t)
        if len(sources) == 1:
            return self._recast(self._picked(sources, flat), t)
        per = max(1, REGISTER_BYTES // value.size)
        per = per if len(flat) % per == 0 else len(flat)
        parts = [self._picked(sources, flat[k : k + per]) for k in range(0, len(flat), per)]
        return self._recast(self.joined(parts, scalar, per), t)

    def _recast(self, x: Operand, t: Type) -> Operand:
        return self.once("recast", (x.text, t), lambda: self.bitcast(x, t))

    def _picked(self, sources: Sequence[Operand], flat: Table) -> Operand:
        """Elements of the concatenation of several vectors, by index."""
        made, start, places = None, 0, np.arange(len(flat))
        for x in sources:
            own = (flat >= start) & (flat < start + x.type.count)
            if own.any():
                mask = np.where(own, flat - start, -1)
                whole = len(flat) == x.type.count and (mask == places).all()
                part = x if whole else self.shuffle(x, None, mask.tolist())
                made = part if made is None else self.shuffle(
                    made, part, np.where(own, places + len(flat), places).tolist())
            start += x.type.count
        return poison(vector(len(flat), sources[0].type.scalar)) if made is None else made

    # --- elements and lanes ---------------------------------------------------------------------

    def element(self, value: Value, index: int) -> Value:
        """One element of a vector value."""
        t, s = value.type.scalar, self.lanes
        if isinstance(value, Pieces):
            return value.parts[index]
        if value.type.lanes == 1 and isinstance(value, Uniform | Tabled):
            return value
        if isinstance(value, Uniform):
            if value.value.is_undefined:
                return Uniform(poison(t), t)
            return Uniform(self.extract(value.value, index), t)
        if isinstance(value, Tabled):
            row = value.table[index : index + 1]
            if value.base is None:
                return known(row, t)
            base = self.extract(value.base, index)
            return Tabled(base, row, t) if row.any() else Uniform(base, t)
        if isinstance(value, Slot):
            pointer = self.at(value.pointer, index * s * t.size)
            return Wide(self.load(vector(s, t), pointer, align=8), t)
        if value.type.lanes == 1:
            return value
        if isinstance(value, Moved) or (
                isinstance(value, Wide) and value.group > 1 and can_move(t)):
            return selected([as_moved(value, s)], [index], t)
        if isinstance(value, Lazy) and not any(isinstance(v, Wide) for v in value.operands):
            operands = tuple(self.element(v, index) for v in value.operands)
            return Lazy(value.instruction, operands, t, value.size)
        x, group = self.as_is(value)
        order = [index_of(index, lane, s, group) for lane in range(s)]
        return Wide(self.shuffle(x, None, order), t)

    def parts(self, value: Value) -> list[Value]:
        """All elements of a vector value."""
        return [self.element(value, k) for k in range(value.type.lanes)]

    def lane(self, value: Value, lane: int) -> Operand:
        """The per-work-item value of one lane, as a host scalar or `<n x T>`."""
        t, s = value.type, self.lanes
        if isinstance(value, Uniform):
            return value.value
        if t.lanes == 1:
            return self.extract(self.wide(value), lane)
        x, group = self.as_is(value)
        return self.shuffle(x, None, [index_of(e, lane, s, group) for e in range(t.lanes)])

    # --- masks ----------------------------------------------------------------------------------

    def mask(self, value: Value, count: int = 1, group: int = 1) -> Operand:
        """A lane mask `<count*S x i1>` in an order, equal for each of `count` elements."""
        if value.type.lanes == count:
            return self.ordered(value, group)
        x = self.wide(value)
        return x if count == 1 else self.repeat(x, count, group)

    def repeated(self, value: Value, count: int) -> Value | None:
        """A cheap operation on one number per lane, repeated for each of `count` elements.

        The result is available in any order; None for other values.
        """
        t = vector(count, value.type.scalar)
        if isinstance(value, Lazy) and value.size <= 4:
            operands = tuple(self.repeated(v, count) for v in value.operands)
            found = tuple(v for v in operands if v is not None)
            same = len(found) == len(operands)
            return Lazy(value.instruction, found, t, value.size) if same else None
        if isinstance(value, Tabled) and value.base is None:
            return Tabled(None, np.repeat(value.table, count, axis=0), t)
        known = value.value if isinstance(value, Uniform) else (
            value.base if isinstance(value, Tabled) else None)
        if known is None or t.kind == "ptr":
            return None
        if known.is_constant:
            return Uniform(constant(t, known.text), t) if isinstance(value, Uniform) else None
        base = self.broadcast(known, count)
        self.sums[base.text] = known, (0,) * count
        if isinstance(value, Tabled):
            return Tabled(base, np.repeat(value.table, count, axis=0), t)
        return Uniform(base, t)

    def repeat(self, x: Operand, count: int, group: int = 1) -> Operand:
        """A vector of one element per lane, repeated `count` times."""
        if x.is_splat and x.elements:
            return constant(vector(count * self.lanes, x.type.scalar), x.elements[0].text)
        return self.shuffle(x, None, [lane for _, lane in places(count, self.lanes, group)])

    def lane_bits(self, mask: Operand) -> Operand:
        """A lane mask as an integer."""
        return self.bitcast(mask, ir.integer(mask.type.count))

    def any_lane(self, mask: Operand) -> Operand:
        """True if a lane mask has any lane."""
        return self.icmp("ne", self.lane_bits(mask), 0)

    # --- memory ---------------------------------------------------------------------------------

    def to_memory(self, value: Value) -> Operand:
        """A pointer to the register image of a value."""
        if isinstance(value, Slot):
            return value.pointer
        pointer = self.temporary(value.type.size * self.lanes)
        self.store_image(value, pointer)
        return pointer

    def store_image(self, value: Value, pointer: Operand) -> None:
        """Store all lanes of a value: elements one after another, each with all its lanes."""
        if isinstance(value, Slot):
            self.copy(pointer, value.pointer, value.type.size * self.lanes, align=16)
            return
        self.store(self.wide(value), pointer, align=8)

    def prepared(self, image: Operand, role: Preparation) -> Operand:
        """An operand of a DPAS in the form that its kernel reads, from its image in memory."""
        target = self.temporary(role.nbytes)
        self.call(role.symbol, VOID, [target, image])
        return target


def known(row: np.ndarray[tuple[int, ...], np.dtype[np.int64]], t: Type) -> Value:
    """A value known completely: uniform if all lanes are equal."""
    if t.lanes == 1 and (row == row[:, :1]).all():
        return Uniform(constant(t, int(row[0, 0])), t)
    if (row == row[:, :1]).all():
        return Uniform(ir.integers(t.scalar, [int(v) for v in row[:, 0]]), t)
    return Tabled(None, row, t)


def broadcast_constant(x: Operand, lanes: int, group: int = 1) -> Operand:
    """The flat vector of a constant, repeated for every lane."""
    t = wide_type(x.type, lanes)
    if x.text in ("undef", "poison", "zeroinitializer"):
        return Operand(t, x.text)
    if x.text == "null":
        return ir.zero(t)
    if x.type.lanes == 1:
        return constant(t, x.text)
    if x.is_splat:
        return constant(t, x.elements[0].text)
    return ir.constant_vector([x.elements[e] for e, _ in places(x.type.lanes, lanes, group)])

