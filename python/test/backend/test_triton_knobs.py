"""Triton's own variables (`triton.knobs`), each with what it does to kernels for Intel GPUs.

`COVERED` lists those of the installed Triton, so that one of a new version fails here.
"""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.runtime.cache import FileCacheManager, RemoteCacheBackend, RemoteCacheManager

from python.test.filecheck import check_text
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.front.expand_fpsan import A, Format

BY_OTHERS = ("build", "redis", "nvidia", "amd", "proton")
"""Groups of other vendors, of Redis, of the profiler, and of compilers of C, which none needs."""


@triton.jit
def scale(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) * 2 + 1, at < n)


def launched(kernel: Any = scale, **options: Any) -> Any:
    """The compiled kernel, after a launch whose result is right."""
    x = np.arange(100, dtype=np.float32)
    out = np.zeros_like(x)
    kernel.device_caches.clear()
    made = kernel[(1,)](x, out, 100, B=128, **options)
    np.testing.assert_array_equal(out, x * 2 + 1)
    return made


@pytest.fixture(autouse=True)
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders of this test's own, and all knobs as before after it."""
    groups = (knobs.cache, knobs.compilation, knobs.autotuning, knobs.runtime, knobs.language)
    before = [dict(vars(group)) for group in groups]
    for name in ("CACHE", "DUMP", "OVERRIDE"):
        monkeypatch.setenv(f"TRITON_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setattr(knobs, "propagate_env", False)
    yield tmp_path
    for group, values in zip(groups, before, strict=True):
        vars(group).clear()
        vars(group).update(values)


def files(folder: Path) -> set[str]:
    """The suffixes of all files below a folder."""
    return {path.suffix for path in folder.rglob("*") if path.is_file()}


# --- the cache ------------------------------------------------------------------------------------


def home_dir(folder: Path) -> None:
    knobs.cache.home_dir = str(folder)
    assert knobs.cache.get_triton_dir("cache") == str(folder / ".triton" / "cache")


def cache_dir(folder: Path) -> None:
    knobs.cache.dir = str(folder / "elsewhere")
    launched()
    assert {".spv", ".json"} <= files(folder / "elsewhere")


class OwnManager(FileCacheManager):
    groups: ClassVar[list[str]] = []

    def put_group(self, filename: str, group: dict[str, str]) -> Any:
        self.groups.append(filename)
        return super().put_group(filename, group)


def manager_class(folder: Path) -> None:
    knobs.cache.manager_class = OwnManager
    launched()
    assert OwnManager.groups == ["scale.json"]


class Remote(RemoteCacheBackend):
    held: ClassVar[dict[str, bytes]] = {}

    def __init__(self, key: str) -> None:
        self.key = key

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        return {name: self.held[name] for name in filenames if name in self.held}

    def put(self, filename: str, data: bytes) -> None:
        self.held[filename] = data


def remote_manager_class(folder: Path) -> None:
    knobs.cache.manager_class, knobs.cache.remote_manager_class = RemoteCacheManager, Remote
    launched()
    launched()
    assert {"scale.spv", "scale.json"} <= Remote.held.keys()


# --- compiling ------------------------------------------------------------------------------------


def dump_ir(folder: Path) -> None:
    knobs.compilation.dump_ir = True
    launched()
    assert {".ttir", ".ttgir", ".xetile", ".xegpu", ".llir", ".spv"} <= files(folder / "dump")


def override(folder: Path) -> None:
    dump_ir(folder)
    (dumped,) = (folder / "dump").rglob("scale.ttgir")
    replaced = folder / "override" / dumped.parent.name / dumped.name
    replaced.parent.mkdir(parents=True)
    replaced.write_text(dumped.read_text().replace("1.000000e+00", "3.000000e+00"))
    knobs.compilation.override, knobs.compilation.always_compile = True, True
    with pytest.raises(AssertionError, match="Mismatched elements: 100"):
        launched()


def store_binary_only(folder: Path) -> None:
    knobs.compilation.store_binary_only = True
    launched()
    launched()
    assert files(folder / "cache") == {".source", ".spv", ".json"}


def always_compile(folder: Path) -> None:
    assert compilations(always_compile=True) == [False, False]
    assert compilations(always_compile=False)[-1]


def compilations(**values: Any) -> list[bool]:
    """True for each of two launches whose kernel came from the cache."""
    hits: list[bool] = []
    for name, value in values.items():
        setattr(knobs.compilation, name, value)
    knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
    launched()
    launched()
    return hits


def listener(folder: Path) -> None:
    assert compilations() == [False, True]


def use_ir_loc(folder: Path) -> None:
    for stage in ("ttir", "ttgir"):
        knobs.compilation.use_ir_loc = stage
        launched(num_stages=1 if stage == "ttir" else 3)
    refused("use_ir_loc", "llir", "set USE_IR_LOC=ttir or USE_IR_LOC=ttgir")


def refused(name: str, value: Any, words: str) -> None:
    setattr(knobs.compilation, name, value)
    with pytest.raises(UnsupportedError, match=words):
        launched(num_warps=8)


def enable_asan(folder: Path) -> None:
    refused("enable_asan", True, "unset it, and set TRITON_XE_SANITIZE=1")


def dump_ir_extract_di_local_variables(folder: Path) -> None:
    refused("dump_ir_extract_di_local_variables", True, "unset it")


def disable_line_info(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_DISABLE_LINE_INFO", "1")
        check_text(launched().asm["ttir"], f"CHECK-NOT: {Path(__file__).name}")
    check_text(launched().asm["ttir"], f"CHECK: {Path(__file__).name}")


def front_end_debugging(folder: Path) -> None:
    knobs.compilation.front_end_debugging = True
    launched()


FACTOR = 2.0


@triton.jit
def scale_by_global(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) * FACTOR + 1, at < n)


def allow_non_constexpr_globals(folder: Path) -> None:
    with pytest.raises(triton.compiler.errors.CompilationError, match="FACTOR"):
        launched(scale_by_global)
    knobs.compilation.allow_non_constexpr_globals = True
    launched(scale_by_global)


@triton.jit
def regrouped(x, y, out, B: tl.constexpr):
    """a * (b + 1) - a * b, which rounds to a in no arithmetic of floats."""
    at = tl.arange(0, B)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, a * (b + 1.0) - b * a)


