"""2D block messages against the hardware table's description of their result."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from python.test.emulator.assembled import launch, register, run
from triton_xe.hardware.block_2d import BlockShape, legal_shapes, result_bits
from triton_xe.hardware.target import target
from triton_xe.runtime.emulator import AddressSpace, Fault

pytestmark = pytest.mark.intel_compiler
WIDTH, HEIGHT, PITCH = 192, 40, 256
SURFACE = np.random.default_rng(0).integers(0, 256, (HEIGHT, PITCH)).astype(np.uint8)
SIZES = {8: 0, 16: 1, 32: 2, 64: 3}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def descriptor(operation, shape):
    return ({"load": 3, "store": 7}[operation] | shape.vnni << 7 | SIZES[shape.element_bits] << 9
            | shape.transpose << 15 | 1 << 25)


def registers(shape):
    return -(-shape.result_bytes // 64)


def load(shape):
    """The descriptor of a load with a result."""
    return descriptor("load", shape) | min(registers(shape), 31) << 20


def payload(base, shape, x, y):
    words = np.zeros(16, np.uint32)
    words[:2] = np.array([base], np.uint64).view(np.uint32)
    words[2:7] = WIDTH - 1, HEIGHT - 1, PITCH - 1, x % 2**32, y % 2**32
    words[7] = shape.width - 1 | shape.height - 1 << 8 | shape.blocks - 1 << 16
    return words


def element(shape, x, y):
    """The bytes of an element; zeros outside of the surface."""
    size = shape.element_bytes
    inside = 0 <= y < HEIGHT and x >= 0 and (x + 1) * size <= WIDTH
    return SURFACE[y, x * size : (x + 1) * size] if inside else np.zeros(size, np.uint8)


def expected(shape, x, y):
    """The image in registers, byte by byte, from the bits of its addresses."""
    bits, image = result_bits(shape), np.zeros(shape.result_bytes, np.uint8)
    for address in range(shape.result_bytes):
        at, padding = {"byte": 0, "x": 0, "y": 0}, False
        for i, bit in enumerate(bits):
            if address >> i & 1:
                padding |= bit is None
                if bit:
                    at[bit[0]] += bit[1]
        if not padding:
            image[address] = element(shape, x + at["x"], y + at["y"])[at["byte"]]
    return image


def sample(operation, device, count):
    shapes = sorted(legal_shapes(operation, target(device)), key=str)
    rng = np.random.default_rng(len(shapes))
    return [shapes[i] for i in rng.permutation(len(shapes))[:count]]


@pytest.mark.covering
@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize("kind", ["plain", "vnni", "transpose"])
def test_loads(device, kind):
    shapes = [s for s in sample("load", device, 1000)
              if (s.vnni, s.transpose) == (kind == "vnni", kind == "transpose")][:24]
    space = AddressSpace()
    base = space.put(SURFACE)
    for shape in shapes:
        unit = max(1, 4 // shape.element_bytes)
        places = [(0, 0), (2 * unit, 5), (-unit, -3), (WIDTH // shape.element_bytes - unit, 37),
                  (WIDTH // shape.element_bytes + 64, 0)]
        payloads = np.array([payload(base, shape, *place) for place in places])
        text = f"send.ugm (1|M0) r20 r4 null:0 0x0 0x{load(shape):08X}"
        done = run(device, text, {4: payloads}, threads=len(places), space=space)
        found = register(done, 20, np.uint8, shape.result_bytes)
        for row, place in zip(found, places, strict=True):
            np.testing.assert_array_equal(row, expected(shape, *place), err_msg=f"{shape} {place}")


def test_immediate_offsets():
    space = AddressSpace()
    base, shape = space.put(SURFACE), BlockShape(16, 16, 8)
    extended = (-16 & 0x3FF) << 12 | (9 & 0x3FF) << 22
    text = (f"send.ugm (1|M0) r20 r4 null:0 0x{extended:X} "
            f"0x{load(shape):08X}")
    done = run("bmg", text, {4: payload(base, shape, 32, 2)}, space=space)
    np.testing.assert_array_equal(register(done, 20, np.uint8, shape.result_bytes)[0],
                                  expected(shape, 16, 11))


@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_stores(device):
    """Elements inside of the surface are stored, others dropped, other bytes untouched."""
    for shape in sample("store", device, 16):
        space = AddressSpace()
        base = space.put(SURFACE)
        size = shape.element_bytes
        unit = max(1, 4 // size)
        x, y = WIDTH // size - unit - shape.width // 2 * (shape.width > unit), HEIGHT - 1
        data = np.random.default_rng(1).integers(0, 256, shape.result_bytes).astype(np.uint8)
        text = (f"send.ugm (1|M0) null r4 r8:{registers(shape)} 0x0 "
                f"0x{descriptor('store', shape):08X}")
        run(device, text, {4: payload(base, shape, x, y), 8: data}, space=space)
        changed = SURFACE.copy()
        padded = 1 << (shape.width - 1).bit_length()
        for row in range(shape.height):
            for column in range(shape.width):
                if y + row < HEIGHT and (x + column + 1) * size <= WIDTH:
                    at = (row * padded + column) * size
                    changed[y + row, (x + column) * size : (x + column + 1) * size] = (
                        data[at : at + size])
        np.testing.assert_array_equal(space.get(base, np.uint8, SURFACE.shape), changed)


def test_a_store_of_gathered_registers():
    """Xe3: bytes of s0 number the payload's registers, the descriptor first."""
    shape, space = BlockShape(32, 16, 4), AddressSpace()
    data = np.arange(64, dtype=np.uint32)
    base = space.put(np.zeros((HEIGHT, PITCH), np.uint8))
    text = ("(W) mov (1|M0) s0.0<1>:uq 0x1E16093B32:uq\n"
            f"send.ugm (1|M0) null r[s0.0] 0x0 0x{descriptor('store', shape) + (4 << 25):08X}")
    run("ptl", text, {0x32: payload(base, shape, 4, 2), **{
        number: data[16 * row : 16 * row + 16] for row, number in enumerate(
            (0x3B, 0x09, 0x16, 0x1E))}}, space=space)
    stored = space.get(base, np.uint8, (HEIGHT, PITCH)).view(np.uint32)
    np.testing.assert_array_equal(stored[2:6, 4:20], data.reshape(4, 16))


