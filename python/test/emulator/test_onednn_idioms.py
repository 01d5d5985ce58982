"""Instructions that oneDNN's code generator uses and Intel's graphics compiler does not."""

import numpy as np
import pytest

from triton_xe.runtime.emulator import AddressSpace, Dispatch, Fault, Launch, Program, iga

pytestmark = pytest.mark.skipif(iga.unavailable() is not None, reason="libiga64 is missing")
END = "send.gtwy (1|M0) null r1 null:0 0x0 0x02000010 {EOT}\n"


def threads_after(text, registers, device="bmg"):
    """The registers of one thread of 16 channels after the instructions."""
    program = Program(device, iga.assemble(device, text + END))
    launch = Launch(program, AddressSpace(), Dispatch((1, 1, 1), 1, 16))
    for number, values in registers.items():
        raw = np.ascontiguousarray(values).view(np.uint8)
        launch.threads.bytes[0, number * 64 : number * 64 + raw.size] = raw
    return launch.run().threads


VALUES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, 2.6, -2.6, 300, -300, np.nan, np.inf, 0, 7, -7,
                   1e9], np.float32)


@pytest.mark.parametrize(("bits", "function"), [
    (0, np.trunc), (0x1000, np.rint), (0x1010, np.ceil), (0x1020, np.floor), (0x1030, np.trunc),
    (0x1004, np.rint)])
def test_bit_12_of_cr0_lets_conversions_to_integers_round(bits, function):
    found = threads_after(
        f"or (1|M0) cr0.0<1>:ud cr0.0<0;1,0>:ud {bits:#x}:ud\n"
        "mov (16|M0) r4.0<1>:d r2.0<1;1,0>:f\n", {2: VALUES})
    want = np.clip(function(np.nan_to_num(VALUES.astype(np.float64))), -2.0**31, 2.0**31 - 1)
    assert found.views[np.int32][0, 64:80].tolist() == want.astype(np.int64).tolist()


def test_the_overflow_flag_is_the_carry_of_a_sum():
    a = np.array([0, 1, 2**32 - 1, 2**32 - 1, 2**31] * 3 + [5], np.uint32)
    b = np.array([0, 2**32 - 1, 2**32 - 1, 0, 2**31] * 3 + [6], np.uint32)
    found = threads_after("add (16|M0) (ov)f0.0 r4.0<1>:ud r2.0<1;1,0>:ud r3.0<1;1,0>:ud\n"
                          "mov (1|M0) r5.0<1>:uw f0.0<0;1,0>:uw\n", {2: a, 3: b})
    total = a.astype(np.uint64) + b
    assert found.views[np.uint32][0, 64:80].tolist() == total.astype(np.uint32).tolist()
    carries = sum(1 << i for i, each in enumerate(total) if each >> 32)
    assert int(found.views[np.uint16][0, 5 * 32]) == carries


@pytest.mark.parametrize(("result", "accepted"), [("null:0", True), ("r6:1", False)])
def test_a_prefetch_has_a_pitch_of_any_4_bytes(result, accepted):
    """Xe-HPC: a load from such a surface is a fault."""
    space = AddressSpace()
    words = np.zeros(16, np.uint32)
    words[:8] = 0, 1, 260 - 1, 33 - 1, 260 - 1, 0, 0, 0  # base, width, height, pitch, x, y, shape
    text = f"load_block2d.ugm.d32.a64.ca.ca (1|M0) {result} [r2:1]\n"
    program = Program("pvc", iga.assemble("pvc", text + END))
    memory = np.zeros(260 * 33, np.uint8)
    space.map(1 << 32, memory.ctypes.data, memory.size)
    launch = Launch(program, space, Dispatch((1, 1, 1), 1, 16))
    launch.threads.bytes[0, 128:192] = words.view(np.uint8)
    if accepted:
        launch.run()
    else:
        with pytest.raises(Fault, match="pitch is no multiple of 8 bytes"):
            launch.run()
