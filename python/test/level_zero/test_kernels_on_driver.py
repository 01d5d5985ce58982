"""Kernels as Triton compiles them, built, launched and waited for on the driver of each device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from examples.attention import attention_kernel
from examples.matmul import matmul_kernel
from examples.matmul_descriptor import matmul_descriptor_kernel
from examples.softmax import softmax_kernel
from examples.vector_add import add_kernel
from triton_xe.hardware.register_file import LARGE, RegisterFile
from triton_xe.hardware.target import TARGETS
from triton_xe.tools.commands.compile import compile_kernel

pytestmark = pytest.mark.intel_driver
ROOT = Path(__file__).parents[3]
DEVICES = ["pvc", "bmg", "dg2", *(
    pytest.param(device, marks=mark) for device, mark in (
        ("lnl", pytest.mark.slow), ("ptl", pytest.mark.rest)))]
CHECKS = {
    "ZE_ENABLE_VALIDATION_LAYER": "1",
    "ZE_ENABLE_PARAMETER_VALIDATION": "1",
    "ZEL_ENABLE_BASIC_LEAK_CHECKER": "1",
}
LAUNCH = """
kernels = json.loads(os.environ["KERNELS"])
memory = device.allocate(1 << 20)
for path, name, flags, threads in kernels:
    kernel = device.load(open(path, "rb").read(), name, build_flags=flags)
    values = [{"ptr": memory.pointer, "i1": 1, "f32": 1.0, "f16": 1.0}.get(kind, 64)
              for kind in kernel.argument_types]
    device.launch(kernel, (2, 3, 1), values)
    device.synchronize()
    out[path] = [kernel.n_registers, kernel.n_spills, threads <= kernel.max_threads]
    kernel.close()
