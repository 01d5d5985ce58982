"""The driver object: what Triton's runtime, torch and the tutorials ask of it."""

import json
import pickle
import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.driver import driver

from triton_xe.backend.driver import XeDriver
from triton_xe.backend.timing import bench_simulated
from triton_xe.errors import XeError


def test_our_driver_is_active():
    assert type(driver.active).__name__ == "XeDriver"
    assert XeDriver.is_active()


def test_target_and_device():
    torch.xpu.init()  # builds the device where that was not done yet
    target = driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("xpu", "bmg", 16)
    assert driver.active.get_active_torch_device() == torch.device("xpu", 0)
    assert driver.active.get_device_interface() is torch.xpu
    assert driver.active.get_current_device() == 0


def test_arch_is_a_name_and_a_mapping():
    arch = driver.active.get_current_target().arch
    capability = torch.xpu.get_device_capability()
    for name in ("has_fp64", "has_subgroup_2d_block_io", "sub_group_sizes"):
        assert arch[name] == capability[name]
    assert arch["arch"] == arch == "bmg"
    assert arch.get("absent") is None
    assert (arch[0], arch[1:]) == ("b", "mg")
    assert json.loads(json.dumps(arch)) == "bmg"
    with pytest.raises(KeyError):
        arch["absent"]


def test_properties_that_triton_and_torch_read():
    properties = driver.active.utils.get_device_properties(0)
    for name in ("max_shared_mem", "multiprocessor_count", "mem_clock_rate", "mem_bus_width",
                 "sm_clock_rate", "max_num_regs", "warpSize", "arch"):
        assert name in properties
    assert triton.compiler.compiler.max_shared_mem(0) == 128 << 10


def test_the_stream_is_torchs():
    assert driver.active.get_current_stream(0) == torch.xpu.current_stream().sycl_queue


@pytest.mark.parametrize(
    ("kind", "c_type"),
    [("i32", "int32_t"), ("*fp16", "void*"), ("fp64", "double"), ("u1", "uint8_t")],
)
def test_c_types(kind, c_type):
    assert driver.active.map_python_to_cpp_type(kind) == c_type


def test_an_unknown_c_type_is_refused():
    with pytest.raises(ValueError, match="'nonsense'"):
        driver.active.map_python_to_cpp_type("nonsense")


def test_drivers_are_cheap_and_alike():
    assert XeDriver().get_current_target() == XeDriver().get_current_target()


def test_the_simulators_benchmarker_launches_twice():
    calls = []
    times = bench_simulated(lambda: calls.append(1), quantiles=(0.5, 0.2, 0.8))
    assert len(calls) == 2
    assert len(times) == 3
    assert min(times) > 0
    assert bench_simulated(lambda: None) > 0


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((64, 1), (128, 128))],
                 key=["n"])
@triton.jit
def scale_kernel(p, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + i, tl.load(p + i, mask=i < n) * 2, mask=i < n)


def test_the_autotuner_skips_what_does_not_fit():
    x = torch.ones(256, device="xpu")
    scale_kernel[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](x, 256)
    assert scale_kernel.best_config.kwargs == {"BLOCK": 64}
    assert (x.cpu() > 1).all()


REFUSED = (
    triton.Config({"MODE": 0}, num_ctas=2), triton.Config({"MODE": 0, "grf_mode": "512"}),
    triton.Config({"MODE": 1}), triton.Config({"MODE": 2}),
)


@triton.jit
def moody_kernel(p, n, MODE: tl.constexpr):
    at = tl.arange(0, 256)
    x = tl.load(p + at, mask=at < n)
    if MODE == 1:
        x = tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    if MODE == 2:
        x += tl.sum(tl.sum(tl.zeros([1024, 1024], tl.float32) + tl.load(p), 0), 0)
    tl.store(p + at, x * 2, mask=at < n)


def test_the_autotuner_skips_whatever_is_refused():
    x = torch.ones(256, device="xpu")
    tuned = triton.autotune([*REFUSED, triton.Config({"MODE": 0})], ["n"])(moody_kernel)
    tuned[(1,)](x, 256)
    assert tuned.best_config.kwargs == {"MODE": 0}
    assert tuned.best_config.num_ctas == 1
    assert (x.cpu() > 1).all()


@pytest.mark.parametrize("config", REFUSED, ids=str)
def test_where_nothing_else_is_left_the_refusal_is_met_again(config):
    x = torch.ones(256, device="xpu")
    with pytest.raises(XeError) as direct:
        moody_kernel[(1,)](x, 256, **config.all_kwargs())
    with pytest.raises(XeError) as met:
        triton.autotune([config, config], ["n"])(moody_kernel)[(1,)](x, 256)
    assert str(met.value) == str(direct.value)
    again = subprocess.run(
        [sys.executable, "-c", "import pickle, sys; e = pickle.load(sys.stdin.buffer); print("
         "type(e).__mro__[1].__name__, isinstance(e, __import__('triton').OutOfResources), e)"],
        input=pickle.dumps(direct.value), stdout=subprocess.PIPE, check=True).stdout.decode()
    assert again == f"{type(direct.value).__mro__[1].__name__} True {direct.value}\n"


def test_do_bench_works_as_it_stands():
    x = torch.ones(64, device="xpu")
    assert triton.testing.do_bench(lambda: x.add_(1), warmup=1, rep=1) > 0


@triton.jit
def tuple_kernel(pair, scale, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(pair[0] + i) * scale + pair[1])


def test_tuples_none_and_booleans_reach_the_kernel():
    x = torch.arange(16.0, device="xpu")
    out = torch.empty_like(x)
    tuple_kernel[(1,)]((x, 3), 2.5, out, BLOCK=16)
    assert torch.equal(out.cpu(), torch.arange(16.0) * 2.5 + 3)


def test_parameters_and_views_are_tensors():
    x = torch.nn.Parameter(torch.arange(32.0, device="xpu"))
    out = torch.zeros(32, device="xpu")
    tuple_kernel[(1,)]((x, 1), 1.0, out[16:], BLOCK=16)
    assert torch.equal(out.cpu(), torch.cat([torch.zeros(16), torch.arange(16.0) + 1]))


def test_launch_hooks_see_the_kernel():
    seen = []

    def enter(metadata):
        seen.append(metadata.get()["name"])

    triton.knobs.runtime.launch_enter_hook.add(enter)
    try:
        x = torch.arange(16.0, device="xpu")
        tuple_kernel[(1,)]((x, 3), 2.5, x, BLOCK=16)
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(enter)
    assert seen == ["tuple_kernel"]
