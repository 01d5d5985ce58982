"""Loops that Intel's compiler must not unroll, in SPIR-V.

    %rolled = OpLabel                          %rolled = OpLabel
    ...                                  ->    ...
    OpBranchConditional %c %rolled %after      OpLoopMerge %after %rolled DontUnroll
                                               OpBranchConditional %c %rolled %after

LLVM's SPIR-V target ignores the hints of loops, but keeps the names of their first blocks.
"""

from __future__ import annotations

import re
import struct

from triton_xe.spirv import HEADER_WORDS, ROLLED_LABEL, instructions

_NAME, _LOOP_MERGE, _LABEL, _BRANCH, _CONDITIONAL = 5, 246, 248, 249, 250
_DO_NOT_UNROLL = 2
_ROLLED = re.compile(rf"{ROLLED_LABEL}(\.\d+)?\0+".encode())


def with_rolled_loops(module: bytes) -> bytes:
    """Tell Intel's compiler not to unroll loops that begin in blocks named `ROLLED_LABEL`."""
    if ROLLED_LABEL.encode() not in module:
        return module
    words = struct.unpack(f"<{len(module) // 4}I", module)
    whole = [(opcode, words[at // 4 : (at + length) // 4])
             for opcode, at, length in instructions(module)]
    named = {each[1] for opcode, each in whole
             if opcode == _NAME and _ROLLED.fullmatch(struct.pack(f"<{len(each) - 2}I", *each[2:]))}
    exits = _exits(whole, named)
    made, label = [*words[:HEADER_WORDS]], 0
    for opcode, each in whole:
        if opcode == _LABEL:
            label = each[1]
        if opcode in (_BRANCH, _CONDITIONAL) and label in exits:
            made += [4 << 16 | _LOOP_MERGE, *exits[label], _DO_NOT_UNROLL]
        made += each
    return struct.pack(f"<{len(made)}I", *made)


def _exits(
    whole: list[tuple[int, tuple[int, ...]]], headers: set[int]
) -> dict[int, tuple[int, int]]:
    """For the first blocks of loops, the block after the loop and the block that branches back."""
    found, label = {}, 0
    for opcode, each in whole:
        if opcode == _LABEL:
            label = each[1]
        if opcode == _CONDITIONAL:
            for back, after in (each[2:4], each[3:1:-1]):
                if back in headers:
                    found[back] = after, label
    return found
