"""Counts of a kernel's hardware messages in its main loop, read from its LLVM IR text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from triton_xe.intrinsics import find
from triton_xe.intrinsics.definitions import block_2d, dpas, memory

_LABEL = re.compile(r'^"?([\w.$-]+)"?:')
_BRANCH = re.compile(r'label %"?([\w.$-]+)"?')
_CALLEE = re.compile(r'@"?([\w.]+)"?\(')
_KINDS = {
    dpas.dpas: "dpas", block_2d.block_read: "block_loads", block_2d.block_prefetch: "prefetches",
    memory.masked_load: "gathers", memory.load: "gathers",
}
_GATHER = re.compile(r"= load .*addrspace\(1\)")


@dataclass(frozen=True)
class LoopCounts:
    """Messages of one subgroup in one iteration of the loop."""

    dpas: int = 0
    block_loads: int = 0
    prefetches: int = 0
    gathers: int = 0


def main_loop(llvm_ir: str) -> LoopCounts:
    """Counts of the loop with the most DPAS, then block loads; all zero without any loop.

    If a kernel has two versions of the loop, with and without block loads, the one with block loads
    counts.
    """
    loops = [_count(body) for body in _loop_bodies(llvm_ir)]
    return max(loops, key=lambda c: (c.dpas, c.block_loads, -c.gathers), default=LoopCounts())


def _loop_bodies(text: str) -> list[list[str]]:
    """Lines of each innermost loop: from the target of a backward branch to the branch."""
    bodies: list[list[str]] = []
    for function in text.split("\ndefine ")[1:]:
        lines = function.split("\n}", 1)[0].splitlines()
        label_at = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
        spans = [
            (label_at[label], i)
            for i, line in enumerate(lines) if " br " in f" {line}"
            for label in _BRANCH.findall(line) if label_at.get(label, len(lines)) <= i
        ]
        inner = [s for s in spans if not any(o != s and _is_inside(o, s) for o in spans)]
        bodies += [lines[first : last + 1] for first, last in inner]
    return bodies


def _is_inside(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return b[0] <= a[0] and a[1] <= b[1]


def _count(lines: list[str]) -> LoopCounts:
    kinds = ("gathers" if _GATHER.search(line) else _kind(line) for line in lines)
    return LoopCounts(**Counter(kind for kind in kinds if kind))


def _kind(line: str) -> str | None:
    called = _CALLEE.search(line)
    definition = find(called[1]).definition if called is not None else None
    return None if definition is None else _KINDS.get(definition)
