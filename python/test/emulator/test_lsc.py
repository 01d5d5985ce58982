"""LSC messages against loops over channels: gathers, scatters, vectors, masks, SLM, scratch."""

from __future__ import annotations

import numpy as np
import pytest

from python.test.emulator.assembled import launch, register, run
from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator import AddressSpace, Fault

pytestmark = pytest.mark.intel_compiler
OPERATIONS = {"load": 0, "load_quad": 2, "store": 4, "store_quad": 6, "fence": 31}
SIZES = {"d8": 0, "d16": 1, "d32": 2, "d64": 3, "d8u32": 4, "d16u32": 5, "d16u32h": 6}
MEMORY = {"d8": 1, "d16": 2, "d32": 4, "d64": 8, "d8u32": 1, "d16u32": 2, "d16u32h": 2}
REGISTER = {"d8": 1, "d16": 2, "d32": 4, "d64": 8, "d8u32": 4, "d16u32": 4, "d16u32h": 4}
VECTORS = {1: 0, 2: 1, 3: 2, 4: 3, 8: 4, 16: 5, 32: 6, 64: 7}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
BYTES = np.random.default_rng(0).integers(0, 256, 4096).astype(np.uint8)


def descriptor(operation, size, *, address=3, vector=1, components=None, transposed=False,
               addresses=1, results=1):
    """The bits of a message; lengths in registers."""
    vectors = components << 12 if components is not None else VECTORS[vector] << 12
    return (OPERATIONS[operation] | address << 7 | SIZES[size] << 9 | vectors | transposed << 15
            | results << 20 | addresses << 25)


