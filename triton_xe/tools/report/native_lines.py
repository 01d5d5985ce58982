"""SPIR-V with the source line of each instruction, so that Intel's compiler preserves them.

LLVM's SPIR-V target drops lines, but can be made to keep names.  So a module is written once more
with names, and each instruction gets the line of the LLVM instruction of that name.  Instructions
without a result, which have no name, are found by their position in their block.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Block, Instruction, Module
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.lowering.spirv import spirv_target
from triton_xe.runtime.emulator.listing import source_lines
from triton_xe.spirv import HEADER_WORDS, attached_llvm_ir, instructions
from triton_xe.tools import intel

if TYPE_CHECKING:
    from triton_xe.runtime.emulator.device import EmulatedDevice, NativeKernel

NAME, STRING, LINE, IMPORT, EXTENDED, MEMORY_MODEL = 5, 7, 8, 11, 12, 14
ENTRY_POINT, TYPE_VOID, FUNCTION, FUNCTION_END, CALL, VARIABLE = 15, 19, 54, 56, 57, 59
STORE, PHI, LABEL = 62, 245, 248
BARRIERS = (224, 225)
BEFORE_NAMES = frozenset((17, 10, 11, 14, 15, 16, 331, 7, 3))
"""Opcodes of capabilities, extensions, imports, entry points, modes and strings."""
COMPILATION_UNIT, FUNCTION_TYPE, DEBUG_FUNCTION, SCOPE, SOURCE = 1, 8, 20, 23, 35
IS_DEFINITION, DWARF, OPENCL_C = 8, 4, 3


@dataclass
class Lines:
    """Source lines of the kernel in LLVM IR: by result, and of `_effects` by label of the block."""

    by_name: dict[str, int] = field(default_factory=dict)
    effects: dict[str, list[int]] = field(default_factory=dict)


def with_lines(module: bytes, kernel: str, file: str) -> bytes:
    """The module with the lines from `file`, without its attached texts."""
    text = attached_llvm_ir(module)
    return _marked(_named(text), _lines(parse_module(canonical(text)), kernel, file), kernel, file)


def file_of(module: bytes, kernel: str) -> str:
    """The source file that most instructions of a kernel come from; "" if none has a line."""
    parsed = parse_module(canonical(attached_llvm_ir(module)))
    found = (parsed.source_line(i.line, i.debug)
             for block in parsed.functions[kernel].blocks for i in block.instructions)
    files = Counter(place[0] for place in found if place is not None)
    return max(files, key=files.__getitem__, default="")


def keep_lines(device: EmulatedDevice) -> None:
    """Add lines to the native code of this device's kernels from now on."""
    device.module_of, device.lines_of = _marked_module, _lines_of


def _lines_of(native: NativeKernel) -> Mapping[int, str]:
    compiled = intel.compile_spirv(native.module, native.device, native.flags)
    return source_lines(compiled.asm[native.entry], native.program.instructions)


def _marked_module(kernel: Any) -> bytes:
    name = kernel.source.name
    return with_lines(kernel.module, name, file_of(kernel.module, name))


def _named(text: str) -> bytes:
    """SPIR-V with names from LLVM IR, by a separate process, because the option is global."""
    run = (f"import runpy, sys; sys.path[:] = {sys.path!r}; import llvmlite.binding as llvm; "
           "llvm.set_option('', '-spirv-emit-op-names'); "
           "runpy.run_path(sys.argv[1], run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", run, spirv_target.__file__], input=text.encode(),
                          capture_output=True, check=True)
    return done.stdout


def _lines(module: Module, kernel: str, file: str) -> Lines:
    """The lines of a kernel's instructions that are from `file`; 0 for others."""
    found = Lines()

    def line(i: Instruction) -> int:
        place = module.source_line(i.line, i.debug)
        return place[1] if place is not None and place[0] == file else 0

    for block in module.functions[kernel].blocks:
        found.by_name |= {_plain(i.result): line(i) for i in block.instructions if i.result}
        found.effects[_plain(block.label)] = [line(i) for i in _effects(block)]
    return found


def _effects(block: Block) -> Iterator[Instruction]:
    """Instructions without a result that are also in the SPIR-V: stores, and calls but hints."""
    for i in block.instructions:
        is_call = i.opcode == "call" and not i.result
        if i.opcode == "store" or (is_call and find(i.callee).family is not Family.HINT):
            yield i


def _plain(name: str) -> str:
    return name.removeprefix("%").strip('"')


