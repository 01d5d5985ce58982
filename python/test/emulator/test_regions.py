"""Operands: regions, subregisters, indirect addressing, masks, flags and predicates."""

from __future__ import annotations

import numpy as np
import pytest

from python.test.emulator.assembled import register, result, run
from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator import Fault

pytestmark = pytest.mark.intel_compiler
ELEMENTS = np.arange(64, dtype=np.int32) * 3 + 7


def region(vertical, width, step, channels=16):
    """Elements by the definition: rows of `width` elements `step` apart."""
    return [channel // width * vertical + channel % width * step for channel in range(channels)]


@pytest.mark.parametrize("shape", [(0, 1, 0), (1, 1, 0), (2, 1, 0), (8, 8, 1), (4, 4, 1), (8, 4, 2),
                                   (0, 4, 1), (4, 2, 1), (0, 8, 1), (1, 2, 0)])
def test_regions_of_sources(shape):
    text = f"mov (16|M0) r20.0<1>:d r4.3<{shape[0]};{shape[1]},{shape[2]}>:d"
    found = result("dg2", text, {4: ELEMENTS}, np.int32)
    np.testing.assert_array_equal(found, ELEMENTS[[3 + e for e in region(*shape)]])


@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("device", ["bmg", "dg2"])
def test_strides_of_destinations(step, device):
    text = f"mov (8|M0) r20.2<{step}>:w r4.0<2;1,0>:w"
    found = register(run(device, text, {4: ELEMENTS}), 20, np.int16, 64)[0]
    expected = np.zeros(64, np.int16)
    expected[2 : 2 + 8 * step : step] = ELEMENTS[:8]
    np.testing.assert_array_equal(found, expected)


def test_ternary_regions():
    text = "add3 (8|M0) r20.0<1>:d r4.1<0;0>:d r5.0<8;1>:d r6.0<2>:d"
    found = result("dg2", text, {4: ELEMENTS}, np.int32, 8)
    np.testing.assert_array_equal(found, ELEMENTS[1] + ELEMENTS[8:16] + ELEMENTS[16:32:2])


def test_a_register_that_an_address_register_names():
    text = ("(W) mov (1|M0) a0.0<1>:uw 0x108:uw\n"
            "(W) mov (1|M0) a0.2<1>:uw 0x500:uw\n"
            "mov (16|M0) r[a0.2,16]<1>:d r[a0.0]<1;1,0>:d")
    done = run("bmg", text, {4: ELEMENTS})
    np.testing.assert_array_equal(register(done, 20, np.int32, 20)[0, 4:], ELEMENTS[2:18])


def test_an_address_register_for_each_row():
    text = ("(W) mov (8|M0) a0.0<1>:uw r2.0<1;1,0>:uw\n"
            "mov (8|M0) r20.0<1>:d r[a0.0]<1,0>:d")
    addresses = np.array([0x100 + 4 * i for i in (5, 0, 7, 7, 1, 31, 2, 16)], np.uint16)
    found = result("bmg", text, {2: addresses, 4: ELEMENTS}, np.int32, 8)
    np.testing.assert_array_equal(found, ELEMENTS[[5, 0, 7, 7, 1, 31, 2, 16]])


def test_flags_are_registers():
    text = ("(W) mov (1|M0) f1.0<1>:ud 0xA5A50F0F:ud\n"
            "(W) mov (1|M0) r20.0<1>:uw f1.1<0;1,0>:uw\n"
            "(W) mov (1|M0) r20.1<1>:uw f1.0<0;1,0>:uw")
    np.testing.assert_array_equal(result("bmg", text, {}, np.uint16, 2), [0xA5A5, 0x0F0F])


PREDICATES = {
    "f0.0": lambda bits: bits,
    "~f0.0": lambda bits: ~bits,
    "f0.0.any": lambda bits: np.full(16, bits.any()),
    "f0.0.all": lambda bits: np.full(16, bits.all()),
}


@pytest.mark.parametrize("predicate", list(PREDICATES))
@pytest.mark.parametrize("flags", [0, 0xFFFF, 0x0F31])
def test_predicates(predicate, flags):
    text = (f"(W) mov (1|M0) f0.0<1>:uw 0x{flags:x}:uw\n"
            "(W) mov (16|M0) r20.0<1>:d -1:w\n"
            f"({predicate}) mov (16|M0) r20.0<1>:d r4.0<1;1,0>:d")
    bits = (flags >> np.arange(16) & 1).astype(bool)
    np.testing.assert_array_equal(result("bmg", text, {4: ELEMENTS}, np.int32),
                                  np.where(PREDICATES[predicate](bits), ELEMENTS[:16], -1))


@pytest.mark.parametrize("form", ["any4h", "all4h", "any8h", "all2h", "any16h"])
def test_horizontal_predicates_of_xe_hpg(form):
    flags, group = 0x0F31, int(form[3:-1])
    text = (f"(W) mov (1|M0) f0.0<1>:uw 0x{flags:x}:uw\n(W) mov (16|M0) r20.0<1>:d -1:w\n"
            f"(f0.0.{form}) mov (16|M0) r20.0<1>:d r4.0<1;1,0>:d")
    bits = (flags >> np.arange(16) & 1).astype(bool).reshape(-1, group)
    chosen = np.repeat(bits.any(1) if form[:3] == "any" else bits.all(1), group)
    np.testing.assert_array_equal(result("dg2", text, {4: ELEMENTS}, np.int32),
                                  np.where(chosen, ELEMENTS[:16], -1))


def test_selection_by_a_predicate_is_no_mask():
    text = ("(W) mov (1|M0) f0.0<1>:uw 0x00FF:uw\n"
            "(f0.0) sel (16|M0) r20.0<1>:d r4.0<1;1,0>:d 5:w")
    np.testing.assert_array_equal(result("bmg", text, {4: ELEMENTS}, np.int32),
                                  np.where(np.arange(16) < 8, ELEMENTS[:16], 5))


def test_flags_of_channels_that_are_off_remain():
    """A chain of ands: (f0.0) cmp (eq)f0.0."""
    text = ("(W) mov (1|M0) f0.0<1>:ud 0x5500FF:ud\n"
            "(f0.0) cmp (16|M0) (gt)f0.0 null<1>:d r4.0<1;1,0>:d 20:w\n"
            "(W) mov (1|M0) r20.0<1>:ud f0.0<0;1,0>:ud")
    expected = sum(1 << i for i in range(8) if ELEMENTS[i] > 20) | 0x550000
    assert int(result("bmg", text, {4: ELEMENTS}, np.uint32, 1)[0]) == expected


def test_channel_offsets():
    """(8|M8) writes channels 8 to 15 of flags, and is masked by them."""
    text = ("(W) mov (1|M0) f0.0<1>:uw 0x0:uw\n"
            "cmp (8|M8) (ge)f0.0 null<1>:d r4.0<1;1,0>:d 13:w\n"
            "(W) mov (1|M0) r20.0<1>:uw f0.0<0;1,0>:uw")
    expected = sum(1 << 8 + i for i in range(8) if ELEMENTS[i] >= 13)
    assert int(result("bmg", text, {4: ELEMENTS}, np.uint16, 1)[0]) == expected


MISPLACED = [(0x102, UnsupportedError, "not aligned"), (0x4000, Fault, "outside of the register")]


@pytest.mark.parametrize("move", ["r20.0<1>:d r[a0.0]<1,0>:d", "r[a0.1]<1>:d r4.0<1;1,0>:d"])
@pytest.mark.parametrize(("address", "error", "sentence"), MISPLACED)
@pytest.mark.parametrize("off", ["", "(f0.0) "])
def test_a_misplaced_address_is_refused_in_channels_that_run(move, address, error, sentence, off):
    """Address registers of other channels and threads are left from before."""
    text = ("(W) mov (8|M0) a0.0<1>:uw 0x100:uw\n(W) mov (1|M0) f0.0<1>:uw 0:uw\n"
            f"(W) mov (1|M0) a0.1<1>:uw {address:#x}:uw\n{off}mov (8|M0) {move}")
    if off:
        run("bmg", text)
        return
    with pytest.raises(error, match=rf"{sentence}.*mov at 0x30"):
        run("bmg", text)


def test_an_unknown_instruction_is_refused_when_it_runs():
    text = "srnd (16|M0) r20.0<1>:hf r4.0<1;1,0>:f r6.0<1;1,0>:f"
    with pytest.raises(UnsupportedError, match=r"srnd has no definition here \(kernel kernel, "
                                               r"srnd at 0x0\)") as caught:
        run("bmg", text)
    assert caught.value.pc == 0
    skipped = f"(W) jmpi (1|M0) over\n{text}\nover:\n(W) mov (1|M0) r20.0<1>:d 3:w"
    assert result("bmg", skipped, {}, np.int32, 1)[0] == 3