def test_a_prefetch_only_counts():
    space = AddressSpace()
    base, shape = space.put(SURFACE), BlockShape(16, 16, 8)
    text = f"send.ugm (1|M0) null r4 null:0 0x0 0x{descriptor('load', shape):08X}"
    done = run("bmg", text, {4: payload(base, shape, 88, 36)}, space=space)
    assert done.bytes_moved == {0: 8 * 2 * 4}


@pytest.mark.parametrize(("word", "value", "sentence"), [
    (4, 250 - 1, "pitch is no multiple of 16"), (4, 128 - 1, "pitch is less than the width"),
    (0, None, "base is not aligned to 64"),
])
def test_broken_rules_are_faults(word, value, sentence):
    space = AddressSpace()
    base, shape = space.put(SURFACE), BlockShape(16, 16, 8)
    words = payload(base, shape, 0, 0)
    words[word] = words[word] + 4 if value is None else value
    text = f"send.ugm (1|M0) r20 r4 null:0 0x0 0x{load(shape):08X}"
    with pytest.raises(Fault, match=sentence):
        run("bmg", text, {4: words}, space=space)


def test_a_message_of_a_thread_that_is_off_does_nothing():
    space = AddressSpace()
    shape = BlockShape(16, 16, 8)
    text = ("(W) mov (1|M0) f0.0<1>:ud 0x0:ud\n"
            f"(f0.0) send.ugm (1|M0) r20 r4 null:0 0x0 "
            f"0x{load(shape):08X}")
    done = run("bmg", text, {4: payload(3, shape, 0, 0)}, space=space)
    assert not register(done, 20, np.uint8, 256).any()


@pytest.mark.parametrize(("words", "shape", "sentence"), [
    ({2: 32 - 1}, BlockShape(16, 16, 8), "the width is less than 64 bytes"),
    ({5: 1}, BlockShape(16, 16, 8), "x is no multiple of 4 bytes"),
    ({2: 190 - 1}, BlockShape(16, 16, 8), "the width is no multiple of 4 bytes"),
    ({}, BlockShape(16, 16, 8, blocks=4),
     "d16 16x8 v4: a row of 128 bytes is over the limit of 64"),
    ({}, BlockShape(16, 16, 8), None),
])
def test_what_the_hardware_table_does_not_allow_is_found(words, shape, sentence):
    space = AddressSpace()
    payload_words = payload(space.put(SURFACE), shape, 0, 0)
    for number, value in words.items():
        payload_words[number] = value
    text = f"send.ugm (1|M0) r20 r4 null:0 0x0 0x{load(shape):08X}"
    done = run("bmg", text, {4: payload_words}, space=space)
    assert dict(done.findings) == ({} if sentence is None else {(0, sentence): 1})
    with nullcontext() if sentence is None else pytest.raises(
            Fault, match=f"kernel kernel, send.ugm at 0x0: breaks a rule .*: {sentence}"):
        done.refuse_findings()


@pytest.mark.parametrize(("ahead", "share"), [(0, 0.0), (32, 1.0), (4, 0.5)])
def test_prefetches_that_no_load_follows(ahead, share):
    """Eight rows are loaded; the prefetch is of rows further down."""
    space = AddressSpace()
    base, shape = space.put(SURFACE), BlockShape(16, 16, 8)
    code = descriptor("load", shape)
    text = (f"send.ugm (1|M0) null r5 null:0 0x0 0x{code:08X}\n"
            f"send.ugm (1|M0) r20 r4 null:0 0x0 0x{load(shape):08X}")
    done = launch("bmg", text, {4: payload(base, shape, 0, 0), 5: payload(base, shape, 0, ahead)},
                  space=space).watch_prefetches().run()
    assert done.unused_prefetches() == {0: share}


def test_a_block_behind_the_last_register_is_a_fault():
    space = AddressSpace()
    shape = BlockShape(16, 16, 32)
    text = f"send.ugm (1|M0) r250 r4 null:0 0x0 0x{load(shape):08X}"
    with pytest.raises(Fault, match="1024 bytes does not fit into the registers from r250"):
        run("bmg", text, {4: payload(space.put(SURFACE), shape, 0, 0)}, space=space)


@pytest.mark.parametrize(("text", "sentence"), [
    (f"send.ugm (1|M0) r20 r4 null:0 0x0 0x{descriptor('load', BlockShape(16, 16, 8)) | 3 << 20:X}",
     "load_block2d has 3 registers, but its block takes 4"),
    (f"send.ugm (1|M0) null r4 r8:2 0x0 0x{descriptor('store', BlockShape(16, 16, 8)):X}",
     "store_block2d has 2 registers, but its block takes 4"),
])
def test_a_wrong_number_of_registers_is_a_fault(text, sentence):
    space = AddressSpace()
    words = payload(space.put(SURFACE), BlockShape(16, 16, 8), 0, 0)
    with pytest.raises(Fault, match=sentence) as caught:
        run("bmg", text, {4: words}, space=space)
    assert caught.value.what == "payload"
