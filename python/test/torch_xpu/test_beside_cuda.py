"""The simulated device where torch sees a CUDA device as well, which a stand-in plays here.

The stand-in has the hooks that a CUDA build registers with torch, and counts one device unless
CUDA_VISIBLE_DEVICES hides it, once per process, as CUDA's runtime does.  A CUDA build needs none.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch

from triton_xe.runtime.torch_xpu import compilation

STAND_IN = """
#include <ATen/detail/CUDAHooksInterface.h>
#include <cstdlib>
#include <cstring>

namespace at {
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  static int count() {
    static const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    static const int devices = visible && !std::strcmp(visible, "-1") ? 0 : 1;
    return devices;
  }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count() > 0; }
  bool hasCUDA() const override { return count() > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return false; }
  DeviceIndex deviceCount() const override { return count(); }
};
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, CUDAHooks)
}  // namespace at

extern "C" int count() { return at::CUDAHooks::count(); }
"""
PROGRAM = """
import ctypes, os, sys
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch
if sys.argv[1]:
    stand_in = ctypes.CDLL(sys.argv[1])
    torch._C._cuda_getDeviceCount = lambda: stand_in.count()
count = torch._C._cuda_getDeviceCount
if "early" in sys.argv and not count():
    sys.exit("no device")
from triton_xe.runtime import torch_xpu
torch_xpu.autoload()
print(torch.accelerator.current_accelerator(), torch.xpu.is_available(),
      torch.cuda.is_available(), count(), os.environ.get("CUDA_VISIBLE_DEVICES"))
x = torch.arange(8.0, device="xpu", requires_grad=True)
(x * 2).sum().backward()
print(x.grad.tolist() == [2.0] * 8)
if "compile" in sys.argv:
    print(torch.compile(lambda x: x.sin() + 1)(x.detach()).cpu().sum().item())
"""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> str:
    if hasattr(torch._C, "_cuda_getDeviceCount"):
        return ""
    folder = tmp_path_factory.mktemp("stand_in")
    source, library = folder / "stand_in.cpp", folder / "stand_in.so"
    source.write_text(STAND_IN)
    built_for = compilation.installed_torch()
    subprocess.run(
        [compilation.find_compiler(), built_for.standard, *compilation.FLAGS,
         "-fvisibility=default", f"-D_GLIBCXX_USE_CXX11_ABI={built_for.cxx11_abi}",
         f"-I{built_for.folder / 'include'}", "-shared", str(source), "-o", str(library),
         f"-L{built_for.folder / 'lib'}", "-ltorch_cpu", "-lc10"], check=True)
    return str(library)


def run(stand_in: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, stand_in, *words], text=True, capture_output=True,
        env=environment | {"TRITON_XE_DEVICE": "sim", "TORCHINDUCTOR_COMPILE_THREADS": "1"})


@pytest.mark.rest
def test_the_simulated_device_is_the_accelerator(stand_in: str) -> None:
    """CUDA devices are hidden from this process, and not from those that it starts."""
    done = run(stand_in, "compile")
    assert done.returncode == 0, done.stderr
    first, gradient, compiled = done.stdout.splitlines()
    assert first == "xpu True False 0 None"
    assert gradient == "True"
    assert float(compiled) == pytest.approx(sum(math.sin(k) + 1 for k in range(8)))


@pytest.mark.rest
def test_cuda_that_is_in_use_already_is_named(stand_in: str) -> None:
    done = run(stand_in, "early")
    if done.stderr == "no device\n":
        pytest.skip("this torch is a CUDA build, and there is no CUDA device")
    assert "1 CUDA devices are in use since before `import torch`" in done.stderr
    assert "start the program with CUDA_VISIBLE_DEVICES=-1" in done.stderr
