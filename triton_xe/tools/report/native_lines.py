"""SPIR-V with the source line of each instruction, so that Intel's compiler preserves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from triton_xe.llvm import VOID, Function, Instruction
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.lowering.spirv.emit_spirv import for_compiler
from triton_xe.lowering.spirv.function_writer import FunctionWriter
from triton_xe.lowering.spirv.module_writer import ModuleWriter, add, encoded
from triton_xe.lowering.spirv.spirv_tables import Op
from triton_xe.runtime.emulator.listing import source_lines
from triton_xe.spirv import attached_llvm_ir
from triton_xe.tools import intel

if TYPE_CHECKING:
    from triton_xe.runtime.emulator.device import EmulatedDevice, NativeKernel

COMPILATION_UNIT, FUNCTION_TYPE, DEBUG_FUNCTION, SCOPE, SOURCE = 1, 8, 20, 23, 35
IS_DEFINITION, DWARF, OPENCL_C = 8, 4, 3
BEFORE_SCOPES = ("phi", "alloca")


def with_lines(module: bytes, kernel: str, file: str) -> bytes:
    """The module with the lines from `file`, without its attached texts."""
    w = ModuleWriter(for_compiler(parse_module(canonical(attached_llvm_ir(module)))))
    info = _DebugInfo(w, kernel, file)
    for function in w.module.functions.values():
        made = _LineWriter(w, function, info) if function.name == kernel else FunctionWriter(
            w, function)
        made.write()
    return w.finish()


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


class _DebugInfo:
    """The ids of the debug information of a kernel (extended set OpenCL.DebugInfo.100)."""

    def __init__(self, w: ModuleWriter, kernel: str, file: str) -> None:
        self.w, self.file = w, file
        self.set, self.path, title, source, unit, kind, self.function = (
            w.new() for _ in range(7))
        add(w.libraries, Op.EXT_INST_IMPORT, self.set, *encoded("OpenCL.DebugInfo.100"))
        add(w.strings, Op.STRING, self.path, *encoded(file))
        add(w.strings, Op.STRING, title, *encoded(kernel))
        entry = w.callees.setdefault(kernel, w.new())
        self.add(w.constants, SOURCE, source, self.path)
        self.add(w.constants, COMPILATION_UNIT, unit, 1 << 16, DWARF, source, OPENCL_C)
        self.add(w.constants, FUNCTION_TYPE, kind, 0, w.type(VOID))
        self.add(w.constants, DEBUG_FUNCTION, self.function, title, kind, source, 1, 1, unit, title,
                 IS_DEFINITION, 1, entry)

    def add(self, words: list[int], number: int, result: int, *operands: int) -> None:
        """Write instruction `number` of the set."""
        add(words, Op.EXT_INST, self.w.type(VOID), result, self.set, number, *operands)


class _LineWriter(FunctionWriter):
    """Writes a function with a line before each instruction whose line is known."""

    def __init__(self, w: ModuleWriter, function: Function, info: _DebugInfo) -> None:
        super().__init__(w, function)
        self.info, self.scoped = info, ""

    def instruction(self, i: Instruction) -> None:
        if i.opcode not in BEFORE_SCOPES:
            if self.scoped != self.label:
                self.scoped = self.label
                self.info.add(self.words, SCOPE, self.new(), self.info.function)
            place = self.m.module.source_line(i.line, i.debug)
            if place is not None and place[0] == self.info.file:
                add(self.words, Op.LINE, self.info.path, place[1], 1)
        super().instruction(i)
