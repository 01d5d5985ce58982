"""Figures of Intel Xe assembly listings (the `.asm` files of Intel's graphics compiler).

The counted part is the hot loop: the innermost loop with most DPAS instructions.  Of several
versions it is the shortest, which is the one that runs.  Without DPAS it is the deepest, then
longest, loop; without loops it is the whole kernel.  A loop is the range from a label to the last
branch back to it.  Messages are recognised by mnemonic (`load_block2d.ugm...`), or for raw `send`
instructions by the mnemonic that the disassembler puts in the comment.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, fields

from triton_xe.errors import DeviceError

_LINE = re.compile(
    r"^\s*(?:\((?P<predicate>[^)]*)\)\s*)?(?P<opcode>[a-z][\w.]*(?:\(\S*\))?)"
    r"(?:\s+\((?P<width>\d+)\|M\d+\))?(?P<operands>.*)$"
)
_LABEL = re.compile(r"^\s*([A-Za-z_][\w.$]*):\s*$")
_MESSAGE = re.compile(r"\b((?:load|store|atomic|fence)\w*\.(?:ugml?|slm|tgm)[\w.]*)")
_SCRATCH = re.compile(r"\b(spill|fill)\b")
_FLOAT_RESULT = re.compile(r"^\S*(?:\s*\([^)]*\))?\S*:(?:f|hf|bf|df|tf32)\b")
_BRANCHES = frozenset("jmpi while goto if else endif join break cont brd brc call ret".split())
_DPAS = frozenset(("dpas", "dpasw", "bdpas"))
_MOVES = frozenset(("mov", "movi", "smov"))


@dataclass(frozen=True)
class Instruction:
    """One line of assembly; `opcode` with its suffixes."""

    opcode: str
    operands: str
    comment: str
    ends: bool = False
    """True if the instruction ends the thread."""
    width: int = 1
    """Number of lanes."""
    predicated: bool = False
    """True if it runs, or jumps, only under a flag."""

    @property
    def base(self) -> str:
        return self.opcode.split(".", 1)[0]

    @property
    def is_dpas(self) -> bool:
        """True if it multiplies.  Xe-HPG's compiler also puts a dummy r = r * r before a chain."""
        registers = re.findall(r"\b(r\d+|null)\b", self.operands)
        dummy = registers[1:2] == ["null"] and len({registers[0], *registers[2:]}) == 1
        return self.base in _DPAS and not dummy

    @property
    def repeats(self) -> int:
        """Rows of a DPAS: its repeat count."""
        found = re.search(r"\d+x(\d+)", self.opcode)
        return int(found[1]) if found else 8

    @property
    def pipe(self) -> str:
        """The pipe of the time model that it occupies; empty if it costs nothing."""
        if self.is_dpas:
            return "dpas"
        if not self.is_issued or ".gtwy" in self.opcode:
            return ""
        if self.base.startswith("send") or _MESSAGE.search(self.opcode):
            return "messages"
        if self.base == "math":
            return "maths"
        return "fp" if _FLOAT_RESULT.search(self.operands) else "integer"

    @property
    def is_issued(self) -> bool:
        """True if it takes an issue slot; synchronisation marks and padding do not."""
        return self.base not in ("sync", "nop") or self.opcode.startswith("sync.bar")


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


@dataclass(frozen=True)
class KernelFigures:
    """One kernel's listing; `hot_loop` and `whole` count the same quantities."""

    kernel: str
    platform: str
    grf_count: int
    spill_size: int
    loops: int
    hot_loop: LoopFigures
    whole: LoopFigures

    def summary(self) -> str:
        """One line for a report."""
        loop, ratio = self.hot_loop, self.hot_loop.other_per_dpas
        parts = [f"{self.kernel} ({self.platform}, {self.grf_count} registers)"]
        names = ("dpas", "block_loads", "prefetches", "gathers", "slm")
        parts += [f"{getattr(loop, name)} {name.replace('_', ' ')}" for name in names]
        parts += [f"{ratio:.3f} other issued per dpas"] if ratio is not None else []
        parts += [f"{self.spill_size} spill bytes"]
        return ", ".join(parts)


@dataclass
class _Listing:
    header: dict[str, str] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def read(listing: str) -> KernelFigures:
    """Figures of one kernel from its `.asm` listing; `DeviceError` if the text is none."""
    parsed = _parse(listing)
    if "kernel" not in parsed.header or not parsed.instructions:
        raise DeviceError("not an assembly listing of Intel's graphics compiler: no .kernel line")
    ranges = _loops(parsed)
    first, last = _hot(parsed, ranges)
    grf = re.search(r"numGRF=(\d+)", parsed.header.get("thread_config", ""))
    spill = re.match(r"size (\d+)", parsed.header.get("spill", ""))
    return KernelFigures(
        kernel=parsed.header["kernel"].strip('"'),
        platform=parsed.header.get("platform", "?"),
        grf_count=int(grf[1]) if grf else 0,
        spill_size=int(spill[1]) if spill else 0,
        loops=len(ranges),
        hot_loop=_count(parsed.instructions[first : last + 1]),
        whole=_count(parsed.instructions),
    )


def loops(listing: str) -> list[LoopFigures]:
    """Figures of each loop, in the order of their starts."""
    parsed = _parse(listing)
    return [_count(parsed.instructions[first : last + 1]) for first, last in _loops(parsed)]


