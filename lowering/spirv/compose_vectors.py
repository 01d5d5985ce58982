"""Vectors of scalars, in SPIR-V: one instruction instead of one for each element.

    %b = OpCompositeInsert %v2 %x %undef 0
    %c = OpCompositeInsert %v2 %y %b 1        ->  %c = OpCompositeConstruct %v2 %x %y
    %d = OpVectorShuffle %v4 %b %b 0 0 0 0    ->  %d = OpCompositeConstruct %v4 %x %x %x %x

LLVM's SPIR-V target keeps LLVM's instructions, which set single elements.  A module gets up to a
sixth shorter.  On bmg and pvc, Intel's compiler writes equally many instructions for all kernels of
the ledger.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from triton_xe.spirv import instructions

_VECTOR_TYPE, _SHUFFLE, _CONSTRUCT, _INSERT = 23, 79, 80, 82
Elements = tuple[int | None, ...]
"""The scalars in a vector; None for unknown ones."""


def with_composed_vectors(module: bytes) -> bytes:
    """Create vectors of known scalars by one instruction each."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    sizes: dict[int, int] = {}
    steps: list[tuple[int, int]] = []
    for opcode, at, length in instructions(module):
        if opcode in (_SHUFFLE, _INSERT):
            steps.append((at // 4, (at + length) // 4))
        elif opcode == _VECTOR_TYPE:
            sizes[words[at // 4 + 1]] = words[at // 4 + 3]
    composed = _composed([words[at:end] for at, end in steps], sizes)
    if not composed:
        return module
    made, rest = [], len(words)
    for (at, end), new in zip(steps[::-1], _written(words, steps, composed), strict=True):
        made += [words[end:rest], new]
        rest = at
    parts = [words[:rest], *made[::-1]]
    return b"".join(struct.pack(f"<{len(part)}I", *part) for part in parts)


def _composed(
    steps: Iterable[Sequence[int]], sizes: Mapping[int, int]
) -> dict[int, tuple[int, ...]]:
    """For vectors of known scalars, the instruction that composes them; by result."""
    known: dict[int, Elements] = {}
    found: dict[int, tuple[int, ...]] = {}
    for head, kind, result, first, second, *picked in steps:
        if head & 0xFFFF == _SHUFFLE:
            both = known.get(first, ())
            if first not in known or (second not in known and max(picked) >= len(both)):
                continue
            both += known.get(second, ())
            known[result] = tuple(both[i] if i < len(both) else None for i in picked)
        elif kind in sizes and len(picked) == 1:
            held, index = known.get(second, (None,) * sizes[kind]), picked[0]
            known[result] = (*held[:index], first, *held[index + 1 :])
        else:
            continue
        scalars = [scalar for scalar in known[result] if scalar is not None]
        if len(scalars) == len(known[result]):
            found[result] = (len(scalars) + 3 << 16 | _CONSTRUCT, kind, result, *scalars)
    return found


def _written(
    words: tuple[int, ...], steps: Sequence[tuple[int, int]],
    composed: Mapping[int, tuple[int, ...]],
) -> Iterator[tuple[int, ...]]:
    """From the last on, yield an instruction, the shorter one that composes it, or none if unused.
    """
    uses = Counter(words)  # other words that equal an id only keep instructions
    for at, end in reversed(steps):
        step = words[at:end]
        new = composed.get(step[2])
        if uses[step[2]] == 1:  # its own definition
            new = ()
        elif step[0] & 0xFFFF == _INSERT and uses[step[4]] > 2:
            new = None
        if new is not None:
            for word in step:
                uses[word] -= 1
            for word in new:
                uses[word] += 1
        yield step if new is None else new