def instrumentation_mode(folder: Path) -> None:
    """fpsan calculates with integers, so that sums and products regroup exactly."""
    rng = np.random.default_rng(0)
    for kind in (np.float16, np.float32, np.float64):
        x, y = (rng.standard_normal(256).astype(kind) for _ in range(2))
        for mode in ("", "fpsan"):
            knobs.compilation.instrumentation_mode = mode
            out = np.zeros_like(x)
            regrouped.device_caches.clear()
            regrouped[(1,)](x, y, out, B=256)
            assert np.array_equal(out, x) == (mode == "fpsan")
    refused("instrumentation_mode", "consan", "of whose modes fpsan alone is: unset it")
    knobs.compilation.instrumentation_mode = "fpsan"
    with pytest.raises(UnsupportedError, match=r"write the product with tl\.sum"):
        product[(1,)](x, x, x, B=16)


@triton.jit
def product(x, y, out, B: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at)))


@triton.jit
def narrowed(x, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at).to(tl.float16).to(tl.float32) * 1.0)


def fpsan_homomorphic_casts(folder: Path) -> None:
    """With it the integer of a narrower float is the low part of the wider one's."""
    knobs.compilation.instrumentation_mode = "fpsan"
    x, found = np.random.default_rng(0).standard_normal(64).astype(np.float32), []
    for value in (False, True):
        knobs.compilation.fpsan_homomorphic_casts = value
        out = np.zeros_like(x)
        narrowed.device_caches.clear()
        narrowed[(1,)](x, out, B=64)
        found.append(out)
    assert not np.array_equal(*found)


# --- tuning ---------------------------------------------------------------------------------------


