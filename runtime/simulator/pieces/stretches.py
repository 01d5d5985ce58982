"""Outline long straight-line code of a host function, so that LLVM's time is linear in its length.

    %x = add i32 %n, 1                     call @xe.stretch.0(ptr %shared)
    call @piece(i32 %x)             ->     %x = load i32, ptr %shared + 8
    %last = icmp eq i32 %x, 7              %last = icmp eq i32 %x, 7

LLVM's scheduler and register allocator take time for each call and each value that is live across
it.  Values and arrays that a stretch shares with the rest of the function are in memory, each at a
position of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from triton_xe.llvm.builder import Builder
from triton_xe.llvm.records import TERMINATORS, Block, Function, Instruction, Operand, constant
from triton_xe.llvm.types import I8, I64, PTR, VOID, Type, array
from triton_xe.runtime.simulator.analysis.assign_offsets import LINE
from triton_xe.runtime.simulator.library.symbols import piece_symbol

LONG = 1_500
"""Instructions of a function from which on stretches are outlined."""
LEAST = 48
"""Instructions of the shortest stretch."""
_STAYS = TERMINATORS | {"phi", "alloca"}
_SHARED = Operand(PTR, "%shared")


def outlined_stretches(function: Function, attributes: str) -> list[Function]:
    """A function with its stretches as functions of their own; itself if it is short."""
    if sum(1 for _ in function.instructions()) <= LONG:
        return [function]
    return _Outlined(function, attributes).functions()


@dataclass(eq=False)
class _Stretch:
    """Neighbouring instructions of a block."""

    body: list[Instruction] = field(default_factory=list)


Item = Instruction | _Stretch


class _Outlined:
    """The stretches of one function, and the memory that they share."""

    def __init__(self, function: Function, attributes: str) -> None:
        self.function, self.attributes = function, attributes
        self.items = {b.label: list(_items(b)) for b in function.blocks}
        self.where: dict[str, _Stretch | None] = dict.fromkeys(n for n, _ in function.parameters)
        """The stretch that computes a value, None if the rest of the function does."""
        self.types: dict[str, Type] = dict(function.parameters)
        self.arrays: dict[str, Instruction] = {}
        """Arrays in the frame, which stretches may use at their address in the shared memory."""
        for stretch, i in self._instructions():
            if i.result is not None:
                self.where[i.result], self.types[i.result] = stretch, i.type
            if i.opcode == "alloca" and not i.operands:
                self.arrays[str(i.result)] = i
        self.users: dict[str, set[_Stretch | None]] = defaultdict(set)
        for stretch, i in self._instructions():
            for name in i.locals():
                self.users[name].add(stretch)
        self.offsets, self.nbytes = self._offsets()

    def functions(self) -> list[Function]:
        rest, made = Builder(replace(self.function, blocks=[]), "stretch"), list[Function]()
        for k, block in enumerate(self.function.blocks):
            rest.start(block.label)
            if not k:
                rest.append(Instruction("alloca", PTR, [], _SHARED.text, align=LINE,
                                        element=array(max(1, self.nbytes), I8)))
            phis, items = block.phis, self.items[block.label]
            rest.block.instructions += phis
            self._store(rest, [str(i.result) for i in phis])
            first = _first_after_begin(items) if not k else -1
            for n, item in enumerate(items[len(phis):]):
                if n == first:
                    self._store(rest, [name for name, _ in self.function.parameters])
                if isinstance(item, _Stretch):
                    made.append(self._stretch(item, len(made)))
                    rest.call(made[-1].name, VOID, [_SHARED])
                    self._load(rest, [str(i.result) for i in item.body], None)
                elif item.opcode == "alloca" and item.result in self.offsets:
                    self._array(rest, item.result)
                else:
                    rest.append(item)
                    self._store(rest, [str(item.result)])
        return [rest.function, *made]

    def _instructions(self) -> Iterator[tuple[_Stretch | None, Instruction]]:
        for items in self.items.values():
            for item in items:
                if isinstance(item, _Stretch):
                    yield from ((item, i) for i in item.body)
                else:
                    yield None, item

    def _offsets(self) -> tuple[dict[str, int], int]:
        """Positions of the shared values and arrays, and the bytes of all."""
        found, end = dict[str, int](), 0
        for name, t in self.types.items():
            if self.users[name] <= {self.where[name]}:
                continue
            array = self.arrays.get(name)
            align = t.scalar.size if array is None else max(array.align, 16)
            found[name] = -(-end // align) * align
            end = found[name] + (array.element or t if array is not None else t).size
        return found, end

    def _stretch(self, stretch: _Stretch, number: int) -> Function:
        """The function of a stretch: values of others are loaded where they are first used."""
        b = Builder(Function(
            piece_symbol(f"{self.function.name}.stretch", number), VOID, [(_SHARED.text, PTR)],
            [Block("%entry")], is_internal=True, attributes=self.attributes), "stretch")
        known: set[str] = set()
        for i in stretch.body:
            others = [x for x in dict.fromkeys(i.locals()) if x not in known]
            known.update(others, [str(i.result)])
            self._load(b, others, stretch)
            b.append(i)
            self._store(b, [str(i.result)])
        b.ret()
        return b.function

    def _load(self, b: Builder, names: Iterable[str], user: _Stretch | None) -> None:
        """Load the values that `user` takes from others."""
        for name in names:
            if name in self.arrays:
                self._array(b, name)
            elif name in self.offsets and user in self.users[name]:
                t = self.types[name]
                b.append(Instruction("load", t, [self._at(b, name)], name, align=t.scalar.size))

    def _store(self, b: Builder, names: Sequence[str]) -> None:
        """Store the values that others use."""
        for name in names:
            if name in self.offsets and name not in self.arrays:
                t = self.types[name]
                b.store(Operand(t, name), self._at(b, name), align=t.scalar.size)

    def _array(self, b: Builder, name: str) -> None:
        at = constant(I64, self.offsets[name])
        b.append(Instruction("getelementptr", PTR, [_SHARED, at], name, element=I8))

    def _at(self, b: Builder, name: str) -> Operand:
        return b.at(_SHARED, self.offsets[name])


def _items(block: Block) -> Iterator[Item]:
    """The instructions of a block, with its stretches."""
    row: list[Instruction] = []
    for i in block.instructions:
        if _can_move(i):
            row.append(i)
            continue
        yield from [_Stretch(row)] if len(row) >= LEAST else row
        yield i
        row = []


def _first_after_begin(items: Sequence[Item]) -> int:
    """Index of the first item of an entry after the beginning of its coroutine, if it is one.

    LLVM copies arrays that are written before.
    """
    return 1 + max((k for k, i in enumerate(items) if isinstance(i, Instruction)
                    and i.callee.startswith("llvm.coro.begin")), default=-1)


def _can_move(i: Instruction) -> bool:
    """True if an instruction has the same effect in another function."""
    kinds = {i.type.kind, *(o.type.kind for o in i.operands)}
    return i.opcode not in _STAYS and kinds <= {"int", "float", "ptr", "vec", "void"} and not (
        i.callee.startswith("llvm.coro."))
