"""Messages of Xe3P: descriptors of 64 bits, bases in scalar registers, 512 registers."""

from __future__ import annotations

import numpy as np
import pytest

from python.test.emulator.assembled import launch, register, run
from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator import AddressSpace, Fault

pytestmark = pytest.mark.intel_compiler
LOAD, STORE, BFADD, FADD, FENCE = 0, 4, 33, 19, 31
SIZES = {"d32": (2, 4), "d64": (3, 8), "d8u32": (4, 1), "d16u32": (5, 2)}
"""Size of the data -> its code and bytes in memory."""
VECTORS = {1: 0, 2: 1, 3: 2, 4: 3, 8: 4, 16: 5, 32: 6, 64: 7}
KINDS = {"a32u": (0, np.uint32), "a32s": (1, np.int32), "a64": (2, np.int64)}
"""Kind of addresses -> its code and type."""
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
LANES, THREADS, ROUNDS, PART = 16, 50, 10, 1 << 15
"""Each round is a launch of threads with random addresses in their own parts of memory."""


def descriptor(operation, size="d32", vector=1, kind=2, *, scale=0, offset=0, transposed=False):
    """The bits of a message; `offset` counts elements."""
    return (operation | VECTORS[vector] << 7 | transposed << 10 | SIZES[size][0] << 11 | kind << 14
            | (offset & (1 << 22) - 1) << 22 | scale << 44)


