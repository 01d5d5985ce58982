"""Follow a sample of work-groups through a kernel, by its integers alone.

Branches on known numbers are taken; both ways are walked where nobody knows.  A loop whose counters
advance evenly is walked three times at its start and once at its end, and what lies between counts
without being walked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics import Family, find
from triton_xe.intrinsics.definitions.block_2d import FIELDS
from triton_xe.runtime.estimate.costs import space_of
from triton_xe.runtime.estimate.numbers import (
    Known,
    Numbers,
    binary,
    broadcast,
    compare,
    evaluated,
    inserted,
    number,
    select,
    shuffled,
    wrapped,
)
from triton_xe.runtime.estimate.program import (
    ACCESSES,
    SLM_SPACE,
    Program,
    is_message,
    is_shared,
    placed_by,
)
from triton_xe.runtime.simulator.ir import Block, Instruction, Operand

Mask = NDArray[np.bool_]
UNKNOWN_TRIPS = 8
"""Rounds of a loop whose end nobody knows."""
UNEVEN_ROUNDS = 24
"""Rounds that are walked one by one where the loops inside of them change their length."""
MOST_ROUNDS = 64
"""Rounds that are walked of a loop whose counters advance unevenly."""


@dataclass
class Message:
    """An access of the sampled work-groups: `rounds` is how often the walk stands for it."""

    instruction: Instruction
    arguments: Sequence[Known]
    mask: Mask
    rounds: Numbers
    payload: Mapping[str, Known] | None = None
    key: Numbers | None = None
    """Of an access whose place is not known: subgroups with equal keys go to the same place."""


@dataclass
class Walk:
    """The walk of one kernel.  `counts` says how often each (group, subgroup) ran a block."""

    program: Program
    arguments: Sequence[int | float]
    grid: tuple[int, int, int]
    groups: Numbers
    """Linear numbers of the sampled work-groups."""
    subgroups: int
    lanes: int
    leads: bool = False
    """Whether only the first lane of each work-group is followed."""
    counts: dict[str, NDArray[np.float64]] = field(init=False, default_factory=dict)
    messages: list[Message] = field(init=False, default_factory=list)
    guessed: bool = field(init=False, default=False)
    """Whether a branch or the end of a loop was not known."""

    def __post_init__(self) -> None:
        self._blocks, self._loops = self.program.blocks, self.program.loops
        self._values: dict[str, Known] = {}
        self._payloads: dict[str, dict[str, Known]] = {}
        self._shape = (len(self.groups), 1 if self.leads else self.subgroups)
        self._keys: dict[str, Numbers] = {}
        """What stands for an unknown number: equal where it was made alike of equal numbers."""
        self._shared: Numbers = np.zeros(self._shape, np.int64)
        """What stands for all that was stored to shared local memory."""
        self._rounds: Numbers = np.ones(self._shape, np.int64)
        self._pending: dict[str, Mask] = {}

    def run(self) -> Walk:
        """Walk from the entry to the end."""
        for (name, t), value in zip(self.program.function.parameters, self.arguments, strict=True):
            known = t.kind in ("int", "ptr") and isinstance(value, int)
            self._values[name] = number(int(value), t.bits) if known else None
        self._pending = {self.program.order[0]: np.ones(self._shape, bool)}
        self._region(self.program.order, None)
        return self

    # -- control ---------------------------------------------------------------------------------

    def _region(self, order: Sequence[str], header: str | None) -> None:
        """Run the blocks of a loop's round, or of the whole function, in order."""
        skipped: set[str] = set()
        for label in order:
            mask = self._pending.get(label)
            if label in skipped or mask is None or not mask.any():
                continue
            if label in self._loops and label != header:
                body = [b for b in order if b in self._loops[label]]
                skipped |= set(body)
                self._loop(label, body)
            else:
                del self._pending[label]
                self._block(self._blocks[label], mask)

    def _loop(self, header: str, body: Sequence[str]) -> None:
        phis = self._blocks[header].phis
        seen: list[dict[str, Known]] = []
        masks: list[Mask] = []
        lengths: list[float] = []
        for walked in range(MOST_ROUNDS):
            mask = self._pending.get(header)
            if mask is None or not mask.any():
                return
            seen.append({str(i.result): self._values.get(str(i.result)) for i in phis
                         if i.result in self.program.needed})
            masks.append(mask)
            steady = len(masks) > 2 and (masks[-1] == masks[-3]).all() and (
                walked > UNEVEN_ROUNDS or lengths[-1] == lengths[-2])
            ahead = self._ahead(header, body, seen) if steady else None
            before_round = self._total(body)
            if ahead is None or ahead < 1:
                self._region(body, header)
                lengths.append(self._total(body) - before_round)
            else:
                before = self._rounds
                held = {name: dict(fields) for name, fields in self._payloads.items()}
                self._rounds = before * (1 + ahead)
                self._region(body, header)
                self._rounds = before
                self._jump(seen, ahead)
                self._move(held, ahead)
                for noted in (masks, seen, lengths):
                    noted.clear()
            if walked > UNKNOWN_TRIPS and self._ends(header, body) is None:
                break
        self.guessed = True
        left = self._pending.pop(header, None)
        if left is None:
            return
        for label in body:
            for target in self._blocks[label].successors:
                if target not in self._loops[header]:
                    self._arrive(label, target, left)
                    return

    def _total(self, body: Sequence[str]) -> float:
        """A number that changes alike in rounds that run alike."""
        return float(sum((k + 1) * self.counts[b].sum() for k, b in enumerate(body)
                         if b in self.counts))

    def _jump(self, seen: Sequence[Mapping[str, Known]], ahead: int) -> None:
        """Advance the counters as that many more rounds would."""
        last, before = seen[-1], seen[-2]
        for name, value in last.items():
            now, earlier = self._values.get(name), before[name]
            if now is not None and value is not None and earlier is not None:
                self._values[name] = now + (value - earlier) * ahead

    def _move(self, held: Mapping[str, Mapping[str, Known]], ahead: int) -> None:
        """Advance the payloads, which were `held` before this round, as that many more would."""
        for name, fields in held.items():
            now = self._payloads[name]
            for part, old in fields.items():
                new = now[part]
                if old is not None and new is not None:
                    now[part] = new + (new - old) * ahead

    def _ends(self, header: str, body: Sequence[str]) -> tuple[Instruction, bool] | None:
        """The comparison that ends the loop, and whether the loop goes on when it is true."""
        inside = self._loops[header]
        for label in body:
            last = self._blocks[label].instructions[-1]
            if last.opcode == "br" and len(last.labels) == 2:
                stays = [target in inside for target in last.labels]
                test = self.program.makers.get(last.operands[0].text)
                if stays[0] != stays[1] and test is not None and test.opcode == "icmp":
                    return test, stays[0]
        return None

    def _ahead(
        self, header: str, body: Sequence[str], seen: Sequence[Mapping[str, Known]]
    ) -> int | None:
        """Rounds that can be skipped: until before the first of the sample leaves the loop."""
        end = self._ends(header, body)
        if end is None:
            return None
        test, goes_on = end
        one, two, three = seen[-3], seen[-2], seen[-1]
        steps = {}
        for name in three:
            a, b, c = one[name], two[name], three[name]
            if a is not None and b is not None and c is not None:
                if not np.array_equal(b - a, c - b):
                    return None
                steps[name] = c - b
        left, right = (self._line(o, steps, three) for o in test.operands)
        if left is None or right is None:
            return None
        (a, da), (b, db) = left, right
        gap, step = b - a, da - db
        predicate = test.extra if goes_on else _NEGATED[test.extra]
        if predicate[-2:] in ("gt", "ge"):
            gap, step = -gap, -step
        if predicate in ("eq",) or (step <= 0).any():
            return None
        mask = self._pending[header][..., None, None]
        rounds = np.where(mask, -(-gap // step), np.iinfo(np.int64).max)
        return int(rounds.min()) - 2

    def _line(
        self, operand: Operand, steps: Mapping[str, Numbers], now: Mapping[str, Known]
    ) -> tuple[Numbers, Numbers] | None:
        """Value and step of an operand of the end's comparison, at the start of this round."""
        name = operand.local
        if name is None or not self._changes(now, name):
            value = self._value(operand)
            return None if value is None else (value, np.zeros_like(value))
        if name in now:
            value = now[name]
            return None if value is None or name not in steps else (value, steps[name])
        return self._added(name, steps, now)

    def _changes(self, now: Mapping[str, Known], name: str) -> bool:
        """Whether a value is a counter of the loop, or made of one."""
        made = self.program.makers.get(name)
        return name in now or (made is not None and any(o.local in now for o in made.operands))

    def _added(
        self, name: str, steps: Mapping[str, Numbers], now: Mapping[str, Known]
    ) -> tuple[Numbers, Numbers] | None:
        """A counter plus a number that the loop does not change."""
        made = self.program.makers[name]
        if made.opcode not in ("add", "sub"):
            return None
        first, second = (self._line(o, steps, now) for o in made.operands)
        if first is None or second is None:
            return None
        sign = 1 if made.opcode == "add" else -1
        return first[0] + sign * second[0], first[1] + sign * second[1]

    # -- blocks ----------------------------------------------------------------------------------

    def _block(self, block: Block, mask: Mask) -> None:
        count = self.counts.setdefault(block.label, np.zeros(self._shape))
        count += mask * self._rounds
        for i in block.instructions:
            if i.opcode == "br":
                self._branch(block, i, mask)
            elif i.opcode == "switch":
                for label in dict.fromkeys(i.labels):
                    self._arrive(block.label, label, mask)
            elif i.opcode == "call":
                self._call(i, mask)
            elif i.opcode in ACCESSES:
                if space_of(i):
                    self._note(i, [self._value(o) for o in i.operands], mask)
                if self.program.shared_decides and i.opcode == "store" and is_shared(i):
                    self._shared = self._shared * _PRIME + self._key(i.operands[:1])
                if i.result:
                    self._know(i, None)
            elif i.opcode != "phi" and i.result in self.program.needed:
                self._know(i, self._compute(i))

    def _branch(self, block: Block, i: Instruction, mask: Mask) -> None:
        if len(i.labels) == 1:
            self._arrive(block.label, i.labels[0], mask)
            return
        condition = self._value(i.operands[0])
        if condition is None:
            self.guessed = True
            usual = [label for label in i.labels if label != i.fallback]
            for label in usual:
                self._arrive(block.label, label, mask)
            return
        taken = np.broadcast_to((condition != 0).any((2, 3)), self._shape)
        missed = np.broadcast_to((condition == 0).any((2, 3)), self._shape)
        self._arrive(block.label, i.labels[0], mask & taken)
        self._arrive(block.label, i.labels[1], mask & missed)

    def _arrive(self, source: str, target: str, mask: Mask) -> None:
        if not mask.any():
            return
        incoming = []
        for phi in self._blocks[target].phis:
            if phi.result not in self.program.needed:
                continue
            operand = phi.operands[phi.labels.index(source)]
            incoming.append((str(phi.result), self._value(operand)))
            if incoming[-1][1] is None:
                self._keys[str(phi.result)] = self._key([operand])
        waiting = self._pending.get(target)
        for name, value in incoming:
            old = self._values.get(name)
            if value is None or mask.all() or waiting is None or not waiting.any():
                self._values[name] = value
            elif old is None:
                self._values[name] = None
            else:
                self._values[name] = np.where(mask[..., None, None], value, old)
        self._pending[target] = mask if waiting is None else waiting | mask

    # -- values ----------------------------------------------------------------------------------

    def _value(self, operand: Operand) -> Known:
        name = operand.local
        return self.program.constant(operand) if name is None else self._values.get(name)

    def _know(self, i: Instruction, value: Known) -> None:
        name = str(i.result)
        self._values[name] = value
        if value is None and name in self.program.needed:
            self._keys[name] = self._key(i.operands)
            if i.opcode == "load" and is_shared(i):
                self._keys[name] += self._shared[:, :1]

    def _key(self, operands: Sequence[Operand]) -> Numbers:
        """Of what is made of these: one number for each subgroup."""
        key = np.zeros(self._shape, np.int64)
        for operand in operands:
            known = self._value(operand)
            one = self._keys.get(operand.text, 0) if known is None else known[:, :, 0, 0]
            key = key * _PRIME + one
        return key

    def _compute(self, i: Instruction) -> Known:
        operands = [self._value(o) for o in i.operands]
        first = operands[0] if operands else None
        handler = _COMPUTED.get(i.opcode)
        if handler is not None:
            return handler(i, operands)
        if i.opcode == "alloca" or first is None:
            return None
        return binary(i.opcode, first, operands[1], i.type) if len(operands) == 2 else None

    def _call(self, i: Instruction, mask: Mask) -> None:
        row = find(i.callee)
        operands = [self._value(o) for o in i.operands]
        if row.family is Family.PAYLOAD:
            self._payload(i, operands)
        elif is_message(i):
            self._note(i, operands, mask)
        if i.result in self.program.needed:
            self._know(i, self._answer(i, row.family, row.definition, operands))

    def _answer(
        self, i: Instruction, family: Family, definition: Callable[..., Any] | None,
        operands: Sequence[Known],
    ) -> Known:
        if i.type.scalar.kind != "int" or definition is None:
            return None
        if family is Family.ID:
            axes = [int(o.flat[0]) for o in operands if o is not None]
            found = _lifted(definition(self._at, *axes))
            return found[:, :, :1] if self.leads else found
        if family is Family.MATHS and all(o is not None for o in operands):
            return evaluated(definition, [o for o in operands if o is not None], i.type.scalar.bits)
        return None

    @property
    def _at(self) -> SimpleNamespace:
        """Where the sampled subgroups are, in the words of the definitions of ids."""
        x, y, _ = self.grid
        n = self.groups[:, None, None, None]
        return SimpleNamespace(
            group=(n % x, n // x % y, n // (x * y)), grid=self.grid, count=self.subgroups,
            lanes=self.lanes, number=np.arange(self._shape[1])[None, :, None, None],
        )

    # -- messages --------------------------------------------------------------------------------

    def _payload(self, i: Instruction, operands: Sequence[Known]) -> None:
        row = find(i.callee)
        named = {p.name: operands[k] for k, p in enumerate(row.parameters)}
        if "base" in named:
            self._payloads[str(i.result)] = named
        elif "field" in named:
            payload = self._payloads.get(i.operands[0].text)
            which = named["field"]
            if payload is None or which is None:
                return
            name = FIELDS[int(which.flat[0]) - 1]
            old, new = payload.get(name), named["value"]
            adds = named["add"] is not None and bool(named["add"].any())
            both = adds and old is not None and new is not None
            payload[name] = old + new if both and old is not None and new is not None else new
            if new is None:
                self._keys[i.operands[0].text] = self._key(i.operands)
        else:
            found = self._payloads.get(i.operands[0].text)
            if found is not None:
                self._payloads[str(i.result)] = dict(found)

    def _note(self, i: Instruction, operands: Sequence[Known], mask: Mask) -> None:
        payload = self._payloads.get(i.operands[0].text) if i.operands else None
        placing = placed_by(i)
        known = payload.values() if payload else [self._value(o) for o in placing]
        key = None
        if any(value is None for value in known) and placing[0].type.space != SLM_SPACE:
            key = self._key(placing)
        self.messages.append(Message(
            i, operands, mask, self._rounds, dict(payload) if payload else None, key))


_PRIME = 1_000_003
_NEGATED = {"eq": "ne", "ne": "eq", "slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt",
            "ult": "uge", "ule": "ugt", "ugt": "ule", "uge": "ult"}


def _lifted(value: Any) -> Numbers:
    """With four axes: a number for all, or one for each lane."""
    array = np.asarray(value, np.int64)
    return array if array.ndim == 4 else array.reshape(1, 1, -1, 1)


def _cast(i: Instruction, operands: Sequence[Known]) -> Known:
    (value,) = operands
    source = i.operands[0].type
    if value is None or i.type.scalar.kind not in ("int", "ptr"):
        return None
    if i.type.lanes != source.lanes or source.scalar.kind not in ("int", "ptr"):
        return None
    if i.opcode == "zext" and source.scalar.bits < 64:
        return value & ((1 << source.scalar.bits) - 1)
    return wrapped(value, i.type.scalar.bits)


def _address(i: Instruction, operands: Sequence[Known]) -> Known:
    base, *indices = operands
    element = i.element
    if base is None or element is None or len(indices) != 1 or indices[0] is None:
        return None
    return base + indices[0] * element.size


def _element(i: Instruction, operands: Sequence[Known]) -> Known:
    vector, index = operands
    if vector is None or index is None or index.size != 1:
        return None
    return broadcast(vector, i.operands[0].type.count)[..., [int(index.flat[0])]]


_COMPUTED: dict[str, Callable[[Instruction, Sequence[Known]], Known]] = {
    **dict.fromkeys(
        "zext sext trunc ptrtoint inttoptr bitcast addrspacecast freeze".split(), _cast),
    "icmp": lambda i, v: compare(i.extra, v[0], v[1], i.operands[0].type),
    "select": lambda i, v: select(v[0], v[1], v[2]),
    "getelementptr": _address,
    "extractelement": _element,
    "insertelement": lambda i, v: inserted(v[0], v[1], v[2], i.type.count),
    "shufflevector": lambda i, v: shuffled(v[0], v[1], i.indices, i.operands[0].type.count),
}
