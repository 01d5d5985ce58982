"""Follow a sample of work-groups through a kernel, by its integers alone.

Branches on known numbers are taken; for unknown ones both ways are walked.  A loop whose counters
advance evenly is walked at its start, once in the middle and once at its end.  The rounds in
between are counted without being walked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics import Family, find
from triton_xe.intrinsics.genisa import FIELDS
from triton_xe.llvm import Instruction, Operand
from triton_xe.runtime.simulator.estimate.numbers import (
    Known,
    Numbers,
    Sum,
    difference,
    evaluated,
    forget,
    full,
    number,
    plain,
    plus,
    terms_of,
)
from triton_xe.runtime.simulator.estimate.program import Program, Step
from triton_xe.runtime.simulator.estimate.sites import Site

Mask = NDArray[np.bool_]
Payload = Mapping[str, Numbers | None]
Roots = frozenset[int]
UNKNOWN_TRIPS = 8
"""Assumed rounds of a loop whose end is unknown."""
UNEVEN_ROUNDS = 24
"""Rounds that are walked one by one if the lengths of inner loops change."""
MOST_ROUNDS = 64
"""Rounds that are walked of a loop whose counters advance unevenly."""


@dataclass(eq=False)
class Message:
    """An access of the sampled work-groups; it represents `rounds` executions."""

    site: Site
    arguments: Sequence[Known]
    mask: Mask
    rounds: Numbers
    payload: Payload | None = None
    key: Numbers | None = None
    """Key of an access with unknown address: equal keys mean the same address."""


@dataclass
class Walk:
    """The walk of one kernel; `counts` is how often each (group, subgroup) ran a block."""

    program: Program
    arguments: Sequence[int | float]
    grid: tuple[int, int, int]
    groups: Numbers
    """Linear indices of the sampled work-groups."""
    subgroups: int
    lanes: int
    leads: bool = False
    """True if only the first lane of each work-group is followed, and no loop in its middle."""
    counts: dict[str, NDArray[np.float64]] = field(init=False, default_factory=dict)
    messages: list[Message] = field(init=False, default_factory=list)
    guessed: bool = field(init=False, default=False)
    """True if a branch or the end of a loop was unknown."""

    def __post_init__(self) -> None:
        self._loops = self.program.loops
        self._steps, self._phis = self.program.steps, self.program.phis
        self._values: list[Known] = []
        """Values by the program's slots."""
        self._payloads: dict[int, Payload] = {}
        self._shape = (len(self.groups), 1 if self.leads else self.subgroups)
        self._roots: dict[int, Roots] = {}
        """Origins of an unknown number, by its slot: the numbers that it depends on, as in
        `_origins`.
        """
        self._origins: list[Numbers | Sum] = []
        self._named: dict[Any, int] = {}
        self._keys: dict[Roots, Numbers] = {}
        self._shared: Roots = frozenset()
        """Origins of everything stored to shared local memory."""
        self._rounds: Numbers = np.ones(self._shape, np.int64)
        self._pending: dict[str, Mask] = {}
        self.acts: dict[str, Callable[[Step, str, Mask], None]] = {
            "br": self._branch, "switch": self._switch, "message": self._message,
            "shared": self._shared_access,
            "payload": self._payload, "call": self._call, "unknown": self._unknown,
            "compute": self._compute}

    def run(self) -> Walk:
        """Walk from the entry to the end."""
        forget()
        self._values = list(self.program.initial)
        for (name, t), value in zip(self.program.function.parameters, self.arguments, strict=True):
            if t.kind in ("int", "ptr") and isinstance(value, int):
                self._values[self.program.named(name)] = number(int(value), t.bits)
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
                if label in self.program.even:
                    self._even_loop(label)
                else:
                    self._loop(label, body)
            else:
                del self._pending[label]
                self._block(label, mask)

    def _even_loop(self, header: str) -> None:
        """Run a loop whose counters are known to advance evenly; two rounds give the steps."""
        before, held = self._counters(header), dict(self._payloads)
        self._region([header], header)
        steps = _differences(before, self._counters(header))
        moves = {k: _differences(held[k], p) for k, p in self._payloads.items() if k in held}
        for _ in range(MOST_ROUNDS):
            mask = self._pending.get(header)
            if mask is None or not mask.any():
                return
            ahead = self._rounds_to_skip(header, steps, self._counters(header))
            if ahead is None and self._decided(header):
                self._loop(header, [header])
                return
            many = MOST_ROUNDS - 2 if ahead is None else max(0, ahead + self.leads)
            if self.leads:
                self._jump(steps, moves, mask, many)
            rounds, self._rounds = self._rounds, self._rounds * (1 + many)
            self._region([header], header)
            self._rounds = rounds
            if not self.leads:
                self._jump(steps, moves, mask, many)
            if ahead is None:
                break
        self._give_up(header, [header])

    def _decided(self, header: str) -> bool:
        """True if the comparison that ends a loop is known."""
        return self._values[self.program.slot(self.program.ends[header][0].value)] is not None

    def _loop(self, header: str, body: Sequence[str]) -> None:
        """Run a loop round by round; skip rounds while its counters advance evenly."""
        seen: list[dict[int, Known]] = []
        masks: list[Mask] = []
        lengths: list[float] = []
        for walked in range(MOST_ROUNDS):
            mask = self._pending.get(header)
            if mask is None or not mask.any():
                return
            seen.append(self._counters(header))
            masks.append(mask)
            steady = len(masks) > 2 and (masks[-1] == masks[-3]).all() and (
                walked > UNEVEN_ROUNDS or lengths[-1] == lengths[-2])
            steps = _even_steps(*seen[-3:]) if steady else None
            ahead = None if steps is None else self._rounds_to_skip(header, steps, seen[-1])
            before_round = self._total(body)
            if steps is None or ahead is None or ahead < 1:
                self._region(body, header)
                lengths.append(self._total(body) - before_round)
            else:
                rounds, held = self._rounds, dict(self._payloads)
                self._rounds = rounds * (1 + ahead)
                self._region(body, header)
                self._rounds = rounds
                moves = {k: _differences(held[k], self._payloads[k]) for k in held}
                self._jump(steps, moves, mask, ahead)
                for noted in (masks, seen, lengths):
                    noted.clear()
            if walked > UNKNOWN_TRIPS and header not in self.program.ends:
                break
        self._give_up(header, body)

    def _give_up(self, header: str, body: Sequence[str]) -> None:
        """Leave a loop whose end is unknown."""
        self.guessed = True
        left = self._pending.pop(header, None)
        if left is None:
            return
        for label in body:
            for target in self.program.blocks[label].successors:
                if target not in self._loops[header]:
                    self._arrive(label, target, left)
                    return

    def _counters(self, header: str) -> dict[int, Known]:
        """Values of the phis of a loop."""
        return {slot: self._values[slot] for slot, _ in self._phis[header]}

    def _total(self, body: Sequence[str]) -> float:
        """A checksum of execution counts that changes equally in equal rounds."""
        return float(sum((k + 1) * self.counts[b].sum() for k, b in enumerate(body)
                         if b in self.counts))

    def _jump(
        self, steps: Mapping[int, Numbers], moves: Mapping[int, Mapping[str, Numbers]],
        mask: Mask, ahead: int,
    ) -> None:
        """Advance counters and payloads by `ahead` rounds, for the subgroups of `mask`."""
        here = 1 if mask.all() else mask[..., None, None]
        for slot, step in steps.items():
            now = self._values[slot]
            if now is not None and step.any():
                self._values[slot] = plus(now, step * ahead * here)
        for slot, fields in moves.items():
            moved = {name: now + fields[name] * ahead * here
                     for name, now in self._payloads[slot].items()
                     if now is not None and name in fields and fields[name].any()}
            self._payloads[slot] = {**self._payloads[slot], **moved}

    def _rounds_to_skip(
        self, header: str, steps: Mapping[int, Numbers], now: Mapping[int, Known]
    ) -> int | None:
        """Rounds that can be skipped before the first of the sample leaves the loop; None if
        unknown.
        """
        end = self.program.ends.get(header)
        if end is None:
            return None
        test, goes_on = end
        left, right = (self._value_and_step(o, steps, now) for o in test.operands)
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

    def _value_and_step(
        self, operand: Operand, steps: Mapping[int, Numbers], now: Mapping[int, Known]
    ) -> tuple[Numbers, Numbers] | None:
        """Value and step of an operand of the end's comparison, at the start of this round."""
        slot = self.program.slot(operand)
        self._values += self.program.initial[len(self._values):]  # of slots added by now
        if operand.local is None or not self._changes(now, operand):
            value = plain(self._values[slot])
            return None if value is None else (value, np.zeros_like(value))
        if slot in now:
            value = plain(now[slot])
            return None if value is None or slot not in steps else (value, steps[slot])
        return self._sum_and_step(operand, steps, now)

    def _changes(self, now: Mapping[int, Known], operand: Operand) -> bool:
        """True if a value is a counter of the loop, or depends on one."""
        made = self.program.makers.get(operand.text)
        return self.program.slot(operand) in now or (
            made is not None and any(self.program.slot(o) in now for o in made.operands))

    def _sum_and_step(
        self, operand: Operand, steps: Mapping[int, Numbers], now: Mapping[int, Known]
    ) -> tuple[Numbers, Numbers] | None:
        """Value and step of a sum or difference; None for other operations."""
        made = self.program.makers[operand.text]
        if made.opcode not in ("add", "sub"):
            return None
        first, second = (self._value_and_step(o, steps, now) for o in made.operands)
        if first is None or second is None:
            return None
        sign = 1 if made.opcode == "add" else -1
        return first[0] + sign * second[0], first[1] + sign * second[1]

    # -- blocks ----------------------------------------------------------------------------------

    def _block(self, label: str, mask: Mask) -> None:
        count = self.counts.setdefault(label, np.zeros(self._shape))
        count += mask * self._rounds
        for step in self._steps[label]:
            self.acts[step.act](step, label, mask)

    def _switch(self, step: Step, label: str, mask: Mask) -> None:
        for target in dict.fromkeys(step.instruction.labels):
            self._arrive(label, target, mask)

    def _branch(self, step: Step, label: str, mask: Mask) -> None:
        """Follow the edges that work-groups take; both, except the fallback, if that is unknown."""
        labels = step.instruction.labels
        if len(labels) == 1:
            self._arrive(label, labels[0], mask)
            return
        condition = plain(self._values[step.operands[0]])
        if condition is None:
            self.guessed = True
            for target in labels:
                if target != step.instruction.fallback:
                    self._arrive(label, target, mask)
            return
        taken = np.broadcast_to((condition != 0).any((2, 3)), self._shape)
        missed = np.broadcast_to((condition == 0).any((2, 3)), self._shape)
        self._arrive(label, labels[0], mask & taken)
        self._arrive(label, labels[1], mask & missed)

    def _arrive(self, source: str, target: str, mask: Mask) -> None:
        """Enter a block with the subgroups of `mask`: set its phis to the values from `source`."""
        if not mask.any():
            return
        incoming = [(slot, places[source], self._values[places[source]])
                    for slot, places in self._phis[target]]
        roots = {slot: self._roots_of([place]) for slot, place, value in incoming if value is None}
        self._roots.update(roots)
        waiting = self._pending.get(target)
        replaced = waiting is None or mask.all() or not waiting.any()
        for slot, _, value in incoming:
            old = self._values[slot]
            if value is None or replaced or old is None:
                self._values[slot] = value if replaced else None
            else:
                self._values[slot] = np.where(mask[..., None, None], full(value), full(old))
        self._pending[target] = mask if waiting is None else waiting | mask

    # -- values ----------------------------------------------------------------------------------

    def _know(self, step: Step, value: Known) -> None:
        """Set the result of a step, and for an unknown one (None) its origins."""
        if step.result is None:
            return
        self._values[step.result] = value
        if value is None:
            self._roots[step.result] = self._roots_of(step.operands)

    def _unknown(self, step: Step, label: str, mask: Mask) -> None:
        self._know(step, None)

    def _compute(self, step: Step, label: str, mask: Mask) -> None:
        self._know(step, step.run([self._values[slot] for slot in step.operands]))

    def _call(self, step: Step, label: str, mask: Mask) -> None:
        i, row = step.instruction, find(step.instruction.callee)
        operands = [plain(self._values[slot]) for slot in step.operands]
        self._know(step, self._answer(i, row.family, row.definition, operands))

    def _answer(
        self, i: Instruction, family: Family, definition: Callable[..., Any] | None,
        operands: Sequence[Numbers | None],
    ) -> Known:
        """Result of a call for an id or a function of integers; None for others, and if unknown."""
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
        """Position of the sampled subgroups, as the definitions of ids take it."""
        x, y, _ = self.grid
        n = self.groups[:, None, None, None]
        return SimpleNamespace(
            group=(n % x, n // x % y, n // (x * y)), grid=self.grid, count=self.subgroups,
            lanes=self.lanes, number=np.arange(self._shape[1])[None, :, None, None],
        )

    # -- origins of unknown numbers --------------------------------------------------------------

    def _roots_of(self, slots: Sequence[int]) -> Roots:
        """Origins that differ between subgroups, on which any of these slots depends."""
        found: set[int] = set()
        made_of = self.program.sources
        self._values += self.program.initial[len(self._values):]  # of slots added by now
        for slot in (one for each in slots for one in made_of.get(each, (each,))):
            known = self._values[slot]
            if known is None:
                found |= self._roots.get(slot, _NONE)
            elif known.shape[0] > 1 or known.shape[1] > 1:
                found.add(self._origin(id(known), known))
        return frozenset(found)

    def _origin(self, name: Any, known: Numbers | Sum) -> int:
        """Index of a known number, which is referenced so that its `id` is not reused."""
        if name not in self._named:
            self._named[name] = len(self._origins)
            self._origins.append(known)
        return self._named[name]

    def _key(self, roots: Roots) -> Numbers:
        """One number per subgroup that identifies the values of these origins."""
        found = self._keys.get(roots)
        if found is None:
            key = np.zeros(self._shape, np.int64)
            for one in sorted(roots):
                key = key * _PRIME
                for term in terms_of(self._origins[one]):
                    key = key + term[:, :, 0, 0]
            found = self._keys[roots] = key
        return found

    # -- messages --------------------------------------------------------------------------------

    def _payload(self, step: Step, label: str, mask: Mask) -> None:
        """Set a payload, or one of its fields."""
        names = (p.name for p in find(step.instruction.callee).parameters)
        named = {name: plain(self._values[slot])
                 for name, slot in zip(names, step.operands, strict=True)}
        first = step.operands[0]
        if "base" in named:
            self._set_payload(step, named)
        elif "field" in named:
            payload = self._payloads.get(first)
            which = named["field"]
            if payload is None or which is None:
                return
            name = FIELDS[int(which.flat[0]) - 1]
            old, new = payload.get(name), named["value"]
            adds = named["add"] is not None and bool(named["add"].any())
            both = adds and old is not None and new is not None
            put = old + new if both and old is not None and new is not None else new
            self._payloads[first] = {**payload, name: put}
            if new is None:
                self._roots[first] = self._roots_of(step.operands)
        elif first in self._payloads:
            self._set_payload(step, self._payloads[first])

    def _set_payload(self, step: Step, payload: Payload) -> None:
        """Set the payload that a step returns, and its origins."""
        slot = self.program.named(str(step.instruction.result))
        self._payloads[slot] = payload
        self._roots[slot] = self._roots_of(step.operands)

    def _message(self, step: Step, label: str, mask: Mask) -> None:
        """Note a message with its addresses, mask and number of repetitions."""
        site = step.site
        assert site is not None
        payload = self._payloads.get(step.operands[0])
        placing = [step.operands[k] for k in site.placed]
        known = payload.values() if payload else [self._values[slot] for slot in placing]
        key = None
        if not site.is_shared and any(value is None for value in known):
            key = self._key(self._roots_of(placing))
        arguments = [self._values[slot] for slot in step.operands]
        self.messages.append(Message(site, arguments, mask, self._rounds, payload, key))
        if site.is_shared:
            self._shared_access(step, label, mask)
        else:
            self._know(step, None)

    def _shared_access(self, step: Step, label: str, mask: Mask) -> None:
        """Follow which arguments data in shared local memory comes from, instead of its values."""
        opcode = step.instruction.opcode
        if self.program.shared_decides and opcode == "store":
            self._shared |= self._roots_of(step.operands[:1])
        self._know(step, None)
        if step.result is not None and opcode == "load":
            stored = self._key(self._shared)[:, :1, None, None]
            self._roots[step.result] |= {self._origin(self._shared, stored)}


_NONE: Roots = frozenset()


def _differences(before: Mapping[Any, Known], after: Mapping[Any, Known]) -> dict[Any, Numbers]:
    """Differences of the values that are known in both."""
    return {k: difference(b, a) for k, b in after.items()
            if b is not None and (a := before.get(k)) is not None}


def _even_steps(
    one: Mapping[int, Known], two: Mapping[int, Known], three: Mapping[int, Known]
) -> dict[int, Numbers] | None:
    """Steps of counters; None if one of them is uneven."""
    first, second = _differences(one, two), _differences(two, three)
    even = all(np.array_equal(first[k], second[k]) for k in first.keys() & second.keys())
    return {k: second[k] for k in first.keys() & second.keys()} if even else None


_PRIME = 1_000_003
_NEGATED = {"eq": "ne", "ne": "eq", "slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt",
            "ult": "uge", "ule": "ugt", "ugt": "ule", "uge": "ult"}


def _lifted(value: Any) -> Numbers:
    """Convert the result of a definition to four axes; its last axis is the lane."""
    array = np.asarray(value, np.int64)
    return array.swapaxes(2, 3) if array.ndim == 4 else array.reshape(1, 1, -1, 1)
