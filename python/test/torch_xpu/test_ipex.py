"""intel-extension-for-pytorch next to this package, in either order; skipped without it."""

import importlib.util
import os
import subprocess
import sys

import pytest

from python.test.project.test_imports import ROOT

IPEX = "intel_extension_for_pytorch"
needs_ipex = pytest.mark.skipif(
    importlib.util.find_spec(IPEX) is None, reason="pip install triton-xe[ipex] brings it")
ORDERS = {
    "theirs first": f"import {IPEX} as ipex, triton",
    "ours first": f"import triton, torch; torch.zeros(1, device='xpu'); import {IPEX} as ipex",
}
OPTIMIZED = """
import torch
from examples import matmul
torch.manual_seed(0)
layers = torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)
model = torch.nn.Sequential(*layers).eval()
x = torch.randn(4, 64)
with torch.no_grad():
    plain = model(x)
    fast = ipex.optimize(model, dtype=torch.float32)
    assert torch.allclose(fast(x), plain, atol=1e-5)
    a, b = matmul.operands(128, 128, 128)
    c = matmul.matmul(a, b, blocks=(64, 64, 32), num_warps=4)
    assert torch.allclose(c.cpu().float(), a.cpu().float() @ b.cpu().float(), atol=0.05)
    assert torch.equal(fast(x), ipex.optimize(model, dtype=torch.float32)(x))
print("agrees")
"""


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, "TRITON_XE_DEVICE": "sim"})


@needs_ipex
@pytest.mark.parametrize("imports", ORDERS.values(), ids=ORDERS)
def test_a_model_is_optimized_on_the_cpu_beside_kernels(imports):
    done = run("-c", imports + OPTIMIZED)
    assert done.stdout.endswith("agrees\n"), done.stderr


@needs_ipex
def test_the_gemm_suite_passes_with_it(tmp_path):
    (tmp_path / "with_ipex.py").write_text(f"import {IPEX}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "with_ipex", "python/test/gemm"],
        capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("device", "blocks"), [
    ("bmg", True), ("dg2", False), pytest.param("pvc", True, marks=pytest.mark.slow)])
def test_devices_say_whether_they_load_blocks(device, blocks):
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.xpu.has_2d_block_array())"],
        capture_output=True, text=True,
        env={**os.environ, "TRITON_XE_DEVICE": f"sim:{device}"})
    assert done.stdout.strip() == str(blocks), done.stderr