def tuned(**values: Any) -> Any:
    for name, value in values.items():
        setattr(knobs.autotuning, name, value)
    configs = [triton.Config({"B": 128}, num_warps=warps) for warps in (2, 4)]
    made = triton.autotune(configs=configs, key=["n"])(triton.JITFunction(scale.fn))
    x = np.arange(100, dtype=np.float32)
    out = np.zeros_like(x)
    made[(1,)](x, out, 100)
    np.testing.assert_array_equal(out, x * 2 + 1)
    return made


def autotune_cache(folder: Path) -> None:
    tuned(cache=True)
    assert list((folder / "cache").rglob("*.autotune.json"))


def autotune_print(folder: Path) -> None:
    tuned(print=True)


def autotune_listener(folder: Path) -> None:
    heard: list[Any] = []
    best = tuned(listener=lambda *, best_config, **_: heard.append(best_config)).best_config
    assert heard == [best]


# --- launches -------------------------------------------------------------------------------------


def hook(name: str) -> Callable[[Path], None]:
    """The chain of hooks is called, once for each launch or load."""

    def check(folder: Path) -> None:
        calls: list[Any] = []

        def note(*given: Any, **named: Any) -> None:
            calls.append(given)

        chain = getattr(knobs.runtime, name)
        scale.device_caches.clear()
        gc.collect()  # kernels of earlier tests are unloaded before
        chain.add(note)
        try:
            launched()
            if name == "kernel_unload_hook":
                scale.device_caches.clear()
            assert len(calls) == 1
        finally:
            chain.remove(note)

    return check


def jit_hook(name: str) -> Callable[[Path], None]:
    def check(folder: Path) -> None:
        calls: list[str] = []
        setattr(knobs.runtime, name, lambda *, repr, **_: calls.append(repr))
        launched()
        assert len(calls) == 1

    return check


def runtime_debug(folder: Path) -> None:
    knobs.runtime.debug = True
    assert launched().metadata.debug


def override_arch(folder: Path) -> None:
    knobs.runtime.override_arch = "bmg"
    assert launched().metadata.arch == "bmg"


def add_stages_inspection_hook(folder: Path) -> None:
    seen: list[str] = []

    def inspect_stages(*given: Any) -> Any:
        seen.extend(given[1] if given else ())
        return ("key", "hash")

    knobs.runtime.add_stages_inspection_hook = inspect_stages
    launched()
    assert seen == ["ttir", "ttgir", "xetile", "xegpu", "llir", "spv"]


# --- the language ---------------------------------------------------------------------------------