"""


@triton.jit
def reductions(x, out, scale, flag: tl.int1, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :]) * scale
    v = tl.where(flag, v, -v)
    tl.store(out + m, tl.sum(v, 1) + tl.max(v, 1) + tl.argmin(v, 1))
    tl.store(out + M + n, tl.cumsum(tl.sum(v, 0), 0))


@triton.jit
def histogram_and_sort(x, counts, out, n, N: tl.constexpr):
    index = tl.arange(0, N)
    v = tl.load(x + index, mask=index < n, other=0)
    tl.atomic_add(counts + (v & 15), 1, mask=index < n)
    tl.store(out + index, tl.sort(v))


@triton.jit
def loops(x, out, n, wide: tl.int64, half: tl.float16, B: tl.constexpr):
    index = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        total += tl.exp(tl.load(x + index + start)) / half.to(tl.float32)
    if n > wide:
        total = tl.sqrt(tl.abs(total))
    tl.store(out + index, total)


@triton.jit
def small_dot(a, b, c, K: tl.constexpr, N: tl.constexpr):
    i, k, j = tl.arange(0, 32), tl.arange(0, K), tl.arange(0, N)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + j[None, :])
    tl.store(c + i[:, None] * N + j[None, :], tl.dot(x, y))


@triton.jit
def reports(x, n):
    value = tl.load(x + tl.arange(0, 64))
    tl.device_print("value", value)
    tl.device_assert(value < n, "too large")


@triton.jit
def nothing():
    pass


@triton.jit
def scalars(p, x, pair, flag, q, B: tl.constexpr):
    if q is None:
        tl.store(p + tl.arange(0, B), x + pair[0] + pair[1])
    if flag:
        tl.store(p + tl.arange(0, B), x)


@triton.jit
def typed(p, u: tl.uint32, b: tl.int8, h: tl.float16, g: tl.float64, f: tl.int1, B: tl.constexpr):
    value = h.to(tl.float32) + g.to(tl.float32) + u + b + f
    tl.store(p + tl.arange(0, B), value)


GEMM = "a_ptr=*fp16:16 b_ptr=*fp16:16 c_ptr=*fp16:16 M=i32:16 N=i32:16 K=i32:16"
SIZES = "BLOCK_M=64 BLOCK_N=64 BLOCK_K=32 GROUP_M=4 ACTIVATION='leaky_relu'"
OPTIONS = {"num_warps": 4, "guards": "kernel"}
"""For launches that have no other version."""
KERNELS: dict[str, tuple[Any, str]] = {
    "vector_add": (
        add_kernel, "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=1024"),
    "softmax": (
        softmax_kernel, "in_ptr=*fp32:16 out_ptr=*fp32:16 stride_in=i32 stride_out=i32 "
        "columns=i32 BLOCK=1024"),
    "matmul": (
        matmul_kernel, f"{GEMM} stride_am=i32:16 stride_ak=1 stride_bk=i32:16 stride_bn=1 "
        f"stride_cm=i32:16 stride_cn=1 {SIZES}"),
    "descriptors": (
        matmul_descriptor_kernel, f"{GEMM} stride_a=i32:16 stride_b=i32:16 stride_c=i32:16 "
        f"{SIZES} TRANSPOSED_A=False TRANSPOSED_B=False"),
    "attention": (
        attention_kernel, "q_ptr=*fp16:16 k_ptr=*fp16:16 v_ptr=*fp16:16 o_ptr=*fp16:16 "
        "length=i32:16 stride_h=i32:16 stride_n=i32:16 scale=fp32 DEPTH=64 BLOCK_M=64 BLOCK_N=32 "
        "CAUSAL=True"),
    "reductions": (reductions, "x=*fp32:16 out=*fp32:16 scale=fp32 flag=i1 M=16 N=64"),
    "sort": (histogram_and_sort, "x=*i32:16 counts=*i32 out=*i32:16 n=i32 N=128"),
    "loops": (loops, "x=*fp32 out=*fp32 n=i32 wide=i64 half=fp16 B=256"),
    "reports": (reports, "x=*fp32:16 n=fp32"),
    "small_dot": (small_dot, "a=*bf16:16 b=*bf16:16 c=*fp32:16 K=32 N=32"),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("device", DEVICES)
def test_kernels_build_launch_and_end(device: str, tmp_path: Path, on_driver: Any) -> None:
    rows = []
    for label, (function, signature) in KERNELS.items():
        kernel = compile_kernel(function, signature, device, OPTIONS)
        path = tmp_path / f"{label}.spv"
        path.write_bytes(kernel.asm["spv"])
        threads = 4 * kernel.metadata.warp_size
        rows.append([str(path), kernel.name, kernel.metadata.build_flags, threads])
    out = on_driver(LAUNCH, device, {**CHECKS, "KERNELS": json.dumps(rows)})
    facts = {Path(path).stem: found for path, found in out.items() if path.startswith("/")}
    assert set(facts) == set(KERNELS)
    modes = TARGETS[device].grf_modes
    assert all(registers in modes for registers, _, _ in facts.values()), facts
    assert all(fits for _, _, fits in facts.values()), facts
    assert "Check balance" in out["stdout"] + out["stderr"]
    assert "LEAK" not in out["stdout"] + out["stderr"]


SCRATCH = "error: total scratch space exceeds HW supported limit for kernel add_kernel"
TUNED = f"""
sys.path.insert(0, {str(ROOT)!r})
import ctypes
import triton
from benchmarks.launch_cost import FloatTensor
from examples.vector_add import add_kernel
from triton_xe.backend import devices
from triton_xe.runtime.level_zero import raw
api, refusing, flags = raw.api(), [], []
function = api.function

def create(context, device, description, module, log):
    if not refusing:
        return function("zeModuleCreate")(context, device, description, module, log)
    flags.append(description._obj.pBuildFlags.decode())
    log._obj.value = 77
    return 0x70000004

def log_text(log, size, data):
    text = {SCRATCH!r}.encode() + bytes(1)
    size._obj.value = len(text)
    if data is not None:
        ctypes.memmove(data, text, len(text))
    return 0

injected = {{"zeModuleCreate": create, "zeModuleBuildLogGetString": log_text,
            "zeModuleBuildLogDestroy": lambda log: 0}}
api.function = lambda name: injected.get(name) or function(name)
on = devices.device(0)
blocks = [on.allocate(4096) for _ in range(3)]
tensors = [FloatTensor(block.pointer) for block in blocks]

def config(block, refused):
    def set_refusing(arguments):
        refusing[:] = [block] * refused
    return triton.Config({{"BLOCK": block}}, pre_hook=set_refusing)

def bench(call, quantiles):
    call()
    return [1.0, 1.0, 1.0]

def tuned(configs):
    kernel = triton.autotune(configs, key=["n"], do_bench=bench)(add_kernel)
    kernel[lambda meta: (triton.cdiv(1024, meta["BLOCK"]),)](*tensors, 1024)
    return kernel.best_config.kwargs["BLOCK"]
