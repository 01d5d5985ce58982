"""Native code of the driver as a stage, and launched by others than this package's launcher."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_xe.runtime.level_zero.zebin import loses_stores
from triton_xe.tools import intel
from triton_xe.tools.gpu_checks.kernels import product

from .test_sycl_order import FIRST_ADAPTER, LOGGED, RESIDENT, SECOND_ADAPTER, calls

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.intel_driver
Run = Callable[..., dict[str, Any]]
KERNELS = """
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, out, n, count: tl.int64, scale, flag: tl.int1, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * scale + count + flag, mask=i < n)

@triton.jit
def total_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))

@triton.jit
def asserting_kernel(x, n):
    tl.device_assert(n > 0)
    tl.store(x, n)
"""
START = """
import json, os, sys
from pathlib import Path
import triton
sys.path.insert(0, {folder!r})
from kernels import *
from triton.compiler import ASTSource
from triton.runtime.driver import driver
from triton_xe.backend import devices
device = devices.devices()[0]
out = {{}}
def compiled(fn, signature, **options):
    types = {{name: kind for name, kind in signature.items() if isinstance(kind, str)}}
    constants = {{(fn.arg_names.index(n),): v for n, v in signature.items() if n not in types}}
    types |= {{n: "constexpr" for n in signature if n not in types}}
    ordered = {{n: types[n] for n in fn.arg_names}}
    options = {{"generate_native_code": True, **options}}
    target = driver.active.get_current_target()
    return triton.compile(ASTSource(fn, ordered, constants), target, options)
def add(scale="fp32", **options):
    return compiled(add_kernel, dict(x="*fp32", out="*fp32", n="i32", count="i64", scale=scale,
                                     flag="u1", BLOCK=256), **options)
def total(**options):
    return compiled(total_kernel, dict(x="*fp32", out="*fp32", n="i32", BLOCK=1024), **options)
def asserting():
    return compiled(asserting_kernel, dict(x="*i32", n="i32"), debug=True)
"""
# What torch's C++ code does with native code, call by call (torch/csrc/inductor/static_launcher).
LAUNCHER = """
import ctypes
import struct
import torch
from torch._inductor.runtime.hints import HeuristicType
from torch._inductor.runtime.triton_heuristics import StaticTritonCompileResult
from triton_xe.runtime.level_zero import objects, raw

SIZES = dict(b="b", h="h", i="i", l="q", B="B", H="H", I="I", K="Q", f="f", d="d")

class Launcher:
    def _load_kernel(self, path, name, shared, index):
        code = Path(path).read_bytes()
        module = objects.Module(device.context, device.physical, code, "", native=True)
        kernel = objects.KernelObject(module, name)
        return kernel, 0, kernel.properties.spillMemSize

    def _launch_kernel(self, kernel, x, y, z, warps, shared, types, values, stream):
        assert kernel.properties.numKernelArgs == len(types), (kernel.name, types)
        assert not shared
        kernel.set_group_size(warps * kernel.properties.requiredSubgroupSize, 1, 1)
        for index, (kind, value) in enumerate(zip(types, values)):
            data = struct.pack("Q", value or 0) if kind == "O" else struct.pack(SIZES[kind], value)
            raw.api().call("zeKernelSetArgumentValue", kernel.handle, index, len(data), data)
        count = ctypes.byref(raw.ze_group_count_t(x, y, z))
        raw.api().call("zeCommandListAppendLaunchKernel", device.list.handle, kernel.handle, count,
                       None, 0, None)
        device.synchronize()

torch._C._StaticXpuLauncher = Launcher()
torch._inductor.config.strict_static_triton_launcher = True

def static(kernel):
    meta = {"device_type": "xpu", "device": 0}
    made = StaticTritonCompileResult.can_statically_launch(
        kernel, {}, meta, HeuristicType.POINTWISE)
    made.load_kernel(0)
    return made
"""


@pytest.fixture
def run(on_driver: Run, tmp_path: Path) -> Run:
    (tmp_path / "kernels.py").write_text(KERNELS)

    def with_kernels(code: str, extra: dict[str, str] | None = None) -> dict[str, Any]:
        environment = {"TRITON_XE_DEVICE": "gpu", "TRITON_CACHE_DIR": str(tmp_path / "triton")}
        start = START.format(folder=str(tmp_path))
        return on_driver(code, extra=environment | (extra or {}), start=start)

    return with_kernels


FACTS = """
kernel = total()
kernel._init_handles()
facts = kernel.metadata
out.update(stages=list(kernel.asm), magic=list(kernel.asm["zebin"][:4]),
           spirv=list(kernel.asm["spv"][:4]), flags=facts.build_flags, shared=facts.shared,
           slm=facts.slm_bytes, hash=kernel.hash, cached=kernel.function.kernel.report.from_cache,
           scratch=[name for name in facts._fields if "scratch" in name])