def registers_of(size, lanes, components, grf=64):
    return max(1, -(-REGISTER[size] * lanes // grf)) * components


def expected(size, at, count):
    """Elements at byte offsets, as they arrive in registers."""
    raw = np.array([BYTES[o : o + MEMORY[size]] for o in at])
    values = raw.view(UNSIGNED[MEMORY[size]])[:, 0].astype(UNSIGNED[REGISTER[size]])
    return values << values.dtype.type(16) if size == "d16u32h" else values


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("device", ["bmg", "dg2"])
def test_gathers_and_scatters(size, vector, device):
    """A masked load, and a masked store of what it loaded."""
    if (vector > 1 and "8" in size) or (vector > 1 and "16" in size):
        return
    lanes, grf = (16, 64) if device == "bmg" else (8, 32)
    space = AddressSpace()
    a, b = space.put(BYTES), space.put(np.zeros(4096, np.uint8))
    rng = np.random.default_rng(vector)
    at = rng.permutation(4096 // 32)[:lanes] * 32 + 8 * (MEMORY[size] < 8)
    count = registers_of(size, lanes, vector, grf)
    address = -(-8 * lanes // grf)
    load = descriptor("load", size, vector=vector, addresses=address, results=count)
    store = descriptor("store", size, vector=vector, addresses=address, results=0)
    text = (f"(W) mov (1|M0) f0.0<1>:uw 0x5A3C:uw\n"
            f"(f0.0) send.ugm ({lanes}|M0) r20 r4 null:0 0x0 0x{load:08X}\n"
            f"(f0.0) send.ugm ({lanes}|M0) null r8 r20:{count} 0x0 0x{store:08X}")
    done = run(device, text, {4: (a + at).astype(np.uint64), 8: (b + at).astype(np.uint64)},
               simd=lanes, space=space)
    on = (0x5A3C >> np.arange(lanes) & 1).astype(bool)
    stored = np.zeros(4096, np.uint8)
    for component in range(vector):
        stride = count // vector
        found = register(done, 20 + component * stride, UNSIGNED[REGISTER[size]], lanes)[0]
        if device == "dg2" and size in ("d8u32", "d16u32"):
            found = found & (1 << 8 * MEMORY[size]) - 1
        offsets = at + component * MEMORY[size]
        np.testing.assert_array_equal(found, np.where(on, expected(size, offsets, lanes), 0))
        for o in offsets[on]:
            stored[o : o + MEMORY[size]] = BYTES[o : o + MEMORY[size]]
    np.testing.assert_array_equal(space.get(b, np.uint8, 4096), stored)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("size", ["d32", "d64"])
def test_transposed_vectors(count, size):
    space = AddressSpace()
    a = space.put(BYTES)
    results = -(-count * REGISTER[size] // 64)
    load = descriptor("load", size, vector=count, transposed=True, results=results)
    text = f"(W) send.ugm (1|M0) r20 r4 null:0 0x0 0x{load:08X}"
    addresses = np.array([[a + 64], [a + 192]], np.uint64)
    done = run("bmg", text, {4: addresses}, threads=2, space=space)
    found = register(done, 20, UNSIGNED[REGISTER[size]], count)
    for row, start in zip(found, (64, 192), strict=True):
        end = start + count * MEMORY[size]
        np.testing.assert_array_equal(row, BYTES[start:end].view(row.dtype))


@pytest.mark.parametrize("mask", [0b0001, 0b1010, 0b1111, 0b0111])
def test_components_of_a_quad(mask):
    space = AddressSpace()
    a = space.put(BYTES)
    count = bin(mask).count("1")
    load = descriptor("load_quad", "d32", components=mask, addresses=2, results=count)
    at = np.arange(16) * 16
    done = run("bmg", f"send.ugm (16|M0) r20 r4 null:0 0x0 0x{load:08X}",
               {4: (a + at).astype(np.uint64)}, space=space)
    for i, component in enumerate(c for c in range(4) if mask >> c & 1):
        np.testing.assert_array_equal(register(done, 20 + i, np.uint32)[0],
                                      expected("d32", at + 4 * component, 16))


@pytest.mark.parametrize(("device", "differ"), [("pvc", True), ("dg2", True), ("bmg", False)])
def test_upper_bits_are_undefined_before_xe2(device, differ):
    space = AddressSpace()
    a = space.put(BYTES)
    lanes = 8 if device == "dg2" else 16
    text = (f"send.ugm ({lanes}|M0) r20 r4 null:0 0x0 "
            f"0x{descriptor('load', 'd8u32', addresses=2):08X}")
    found = [register(launch(device, text, {4: np.arange(a, a + lanes)}, space=space, simd=lanes,
                             undefined=seed).run(), 20, np.uint32, lanes)[0] for seed in (0, 1)]
    assert (found[0] != found[1]).any() == differ
    for values in found:
        np.testing.assert_array_equal(values & (255 if differ else 0xFFFFFFFF), BYTES[:lanes])


def test_immediate_offsets():
    """Xe2 and later: 20 bits with a sign, in the extended descriptor."""
    space = AddressSpace()
    a = space.put(BYTES)
    load = descriptor("load", "d32", addresses=2)
    for offset in (0x40, -8):
        extended = (offset & 0xFFFFF) << 12
        text = f"send.ugm (16|M0) r20 r4 null:0 0x{extended:X} 0x{load:08X}"
        at = np.arange(16) * 8 + 64
        done = run("bmg", text, {4: (a + at).astype(np.uint64)}, space=space)
        np.testing.assert_array_equal(register(done, 20, np.uint32)[0],
                                      expected("d32", at + offset, 16))


def test_a_misaligned_access_takes_bytes_and_is_counted():
    space = AddressSpace()
    a = space.put(BYTES)
    at = np.arange(16) * 6 + 2
    load, store = descriptor("load", "d32", addresses=2), descriptor("store", "d32", addresses=2)
    text = (f"send.ugm (16|M0) r20 r4 null:0 0x0 0x{load:08X}\n"
            f"send.ugm (16|M0) null r6 r20:1 0x0 0x{store & ~(1 << 20):08X}")
    b = space.put(np.zeros(4096, np.uint8))
    done = run("bmg", text, {4: (a + at).astype(np.uint64), 6: (b + at).astype(np.uint64)},
               space=space)
    np.testing.assert_array_equal(register(done, 20, np.uint32)[0], expected("d32", at, 16))
    assert done.misaligned == {"load d32": 8, "store d32": 8}
    last = int(at[-1])
    np.testing.assert_array_equal(space.get(b + last, np.uint8, 4), BYTES[last : last + 4])


@pytest.mark.parametrize("offset", [4093, -1, 1 << 20])
def test_an_access_out_of_bounds_is_a_fault(offset):
    space = AddressSpace()
    a = space.put(BYTES)
    load = descriptor("load", "d32", addresses=2)
    addresses = np.full(16, a, np.int64)
    addresses[3] += offset
    text = f"send.ugm (16|M0) r20 r4 null:0 0x0 0x{load:08X}"
    with pytest.raises(Fault, match=rf"4 bytes at 0x{a + offset:x} are in no allocation.*send.ugm "
                                    "at 0x0") as caught:
        run("bmg", text, {4: addresses}, space=space)
    assert caught.value.what == "out of bounds"


def test_channels_that_are_off_access_nothing():
    space = AddressSpace()
    a = space.put(BYTES)
    addresses = np.full(16, a, np.int64)
    addresses[3] = 12345
    load = descriptor("load", "d32", addresses=2)
    text = ("(W) mov (1|M0) f0.0<1>:uw 0xFFF7:uw\n"
            f"(f0.0) send.ugm (16|M0) r20 r4 null:0 0x0 0x{load:08X}")
    assert register(run("bmg", text, {4: addresses}, space=space), 20, np.uint32)[0, 3] == 0


LOCAL = ("send.slm (16|M0) null r4 r6:1 0x0 0x{store:08X}\n"
         "send.slm (16|M0) r20 r4 null:0 0x0 0x{load:08X}").format(
    store=descriptor("store", "d32", address=2, results=0),
    load=descriptor("load", "d32", address=2))


def test_each_work_group_has_its_local_memory():
    addresses = np.arange(16, dtype=np.uint32)[::-1] * 4 | 0x10000000
    data = np.arange(4 * 16, dtype=np.uint32).reshape(4, 16)
    done = run("bmg", LOCAL, {4: addresses, 6: data}, groups=(2, 2, 1), slm_bytes=64)
    np.testing.assert_array_equal(register(done, 20, np.uint32), data)
    with pytest.raises(Fault, match="outside of the 60 bytes of shared local memory"):
        run("bmg", LOCAL, {4: addresses, 6: data}, groups=(2, 2, 1), slm_bytes=60)


def test_each_thread_has_its_scratch():
    """Xe2: ss[a0.2], with the surface's offset from r0.5."""
    store = descriptor("store", "d32", address=2, vector=16, transposed=True, results=0)
    load = descriptor("load", "d32", address=2, vector=16, transposed=True)
    surface = 2 << 29
    text = ("(W) and (1|M0) r2.0<1>:ud r0.5<0;1,0>:ud 0xFFFFFC00:ud\n"
            "(W) shr (1|M0) a0.2<1>:ud r2.0<0;1,0>:ud 4:w\n"
            f"(W) send.ugm (1|M0) null r4 r6:1 a0.2 0x{store | surface:08X}\n"
            f"(W) send.ugm (1|M0) r20 r4 null:0 a0.2 0x{load | surface:08X}")
    data = np.arange(3 * 16, dtype=np.uint32).reshape(3, 16)
    start = np.array([64], np.uint32)
    done = run("bmg", text, {4: start, 6: data}, threads=3, scratch_bytes=128)
    np.testing.assert_array_equal(register(done, 20, np.uint32), data)
    with pytest.raises(Fault, match="outside of the 64 bytes of scratch memory"):
        run("bmg", text, {4: start, 6: data}, threads=3, scratch_bytes=64)


@pytest.mark.parametrize(("size", "where"), [(60, "0xfc"), (0, "0x0")])
def test_a_load_rounded_up_reads_undefined_bytes_behind_scratch(size, where):
    """Intel's compiler loads 3 spilled registers as 4; the bytes of the fourth are not used."""
    load = descriptor("load", "d32", address=2, vector=64, transposed=True, results=4) | 2 << 29
    text = ("(W) shr (1|M0) a0.2<1>:ud r0.5<0;1,0>:ud 4:w\n"
            f"(W) send.ugm (1|M0) r20 r4 null:0 a0.2 0x{load:08X}")
    start, data = np.zeros(16, np.uint32), np.arange(48, dtype=np.uint32)
    made = [launch("bmg", text, {4: start}, scratch_bytes=192, undefined=seed) for seed in (0, 1)]
    for each in made:
        each.threads.memories.scratch.write(np.arange(0, 192, 4), np.zeros(48, int), data)
    found = [register(each.run(), 20, np.uint32, 64)[0] for each in made]
    np.testing.assert_array_equal(found[0][:48], data)
    assert (found[0][48:] != found[1][48:]).any()
    with pytest.raises(Fault, match=f"4 bytes at {where} are outside of the {size} bytes of scr"):
        run("bmg", text, {4: start}, scratch_bytes=size)


def test_scratch_blocks_of_the_old_data_port():
    """dc0: bit 18 scratch, 17 write, [13:12] size, [11:0] offset in 32 bytes."""
    block = 1 << 25 | 1 << 19 | 1 << 18 | 2 << 12 | 3
    text = (f"(W) send.dc0 (16|M0) null r0 r6:2 0x0 0x{block | 1 << 17:X}\n"
            f"(W) send.dc0 (16|M0) r20 r0 null:0 0x0 0x{block | 2 << 20:X}")
    data = np.arange(2 * 32, dtype=np.uint32).reshape(2, 32)
    done = run("pvc", text, {6: data}, threads=2, scratch_bytes=1024)
    np.testing.assert_array_equal(register(done, 20, np.uint32, 32), data)
    with pytest.raises(Fault, match="outside of the 200 bytes of scratch memory"):
        run("pvc", text, {6: data}, threads=2, scratch_bytes=200)


def test_scratch_blocks_before_xe_hpc_keep_dwords_of_disabled_channels():
    """Bit 16: a channel for each dword.  IGC spills so what a divergent branch writes."""
    block = 1 << 25 | 1 << 19 | 1 << 18
    write = block | 1 << 17 | 1 << 16
    text = (f"(W) send.dc0 (8|M0) null r0 r6:1 0x0 0x{write:X}\n"
            "(W) mov (1|M0) f0.0<1>:uw 0x35:uw\n"
            f"(f0.0) send.dc0 (8|M0) null r0 r7:1 0x0 0x{write:X}\n"
            f"(W) send.dc0 (8|M0) r20 r0 null:0 0x0 0x{block | 1 << 20:X}")
    old, new = np.arange(8, dtype=np.uint32), np.arange(8, dtype=np.uint32) + 100
    done = run("dg2", text, {6: old, 7: new}, scratch_bytes=64)
    enabled = 0x35 >> np.arange(8) & 1
    np.testing.assert_array_equal(
        register(done, 20, np.uint32, 8)[0], np.where(enabled, new, old))
    with pytest.raises(UnsupportedError, match="masked write of scratch"):
        run("dg2", f"(f0.0) send.dc0 (8|M0) null r0 r6:2 0x0 0x{write | 1 << 12:X}", {6: old},
            scratch_bytes=64)


def test_stateless_addresses_of_32_bits_count_from_the_general_state():
    space = AddressSpace()
    a = space.put(BYTES)
    load = descriptor("load", "d32", address=2, vector=8, transposed=True) | 3 << 29
    text = f"(W) send.ugm (1|M0) r20 r4 null:0 0xFF000000 0x{load:08X}"
    done = run("bmg", text, {4: np.array([32], np.uint32)}, space=space, general_state_base=a)
    np.testing.assert_array_equal(register(done, 20, np.uint32, 8)[0], BYTES[32:64].view(np.uint32))


def test_a_surface_that_nothing_describes_is_refused():
    load = descriptor("load", "d32", address=2, vector=8, transposed=True) | 3 << 29
    text = f"(W) send.ugm (1|M0) r20 r4 null:0 0x05000000 0x{load:08X}"
    with pytest.raises(UnsupportedError, match=r"surface bti\[0x5\] is not described"):
        run("bmg", text)
    space = AddressSpace()
    a = space.put(BYTES)
    done = launch("bmg", text, {4: np.zeros(1, np.uint32)}, space=space,
                  surfaces=lambda kind, number: (a, 4096)).run()
    np.testing.assert_array_equal(register(done, 20, np.uint32, 8)[0], BYTES[:32].view(np.uint32))


@pytest.mark.parametrize("place", [0, 1])
def test_registers_of_a_gathered_message(place):
    """Xe3: bytes of s0 number the registers of the payload, addresses first."""
    space = AddressSpace()
    a = space.put(np.zeros(64, np.uint32))
    store = descriptor("store", "d32", vector=2, addresses=4, results=0)
    text = (f"(W) mov (1|M0) s0.{place}<1>:uq 0x1E160932:uq\n"
            f"send.ugm (16|M0) null r[s0.{8 * place}] 0x0 0x{store:08X}")
    addresses = (a + 8 * np.arange(16)).astype(np.uint64)
    first, second = np.arange(16, dtype=np.uint32), 100 + np.arange(16, dtype=np.uint32)
    run("ptl", text, {0x32: addresses[:8], 0x09: addresses[8:], 0x16: first, 0x1E: second},
        space=space)
    stored = space.get(a, np.uint32, (32,)).reshape(16, 2)
    np.testing.assert_array_equal(stored, np.stack([first, second], 1))


def test_an_unknown_message_is_refused():
    with pytest.raises(UnsupportedError, match=r"LSC message 0x2f .* send.ugm at 0x0"):
        run("bmg", "send.ugm (16|M0) r20 r4 null:0 0x0 0x0210052F")


@pytest.mark.parametrize(("text", "sentence"), [
    ("send.ugm (16|M0) r20 r4 null:0 0x0 0x{load:08X}", "load has 1 registers of addresses, but"),
    ("(W) send.ugm (1|M0) null r4 r6:2 0x0 0x{store:08X}", "store has 2 registers of data, but"),
    ("(W) send.ugm (1|M0) r20 r4 null:0 0x0 0x{long:08X}", "load has 2 registers of results, but"),
])
def test_wrong_lengths_of_payloads_are_faults(text, sentence):
    descriptors = {
        "load": descriptor("load", "d32"), "long": descriptor("load", "d32", vector=8,
                                                              transposed=True, results=2),
        "store": descriptor("store", "d32", vector=16, transposed=True, results=0)}
    with pytest.raises(Fault, match=sentence) as caught:
        run("bmg", text.format(**descriptors), {4: np.zeros(16, np.uint64)})
    assert caught.value.what == "payload"
