"""Elementary functions of fp32: the same bits on all hosts, and nothing computed in vain."""

from __future__ import annotations

import ctypes
import ctypes.util
from math import erf
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

from python.test.host_loops import loop_over
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.library import maths
from triton_xe.runtime.simulator.run import jit
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, host_cpu

UNDERFLOW, OVERFLOW = 0x10, 0x08
"""Bits of the C library's `fenv.h`, on x86-64."""
NAMES = ["exp", "exp2", "exp10", "erf", "log", "log2", "log10"]
Numbers = NDArray[np.float32]


class Applied:
    """A function of `lanes` numbers, as it is written for a host, run on arrays on this one."""

    def __init__(self, name: str, host: HostCpu, lanes: int = 16) -> None:
        functions = maths.function(host, name, "f32", lanes)
        t, callee = f"<{lanes} x float>", functions[-1].name
        text = print_module(functions, []) + loop_over(t, t, f"call {t} @{callee}({t} %x)")
        self.lanes = lanes
        self.code = jit.NativeCode(jit.compile_object(text, "library"))
        types = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
        self.call = ctypes.CFUNCTYPE(None, *types)(self.code.address("all"))

    def __call__(self, x: Numbers) -> Numbers:
        result = np.empty_like(x)
        self.call(x.ctypes.data, result.ctypes.data, -(-len(x) // self.lanes))
        return result


@pytest.mark.covering
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_bits_are_the_same_on_hosts_without_wide_vectors(name: str, lanes: int) -> None:
    host = host_cpu()
    rng = np.random.default_rng(7)
    anything = rng.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    x = np.concatenate([anything, rng.uniform(-152, 130, 1 << 16).astype(np.float32)])
    found = Applied(name, host, lanes)(x)
    plain = Applied(name, HostCpu(host.triple, host.name, ""), lanes)(x)
    np.testing.assert_array_equal(found.view(np.uint32), plain.view(np.uint32))


@pytest.mark.skipif(not host_cpu().triple.startswith("x86_64"), reason="flags of x86-64")
@pytest.mark.parametrize("name", NAMES[:3])
def test_where_an_exponential_is_zero_nothing_is_tiny_on_the_way(name: str) -> None:
    """Masked elements of a softmax: hosts take long for tiny numbers, and note them."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    run = Applied(name, host_cpu())
    x = np.resize(np.float32([-np.inf, -1e30, -200, 0, 1, np.inf]), 96)
    library.feclearexcept(UNDERFLOW | OVERFLOW)
    found = run(x)
    assert not library.fetestexcept(UNDERFLOW)
    np.testing.assert_array_equal(found[:4], [0, 0, 0, 1])
    library.feclearexcept(UNDERFLOW | OVERFLOW)
    assert run(np.full(16, -100 / {"exp": 1, "exp2": np.log(2), "exp10": np.log(10)}[name],
                       np.float32))[0] > 0
    assert library.fetestexcept(UNDERFLOW)


def test_the_error_function_is_within_two_units_everywhere() -> None:
    ends = np.arange(0.5, 16) * maths.ERF_WIDTH
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(0, 4.2, 60_000), 2.0 ** rng.uniform(-30, 0, 5_000), ends,
                        np.nextafter(ends.astype(np.float32), 0)])
    x = np.resize(x.astype(np.float32), 1 << 16)
    found, exact = Applied("erf", host_cpu())(x), np.array([erf(v) for v in x.tolist()])
    units = np.abs(found - exact) / np.spacing(exact.astype(np.float32))
    assert units.max() < 1.6, x[units.argmax()]
    special = np.resize(np.float32([np.inf, -np.inf, np.nan, -0.0, 4, -1e30, 1e-38, 0.1]), 16)
    made = Applied("erf", host_cpu())(special)
    np.testing.assert_array_equal(made[:6], [1, -1, np.nan, 0, 1, -1])
    assert np.signbit(made[3])


@pytest.mark.parametrize(("name", "exact"), [
    ("log", np.log), ("log2", np.log2), ("log10", np.log10)])
def test_logarithms_are_within_two_units_everywhere(name: str, exact: Any) -> None:
    rng = np.random.default_rng(6)
    anything = rng.integers(1, 0x7F800000, 50_000).astype(np.uint32).view(np.float32)
    near_one = 1 + rng.uniform(-1, 1, 50_000) * 2.0 ** rng.uniform(-24, -2, 50_000)
    x = np.resize(np.concatenate([anything, near_one.astype(np.float32)]), 100_000)
    want = exact(x.astype(np.float64))
    units = np.abs(Applied(name, host_cpu())(x) - want) / np.spacing(
        np.abs(want).astype(np.float32))
    assert units[x != 1].max() < 1.5, x[units.argmax()]
    special = np.resize(np.float32([0, -0.0, -1, np.inf, -np.inf, np.nan, 1]), 16)
    np.testing.assert_array_equal(
        Applied(name, host_cpu())(special)[:7], [-np.inf, -np.inf, np.nan, np.inf, np.nan, np.nan,
                                       0])


@pytest.mark.parametrize(("name", "most"), [("erf", 20), ("log", 32)])
def test_functions_are_short_with_wide_vectors(name: str, most: int) -> None:
    """GELU and logarithms at torch's speed: 16 numbers in ten to fifteen cycles."""
    llvm.initialize_all_asmprinters()
    host = HostCpu("x86_64-unknown-linux-gnu", "sapphirerapids", "+avx512f,+avx2,+fma")
    machine = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.name, features=host.features, opt=2)
    module = llvm.parse_assembly(print_module(maths.function(host, name, "f32", 16), []))
    jit.optimise(module, machine)
    lines = [line.split() for line in machine.emit_assembly(module).splitlines()]
    work = [x[0] for x in lines if x and x[0][0] == "v"
            and not x[0].startswith(("vmov", "vpxor", "vbroad"))]
    assert len(work) <= most, work
    assert "vdivps" not in work