def fp32_default(folder: Path) -> None:
    found = {}
    for precision in ("tf32", "ieee"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRITON_F32_DEFAULT", precision)
            x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
            out = np.zeros_like(x)
            product.device_caches.clear()
            made = product[(1,)](x, x, out, B=16)
        found[precision] = np.abs(out - x.astype(np.float64) @ x).max()
        check_text(made.asm["ttir"], f"CHECK: inputPrecision = {precision}"
                   if precision == "tf32" else "CHECK-NOT: inputPrecision")
    assert found["ieee"] < 1e-5 < found["tf32"]


def fusion(name: str, value: bool) -> Callable[[Path], None]:
    def check(folder: Path) -> None:
        assert launched().metadata.enable_fp_fusion
        setattr(knobs.language, name, value)
        assert not launched().metadata.enable_fp_fusion

    return check


COVERED: dict[str, dict[str, Callable[[Path], None]]] = {
    "cache": {
        "home_dir": home_dir, "dump_dir": dump_ir, "override_dir": override, "dir": cache_dir,
        "manager_class": manager_class, "remote_manager_class": remote_manager_class,
    },
    "compilation": {
        f.__name__: f for f in (
            override, dump_ir, dump_ir_extract_di_local_variables, store_binary_only,
            always_compile, use_ir_loc, enable_asan, disable_line_info, front_end_debugging,
            allow_non_constexpr_globals, instrumentation_mode, fpsan_homomorphic_casts, listener)
    },
    "autotuning": {"cache": autotune_cache, "print": autotune_print, "listener": autotune_listener},
    "runtime": {
        "debug": runtime_debug, "override_arch": override_arch,
        "add_stages_inspection_hook": add_stages_inspection_hook,
        **{name: hook(name) for name in (
            "launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook",
            "kernel_load_end_hook", "kernel_unload_hook")},
        **{name: jit_hook(name) for name in ("jit_cache_hook", "jit_post_compile_hook")},
    },
    "language": {
        "fp32_default": fp32_default, "default_fp_fusion": fusion("default_fp_fusion", False),
        "force_disable_fp_fusion": fusion("force_disable_fp_fusion", True),
    },
}
OWN_TESTS = {"runtime": {"interpret"}}
"""TRITON_INTERPRET is read when a kernel is defined: its test starts a process."""


def knobs_of(group: Any) -> set[str]:
    """The names of a group's variables, whether they are descriptors or plain values."""
    return {name for name, value in vars(type(group)).items()
            if not name.startswith("_") and not inspect.isfunction(value)
            and not isinstance(value, property)}


def test_every_variable_of_triton_is_in_the_table() -> None:
    groups = {name: group for name, group in vars(knobs).items()
              if isinstance(group, knobs.base_knobs)}
    assert set(groups) - set(BY_OTHERS) == set(COVERED)
    for name, covered in COVERED.items():
        there = knobs_of(groups[name])
        known = set(covered) | OWN_TESTS.get(name, set())
        assert there <= known, f"triton.knobs.{name} has more: {there - known}"


@pytest.mark.since_triton(3, 9)
@pytest.mark.parametrize(("group", "name"), [
    pytest.param(group, name, id=f"{group}.{name}")
    for group, covered in COVERED.items() for name in covered])
def test_variable(group: str, name: str, untouched: Path) -> None:
    COVERED[group][name](untouched)


INTERPRETED = """
import numpy as np, triton, triton.language as tl
@triton.jit
def double(x, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)
import torch
x = torch.arange(4.0, device="xpu")
double[(1,)](x, 4, B=4)
print(type(double).__name__, x.tolist())
"""


def test_the_interpreter_runs_kernels_on_the_device(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(INTERPRETED)
    done = subprocess.run(
        [sys.executable, str(program)], env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True, text=True)
    assert done.stdout == "InterpretedFunction [0.0, 2.0, 4.0, 6.0]\n", done.stderr


# --- parameters of triton.jit, triton.autotune and triton.Config ----------------------------------

PARAMETERS = {
    triton.jit: "fn version repr launch_metadata do_not_specialize do_not_specialize_on_alignment "
                "debug noinline",
    triton.autotune: "configs key prune_configs_by reset_to_zero restore_value pre_hook post_hook "
                     "warmup rep use_cuda_graph do_bench cache_results",
    triton.Config: "kwargs num_warps num_stages num_ctas maxnreg pre_hook ir_override",
}


@pytest.mark.parametrize("function", PARAMETERS, ids=lambda f: f.__name__)
def test_every_parameter_of_triton_is_known(function: Any) -> None:
    there = set(inspect.signature(function).parameters) - {"self"}
    assert there <= set(PARAMETERS[function].split())


def test_all_parameters_of_jit() -> None:
    seen: list[Any] = []

    def note(grid: Any, kernel: Any, args: Any) -> dict[str, Any]:
        seen.append(args["n"])
        return {"name": "mine"}

    made = triton.jit(
        scale.fn, version="1", repr=lambda specialization: "renamed", launch_metadata=note,
        do_not_specialize=["n"], do_not_specialize_on_alignment=["out"], debug=True, noinline=False)
    metadata: list[Any] = []
    knobs.runtime.launch_enter_hook.add(hear := lambda data: metadata.append(data.get()["name"]))
    try:
        kernel = launched(made)
    finally:
        knobs.runtime.launch_enter_hook.remove(hear)
    assert (seen, metadata) == ([100], ["mine"])
    assert kernel.metadata.debug
    check_text(kernel.asm["ttir"], """
        CHECK: tt.divisibility
        CHECK-NOT: tt.divisibility
        """)


def test_all_parameters_of_autotune() -> None:
    calls: list[str] = []

    def timed(call: Callable[[], Any], **options: Any) -> list[float]:
        call()
        calls.append("do_bench")
        return [1.0, 1.0, 1.0]

    def hooked(name: str) -> Callable[..., None]:
        return lambda *given, **named: calls.append(name)

    configs = [triton.Config({"B": 128}, num_warps=2, num_stages=2, num_ctas=1, maxnreg=128,
                             pre_hook=hooked("config")), triton.Config({"B": 256}, num_warps=1)]
    made = triton.autotune(
        configs=configs, key=["n"], prune_configs_by={"early_config_prune": lambda all_, *_, **__:
                                                      all_}, reset_to_zero=["out"],
        restore_value=["x"], do_bench=timed, cache_results=True)(triton.JITFunction(scale.fn))
    x, out = tensors()
    made[(1,)](x, out, 100)
    assert torch.equal(out.cpu(), x.cpu() * 2 + 1)
    assert calls.count("do_bench") == 2
    assert "config" in calls


def tensors() -> Any:
    x = torch.arange(100, dtype=torch.float32, device="xpu")
    return x, torch.zeros_like(x)


@pytest.mark.filterwarnings("ignore:warmup, rep, and use_cuda_graph:DeprecationWarning")
def test_older_parameters_of_autotune() -> None:
    """`use_cuda_graph` is CUDA's: torch says so."""
    configs = [triton.Config({"B": 128}, num_warps=warps) for warps in (2, 4)]

    def tune(**options: Any) -> Any:
        made = triton.autotune(configs=configs, key=["n"], **options)(triton.JITFunction(scale.fn))
        x, out = tensors()
        made[(1,)](x, out, 100)
        assert torch.equal(out.cpu(), x.cpu() * 2 + 1)
        return made

    assert tune(warmup=1, rep=1).best_config in configs
    with pytest.raises(RuntimeError, match="CUDA"):
        tune(use_cuda_graph=True)


# --- fpsan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "mantissa", "factors"), [
    (32, 23, (199934151, 1947549497)), (16, 10, (4535, 28233)), (16, 7, (20039, 12729)),
    (64, 52, (5180577728837391687, 4042794308017384121)), (8, 2, (19, 109)), (8, 3, (71, 57))])
