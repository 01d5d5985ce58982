"""Counts of a kernel's hardware messages in its main loop, read from its LLVM IR text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(r'^"?([\w.$-]+)"?:')
_BRANCH = re.compile(r'label %"?([\w.$-]+)"?')
_KINDS = {
    "dpas": re.compile(r"@\"?llvm\.genx\.GenISA\.sub\.group\.dpas"),
    "block_loads": re.compile(r"@\"?llvm\.genx\.GenISA\.LSC2DBlockRead"),
    "prefetches": re.compile(r"@\"?llvm\.genx\.GenISA\.LSC2DBlockPrefetch"),
    "gathers": re.compile(
        r"@\"?llvm\.genx\.GenISA\.(?:PredicatedLoad|LSCLoad)|= load .*addrspace\(1\)"),
}


@dataclass(frozen=True)
class LoopCounts:
    """Messages of one subgroup in one pass of the loop."""

    dpas: int = 0
    block_loads: int = 0
    prefetches: int = 0
    gathers: int = 0


def main_loop(llvm_ir: str) -> LoopCounts:
    """Counts of the loop with the most DPAS, then block loads; all zero without any loop.

    Where a kernel has the loop several times, for addresses that block loads can take and for
    those they cannot, the one with block loads counts.
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
        inner = [s for s in spans if not any(o != s and _within(o, s) for o in spans)]
        bodies += [lines[first : last + 1] for first, last in inner]
    return bodies


def _within(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return b[0] <= a[0] and a[1] <= b[1]


def _count(lines: list[str]) -> LoopCounts:
    found = {k: sum(bool(p.search(line)) for line in lines) for k, p in _KINDS.items()}
    return LoopCounts(**found)