def registers_of(size, vector):
    return vector * max(1, SIZES[size][1] * LANES // 64)


@pytest.mark.sample(8)
@pytest.mark.parametrize(("size", "vector"), [
    ("d32", 1), ("d32", 2), ("d32", 3), ("d32", 4), ("d32", 8), ("d64", 1), ("d64", 4),
    ("d8u32", 1), ("d16u32", 1)])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("has_base", [True, False])
def test_loads_and_stores(size, vector, kind, has_base):
    """500 masked loads from random addresses, and stores of what was loaded.

    Address: base + scale * register + offset; without a base the register has all of it.
    """
    if not has_base and kind != "a64":
        return
    (code, bytes_), (number, dtype) = SIZES[size], KINDS[kind]
    rng, step = np.random.default_rng([code, vector, number]), SIZES[size][1] * vector
    for _ in range(ROUNDS):
        space, memory = AddressSpace(), rng.integers(0, 256, (THREADS, PART)).astype(np.uint8)
        a, b = space.put(memory), space.put(np.zeros_like(memory))
        scale = int(rng.integers(0, 4)) if has_base and vector != 3 and step << 2 <= 32 else 0
        offset = int(rng.integers(-64, 64))
        factor = step << scale - 1 if scale else 1
        least = 8192 if kind == "a32u" else 16384
        indices = (rng.permuted(np.tile(np.arange(256), (THREADS, 1)), axis=1)[:, :LANES]
                   - (0 if kind == "a32u" else 128)) * (1 if scale else step)
        at = least + indices * factor + offset * bytes_
        starts = np.arange(THREADS) * PART + least
        bases = [(x + starts).astype(np.uint64) for x in (a, b)]
        masks = rng.integers(0, 1 << LANES, THREADS)
        values = [indices if has_base else base[:, None].astype(np.int64) + indices
                  for base in bases]
        named = "s0.{} " if has_base else ""
        load, store = (descriptor(o, size, vector, number, scale=scale, offset=offset)
                       for o in (LOAD, STORE))
        address, data = np.dtype(dtype).itemsize * LANES // 64, registers_of(size, vector)
        text = (
            "(W) mov (1|M0) s0.2<1>:uq r2.0<0;1,0>:uq\n(W) mov (1|M0) s0.3<1>:uq r2.1<0;1,0>:uq\n"
            "(W) mov (1|M0) f0.0<1>:uw r3.0<0;1,0>:uw\n"
            f"(f0.0) sendg.ugm (16|M0) r40 r4:{address} null:0 {named.format(16)}{load:#x}\n"
            f"(f0.0) sendg.ugm (16|M0) null r8:{address} r40:{data} {named.format(24)}{store:#x}")
        done = run("cri", text, {2: np.stack(bases, 1), 3: masks[:, None].astype(np.uint16),
                                 4: values[0].astype(dtype), 8: values[1].astype(dtype)},
                   threads=THREADS, space=space)
        stored, held = np.zeros_like(memory), UNSIGNED[max(4, bytes_)]
        found = [register(done, 40 + c * data // vector, held) for c in range(vector)]
        for thread, lane in zip(*np.nonzero(masks[:, None] >> np.arange(LANES) & 1), strict=True):
            first = at[thread, lane]
            stored[thread, first : first + step] = memory[thread, first : first + step]
            wanted = memory[thread, first : first + step].view(UNSIGNED[bytes_])
            assert [row[thread, lane] for row in found] == wanted.tolist()
        np.testing.assert_array_equal(space.get(b, np.uint8, memory.shape), stored)


@pytest.mark.parametrize("count", [1, 8, 64])
@pytest.mark.parametrize("size", ["d32", "d64"])
def test_transposed_vectors(count, size):
    space, memory = AddressSpace(), np.random.default_rng(count).integers(0, 256, 1024, np.uint8)
    a, bytes_ = space.put(memory), SIZES[size][1]
    load = descriptor(LOAD, size, count, transposed=True, offset=-2)
    text = ("(W) mov (1|M0) s0.1<1>:uq r2.0<0;1,0>:uq\n"
            f"(W) sendg.ugm (1|M0) r20 r4:1 null:0 s0.8 {load:#x}")
    done = run("cri", text, {2: np.array([[a], [a]], np.uint64),
                             4: np.array([[64], [192]], np.uint64)}, threads=2, space=space)
    for row, first in zip(register(done, 20, UNSIGNED[bytes_], count), (64, 192), strict=True):
        start = first - 2 * bytes_
        np.testing.assert_array_equal(row, memory[start : start + count * bytes_].view(row.dtype))


def test_local_memory_and_scratch():
    """Local addresses have no base; a surface handle of `scratch_pointer` is the scratch memory."""
    values = np.arange(32, dtype=np.uint32).reshape(2, 16)
    slm = [descriptor(o, kind=0, offset=4) for o in (STORE, LOAD)]
    scratch = [o | 5 << 7 | 1 << 10 | 2 << 11 | 3 << 14 | 8 << 27 for o in (STORE, LOAD)]
    text = ("(W) mov (1|M0) s0.7<1>:uq 0x400:uq\n"
            f"sendg.slm (16|M0) null r4:1 r6:1 {slm[0]:#x}\n"
            f"sendg.slm (16|M0) r20 r4:1 null:0 {slm[1]:#x}\n"
            f"(W) sendg.ugm (1|M0) null r3:1 r20:1 s0.56 {scratch[0]:#x}\n"
            f"(W) sendg.ugm (1|M0) r21 r3:1 null:0 s0.56 {scratch[1]:#x}")
    done = run("cri", text, {3: np.zeros(1, np.uint32), 6: values,
                             4: (np.arange(32, dtype=np.uint32) * 4).reshape(2, 16)},
               threads=2, slm_bytes=256, scratch_bytes=128)
    np.testing.assert_array_equal(register(done, 20, np.uint32), values)
    np.testing.assert_array_equal(register(done, 21, np.uint32), values)
    assert done.threads.memories.local.size == 256


def test_addresses_of_57_bits():
    """Memory above 2^47, which no pointer on earlier devices reaches."""
    memory = np.arange(64, dtype=np.uint32)
    space, high = AddressSpace(), 0xAB_CDEF_0123_4000 << 4
    space.map(high, memory.ctypes.data, memory.nbytes)
    text = f"sendg.ugm (16|M0) r20 r4:2 null:0 {descriptor(LOAD, offset=16):#x}"
    done = run("cri", text, {4: np.arange(high, high + 64, 4, dtype=np.uint64)}, space=space)
    np.testing.assert_array_equal(register(done, 20, np.uint32)[0], memory[16:32])


@pytest.mark.parametrize(("operation", "kind"), [(FADD, "hf"), (BFADD, "bf")])
def test_sums_of_16_bits_in_memory(operation, kind):
    """500 x 16 atomic sums, each rounded by itself."""
    rng = np.random.default_rng(operation)
    values = rng.standard_normal((500, 16)).astype(np.float32)
    places, space = rng.integers(0, 7, (500, 16)), AddressSpace()
    bits = (values.astype(np.float16).view(np.uint16) if kind == "hf"
            else (values.view(np.uint32) >> 16).astype(np.uint16))
    a = space.put(np.zeros(8, np.uint16))
    text = f"sendg.ugm (16|M0) null r4:2 r6:1 {descriptor(operation, 'd16u32'):#x}"
    run("cri", text, {4: (a + places * 2).astype(np.uint64), 6: bits.astype(np.uint32)},
        threads=500, space=space)
    found, totals = space.get(a, np.uint16, 8), np.zeros(8, np.float32)
    numbers = (bits.view(np.float16) if kind == "hf"
               else (bits.astype(np.uint32) << 16).view(np.float32)).astype(np.float32)
    for place, number in zip(places.reshape(-1), numbers.reshape(-1), strict=True):
        total = np.array([totals[place] + number], np.float32)
        if kind == "hf":
            totals[place] = total.astype(np.float16)[0]
        else:
            raw = total.view(np.uint32)
            totals[place] = (raw + 0x7FFF + (raw >> 16 & 1) >> 16 << 16).view(np.float32)[0]
    got = found.view(np.float16) if kind == "hf" else (found.astype(np.uint32) << 16).view(
        np.float32)
    np.testing.assert_array_equal(got.astype(np.float32), totals)


def test_registers_of_a_gathered_message():
    """Bytes of s0 number the registers of the payload; a base may follow."""
    space = AddressSpace()
    a = space.put(np.zeros(64, np.uint32))
    store = descriptor(STORE, vector=2, kind=0, scale=1)
    text = ("(W) mov (1|M0) s0.2<1>:uq 0x1E1632:uq\n(W) mov (1|M0) s0.4<1>:uq r2.0<0;1,0>:uq\n"
            f"sendg.ugm (16|M0) null r[s0.16]:3 s0.32 {store:#x}")
    first, second = np.arange(16, dtype=np.uint32), 100 + np.arange(16, dtype=np.uint32)
    run("cri", text, {2: np.array([a], np.uint64), 0x32: np.arange(16, dtype=np.uint32),
                      0x16: first, 0x1E: second}, space=space)
    stored = space.get(a, np.uint32, (32,)).reshape(16, 2)
    np.testing.assert_array_equal(stored, np.stack([first, second], 1))


def test_a_barrier_counts_the_threads_of_r0():
    """Each of 4 threads stores, waits, and loads what the next one stored."""
    store, load = (descriptor(o, kind=0) for o in (STORE, LOAD))
    text = (f"sendg.slm (16|M0) null r4:1 r5:1 {store:#x}\n"
            "(W) sendg.gtwy (1|M0) null r0:1 null:0 0x84\nsync.bar null\n"
            f"sendg.slm (16|M0) r20 r6:1 null:0 {load:#x}")
    at = np.arange(64, dtype=np.uint32).reshape(4, 16)
    made = launch("cri", text, {4: at * 4, 5: at, 6: np.roll(at, -1, 0) * 4}, threads=4,
                  slm_bytes=256).run("reversed")
    np.testing.assert_array_equal(register(made, 20, np.uint32), np.roll(at, -1, 0))


def test_messages_reach_the_last_of_512_registers():
    space = AddressSpace()
    a = space.put(np.arange(16, dtype=np.uint32))
    load, store = descriptor(LOAD), descriptor(STORE)
    text = (f"sendgx.ugm (16|M0) r508 r4:2 null:0 {load:#x}\n"
            f"sendgx.ugm (16|M0) null r6:2 r508:1 {store:#x}")
    b = space.put(np.zeros(16, np.uint32))
    at = np.arange(0, 64, 4, dtype=np.uint64)
    run("cri", text, {4: a + at, 6: b + at}, space=space)
    np.testing.assert_array_equal(space.get(b, np.uint32, 16), np.arange(16))
    wide = descriptor(LOAD, vector=8)
    with pytest.raises(Fault, match="data after the last register"):
        run("cri", f"sendgx.ugm (16|M0) r508 r4:2 null:0 {wide:#x}", {4: a + at}, space=space)


def test_what_has_no_definition_is_refused():
    with pytest.raises(UnsupportedError, match="LSC message 0x2d"):
        run("cri", "sendg.ugm (16|M0) r20 r4:2 null:0 0x902D")