def test_fpsan_uses_the_numbers_that_libtriton_uses(
    bits: int, mantissa: int, factors: tuple[int, int]
) -> None:
    """The factors in the LLVM IR of libtriton 3.9.0 for cuda:90; 1.0 is 1, and -1.0 is -1."""
    form = Format(bits, mantissa)
    assert form.factors == factors
    assert form.mixed(form.one * A) * factors[0] & form.magnitude == 1
    assert form.mixed(form.one * A) * factors[1] & form.magnitude == form.magnitude


def llvm_for_cuda(mode: str) -> str:
    """The LLVM IR that Triton itself writes for `regrouped` on another vendor's GPU."""
    target, signature = GPUTarget("cuda", 90, 32), dict.fromkeys(("x", "y", "out"), "*fp32")
    backend, source = make_backend(target), ASTSource(regrouped, signature, {"B": 32})
    options = backend.parse_options({"instrumentation_mode": mode})
    context, stages = ir.context(), {}
    ir.load_dialects(context)
    backend.load_dialects(context)
    backend.add_stages(stages, options, source.language)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options),
                            backend.get_module_map(), context)
    for stage in ("ttir", "ttgir", "llir"):
        module = stages[stage](module, {})
    return str(module)


def test_fpsan_leaves_no_arithmetic_of_floats_on_other_gpus_either() -> None:
    """Its results are therefore not those of floats: `a * (b + 1) - b * a` is `a` to the bit."""
    arithmetic = "{{ (fadd|fsub|fmul|call float @llvm.fma)}}"
    check_text(llvm_for_cuda(""), f"CHECK: {arithmetic}")
    check_text(llvm_for_cuda("fpsan"), f"CHECK-NOT: {arithmetic}")
