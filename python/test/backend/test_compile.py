"""Compiling through Triton: stages, metadata, the cache, and errors."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.errors import OutOfResources
from xdsl.dialects.arith import AddfOp

from examples.vector_add import add, add_kernel
from python.test.filecheck import check_text
from python.test.operations import instructions
from triton_xe.backend import source_hash
from triton_xe.backend.stage_errors import KernelNamer
from triton_xe.errors import UnsupportedError
from triton_xe.runtime import checked_files
from triton_xe.spirv import BUILD_FLAGS, attached, attached_llvm_ir, is_spirv
from triton_xe.tools.canonical import canonical_spirv

ROOT = Path(__file__).parents[3]
STAGES = ["ttir", "ttgir", "xetile", "xegpu", "llir", "spv"]
BMG = GPUTarget("xpu", "bmg", 16)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty kernel cache; kernels compiled before are forgotten."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    add_kernel.device_caches.clear()
    yield tmp_path
    add_kernel.device_caches.clear()


def source(function=add_kernel, block=256):
    types = {name: "*fp32" for name in ("a_ptr", "b_ptr", "c_ptr")} | {"n": "i32"}
    return ASTSource(function, types | {"BLOCK": "constexpr"}, {"BLOCK": block})


def check_add():
    a, b = (torch.arange(1000.0, device="xpu") for _ in range(2))
    assert torch.equal(add(a, b, block=256).cpu(), 2 * torch.arange(1000.0))


@pytest.mark.smoke
def test_the_stages_are_text_and_the_last_is_spirv(cache):
    kernel = triton.compile(source(), target=BMG)
    assert [name for name in kernel.asm if name in STAGES] == STAGES
    assert all(isinstance(kernel.asm[name], str) for name in STAGES[:-1])
    assert is_spirv(kernel.asm["spv"])
    assert attached_llvm_ir(kernel.asm["spv"]) == kernel.asm["llir"]
    check_text(kernel.asm["ttgir"], 'CHECK: ttg.target = "xpu:bmg"')
    check_text(kernel.asm["llir"], "CHECK: define spir_kernel")


def test_the_metadata_says_what_the_launcher_needs(cache):
    metadata = triton.compile(source(), target=BMG, options={"num_warps": 8}).metadata
    assert metadata.name == "add_kernel"
    assert (metadata.num_warps, metadata.warp_size, metadata.shared) == (8, 16, 0)
    assert metadata.target == BMG
    assert isinstance(metadata.build_flags, str)
    assert metadata.global_scratch_size == 0


@pytest.mark.parametrize("name", ["pvc", "lnl", "ptl"])
def test_every_device_compiles_on_any_machine(cache, name):
    kernel = triton.compile(
        source(), target=GPUTarget("xpu", name, 16), options={"num_warps": 32})
    check_text(kernel.asm["ttgir"], f'CHECK: ttg.target = "xpu:{name}"')


@pytest.mark.parametrize("absent", ["torch", "numpy"])
def test_compiling_needs_no_torch_no_numpy_and_no_device(tmp_path, absent):
    """Importing numpy takes 64 ms of processor time and 14 MB."""
    code = f"""
import sys
from triton_xe.tools.cli import main
sys.modules["{absent}"] = None
main(["compile", "kernel.py::double", "--signature", "p=*fp32:16 n=i32 BLOCK=64", "-o", "made"])
"""
    kernel = """