"""


def test_native_code_starts_the_next_process_until_the_driver_changes(run: Run) -> None:
    said = {"TRITON_XE_DEBUG": "1"}
    first = run(FACTS, said)
    assert "zebin" in first["stages"]
    assert bytes(first["magic"]) == b"\x7fELF"
    assert bytes(first["spirv"]) == b"\x03\x02\x23\x07"
    assert (first["shared"], first["scratch"]) == (0, [])
    assert first["slm"] > 0
    assert first["cached"]
    assert first["stderr"].count("builds it from SPIR-V: no native code is cached for") == 1
    unread = "from triton_xe.runtime import spirv_reader\nspirv_reader.read_module = None\n"
    second = run(unread + FACTS + "out['numpy'] = 'numpy' in sys.modules\n")
    assert not second.pop("numpy")
    assert {**second, "stdout": "", "stderr": ""} == {**first, "stdout": "", "stderr": ""}
    changed = run("device.physical.driver.version += 1\n" + FACTS, said)
    assert "total_kernel: Intel" in changed["stderr"]
    assert "builds it from SPIR-V: no native code is cached" in changed["stderr"]
    assert changed["hash"] != first["hash"]


def test_native_code_without_a_fitting_gpu_is_no_stage_and_said(run: Run) -> None:
    out = run(
        """
        kernel = compiled(total_kernel, dict(x="*fp32", out="*fp32", n="i32", BLOCK=1024),
                          arch="pvc")
        out.update(stages=list(kernel.asm), shared=kernel.metadata.shared)
        """,
        {"TRITON_XE_DEBUG": "1"},
    )
    assert "zebin" not in out["stages"]
    assert out["shared"] > 0
    assert "no native code: this process has no GPU of type pvc" in out["stderr"]


@pytest.mark.rest
def test_torchs_static_launcher_binds_just_the_arguments(run: Run) -> None:
    pytest.importorskip("torch._inductor")
    out = run(
        LAUNCHER
        + """
kernels = [static(add()), static(total()), static(total(grf_mode="256"))]
a, b = (device.allocate(4096).pointer for _ in range(2))
kernels[0].run(4, 1, 1, 0, a, b, 1000, 2**40, 2.5, 1)
for kernel in kernels[1:]:
    kernel.run(1, 1, 1, 0, a, b, 1000)
out["types"] = [kernel.arg_tys for kernel in kernels]
try:
    static(asserting())
except Exception as error:
    out["asserting"] = str(error)
try:
    static(add("bf16"))
except Exception as error:
    out["half"] = str(error)
torch._inductor.config.cpp_wrapper = True
try:
    add("fp16")
except Exception as error:
    out["half in cpp"] = str(error)
try:
    asserting()
except Exception as error:
    out["cpp"] = str(error)
out["spv"] = total(generate_native_code=False).metadata.shared
try:
    total(generate_native_code=False, grf_mode="256")
except Exception as error:
    out["flags"] = str(error)
"""
    )
    assert out["types"] == ["OOilfI", "OOi", "OOi"]
    assert "static launch does not support launch attributes" in out["asserting"]
    assert "static launch does not support launch attributes" in out["half"]
    assert "a number of 16 bits, which C++ code that torch generates passes" in out["half in cpp"]
    assert "C++ code that torch generates has no buffer for its reports" in out["cpp"]
    assert out["spv"] == 0
    assert "builds SPIR-V without flags; set TORCHINDUCTOR_XPU_KERNEL_FORMAT=zebin" in out["flags"]


def test_too_much_local_memory_is_a_configuration_to_skip(run: Run) -> None:
    out = run(
        """
        device.target = device.target._replace(max_slm_bytes=16)
        try:
            total()
        except Exception as error:
            out["error"] = [type(error).__name__, error.required, error.limit]
        """
    )
    assert out["error"] == ["OutOfResources", 64, 16]


# What torch's header for C++ that Inductor writes asks of torch's XPU library.
FUNCTIONS = """
#pragma once
#include <sycl/sycl.hpp>
namespace c10::xpu {
inline sycl::queue *queue;
inline int current_device() { return 0; }
inline sycl::device &get_raw_device(int) { static auto it = queue->get_device(); return it; }
inline sycl::context &get_device_context() { static auto it = queue->get_context(); return it; }
}
"""
WRAPPER = """
#include <cassert>
#include <filesystem>
#include <memory>
#include <optional>
#define USE_XPU
#include <torch/csrc/inductor/aoti_runtime/sycl_runtime_wrappers.h>
extern "C" int run(const char *path, const char *name, unsigned shared, unsigned warps,
                   void **params, sycl::queue *queue) try {
    c10::xpu::queue = queue;
    auto kernel = loadKernel(path, name, shared);
    launchKernel(kernel, 4, 1, 1, warps, shared, params, queue);
    queue->wait_and_throw();
    return 0;
} catch (const std::exception &error) { std::cerr << error.what() << std::endl; return 1; }
"""
LAUNCH_BY_CPP = RESIDENT + """
import struct
import dpctl, dpctl.memory
ctypes.CDLL(raw.api().path, ctypes.RTLD_GLOBAL)
library = ctypes.CDLL({library!r})
queue = dpctl.SyclQueue("level_zero:gpu", property=["in_order"])
memory = [dpctl.memory.MemoryUSMDevice(4096, queue=queue) for _ in range(2)]
def run(kernel, kind, *values):
    (path,) = (path for name, path in kernel.metadata_group.items() if name.endswith(kind))
    cells = [ctypes.c_uint64(value) for value in values]
    params = (ctypes.c_void_p * len(cells))(*map(ctypes.addressof, cells))
    return library.run(path.encode(), kernel.name.encode(), kernel.metadata.shared,
                       kernel.metadata.num_warps, params, ctypes.c_void_p(queue.addressof_ref()))