# -- writing --------------------------------------------------------------------------------------


def _words(text: str) -> list[int]:
    """A string as SPIR-V encodes it."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def _instruction(opcode: int, *operands: int) -> list[int]:
    return [len(operands) + 1 << 16 | opcode, *operands]


class _Writer:
    """The words of the new module, and the ids of its debug information."""

    def __init__(self, binary: bytes, kernel: str, file: str) -> None:
        self.old = [list(struct.unpack_from(f"<{length // 4}I", binary, start))
                    for _, start, length in instructions(binary)]
        self.words = list(struct.unpack_from(f"<{HEADER_WORDS}I", binary))
        self.kernel, self.file = kernel, file
        self.set, self.path, self.title, self.source, self.unit, self.type, self.function = (
            self.new_id() for _ in range(7))
        self.void = next(i[1] for i in self.old if i[0] & 0xFFFF == TYPE_VOID)
        self.entry = next(i[2] for i in self.old if i[0] & 0xFFFF == ENTRY_POINT)

    def new_id(self) -> int:
        self.words[3] += 1
        return self.words[3] - 1

    def add(self, opcode: int, *operands: int) -> None:
        self.words += _instruction(opcode, *operands)

    def add_debug_info(self, number: int, result: int, *operands: int) -> None:
        """Write instruction `number` of the extended set OpenCL.DebugInfo.100."""
        self.add(EXTENDED, self.void, result, self.set, number, *operands)

    def describe(self) -> None:
        """Write the debug information that precedes the function."""
        self.add_debug_info(SOURCE, self.source, self.path)
        self.add_debug_info(COMPILATION_UNIT, self.unit, 1 << 16, DWARF, self.source, OPENCL_C)
        self.add_debug_info(FUNCTION_TYPE, self.type, 0, self.void)
        self.add_debug_info(DEBUG_FUNCTION, self.function, self.title, self.type, self.source, 1, 1,
                 self.unit, self.title, IS_DEFINITION, 1, self.entry)


def _marked(binary: bytes, lines: Lines, kernel: str, file: str) -> bytes:
    """The module with debug information of the kernel, and with lines."""
    w = _Writer(binary, kernel, file)
    names = {i[1]: struct.pack(f"<{len(i) - 2}I", *i[2:]).split(b"\0")[0].decode()
             for i in w.old if i[0] & 0xFFFF == NAME}
    inside = imported = named = False
    block: list[list[int]] = []
    for i in w.old:
        opcode = i[0] & 0xFFFF
        if opcode == MEMORY_MODEL and not imported:
            imported = True
            w.add(IMPORT, w.set, *_words("OpenCL.DebugInfo.100"))
        if opcode not in BEFORE_NAMES and not named:
            named = True
            w.add(STRING, w.path, *_words(file))
            w.add(STRING, w.title, *_words(kernel))
        if opcode == FUNCTION:
            inside = i[2] == w.entry
            if inside:
                w.describe()
        if not inside:
            w.words += i
        elif opcode in (LABEL, FUNCTION_END):
            _write_block(w, block, names, lines)
            block = [i] if opcode == LABEL else []
            w.words += i if opcode == FUNCTION_END else []
        elif block:
            block.append(i)
        else:
            w.words += i
    return struct.pack(f"<{len(w.words)}I", *w.words)


def _write_block(
    w: _Writer, block: Sequence[list[int]], names: Mapping[int, str], lines: Lines
) -> None:
    """Write a block, with a line before each instruction whose line is known."""
    if not block:
        return
    expected = lines.effects.get(names.get(block[0][1], ""), [])
    effects = [k for k, i in enumerate(block) if _has_effect(i, w.void)]
    known = dict(zip(effects, expected, strict=True)) if len(effects) == len(expected) else {}
    is_head = True
    for k, i in enumerate(block):
        if is_head and i[0] & 0xFFFF not in (LABEL, PHI, VARIABLE):
            w.add_debug_info(SCOPE, w.new_id(), w.function)
            is_head = False
        name = names.get(i[2], "") if len(i) > 2 and k not in effects else ""
        line = known.get(k) or lines.by_name.get(name, 0)
        if line and not is_head:
            w.add(LINE, w.path, line, 1)
        w.words += i


def _has_effect(i: Sequence[int], void: int) -> bool:
    opcode = i[0] & 0xFFFF
    return opcode in (STORE, *BARRIERS) or (opcode == CALL and i[1] == void)
