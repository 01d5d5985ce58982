"""Facts about a kernel's code that a walk needs, computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import reached
from triton_xe.runtime.simulator.estimate.computing import Computed, computed, is_same
from triton_xe.runtime.simulator.estimate.numbers import Known, constant
from triton_xe.runtime.simulator.estimate.sites import ACCESSES, Site, is_message

_ADVANCES = frozenset("add sub getelementptr inttoptr ptrtoint freeze".split())
"""Instructions that keep the step of a counter constant."""


@dataclass(frozen=True, eq=False)
class Step:
    """Action of a walk for one instruction; values are identified by their slots."""

    act: str
    instruction: Instruction
    operands: tuple[int, ...]
    result: int | None
    """Slot of the result, if anything depends on it."""
    site: Site | None
    run: Computed


class Program:
    """A kernel's blocks in walk order, its loops, and the values that have to be followed.

    Followed values are those on which the addresses of messages or the execution counts of blocks
    depend.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.facts = Facts(function)
        self.blocks, self.makers = self.facts.blocks, self.facts.makers
        self.order = function.reverse_postorder()
        self.loops = function.loops()
        self.initial: list[Known] = []
        """Initial value of each slot; constants are known."""
        self._slots: dict[tuple[int, str], int] = {}
        for name, _ in function.parameters:
            self.named(name)

    def slot(self, operand: Operand) -> int:
        """Slot of an operand's value."""
        name = operand.local
        if name is not None:
            return self.named(name)
        key = (id(operand.type), operand.text)
        found = self._slots.get(key)
        if found is None:
            found = self._slots[key] = len(self.initial)
            self.initial.append(constant(operand))
        return found

    def named(self, name: str) -> int:
        """Slot of a value; equal values share one."""
        found = self._slots.get((0, name))
        made = self.makers.get(name) if found is None else None
        if made is not None and is_same(made):
            found = self._slots[0, name] = self.slot(made.operands[0])
        if found is None:
            found = self._slots[0, name] = len(self.initial)
            self.initial.append(None)
        return found

    @cached_property
    def sites(self) -> dict[int, Site]:
        """The messages, by `id` of their instruction, without accesses of arrays in registers."""
        found: dict[int, Site] = {}
        for i in self.function.instructions():
            if i.opcode in ACCESSES or (i.opcode == "call" and is_message(i)):
                site = Site(i)
                if site.space or i.opcode == "call":
                    found[id(i)] = site
        return found

    @cached_property
    def needed(self) -> frozenset[str]:
        """Results on which a branch or a message's address depends, also through shared memory."""
        shared = [i.operands[0].text for i in self.function.instructions()
                  if i.opcode == "store" and self._is_shared(i)]

        def sources(name: str) -> list[str]:
            made = self.makers.get(name)
            if made is None:
                return []
            site = self.sites.get(id(made))
            other = -1 if site is None else site.other_index
            stored = shared if made.opcode == "load" and self._is_shared(made) else []
            return stored + [o.text for k, o in enumerate(made.operands) if k != other]

        names = (name for i in self.function.instructions() for name in self._deciding(i))
        return frozenset(self.makers.keys() & reached(names, sources))

    def _is_shared(self, i: Instruction) -> bool:
        site = self.sites.get(id(i))
        return site is not None and site.is_shared

    def _deciding(self, i: Instruction) -> Iterator[str]:
        """Operands that determine the target of a branch, or the address of a message."""
        operands: Sequence[Operand] = ()
        site = self.sites.get(id(i))
        if site is not None and i.opcode == "call":
            masked = () if site.masked is None else (i.operands[site.masked],)
            operands = [*(i.operands[k] for k in site.placed), *masked]
        elif site is not None and not site.is_shared:
            operands = [i.operands[site.at]]
        elif i.opcode in ("br", "switch"):
            operands = i.operands[:1]
        elif i.opcode == "call" and find(i.callee).family is Family.PAYLOAD:
            operands = i.operands
        yield from (o.local for o in operands if o.local is not None)

    @cached_property
    def shared_decides(self) -> bool:
        """True if a needed result was loaded from shared local memory."""
        made = (self.makers[name] for name in self.needed)
        return any(i.opcode == "load" and self._is_shared(i) for i in made)

    # -- what depends on memory ------------------------------------------------------------------

    @cached_property
    def unknown(self) -> frozenset[str]:
        """Needed results that are unknown, because they depend on loaded data."""
        seeds = [name for name in self.needed if self._is_loaded(self.makers[name])]
        return frozenset(reached(seeds, lambda name: [
            i.value.text for i in self.facts.users.get(name, ())
            if i.result in self.needed and self._depends(i, name)]))

    def _depends(self, i: Instruction, name: str) -> bool:
        """True if the result of an instruction depends on that operand of it."""
        only_first = i.opcode == "shufflevector" and max(i.indices) < i.operands[0].type.count
        return not only_first or i.operands[0].text == name

    def _is_loaded(self, i: Instruction) -> bool:
        return id(i) in self.sites or i.opcode in ("load", "alloca")

    @cached_property
    def sources(self) -> dict[int, frozenset[int]]:
        """Slots of the loaded or known values on which each unknown value depends."""
        found: dict[int, frozenset[int]] = {}
        for i in (i for label in self.order for i in self.blocks[label].instructions):
            if i.result in self.unknown and not (self._is_loaded(i) or i.opcode == "phi"):
                varying = [self.slot(o) for o in i.operands if o.local is not None]
                found[self.named(str(i.result))] = frozenset().union(
                    *(found.get(slot, {slot}) for slot in varying))
        return found

    # -- steps -----------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> dict[str, list[Step]]:
        """Steps of each block; phis are set by the predecessors."""
        return {b.label: [s for i in b.instructions if (s := self._step(i, b)) is not None]
                for b in self.function.blocks}

    @cached_property
    def phis(self) -> dict[str, list[tuple[int, dict[str, int]]]]:
        """Slots of the needed phis of each block, and of their incoming values by predecessor."""
        return {b.label: [
            (self.named(str(i.result)),
             {source: self.slot(o) for source, o in zip(i.labels, i.operands, strict=True)})
            for i in b.phis if i.result in self.needed] for b in self.function.blocks}

    def _step(self, i: Instruction, block: Block) -> Step | None:
        """The step of a walk for an instruction; None if a walk need not follow it."""
        act = self._act(i)
        if not act:
            return None
        result = self.named(str(i.result)) if i.result in self.needed else None
        owns = i.opcode == "insertelement" and self._owns(i, block)
        return Step(act, i, tuple(self.slot(o) for o in i.operands), result,
                    self.sites.get(id(i)), computed(i, owns))

    def _owns(self, i: Instruction, block: Block) -> bool:
        """True if the vector that an element is inserted into has no other use."""
        vector = self.facts.maker(i.operands[0])
        return vector is not None and vector.opcode == "insertelement" and (
            len(self.facts.users[i.operands[0].text]) == 1 and vector in block.instructions
            and not vector.operands[0].is_undefined)

    def _act(self, i: Instruction) -> str:
        """Kind of a step; empty for instructions that a walk need not follow."""
        if i.opcode in ("br", "switch"):
            return i.opcode
        site = self.sites.get(id(i))
        if site is not None:
            return self._access(site) if self.is_plain(site) else "message"
        if i.opcode == "call" and find(i.callee).family is Family.PAYLOAD:
            return "payload"
        if i.result not in self.needed or i.opcode == "phi" or is_same(i):
            return ""
        if i.result in self.unknown and not self._is_loaded(i):
            return ""
        return {"call": "call", "load": "unknown", "alloca": "unknown"}.get(i.opcode, "compute")

    def is_plain(self, site: Site) -> bool:
        """True if all lanes access shared local memory at an address that nothing else needs."""
        return site.is_shared and site.masked is None and (
            site.instruction.operands[site.at].local not in self.needed)

    def _access(self, site: Site) -> str:
        """Action for an access of which only the bytes count."""
        i = site.instruction
        kept = i.opcode == "store" and self.shared_decides
        return "shared" if kept or i.result in self.needed else ""

    @cached_property
    def shared_bytes(self) -> dict[str, int]:
        """Bytes that a lane moves in each block by plain accesses to shared local memory."""
        return {b.label: sum(self.plain_bytes(i) for i in b.instructions)
                for b in self.function.blocks}

    def plain_bytes(self, i: Instruction) -> int:
        """Bytes of a plain access to shared local memory; 0 for other instructions."""
        site = self.sites.get(id(i))
        return site.size(1) if site is not None and self.is_plain(site) else 0

    # -- loops -----------------------------------------------------------------------------------

    @cached_property
    def ends(self) -> dict[str, tuple[Instruction, bool]]:
        """Comparison that ends each loop, and True if the loop continues when it is true."""
        found: dict[str, tuple[Instruction, bool]] = {}
        for header, inside in self.loops.items():
            for label in (b for b in self.order if b in inside):
                last = self.blocks[label].instructions[-1]
                if last.opcode == "br" and len(last.labels) == 2:
                    stays = [target in inside for target in last.labels]
                    test = self.makers.get(last.operands[0].text)
                    if stays[0] != stays[1] and test is not None and test.opcode == "icmp":
                        found.setdefault(header, (test, stays[0]))
        return found

    @cached_property
    def even(self) -> frozenset[str]:
        """Loops of one block whose counters and payloads advance by loop-invariant steps."""
        return frozenset(h for h, inside in self.loops.items()
                         if inside == {h} and h in self.ends and self._is_even(self.blocks[h]))

    def _is_even(self, block: Block) -> bool:
        """True if each iteration of a loop advances counters and payloads by the same amount."""
        changing = _changing(block)
        sets = [i for i in block.instructions
                if i.opcode == "call" and find(i.callee).family is Family.PAYLOAD]
        return all(
            _advances(i.operands[i.labels.index(block.label)], str(i.result), changing)
            for i in block.phis if i.result in self.needed and i.type.scalar.kind in ("int", "ptr")
        ) and all(
            find(i.callee).has("field") and i.operands[3].text in ("true", "1")
            and i.operands[2].text not in changing for i in sets)


def _changing(block: Block) -> dict[str, Instruction]:
    """Instructions of the values that change between rounds of a loop of one block."""
    found: dict[str, Instruction] = {}
    for i in block.instructions:
        if i.result and (i.opcode in ("phi", "load", "call", "atomicrmw", "cmpxchg") or any(
                name in found for name in i.locals())):
            found[i.result] = i
    return found


def _advances(operand: Operand, phi: str, changing: dict[str, Instruction]) -> bool:
    """True if a value is a phi plus a loop-invariant number."""
    name = operand.text
    while name != phi and name in changing:
        i = changing[name]
        made_of = [o.text for o in i.operands if o.text in changing]
        if i.opcode not in _ADVANCES or len(made_of) != 1 or (
                i.opcode in ("sub", "getelementptr") and made_of[0] != i.operands[0].text):
            return False
        name = made_of[0]
    return name == phi
