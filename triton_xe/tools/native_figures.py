"""Figures of a kernel's machine code, as Intel's disassembler reads it.

The counted part is the hot loop: the innermost loop with most DPAS instructions.  If a kernel has
several versions of it, the shortest is counted, because it is the version that runs.  Without
DPAS, the hot loop is the deepest loop, and the longest of these.  Without loops, it is the whole
kernel.  A loop is the range from a label to the last branch back to it.  A message is counted by
the operation in its descriptor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from triton_xe.runtime.emulator.branches import BRANCHES
from triton_xe.runtime.emulator.dpas import is_dummy
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.messages.lsc import UNITS
from triton_xe.runtime.emulator.messages.send import is_message, is_scratch, operation
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.emulator.registers import FLOATS
from triton_xe.runtime.level_zero.zebin import KernelFacts

_DPAS = frozenset(("dpas", "dpasw", "bdpas"))
_MOVES = frozenset(("mov", "movi", "smov"))
_KINDS = {
    "load": "gathers", "load_quad": "gathers", "store": "scatters", "store_quad": "scatters",
    "load_block2d": "block_loads", "store_block2d": "block_stores", "fence": "fences",
}  # fmt: skip
"""Operation of a message to global memory -> the figure that counts it; others are atomics."""


@dataclass(frozen=True)
class LoopFigures:
    """Counts of instructions; `slm` counts SLM loads, stores and atomics."""

    instructions: int = 0
    issued: int = 0
    dpas: int = 0
    block_loads: int = 0
    block_stores: int = 0
    prefetches: int = 0
    gathers: int = 0
    scatters: int = 0
    atomics: int = 0
    slm: int = 0
    barriers: int = 0
    fences: int = 0
    spills: int = 0
    fills: int = 0
    moves: int = 0
    branches: int = 0

    @property
    def other_per_dpas(self) -> float | None:
        """Issued instructions other than DPAS, prefetches included, per DPAS."""
        return (self.issued - self.dpas) / self.dpas if self.dpas else None


_FIGURE_NAMES = frozenset(f.name for f in fields(LoopFigures))


@dataclass(frozen=True)
class KernelFigures:
    """One kernel's machine code; `hot_loop` and `whole` count the same quantities."""

    grf_count: int
    spill_size: int
    loops: int
    hot_loop: LoopFigures
    whole: LoopFigures


def figures(program: Program, facts: KernelFacts) -> KernelFigures:
    """Count the instructions of a kernel and of its hot loop."""
    ranges = _loops(program)
    hot = _count(_part(program, _hot(program, ranges)))
    return KernelFigures(
        facts.grf_count, facts.spill_size, len(ranges), hot, _count(program.instructions))


def loops(program: Program) -> list[LoopFigures]:
    """Figures of each loop, in the order of their starts."""
    return [_count(_part(program, each)) for each in _loops(program)]


def common_path(program: Program) -> LoopFigures | None:
    """Figures of the path with most messages, and of these of the shortest; None with a loop.

    If a kernel has an unmasked version for blocks inside all bounds, and a masked version for the
    edges, this path is the unmasked version.
    """
    code = program.instructions
    if _loops(program):
        return None
    best, after = {len(code): (0, 0)}, {}
    for number in reversed(range(len(code))):
        after[number] = max(program.following(number) or [len(code)], key=best.__getitem__)
        messages, saved = best[after[number]]
        best[number] = (messages + (pipe(code[number]) == "messages"),
                        saved - is_issued(code[number]))
    path = [0]
    while after[path[-1]] < len(code):
        path.append(after[path[-1]])
    return _count([code[number] for number in path])


def hot_and_rest(program: Program) -> tuple[Sequence[Instruction], Sequence[Instruction]]:
    """The instructions of the hot loop, and all others; without a loop the first part is empty."""
    ranges, code = _loops(program), program.instructions
    if not ranges:
        return (), code
    first, last = _hot(program, ranges)
    return code[first : last + 1], code[:first] + code[last + 1 :]


# -- control flow ---------------------------------------------------------------------------------


def _loops(program: Program) -> list[tuple[int, int]]:
    """Ranges of positions (first, last) from each branch target to the last branch back to it."""
    return sorted({target: number for number in range(len(program.instructions))
                   for target in program.targets(number) if target <= number}.items())


def _part(program: Program, ends: tuple[int, int]) -> Sequence[Instruction]:
    return program.instructions[ends[0] : ends[1] + 1]


def _hot(program: Program, ranges: list[tuple[int, int]]) -> tuple[int, int]:
    """Range of the hot loop, as the module's docstring defines it."""
    if not ranges:
        return 0, len(program.instructions) - 1
    dpas = {each: sum(map(is_product, _part(program, each))) for each in ranges}
    with_dpas = [each for each in ranges if dpas[each]]
    if with_dpas:
        inner = [each for each in with_dpas
                 if not any(_inside(other, each) for other in with_dpas)]
        return max(inner, key=lambda each: (dpas[each], each[0] - each[1]))
    depth = {each: sum(_inside(each, other) for other in ranges) for each in ranges}
    return max(ranges, key=lambda each: (depth[each], each[1] - each[0]))


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


# -- single instructions --------------------------------------------------------------------------


def is_product(instruction: Instruction) -> bool:
    """True for a DPAS that multiplies, unlike the dummy before a chain on Xe-HPG."""
    return instruction.op in _DPAS and not is_dummy(instruction)


def is_issued(instruction: Instruction) -> bool:
    """True if an instruction takes an issue slot; `sync` (except barriers) and `nop` do not."""
    return instruction.op not in ("sync", "nop") or instruction.subop == "bar"


def pipe(instruction: Instruction) -> str:
    """The pipe of the time model that an instruction occupies; empty if it costs nothing."""
    if is_product(instruction):
        return "dpas"
    if not is_issued(instruction) or (is_message(instruction) and instruction.subop == "gtwy"):
        return ""
    if is_message(instruction):
        return "messages"
    if instruction.op == "math":
        return "maths"
    target = instruction.destination
    return "fp" if target is not None and target.type in FLOATS else "integer"


def _count(instructions: Sequence[Instruction]) -> LoopFigures:
    counts = Counter(map(_kind, instructions))
    counts["instructions"] = len(instructions)
    counts["issued"] = sum(map(is_issued, instructions))
    return LoopFigures(**{name: n for name, n in counts.items() if name in _FIGURE_NAMES})


def _kind(instruction: Instruction) -> str:
    """The figure that counts an instruction; empty for plain arithmetic."""
    if is_product(instruction):
        return "dpas"
    if instruction.op in BRANCHES:
        return "branches"
    if instruction.op in _MOVES:
        return "moves"
    return _message_kind(instruction) if is_message(instruction) else ""


def _message_kind(instruction: Instruction) -> str:
    if instruction.subop == "gtwy":
        return "" if instruction.is_end else "barriers"
    target = instruction.destination
    has_result = target is not None and not target.is_null
    if is_scratch(instruction):
        return "fills" if has_result else "spills"
    if instruction.subop not in UNITS:
        return ""
    kind = operation(instruction)
    if instruction.subop == "slm" and kind != "fence":
        return "slm"
    if kind.startswith("load") and not has_result:
        return "prefetches"
    return _KINDS.get(kind, "atomics")
