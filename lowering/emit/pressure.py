"""Estimate the bytes of registers that a kernel needs at once, from the emitted code.

A value is live from its instruction to its last use; if a loop carries it, to the end of the loop.
Private memory counts like the values stored in it.  The need of a called function counts at the
call.  A value that all lanes share takes the space of one lane.  Intel's compiler reorders
instructions, so this is an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from triton_xe import llvm as ir
from triton_xe.llvm import Function, Instruction, Module


def pressure(module: Module, function: Function, lanes: int) -> int:
    """Most bytes of values that live at the same time."""
    return _Pressure(module, lanes).of(function)


class _Pressure:
    """Most bytes of a subgroup that are live at once, with those of called functions."""

    def __init__(self, module: Module, lanes: int) -> None:
        self.module = module
        self.lanes = lanes
        self.inside: dict[str, int] = {}
        """Results for functions that were visited before."""

    def of(self, function: Function) -> int:
        order = list(function.instructions())
        first, last = _lives(function, order)
        for start, end in sorted(_loops(function), reverse=True):
            for made, until in last.items():
                if first[made] < start <= until < end:
                    last[made] = end
        change = [0] * (len(order) + 1)
        varying, known = _varying(function, order), dict[ir.Type, int]()
        for made, until in last.items():
            value = order[made]
            size = _size(value, known) * (self.lanes if value.result in varying else 1)
            change[first[made]] += size
            change[until] -= size
        for n, call, callee in self._calls(order):
            if callee.name not in self.inside:
                self.inside[callee.name] = self.of(callee)
            more = max(0, self.inside[callee.name] - _size(call, known) * self.lanes)
            change[n] += more
            change[n + 1] -= more
        return max(accumulate(change[:-1]), default=0)

    def _calls(self, order: list[Instruction]) -> Iterator[tuple[int, Instruction, Function]]:
        """Calls, with their numbers, of functions of the module, which are inlined."""
        for n, i in enumerate(order):
            callee = self.module.functions.get(i.callee)
            if callee is not None:
                yield n, i, callee


def _lives(
    function: Function, order: list[Instruction]
) -> tuple[dict[int, int], dict[int, int]]:
    """Index of the first and last instruction of each value's lifetime, ignoring loops."""
    place = {i.result: n for n, i in enumerate(order) if i.result is not None}
    ends = {label: end for label, _, end in _spans(function)}
    first = {n: n for n, i in enumerate(order) if i.opcode != "alloca"}
    last = dict(first)
    for n, user in enumerate(order):
        for k, value in enumerate(user.operands):
            made = place.get(value.text)
            _use(made, ends[user.labels[k]] if user.opcode == "phi" else n, first, last)
            if made is not None and order[made].opcode == "getelementptr":
                # stands for its memory too
                _use(place.get(order[made].operands[0].text), n, first, last)
    return first, last


def _use(definition: int | None, at: int, first: dict[int, int], last: dict[int, int]) -> None:
    """Extend the life of instruction number `definition` to position `at`, unless it is None."""
    if definition is None:
        return
    if definition not in first:
        first[definition] = at
    if last.get(definition, -1) < at:
        last[definition] = at


def _spans(function: Function) -> Iterator[tuple[str, int, int]]:
    """Label, first and last instruction of each block."""
    start = 0
    for block in function.blocks:
        yield block.label, start, start + len(block.instructions) - 1
        start += len(block.instructions)


def _loops(function: Function) -> Iterator[tuple[int, int]]:
    """The first and last instruction of each loop."""
    starts = {label: start for label, start, _ in _spans(function)}
    for block, (_, _, end) in zip(function.blocks, _spans(function), strict=True):
        for target in block.successors:
            if starts[target] <= end:
                yield starts[target], end


def _varying(function: Function, order: list[Instruction]) -> set[str]:
    """Values that may differ between lanes; arguments of called functions are assumed to.

    Results of phis do not count: `ModuleState.carried_bytes` has what loops carry.
    """
    found = set[str]() if function.is_kernel else {name for name, _ in function.parameters}
    for i in order:
        if i.result is not None and i.opcode != "phi" and (
                (i.opcode in _MAY_VARY and _varies(i)) or any(o.text in found for o in i.operands)):
            found.add(i.result)
    return found


_MAY_VARY = frozenset(("load", "call", "alloca"))


def _varies(i: Instruction) -> bool:
    """True if the result of a load or a call may differ between lanes even for equal operands."""
    if i.opcode == "alloca" or i.type.kind == "vec":
        return True
    return i.opcode == "call" and (  # assembly may ask for the lane, too
        i.callee == ir.ASSEMBLY or "sub_group_local_id" in i.callee)


def _size(i: Instruction, known: dict[ir.Type, int]) -> int:
    """Bytes of one lane; `known` are those of types."""
    if i.opcode == "getelementptr":
        return 0
    if i.opcode == "load" and i.type.kind == "int":
        return max(4, _bytes(i.type))  # a gather brings each element in a word of its own
    kind = i.element if i.opcode == "alloca" and i.element is not None else i.type
    size = known.get(kind)
    if size is None:
        size = known[kind] = _bytes(kind)
    return size


def _bytes(kind: ir.Type) -> int:
    if kind.kind in ("void", "ptr"):
        return 0
    if kind.kind == "struct":
        return sum(map(_bytes, kind.fields))
    return kind.lanes * kind.scalar.bits // 8