"""


def test_the_autotuner_skips_what_needs_too_much_scratch_space(
    on_driver: Any, tmp_path: Path
) -> None:
    """The driver's refusal is planted below the bindings; all else is Intel's own."""
    out = on_driver(
        TUNED + """
out["best"] = tuned([config(1024, True), config(256, False)])
out["flags"] = flags[:]
refusing[:] = [True]
out["refused"] = refusal(lambda: add_kernel[(2,)](*tensors, 1024, BLOCK=512))
""",
        extra={"TRITON_XE_DEVICE": "gpu", "TRITON_CACHE_DIR": str(tmp_path / "triton"),
               "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert out["best"] == 256
    assert [RegisterFile(LARGE).flag in each for each in out["flags"]] == [False, True]
    assert out["refused"].startswith("LevelZeroError: kernel 'add_kernel")
    assert "use smaller blocks, more warps or fewer num_stages" in out["refused"]
    assert SCRATCH in out["refused"]


def test_triton_reports_what_the_driver_says(on_driver: Any, tmp_path: Path) -> None:
    """The whole of Triton on the driver: launches, and the facts of the compiled kernels."""
    out = on_driver(
        f"""
        sys.path.insert(0, {str(ROOT)!r})
        import triton
        from benchmarks.launch_cost import FloatTensor
        from examples.vector_add import add_kernel
        from triton_xe.backend import devices
        on = devices.device(0)
        blocks = [on.allocate(4096) for _ in range(3)]
        tensors = [FloatTensor(block.pointer) for block in blocks]
        kernel = add_kernel[(4,)](*tensors, 1024, BLOCK=256)
        again = add_kernel[(4,)](*tensors, 1024, BLOCK=256)
        out["facts"] = [kernel.n_regs, kernel.n_spills, kernel.n_max_threads]
        out["native"] = type(kernel.run).__name__
        out["same"] = kernel is again
        seen = []
        hook = lambda metadata: seen.append(metadata.get()["name"])
        triton.knobs.runtime.launch_enter_hook.add(hook)
        add_kernel[(4,)](*tensors, 1024, BLOCK=256)
        triton.knobs.runtime.launch_enter_hook.remove(hook)
        out["seen"] = seen
        bad = [*tensors[:2], FloatTensor(np.zeros(64).ctypes.data)]
        out["bad"] = refusal(lambda: add_kernel[(4,)](*bad, 1024, BLOCK=256))
        large = {{"grf_mode": "256"}} if 256 in on.target.grf_modes else {{}}
        out["large"] = add_kernel[(4,)](*tensors, 1024, BLOCK=512, **large).n_regs
        on.synchronize()
        """,
        extra={"TRITON_XE_DEVICE": "gpu", "TRITON_CACHE_DIR": str(tmp_path / "triton"),
               "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert out["facts"][:2] == [128, 0]
    assert out["facts"][2] >= 512
    assert out["native"] == "builtin_function_or_method"
    assert out["same"]
    assert out["seen"] == ["add_kernel"]
    assert "argument 2" in out["bad"]
    assert "plain host memory" in out["bad"]
    assert out["large"] == 256


def test_numbers_of_every_kind_are_launched_or_refused(on_driver: Any, tmp_path: Path) -> None:
    out = on_driver(
        f"""
        sys.path.insert(0, {str(ROOT)!r})
        from benchmarks.launch_cost import FloatTensor
        from python.test.level_zero.test_kernels_on_driver import nothing, scalars, typed
        from triton_xe.backend import devices
        on = devices.device(0)
        memory = on.allocate(4096)
        p, left = FloatTensor(memory.pointer), []
        launch = on.launch
        on.launch = lambda kernel, *more, **how: (left.append(kernel.name),
                                                  launch(kernel, *more, **how))
        nothing[(3, 2, 1)]()
        for x in (0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 2**64 - 1, -(2**63), True,
                  1.5, float("nan"), float("inf"), 1e300):
            scalars[(1,)](p, x, (1, 2.5), x == x, None, B=16)
        scalars[(1,)](p, 3, (-1, 2), False, p, B=16)
        out["tuples"], left = set(left), []
        good = (2**32 - 1, -128, 0.5, 0.1, True)
        typed[(1,)](p, *good, B=16)
        typed[(1,)](p, 0, 255, float("inf"), -1e300, False, B=16)
        out["left"] = list(left)
        def wrong(place, value):
            values = list(good)
            values[place] = value
            return refusal(lambda: typed[(1,)](p, *values, B=16))
        out["wrong"] = [wrong(0, 2**32), wrong(1, 300), wrong(2, 1e6), wrong(0, 1 << 70)]
        out["grids"] = [refusal(lambda: nothing[grid]()) for grid in
                        ((2**31,), (-1,), (1, 2**31), (1.5,), ("x",), (0,), (2**31 - 1,))]
        on.synchronize()
        out["tuples"] = sorted(out["tuples"])
        """,
        extra={"TRITON_XE_DEVICE": "gpu", "TRITON_CACHE_DIR": str(tmp_path / "triton"),
               "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert out["tuples"] == ["scalars"]
    assert out["left"] == []
    for said, part in zip(out["wrong"], (
        "argument 1 (4294967296) does not fit", "argument 2 (300) does not fit",
        "OverflowError", "does not fit into 64 bits",
    ), strict=True):
        assert part in said
    assert all("of three whole numbers between 0 and" in said for said in out["grids"][:5])
    assert out["grids"][5:] == ["accepted", "accepted"]


def test_prints_and_assertions_are_read_after_the_launch(on_driver: Any, tmp_path: Path) -> None:
    """Nothing was executed, so the buffer is empty; but it is read, before the call returns."""
    out = on_driver(
        f"""
        sys.path.insert(0, {str(ROOT)!r})
        from benchmarks.launch_cost import FloatTensor
        from python.test.level_zero.test_kernels_on_driver import reports
        from triton_xe.backend import devices
        on = devices.device(0)
        memory = on.allocate(4096)
        seen = []
        for name in ("copy_to_host", "launch"):
            def noted(*given, name=name, action=getattr(on, name), **options):
                seen.append(name)
                return action(*given, **options)
            setattr(on, name, noted)
        for _ in range(2):
            reports[(4,)](FloatTensor(memory.pointer), 2.0, debug=True)
        out["seen"] = seen
        """,
        extra={"TRITON_XE_DEVICE": "gpu", "TRITON_CACHE_DIR": str(tmp_path / "triton"),
               "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    once = out["seen"][: len(out["seen"]) // 2]
    assert out["seen"] == once * 2
    assert once[0] == "launch"
    assert "copy_to_host" in once[1:]


@triton.jit
def meet(sem, out, SLM: tl.constexpr):
    p = tl.program_id(0)
    tl.atomic_add(sem, 1)
    while tl.atomic_add(sem, 0) < tl.num_programs(0):
        pass
    at = tl.arange(0, SLM)
    tl.store(out + at, tl.sort(tl.load(out + at) + p))


COOPERATIVE = """
from triton_xe.hardware.residency import resident_groups
path, name, flags, warps, slm = json.loads(os.environ["KERNEL"])
memory = device.allocate(1 << 20)
kernel = device.load(open(path, "rb").read(), name, build_flags=flags)
held = resident_groups(device.target, warps, kernel.n_registers, kernel.slm_bytes,
                   barriers=int(warps > 1))
values = [memory.pointer for _ in kernel.argument_types]
out["more"] = refusal(lambda: device.launch(kernel, (1 << 20, 1, 1), values, cooperative=True))
device.launch(kernel, (2, 2, 1), values, cooperative=True)
device.synchronize()
out["held"] = held
"""


@pytest.mark.parametrize(("device", "warps", "size"), [
    ("bmg", 1, 64), ("bmg", 8, 1024), ("pvc", 32, 64),
    *(pytest.param(device, 4, 64, marks=pytest.mark.rest) for device in ("bmg", "lnl"))])
def test_cooperative_launches(
    device: str, warps: int, size: int, on_driver: Any, tmp_path: Path
) -> None:
    """The driver refuses more work-groups than it holds, which are as many as the table says."""
    made = compile_kernel(meet, f"sem=*i32 out=*i32 SLM={size}", device, {"num_warps": warps})
    path = tmp_path / "meet.spv"
    path.write_bytes(made.asm["spv"])
    spec = [str(path), made.metadata.name, made.metadata.build_flags, warps, size]
    found = on_driver(COOPERATIVE, device, {"KERNEL": json.dumps(spec)})
    assert f"of its {1 << 20} programs the device holds {found['held']} at once" in found["more"]
