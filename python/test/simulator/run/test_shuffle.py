"""Other orders of programs and warps: wrong results of races, the same for the same seed."""

import numpy as np
import pytest
import triton
import triton.language as tl

from examples.softmax import softmax_kernel
from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.device import SimulatedDevice


@triton.jit
def count_without_atomics(counter):
    tl.store(counter, tl.load(counter) + 1)


@triton.jit
def last_writer(out):
    tl.store(out, tl.program_id(0))


@triton.jit
def relies_on_order(flags, out):
    """Works as long as programs begin in the order of their numbers, one after the other."""
    p = tl.program_id(0)
    if p > 0:
        tl.store(out + p, tl.load(flags + p - 1))
    tl.store(flags + p, p + 1)


def outcomes(run, seeds, monkeypatch):
    """The results of a function under each seed.

    There is one thread, so that without a seed programs run in order.
    """
    found = []
    monkeypatch.setenv("TRITON_XE_THREADS", "1")
    for seed in seeds:
        monkeypatch.setenv("TRITON_XE_SHUFFLE", str(seed))
        found.append(run())
    return found


def one_word(kernel, programs):
    def run():
        word = np.zeros(1, np.int32)
        kernel[(programs,)](word)
        return int(word[0])
    return run


def test_lost_updates(monkeypatch):
    found = outcomes(one_word(count_without_atomics, 32), [0, 1, 2, 3], monkeypatch)
    assert found[0] == 32
    assert all(0 < count < 32 for count in found[1:])


def test_the_last_one_to_write(monkeypatch):
    found = outcomes(one_word(last_writer, 32), range(1, 9), monkeypatch)
    assert len(set(found)) > 4


def test_programs_that_rely_on_their_order(monkeypatch):
    def run():
        flags, out = np.zeros(32, np.int32), np.zeros(32, np.int32)
        relies_on_order[(32,)](flags, out)
        return (out == np.arange(32)).all()

    right, *others = outcomes(run, [0, 1, 2], monkeypatch)
    assert right
    assert not any(others)


@pytest.mark.parametrize("seed", range(1, 6))
def test_right_kernels_stay_right(seed, monkeypatch):
    monkeypatch.setenv("TRITON_XE_SHUFFLE", str(seed))
    x = np.random.default_rng(seed).standard_normal((40, 300)).astype(np.float32)
    out = np.zeros_like(x)
    softmax_kernel[(40,)](x, out, 300, 300, 300, BLOCK=512, num_warps=4)
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=1e-5)


LAST_WARP = """
  %w = call i32 @_Z16get_sub_group_idv()
  store i32 %w, ptr addrspace(1) %out
"""


def test_warps_without_barriers(run, kernel, monkeypatch):
    def last():
        out = np.zeros(1, np.int32)
        run(kernel("ptr addrspace(1) %out", LAST_WARP, warps=8), out)
        return int(out[0])

    assert len(set(outcomes(last, range(1, 9), monkeypatch))) > 2


def test_a_seed_stands_for_one_order(kernel, monkeypatch):
    """On each device, launch by launch."""
    text = kernel("ptr addrspace(1) %out", LAST_WARP, warps=8).encode()

    def launches():
        device, out = SimulatedDevice("bmg"), np.zeros(1, np.int32)
        loaded, found = device.load(text, "k"), []
        for _ in range(8):
            device.launch(loaded, (3, 1, 1), [out.ctypes.data])
            found.append(int(out[0]))
        return found

    first, again, other = outcomes(launches, [7, 7, 8], monkeypatch)
    assert first == again != other
    assert len(set(first)) > 1


@triton.jit
def later_ones_read(x, out):
    p = tl.program_id(0)
    if p == 20:
        tl.store(x, 1)
    elif p == 10:
        tl.store(out, tl.load(x))


@pytest.mark.parametrize("seed", ["0", "1", "2", "3"])
def test_checks_name_programs_in_any_order(seed, monkeypatch):
    monkeypatch.setenv("TRITON_XE_SHUFFLE", seed)
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x = np.zeros(1, np.int32)
    with pytest.raises(SimulatorTrap, match="data race") as caught:
        later_ones_read[(30,)](x, x.copy())
    text = str(caught.value)
    assert "program (10, 0, 0)" in text
    assert "program (20, 0, 0)" in text
