"""Decoding: programs from binaries and from memory, and their text."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

from benchmarks import loop_kernels, loops
from python.test.emulator.assembled import END, code
from triton_xe.errors import DeviceError
from triton_xe.runtime.emulator import AddressSpace, Fault, Launch, Program, iga, source_lines
from triton_xe.tools import intel
from triton_xe.tools.report.native_lines import with_lines

pytestmark = pytest.mark.intel_compiler


def test_code_in_memory_is_decoded_to_its_end():
    text = "(W) jmpi (1|M0) far\n" + "(W) mov (16|M0) r20.0<1>:d 1:w\n" * 600 + (
        "far:\n(W) mov (16|M0) r20.0<1>:d 2:w")
    native = code("bmg", text)
    space = AddressSpace()
    address = space.put(native + bytes(256) + b"\xff" * 4096)
    program = Program.at_address("bmg", space, address)
    assert program.code == native
    assert program.instructions[-1].is_end


def test_an_end_in_the_middle():
    """Code behind the first end of a thread belongs to the program if a branch leads there."""
    text = "(W) jmpi (1|M0) other\n" + END + "other:\n(W) mov (16|M0) r20.0<1>:d 2:w"
    space = AddressSpace()
    native = code("bmg", text)
    assert Program.at_address("bmg", space, space.put(native + bytes(64))).code == native


def test_code_without_an_end_is_refused():
    space = AddressSpace()
    address = space.put(iga.assemble("bmg", "(W) mov (16|M0) r20.0<1>:d 1:w"))
    with pytest.raises(DeviceError, match="no thread ends"):
        Program.at_address("bmg", space, address)
    with pytest.raises(DeviceError, match="0 bytes are mapped"):
        Program.at_address("bmg", space, 64)


def test_wrong_text_names_its_line():
    with pytest.raises(DeviceError, match="line 2"):
        iga.assemble("bmg", "(W) mov (16|M0) r20.0<1>:d 1:w\n(W) mov (16|M0) q20:d 1:w\n")


def test_unknown_names_are_refused():
    with pytest.raises(DeviceError, match="no emulated device 'skl'; known: dg2"):
        iga.assemble("skl", "nop")


def test_memory_is_mapped_and_unmapped():
    memory, space = np.arange(32, dtype=np.uint8), AddressSpace()
    space.map(0x5000, memory.ctypes.data, 16)
    space.map(0x6000, memory.ctypes.data + 16, 16)
    at = np.array([0x5004, 0x6008])
    np.testing.assert_array_equal(space.read(at, np.uint32).view(np.uint8).reshape(2, 4),
                                  [memory[4:8], memory[24:28]])
    space.write(at, np.array([1, 2], np.uint32))
    assert (memory[4], memory[24]) == (1, 2)
    space.unmap(0x5000)
    with pytest.raises(DeviceError, match="in no allocation"):
        space.read(at, np.uint32)
    assert space.bytes_from(0x6004) == 12


def test_faults_name_the_source_line():
    """An argument out of bounds: the error says where the kernel loads from it."""
    kernel = loops.compiled("row sum", "bmg")
    (name,) = intel.compile_spirv(kernel.asm["spv"], "bmg", dump_asm=False).kernels
    marked = with_lines(kernel.asm["spv"], name, loop_kernels.__file__)
    native = intel.compile_spirv(marked, "bmg", kernel.metadata.build_flags)
    program = Program.from_zebin("bmg", native.binary)
    program.lines = source_lines(native.asm[name], program.instructions)
    space = AddressSpace()
    output = space.put(np.zeros(4096, np.float16))
    launch = Launch.from_zebin(program, native.binary, space, (1, 1, 1), [64, output, 1024, 1024])
    with pytest.raises(Fault, match=r"in no allocation") as caught:
        launch.run()
    found = re.fullmatch(r"(.*):(\d+)", caught.value.location)
    assert found, caught.value
    assert found[1] == loop_kernels.__file__
    text = open(loop_kernels.__file__).read().splitlines()[int(found[2]) - 1]
    assert "tl.load" in text
    assert not source_lines("mov (1) r1 r2\n", program.instructions)


def test_the_garbage_collector_is_as_before():
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            Program("bmg", code("bmg", "nop"))
            with pytest.raises(DeviceError):
                Program("bmg", b"\xff" * 16)
            assert gc.isenabled() == enabled
        finally:
            gc.enable()