import triton, triton.language as tl
@triton.jit
def double(p, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(p + i, 2 * tl.load(p + i, mask=i < n), mask=i < n)
"""
    (tmp_path / "kernel.py").write_text(kernel)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_XE_DEVICE": "gpu"}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment,
                         capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr
    check_text(attached_llvm_ir((tmp_path / "made").read_bytes()), "CHECK: spir_kernel")


def test_a_cached_kernel_starts_without_the_compiler(cache):
    """Nor what translates it for the simulator."""
    code = """
import sys
import torch
from examples.vector_add import add
x = torch.ones(64, device="xpu")
assert add(x, x).sum().item() == 128
compiles = "triton_xe.lowering", "triton_xe.backend.front_passes", "xdsl", *(
    f"triton_xe.{each}" for each in ("intrinsics", "llvm", *(
        f"runtime.simulator.{room}" for room in (
            "analysis", "estimate", "rewrites", "sanitizer.state", "trace", "widen"))))
print(sorted(m for m in sys.modules if m.startswith(compiles)))
"""
    loaded = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                       check=True).stdout.strip()
        for _ in range(2)
    ]
    assert "triton_xe.lowering.pipeline" in loaded[0]
    assert loaded[1] == "[]"


# each way a file of the cache can be wrong
DAMAGES = [
    *((ext, how) for ext in ("spv", "json", "llir") for how in ("cut", "empty")),
    ("spv", "noise"), ("grp", "cut"), ("grp", "list"), ("digests", "empty"),
]


def damage(cache, which, how):
    patterns = {"grp": "__grp__*", "digests": "__digests__*"}
    pattern = patterns.get(which, f"add_kernel.{which}")
    (file,) = cache.glob(f"*/{pattern}")
    data = file.read_bytes()
    file.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "noise": data[::-1],
                      "list": b"[]"}[how])
    return file, data


@pytest.mark.parametrize(("which", "how"), DAMAGES)
def test_a_damaged_cache_entry_is_built_again(cache, which, how):
    check_add()
    file, data = damage(cache, which, how)
    add_kernel.device_caches.clear()
    check_add()
    assert content(file.name, file.read_bytes()) == content(file.name, data)


def content(name, data):
    """What a file says, but for the ids of SPIR-V, which LLVM may number otherwise."""
    if name.endswith(".spv"):
        return canonical_spirv(data)
    return json.loads(data).keys() if name.startswith("__digests__") else data


@pytest.mark.parametrize("which", ["add_kernel.spv", "__digests__*"])
def test_a_cache_entry_that_others_can_write_is_built_again(cache, which):
    check_add()
    (file,) = cache.glob(f"*/{which}")
    file.chmod(0o646)
    add_kernel.device_caches.clear()
    check_add()
    assert not file.stat().st_mode & 0o002


def test_an_intact_cache_entry_is_used(cache):
    check_add()
    (file,) = cache.glob("*/add_kernel.spv")
    before = file.stat().st_mtime_ns
    add_kernel.device_caches.clear()
    check_add()
    assert file.stat().st_mtime_ns == before


def test_the_cache_of_the_user_stays(monkeypatch):
    from triton.runtime.cache import FileCacheManager

    from triton_xe.backend import kernel_cache

    monkeypatch.setattr(triton.knobs.cache, "manager_class", FileCacheManager)
    kernel_cache.install()
    assert triton.knobs.cache.manager_class is FileCacheManager


def test_groups_of_other_backends_are_left_alone(tmp_path, monkeypatch):
    from triton_xe.backend.kernel_cache import CheckedCacheManager

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    manager = CheckedCacheManager("KEY")
    path = manager.put(b"binary", "k.cubin")
    manager.put_group("k.json", {"k.cubin": path})
    Path(path).write_bytes(b"changed")
    assert manager.get_group("k.json") == {"k.cubin": path}
    assert not list(tmp_path.glob("*/__digests__*"))


def test_too_many_threads_are_out_of_resources(cache):
    with pytest.raises(OutOfResources, match=r"threads, Required: 2048, Hardware limit: 1024. "
                       r"Use at most 64 warps"):
        triton.compile(source(), target=BMG, options={"num_warps": 128})


@pytest.mark.parametrize(("device", "mode", "warps"), [
    ("cri", "512", 32), ("nvl-p", "512", 16), ("nvl-p", "320", 24), ("bmg", "256", 32)])
def test_warps_of_a_large_register_file_fit_one_core(cache, device, mode, warps):
    target = GPUTarget("xpu", device, 16)
    with pytest.raises(OutOfResources, match=rf"warps of {mode} registers, Required: 64, "
                       rf"Hardware limit: {warps}\."):
        triton.compile(source(), target=target, options={"num_warps": 64, "grf_mode": mode})


def test_too_much_slm_is_out_of_resources(cache, monkeypatch):
    from triton.compiler import compiler

    a = torch.ones(64, device="xpu")
    monkeypatch.setattr(compiler, "max_shared_mem", lambda device: -1)
    with pytest.raises(OutOfResources, match="shared memory"):
        add(a, a)


def test_a_cpu_tensor_is_refused_by_name(cache):
    a = torch.ones(64, device="xpu")
    with pytest.raises(ValueError, match=r"'add_kernel': argument 'b_ptr' is a tensor on cpu"):
        add_kernel[(1,)](a, torch.ones(64), a, 64, BLOCK=64)


def test_an_unsupported_operation_names_kernel_place_and_reason(cache, monkeypatch):
    from triton_xe.lowering.emit import module  # noqa: F401  (fills the table)
    from triton_xe.lowering.emit.emitter import LOWERINGS

    monkeypatch.delitem(LOWERINGS, AddfOp)
    with pytest.raises(UnsupportedError) as caught:
        triton.compile(source(), target=BMG)
    message = str(caught.value)
    assert message.startswith("kernel 'add_kernel' (")
    assert "vector_add.py:" in message
    assert "arith.addf is not supported on bmg" in message
    assert "\n" not in message


def test_a_bug_in_a_stage_keeps_its_type_and_names_the_kernel(cache):
    compiled = triton.compile(source(), target=BMG)
    stage = KernelNamer().wrap("xegpu", lambda text, metadata: {}["nothing"])
    with pytest.raises(KeyError) as caught:
        stage(compiled.asm["ttgir"], {})
    (note,) = caught.value.__notes__
    assert "while making xegpu of kernel 'add_kernel'" in note


def without_places(llir):
    """LLVM IR without source places, which the text of a stage leaves out."""
    return re.sub(r", !xe\.at !\d+|^!.*$|!\d+", "", llir, flags=re.MULTILINE).rstrip()


def test_an_override_of_our_stages(cache, tmp_path):
    first = triton.compile(source(), target=BMG)
    for stage in ("xetile", "xegpu"):
        file = tmp_path / f"mine.{stage}"
        file.write_text(first.asm[stage])
        again = triton.compile(source(), target=BMG, options={"ir_override": str(file)})
        assert without_places(again.asm["llir"]) == without_places(first.asm["llir"])
    file = tmp_path / "mine.llir"
    file.write_text(first.asm["llir"].replace("fadd", "fsub"))
    again = triton.compile(source(), target=BMG, options={"ir_override": str(file)})
    assert "fsub" in instructions(again.asm["llir"])


def test_the_hash_covers_our_sources_and_tools(monkeypatch, tmp_path):
    names = [name for name, _ in source_hash.source_files()]
    for expected in ("backend/options.py", "lowering/pipeline.py", "layout/__init__.py",
                     "hardware/target.py", "spirv.py", "sample_texts.txt"):
        assert expected in names
    assert not [name for name in names if name.startswith(("tools", "runtime"))]
    before = source_hash.source_hash.__wrapped__()
    assert source_hash.source_hash.__wrapped__() == before
    other_xdsl = tmp_path / "xdsl-0.0.dist-info"
    other_xdsl.mkdir()
    (other_xdsl / "METADATA").write_text("Metadata-Version: 2.1\nName: xdsl\nVersion: 0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / "cache"))
    assert source_hash.source_hash.__wrapped__() != before


def test_a_file_that_looks_as_old_and_as_large_as_before_is_read_again(tmp_path):
    file = tmp_path / "rule.py"
    file.write_text("x = 1")

    def digest(settled=checked_files.SETTLED_SECONDS):
        return checked_files.cached_digest(tmp_path / "cache", [__file__], lambda: [str(file)],
                                         file.read_text, settled)

    assert digest() == "x = 1"
    assert not (tmp_path / "cache").exists()
    time.sleep(0.05)
    assert digest(settled=0.01) == "x = 1"
    (kept,) = (tmp_path / "cache").iterdir()
    assert digest() == "x = 1"
    at = file.stat()
    file.write_text("x = 2")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert digest() == "x = 2"
    kept.write_bytes(b"damaged")
    assert digest() == "x = 2"


def test_build_flags_travel_in_the_module(cache):
    kernel = triton.compile(source(), target=BMG, options={"grf_mode": "256"})
    assert kernel.metadata.build_flags
    binary = kernel.asm["spv"]
    assert attached(binary, BUILD_FLAGS) == kernel.metadata.build_flags
    assert attached_llvm_ir(binary) == kernel.asm["llir"]


def test_the_metadata_file_is_json(cache):
    triton.compile(source(), target=BMG)
    (file,) = cache.glob("*/add_kernel.json")
    assert json.loads(file.read_text())["arch"] == "bmg"


@triton.autotune(
    [triton.Config({"BLOCK": 1024}, num_warps=4), triton.Config({"BLOCK": 32}, num_warps=64 * 2),
     triton.Config({"BLOCK": 32}, num_warps=4)],
    key=["n"],
)
@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    at = (at[:, None] * BLOCK + at[None, :]) % n
    tl.store(x + at, tl.load(x + at) * 2)


def test_autotuning_skips_configurations_that_are_too_large(cache):
    x = torch.ones(32 * 32, device="xpu")
    doubled[(1,)](x, 32 * 32)
    assert doubled.best_config.kwargs == {"BLOCK": 32}
    assert doubled.best_config.num_warps == 4
