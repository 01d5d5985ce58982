"""Calls of inline assembly with operands that are too large for LLVM's SPIR-V target.

    %r = OpFunctionCall %T %f %a ...     ->     %r = OpAsmCallINTEL %T %assembly %a ...

LLVM 22 refuses operands of more than 128 bits.  A call of an imported function has the same words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from triton_xe.spirv import instructions

_NAME, _EXTENSION, _CAPABILITY, _DECORATE = 5, 10, 17, 71
_FUNCTION, _PARAMETER, _FUNCTION_END, _CALL = 54, 55, 56, 57
_TARGET, _ASSEMBLY, _ASSEMBLY_CALL = 5609, 5610, 5611
_USES_ASSEMBLY, _LINKAGE = 5606, 41


def with_assembly(module: bytes, text_of: Callable[[str], str | None]) -> bytes:
    """Call the assembly that `text_of` has for the name of an imported function."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    whole = [(opcode, words[at // 4 : (at + length) // 4])
             for opcode, at, length in instructions(module)]
    texts = {each[1]: text for opcode, each in whole
             if opcode == _DECORATE and each[2] == _LINKAGE
             and (text := text_of(_decoded(each[3:-1]))) is not None}
    if not texts:
        return module
    target, bound = words[3], words[3] + 1 + len(texts)
    assembly = dict(zip(texts, range(target + 1, bound), strict=True))
    made = [*words[:3], bound, words[4], *_instruction(_CAPABILITY, [_USES_ASSEMBLY])]
    first = [_instruction(_EXTENSION, _encoded("SPV_INTEL_inline_assembly"))]
    created = [_instruction(_TARGET, [target, *_encoded("")]),
               *_assemblies(whole, texts, assembly, target)]
    imported = 0
    for opcode, each in whole:
        if opcode != _CAPABILITY and first:
            made += first.pop()
        if opcode == _FUNCTION:
            imported = each[2] if each[2] in texts else 0
            made += [word for one in created for word in one]
            created = []
        if opcode == _CALL and each[3] in texts:
            each = (each[0] & ~0xFFFF | _ASSEMBLY_CALL, *each[1:3], assembly[each[3]], *each[4:])
        names = opcode in (_NAME, _DECORATE) and each[1] in texts
        if not imported and not names:
            made += each
        imported *= opcode != _FUNCTION_END
    return struct.pack(f"<{len(made)}I", *made)


def _assemblies(
    whole: Sequence[tuple[int, Sequence[int]]], texts: dict[int, str], assembly: dict[int, int],
    target: int,
) -> list[list[int]]:
    """The assembly of each imported function, with its type.

    All operands are in registers; one that the text does not name is in those of the result.
    """
    made = []
    for at, (opcode, each) in enumerate(whole):
        if opcode == _FUNCTION and each[2] in texts:
            end = next(n for n in range(at, len(whole)) if whole[n][0] == _FUNCTION_END)
            text = texts[each[2]]
            operands = ",".join(["=rw", *("rw" if f"${i}" in text else "0"
                                          for i in range(1, end - at))])
            made.append(_instruction(_ASSEMBLY, [
                each[1], assembly[each[2]], each[4], target, *_encoded(text),
                *_encoded(operands)]))
    return made


def _instruction(opcode: int, operands: Sequence[int]) -> list[int]:
    return [len(operands) + 1 << 16 | opcode, *operands]


def _encoded(text: str) -> tuple[int, ...]:
    """Words of a literal string."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def _decoded(words: Sequence[int]) -> str:
    """The string at the start of some words."""
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode()