def common_path(listing: str) -> LoopFigures | None:
    """Figures of the path to the end with most messages, in the fewest instructions.

    This path runs if a kernel has an unmasked version for blocks inside all bounds, and a masked
    one for the edges.  None for a kernel with a loop.
    """
    parsed = _parse(listing)
    code = parsed.instructions
    if not code or _loops(parsed):
        return None
    best, after = {len(code): (0, 0)}, {}
    for index in reversed(range(len(code))):
        after[index] = max(_following(parsed, index) or [len(code)], key=best.__getitem__)
        messages, saved = best[after[index]]
        best[index] = (messages + (code[index].pipe == "messages"),
                       saved - code[index].is_issued)
    path = [0]
    while after[path[-1]] < len(code):
        path.append(after[path[-1]])
    return _count([code[index] for index in path])


def _following(listing: _Listing, index: int) -> list[int]:
    """Indices of the possible successors of an instruction, in a kernel that only branches
    forward.
    """
    instruction = listing.instructions[index]
    if instruction.ends:
        return []
    names = re.findall(r"[A-Za-z_][\w.$]*", instruction.operands)
    labels = listing.labels if instruction.base in _BRANCHES else {}
    targets = [labels[name] for name in names if name in labels]
    always = instruction.base == "jmpi" and not instruction.predicated
    return targets if always else [index + 1, *targets]


def hot_and_rest(listing: str) -> tuple[list[Instruction], list[Instruction]]:
    """The instructions of the hot loop, and all others; without a loop the first part is empty."""
    parsed = _parse(listing)
    ranges = _loops(parsed)
    if not ranges:
        return [], parsed.instructions
    first, last = _hot(parsed, ranges)
    return (parsed.instructions[first : last + 1],
            parsed.instructions[:first] + parsed.instructions[last + 1 :])


def _parse(text: str) -> _Listing:
    listing = _Listing()
    for line in text.splitlines():
        if line.startswith("//."):
            word, _, rest = line[3:].partition(" ")
            listing.header.setdefault(word, rest.strip())
            continue
        label = _LABEL.match(line.partition("//")[0].rstrip())
        if label:
            listing.labels[label[1]] = len(listing.instructions)
            continue
        read = instruction(line)
        if read is not None:
            listing.instructions.append(read)
    return listing


def instruction(line: str) -> Instruction | None:
    """The instruction of a line; None for labels, comments and the rest."""
    code, _, comment = line.partition("//")
    found = _LINE.match(code.rstrip())
    if found is None or code.lstrip().startswith(".") or _LABEL.match(code):
        return None
    operands = re.sub(r"\{[^}]*\}", " ", found["operands"]).strip()
    return Instruction(found["opcode"], operands, comment.strip(), "EOT" in found["operands"],
                       int(found["width"] or 1), "f" in (found["predicate"] or ""))


def _loops(listing: _Listing) -> list[tuple[int, int]]:
    """Index ranges (first, last) from each branch target to the last branch back to it."""
    ends: dict[int, int] = {}
    for index, instruction in enumerate(listing.instructions):
        if instruction.base not in _BRANCHES:
            continue
        for name in re.findall(r"[A-Za-z_][\w.$]*", instruction.operands):
            target = listing.labels.get(name, index + 1)
            if target <= index:
                ends[target] = index
    return sorted(ends.items())


def _hot(listing: _Listing, loops: list[tuple[int, int]]) -> tuple[int, int]:
    if not loops:
        return 0, len(listing.instructions) - 1
    dpas = {
        loop: sum(i.is_dpas for i in listing.instructions[loop[0] : loop[1] + 1]) for loop in loops
    }
    with_dpas = [loop for loop in loops if dpas[loop]]
    if with_dpas:
        inner = [one for one in with_dpas if not any(_inside(two, one) for two in with_dpas)]
        return max(inner, key=lambda loop: (dpas[loop], loop[0] - loop[1]))
    depth = {one: sum(_inside(one, two) for two in loops) for one in loops}
    return max(loops, key=lambda loop: (depth[loop], loop[1] - loop[0]))


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def _count(instructions: list[Instruction]) -> LoopFigures:
    counts: Counter[str] = Counter(instructions=len(instructions))
    for instruction in instructions:
        counts["issued"] += instruction.is_issued
        kind = _kind(instruction)
        if kind:
            counts[kind] += 1
    known = {f.name for f in fields(LoopFigures)}
    return LoopFigures(**{name: n for name, n in counts.items() if name in known})


def _kind(instruction: Instruction) -> str:
    """The figure that counts an instruction; empty for plain arithmetic."""
    if instruction.is_dpas:
        return "dpas"
    if instruction.base in _BRANCHES:
        return "branches"
    if instruction.base in _MOVES:
        return "moves"
    raw = instruction.base.startswith("send")
    message = _MESSAGE.search(instruction.comment if raw else instruction.opcode)
    scratch = _SCRATCH.search(instruction.comment)
    if scratch is not None and (raw or message):
        return f"{scratch[1]}s"
    if message is not None:
        return _message_kind(message[1], instruction)
    if ".gtwy" in instruction.opcode and not instruction.ends:
        return "barriers"
    return ""


def _message_kind(name: str, instruction: Instruction) -> str:
    if name.startswith("fence"):
        return "fences"
    if ".slm" in name:
        return "slm"
    if name.startswith("atomic"):
        return "atomics"
    if name.startswith("load") and instruction.operands.startswith("null"):
        return "prefetches"
    if "block2d" in name:
        return "block_loads" if name.startswith("load") else "block_stores"
    return "gathers" if name.startswith("load") else "scatters"
