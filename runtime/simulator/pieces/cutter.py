"""Cut the vector work of a block into pieces: expressions whose results are stored in memory.

A piece is an operation with the operations before it that only it uses:

    %p = shufflevector %x ...                    piece %s of %x, %y:
    %q = fmul %p, %y                       ->      shufflevector, fmul, fadd
    %s = fadd %q, %y                             piece of %s, %at: store
    store %s, ptr %at

A vector that several pieces use is in memory, and so are slices of it.  Scalars stay in the
function, and splats are recomputed in each piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from triton_xe.llvm.records import (
    ACCESSES,
    ASSEMBLY,
    TERMINATORS,
    Block,
    Instruction,
    Operand,
    is_spelled,
)
from triton_xe.llvm.types import VOID, Type
from triton_xe.runtime.simulator.library.symbols import is_symbol, parts
from triton_xe.runtime.simulator.pieces.costs import HostCosts, is_slice, is_splat

MOST = 200
"""Approximate number of machine instructions of a piece."""
_STAYS = TERMINATORS | {"phi", "alloca", "extractvalue", "insertvalue"}
_WRITES = ("llvm.masked.store", "llvm.masked.scatter", "llvm.mem", "llvm.coro")
_READS = ("llvm.masked.load", "llvm.masked.gather", "xe.gather", "xe.load_parts",
          "xe.load_masked")
_SIMPLE = frozenset("int float ptr vec void".split())
"""Kinds of types that pieces of a function compute with."""
_PURE_FAMILIES = frozenset({"math", "shuffle"})


@dataclass(eq=False)
class Piece:
    """Operations whose last result, or an operand or constant, is `value`.

    A vector is stored to the memory of the value `to`; a scalar is returned by the call of the
    piece.
    """

    body: list[Instruction]
    value: Operand | None
    to: str | None = None

    def inputs(self) -> Iterator[Operand]:
        """Values that the body uses and does not compute, as often as it uses them."""
        made = {i.result for i in self.body}
        used = (o for i in self.body for o in i.operands)
        yield from (o for o in used if o.local and o.local not in made)
        if self.value is not None and self.value.local and self.value.local not in made:
            yield self.value


@dataclass(frozen=True)
class Place:
    """Position of a value in memory: `offset` bytes into the memory of the value `root`."""

    root: str
    offset: int = 0


@dataclass(eq=False)
class Element:
    """One element of a value in memory, as a scalar of the function."""

    result: Operand
    of: Place
    name: str


Item = Instruction | Piece | Element


@dataclass
class _Tree:
    """Operations that are delayed until the only user of the last result."""

    body: list[Instruction]
    cost: int
    reads: bool


@dataclass
class Cutter:
    """Cutter of a function's blocks, which come in an order where values are defined before use."""

    blocks: list[Block]
    costs: HostCosts
    places: dict[str, Place] = field(default_factory=dict)
    """Positions of all vectors in memory."""
    types: dict[str, Type] = field(default_factory=dict)
    """Types of the roots."""
    cheap: dict[str, list[Instruction]] = field(default_factory=dict)
    """Vectors that are recomputed at each use, with the instructions for that."""
    waiting: dict[str, _Tree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.uses: Counter[str] = Counter()
        self.user: dict[str, str] = {}
        """The label of the block that uses a value, "" if there are several or a phi does."""
        for block in self.blocks:
            for i in block.instructions:
                for name in set(i.locals()):
                    self.uses[name] += 1
                    label = "" if i.opcode == "phi" else block.label
                    self.user[name] = label if self.user.get(name, label) == label else ""

    def root(self, x: Operand) -> str:
        """Give a value memory of its own."""
        assert x.local is not None
        self.places[x.local], self.types[x.local] = Place(x.local), x.type
        return x.local

    def cut(self, block: Block) -> list[Item]:
        """Cut a block into pieces."""
        self.block, self.items = block, list[Item]()
        for i in block.instructions:
            if self._note_offset(i):
                continue
            if i.opcode in _STAYS or not self._works_on_vectors(i):
                self._keep(i)
            elif not (self._note_splat(i) or self._note_slice(i) or self._note_element(i)):
                self._work(i)
        assert not self.waiting
        return self.items

    def _works_on_vectors(self, i: Instruction) -> bool:
        found = {i.type.kind, *(o.type.kind for o in i.operands)}
        return found <= _SIMPLE and ("vec" in found or any(x in self.waiting for x in i.locals()))

    def _keep(self, i: Instruction) -> None:
        """Keep an instruction in the function."""
        self._write_out(x for x in i.locals() if x in self.waiting)
        if _writes(i):
            self._write_out(x for x, tree in self.waiting.items() if tree.reads)
        self.items.append(i)
        if i.type.kind == "vec":
            self.root(i.value)

    def _note_splat(self, i: Instruction) -> bool:
        """Note a splat of a scalar of the function; False if `i` is none."""
        first = i.operands[0]
        if i.opcode == "insertelement":
            number, index = i.operands[1:]
            found = (first.is_undefined and index.integer_value() == 0
                     and number.text not in self.waiting)
            own = [i]
        else:
            found = i.opcode == "shufflevector" and is_splat(i) and first.text in self.cheap
            own = [*self.cheap.get(first.text, ()), i]
        if found:
            assert i.result is not None
            self.cheap[i.result] = own
        return found

    def _note_offset(self, i: Instruction) -> bool:
        """Note a pointer at a known distance from another, for users to recompute; False if none.
        """
        if i.opcode != "getelementptr" or i.type.kind != "ptr" or i.result is None:
            return False
        base, *indices = i.operands
        found = (self.user.get(i.result) == self.block.label and base.text not in self.waiting
                 and all(x.local is None for x in indices))
        if found:
            self.cheap[i.result] = [*self.cheap.get(base.text, ()), i]
        return found

    def _note_slice(self, i: Instruction) -> bool:
        """Note a slice of a vector in memory, which is read from there; False if `i` is none."""
        if i.opcode != "shufflevector" or not is_slice(i):
            return False
        first, second = i.operands
        start, n = i.indices[0], first.type.count
        x, start = (first, start) if start < n else (second, start - n)
        if x.text not in self.places or start + len(i.indices) > n:
            return False
        assert i.result is not None
        place = self.places[x.text]
        self.places[i.result] = Place(place.root, place.offset + start * i.type.scalar.size)
        return True

    def _note_element(self, i: Instruction) -> bool:
        """Append a load for an extracted element of a vector in memory; False if `i` is none."""
        if i.opcode != "extractelement" or i.operands[0].text not in self.places:
            return False
        place, index = self.places[i.operands[0].text], i.operands[1].integer_value()
        if index is None or index >= i.operands[0].type.count:
            return False
        self.items.append(Element(
            i.value, Place(place.root, place.offset + index * i.type.size), i.operands[0].text))
        return True

    def _work(self, i: Instruction) -> None:
        """Make a tree of an instruction; a result with one use waits to become part of its user."""
        tree = self._tree(i)
        writes = _writes(i)
        if writes:
            self._write_out(x for x, other in self.waiting.items() if other.reads)
        name = i.result
        if name and not writes and self.uses[name] == 1 and self.user[name] == self.block.label:
            self.waiting[name] = tree
        elif name is None or name in self.uses or writes:
            self._emit(tree)

    def _tree(self, i: Instruction) -> _Tree:
        """An operation with the delayed operations that it uses, up to the size of a piece."""
        own = self.costs.cost(i)
        used = dict.fromkeys(i.locals())
        names = dict.fromkeys(x for x in used if x in self.waiting)
        while names and own + sum(self.waiting[x].cost for x in names) > MOST:
            largest = max(names, key=lambda x: self.waiting[x].cost)
            del names[largest]
            self._write_out([largest])
        trees = [self.waiting.pop(x) for x in names]
        bodies = [*(tree.body for tree in trees), *(self.cheap[x] for x in used if x in self.cheap)]
        body = trees[0].body if trees and len(bodies) == 1 else list(
            {x.result: x for body in bodies for x in body}.values())
        body.append(i)
        return _Tree(body, own + sum(tree.cost for tree in trees),
                     _reads(i) or any(tree.reads for tree in trees))

    def _write_out(self, names: Iterable[str]) -> None:
        """Emit delayed trees, if they are still delayed."""
        for name in list(names):
            if name in self.waiting:
                self._emit(self.waiting.pop(name))

    def _emit(self, tree: _Tree) -> None:
        """Append a tree as a piece; its vector result gets memory."""
        last = tree.body[-1]
        value = last.value if last.result else None
        to = self.root(value) if value is not None and value.type.kind == "vec" else None
        self.items.append(Piece(tree.body, value, to))

    def copied(self, x: Operand, to: str) -> Piece:
        """A piece that copies a value to the memory of another one."""
        return Piece(list(self.cheap.get(x.text, ())), x, to)


def _writes(i: Instruction) -> bool:
    """True if an instruction may write memory or has another side effect."""
    if i.opcode == "load":
        return bool(i.flags or i.orderings)
    if i.opcode != "call":
        return i.opcode in ACCESSES or i.opcode == "fence"
    if i.callee.startswith("llvm."):
        return i.callee.startswith(_WRITES)
    if is_spelled(i.callee):
        return not i.callee.startswith(ASSEMBLY) or "memory" in i.callee
    return not (i.callee.startswith(_READS)
                or (is_symbol(i.callee) and parts(i.callee)[0] in _PURE_FAMILIES))


def _reads(i: Instruction) -> bool:
    return i.opcode == "load" or (i.opcode == "call" and i.callee.startswith(_READS))


def with_own_edges(blocks: Sequence[Block]) -> list[Block]:
    """Split edges from a branch to blocks with vector phis.

    The memory of a phi can be written on such an edge.  Before the branch it may still be live for
    the other successor.
    """
    has_phis = {b.label: any(i.type.kind == "vec" for i in b.phis) for b in blocks}
    edges: dict[tuple[str, str], str] = {}
    made: list[Block] = []
    for block in blocks:
        *body, last = block.instructions
        ways = dict.fromkeys(x for x in block.successors if has_phis[x])
        new = {x: f"{block.label}.to.{x[1:]}" for x in ways if len(set(block.successors)) > 1}
        edges |= {(block.label, x): label for x, label in new.items()}
        last = replace(last, labels=[new.get(x, x) for x in last.labels])
        made += [Block(block.label, [*body, last]), *(
            Block(label, [Instruction("br", VOID, [], labels=[x])]) for x, label in new.items())]
    return [Block(b.label, [
        i if i.opcode != "phi" else replace(
            i, labels=[edges.get((x, b.label), x) for x in i.labels])
        for i in b.instructions]) for b in made]
