"""Atomic messages against a loop over channels."""

from __future__ import annotations

import numpy as np
import pytest

from python.test.emulator.assembled import register, run
from triton_xe.runtime.emulator import AddressSpace, Fault

pytestmark = pytest.mark.intel_compiler


def step(name, old, x, y):
    return {
        "iinc": lambda: old + 1, "idec": lambda: old - 1, "load": lambda: old, "store": lambda: x,
        "iadd": lambda: old + x, "isub": lambda: old - x, "smin": lambda: min(old, x),
        "smax": lambda: max(old, x), "umin": lambda: min(old, x), "umax": lambda: max(old, x),
        "icas": lambda: y if old == x else old, "fadd": lambda: old + x,
        "fsub": lambda: old - x, "fmin": lambda: min(old, x), "fmax": lambda: max(old, x),
        "fcas": lambda: y if old == x else old, "and": lambda: old & x, "or": lambda: old | x,
        "xor": lambda: old ^ x,
    }[name]()


CODES = dict(zip(("iinc", "idec", "load", "store", "iadd", "isub", "smin", "smax", "umin", "umax",
                  "icas", "fadd", "fsub", "fmin", "fmax", "fcas", "and", "or", "xor"),
                 range(8, 27), strict=True))
OPERANDS = {"iinc": 0, "idec": 0, "load": 0, "icas": 2, "fcas": 2}


@pytest.mark.parametrize("name", list(CODES))
@pytest.mark.parametrize("space_kind", ["ugm", "slm"])
def test_channels_act_one_after_another(name, space_kind):
    """Two threads of 16 channels on 5 places, some channels off."""
    dtype = np.float32 if name[0] == "f" else np.int32 if name[0] == "s" and name != "store" else (
        np.uint32)
    rng = np.random.default_rng(CODES[name])
    x, y = (rng.integers(0, 4, (2, 16)).astype(dtype) for _ in range(2))
    places = rng.integers(0, 5, (2, 16))
    count = OPERANDS.get(name, 1)
    space = AddressSpace()
    memory = np.arange(8).astype(dtype)
    a = space.put(memory)
    local = space_kind == "slm"
    descriptor = CODES[name] | (2 if local else 3) << 7 | 2 << 9 | 1 << 20 | (
        1 if local else 2) << 25
    data = f"r8:{count}" if count else "null:0"
    fill = 4 | 2 << 7 | 2 << 9 | 1 << 25
    text = (f"(W) send.slm (16|M0) null r12 r13:1 0x0 0x{fill:08X}\n" if local else "") + (
        f"(W) mov (1|M0) f0.0<1>:uw 0xBFF7:uw\n"
        f"(f0.0) send.{space_kind} (16|M0) r20 r4 {data} 0x0 0x{descriptor:08X}")
    addresses = (places * 4).astype(np.uint32) if local else (a + places * 4).astype(np.uint64)
    registers = {4: addresses, 8: x, 9: y, 12: np.arange(16, dtype=np.uint32) % 8 * 4,
                 13: (np.arange(16) % 8).astype(dtype)}
    done = run("bmg", text, registers, threads=2, space=space, slm_bytes=64)
    found, on = register(done, 20, dtype), 0xBFF7 >> np.arange(16) & 1
    for thread in range(2):
        for channel in range(16):
            if not on[channel]:
                assert found[thread, channel] == 0
                continue
            place = places[thread, channel]
            assert found[thread, channel] == memory[place]
            memory[place] = dtype(step(name, memory[place], x[thread, channel],
                                       y[thread, channel]))
    if not local:
        np.testing.assert_array_equal(space.get(a, dtype, 8), memory)


def test_sums_of_floats_are_in_order():
    """1e8 absorbs small numbers, therefore the order is observable."""
    space = AddressSpace()
    a = space.put(np.zeros(1, np.float32))
    x = np.array([1, 1e8, 1, 1, -1e8, 1, 1, 1] * 2, np.float32)
    descriptor = 19 | 3 << 7 | 2 << 9 | 2 << 25
    run("bmg", f"send.ugm (16|M0) null r4 r8:1 0x0 0x{descriptor:08X}",
        {4: np.full(16, a, np.uint64), 8: x}, space=space)
    total = np.float32(0)
    for value in x:
        total += value
    assert space.get(a, np.float32, 1)[0] == total


def test_an_address_between_two_elements_is_refused():
    space = AddressSpace()
    a = space.put(np.zeros(2, np.uint32))
    with pytest.raises(Fault, match="an atomic message accesses 4 bytes"):
        run("bmg", f"send.ugm (1|M0) null r4 r8:1 0x0 0x{12 | 3 << 7 | 2 << 9 | 2 << 25:08X}",
            {4: np.full(1, a + 2, np.uint64)}, space=space)


@pytest.mark.parametrize(("name", "data", "sentence"), [
    ("iadd", "null:0", "atomic_iadd has 0 registers of data, but takes 1"),
    ("icas", "r8:1", "atomic_icas has 1 registers of data, but takes 2"),
    ("iinc", "r8:1", "atomic_iinc has 1 registers of data, but takes 0"),
])
def test_a_wrong_number_of_operands_is_a_fault(name, data, sentence):
    descriptor = CODES[name] | 3 << 7 | 2 << 9 | 1 << 20 | 2 << 25
    with pytest.raises(Fault, match=sentence):
        run("bmg", f"send.ugm (16|M0) r20 r4 {data} 0x0 0x{descriptor:08X}",
            {4: np.zeros(16, np.uint64)})