a, b = (block._pointer for block in memory)
out["codes"] = []
print("BEGIN", file=sys.stderr)
half = int.from_bytes(struct.pack("f", 0.5), "little")
out["codes"].append(run(add(), ".zebin", a, b, 1000, 2**40, half, 1))
out["codes"].append(run(total(), ".zebin", a, b, 1000))
out["codes"].append(run(total(), ".spv", a, b, 1000))
print("END", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def wrapper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Torch's own code for launches from C++, on SYCL queues of dpctl."""
    torch = importlib.util.find_spec("torch")
    headers = Path(sys.prefix) / "include"
    if torch is None or not (headers / "sycl/sycl.hpp").exists():
        pytest.skip("torch, or SYCL's headers, are missing: pip install 'triton-xe[sycl]'")
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing")
    folder = tmp_path_factory.mktemp("wrapper")
    (folder / "c10/xpu").mkdir(parents=True)
    (folder / "c10/xpu/XPUFunctions.h").write_text(FUNCTIONS)
    (folder / "level_zero").symlink_to(ROOT / "third_party/level_zero/include")
    (folder / "run.cpp").write_text(WRAPPER)
    command = ["g++", "-std=c++17", "-O0", "-w", "-fPIC", "-shared", "-o", folder / "run.so",
               folder / "run.cpp", f"-I{folder}", f"-I{headers}", f"-L{headers.parent}/lib",
               f"-I{Path(str(torch.origin)).parent}/include", "-lsycl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "run.so"


@pytest.mark.parametrize("adapter", [FIRST_ADAPTER, SECOND_ADAPTER])
def test_torchs_cpp_code_launches_with_every_argument_in_its_place(
    adapter: dict[str, str], wrapper: Path, run: Run
) -> None:
    out = run(LAUNCH_BY_CPP.replace("{library!r}", repr(str(wrapper))), {**LOGGED, **adapter})
    assert out["codes"] == [0, 0, 0]
    made = calls(out["stderr"])
    assert sum("AppendLaunchKernel" in name for name, _ in made) == 3
    arguments = [(int(given["argIndex"]), int(given["argSize"]), given["pArgValue"])
                 for name, given in made if name == "zeKernelSetArgumentValue"]
    # the second adapter gives all of a launch's arguments in one call, unseen
    indices = [] if adapter is SECOND_ADAPTER else [*range(6), *range(3), *range(3)]
    assert [index for index, _, _ in arguments] == indices
    assert {size for _, size, _ in arguments} <= {8}
    assert not [value for _, _, value in arguments if value in ("0", "0x0", "nullptr")]


def test_stores_that_the_compiler_would_lose_are_kept(on_driver: Run, tmp_path: Path) -> None:
    """Intel's compiler 2.40 holds addresses in r510; driver and ocloc agree on the second build."""
    constants = {"PRECISION": "ieee", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    types = {n: "constexpr" if n in constants else "*fp32" if n in "abc" else "i32"
             for n in product.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    kernel = triton.compile(ASTSource(product, types, constants, aligned),
                            target=GPUTarget("xpu", "cri", 16))
    flags, file = kernel.metadata.build_flags, tmp_path / "product.spv"
    file.write_bytes(kernel.asm["spv"])
    found = on_driver(f"""
from triton_xe.runtime.spirv_reader import entry_point
module = open({str(file)!r}, "rb").read()
built = device.load(module, entry_point(module, {kernel.name!r}).name, build_flags={flags!r})
out["registers"] = built.n_registers
""", device="cri")
    offline = intel.compile_spirv(kernel.asm["spv"], "cri", flags)
    assert not loses_stores(offline.binary)
    assert found["registers"] == offline.facts.grf_count
