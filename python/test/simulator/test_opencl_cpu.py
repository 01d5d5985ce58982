"""Kernels without matrix instructions agree with an independent implementation of OpenCL.

`pip install intel-opencl-rt intel-cmplr-lib-rt pyopencl` brings one for x86-64 CPUs.  It takes the
SPIR-V that goes to the GPU; the few GenISA functions of it come from a second module, written here
from their definitions and linked by that implementation.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton

from examples import softmax, vector_add
from triton_xe.lowering.spirv.emit_spirv import write_spirv
from triton_xe.runtime.versions import entry_name

RUNNER = Path(__file__).with_name("opencl_runner.py")
# LLVM keeps names that begin with "llvm." for itself: both modules call these functions "xlvm."
ACCESSES = """
define spir_func {t} @"xlvm.genx.GenISA.PredicatedLoad.{n}.p1.{n}"(
    ptr addrspace(1) %p, i64 %align, i1 %active, {t} %other) {{
entry:
  br i1 %active, label %read, label %done
read:
  %v = load {t}, ptr addrspace(1) %p, align 4
  br label %done
done:
  %r = phi {t} [ %other, %entry ], [ %v, %read ]
  ret {t} %r
}}
define spir_func void @"xlvm.genx.GenISA.PredicatedStore.p1.{n}"(
    ptr addrspace(1) %p, {t} %v, i64 %align, i1 %active) {{
entry:
  br i1 %active, label %write, label %done
write:
  store {t} %v, ptr addrspace(1) %p, align 4
  br label %done
done:
  ret void
}}
"""
SHUFFLES = """
define spir_func i32 @"xlvm.genx.GenISA.simdShuffleXor.i32"(i32 %v, i32 %mask) {
  %r = call spir_func i32 @_Z21sub_group_shuffle_xorjj(i32 %v, i32 %mask)
  ret i32 %r
}
define spir_func i32 @__builtin_IB_simd_broadcast(i32 %v, i32 %lane) {
  %r = call spir_func i32 @_Z17sub_group_shufflejj(i32 %v, i32 %lane)
  ret i32 %r
}
define spir_func float @"xlvm.genx.GenISA.WaveAll.f32"(float %v, i8 %op, i1 %all, i32 %mode) {
  %larger = icmp eq i8 %op, 12
  br i1 %larger, label %max, label %add
max:
  %m = call spir_func float @_Z20sub_group_reduce_maxf(float %v)
  ret float %m
add:
  %s = call spir_func float @_Z20sub_group_reduce_addf(float %v)
  ret float %s
}
declare spir_func float @_Z20sub_group_reduce_maxf(float)
declare spir_func float @_Z20sub_group_reduce_addf(float)
declare spir_func i32 @_Z21sub_group_shuffle_xorjj(i32, i32)
declare spir_func i32 @_Z17sub_group_shufflejj(i32, i32)
"""

BARRIER = """
define spir_func void @"xlvm.genx.GenISA.LSCFence"(i32 %port, i32 %scope, i32 %operation) {
  ret void
}
define spir_func void @"xlvm.genx.GenISA.threadgroupbarrier"() {
  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 784)
  ret void
}
declare spir_func void @_Z22__spirv_ControlBarrieriii(i32, i32, i32)
"""
"""A fence and the barrier after it: the barrier orders all memory."""

HELPERS = "".join([
    'target triple = "spirv64-unknown-unknown"',
    *(ACCESSES.format(t=t, n=n) for t, n in (("float", "f32"), ("<4 x float>", "v4f32"))),
    SHUFFLES,
    BARRIER,
])
PARTS = {"intel-opencl-rt": "libintelocl.so", "intel-cmplr-lib-rt": "libimf.so",
         "pyopencl": "__init__.py"}


def libraries() -> list[Path]:
    """A file of each package that makes up the implementation; fewer when one is missing."""
    found = []
    for package, name in PARTS.items():
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found += [Path(str(f.locate())).resolve() for f in files if f.name == name][:1]
    return [f for f in found if f.exists()]


pytestmark = pytest.mark.skipif(
    len(libraries()) < len(PARTS), reason=f"not all of {', '.join(PARTS)} are installed")


def run(folder: Path, compiled: Any, grid: int, arguments: Sequence[Any]) -> list[Any]:
    """Launch a compiled kernel there; returns its tensor arguments afterwards."""
    found, maths, _ = libraries()
    name = entry_name(compiled.asm["spv"], compiled.metadata.name)
    warps, lanes = compiled.metadata.num_warps, compiled.metadata.warp_size
    (folder / "kernel.spv").write_bytes(compiled.asm["spv"].replace(b"llvm.genx", b"xlvm.genx"))
    (folder / "helpers.spv").write_bytes(write_spirv(HELPERS))
    (folder / "intel.icd").write_text(f"{found}\n")
    given: list[tuple[str, Any]] = []
    for k, a in enumerate(arguments):
        if isinstance(a, int):
            given.append(("int32", a))
            continue
        np.save(folder / f"{k}.npy", a.cpu().numpy())
        given.append(("file", f"{k}.npy"))
    local = warps * lanes
    (folder / "job.json").write_text(json.dumps(
        {"name": name, "global": grid * local, "local": local, "arguments": given}))
    environment = {**os.environ, "OCL_ICD_VENDORS": str(folder),
                   "LD_LIBRARY_PATH": f"{found.parent}:{maths.parent}"}
    done = subprocess.run([sys.executable, str(RUNNER), str(folder)], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [np.load(folder / value) for kind, value in given if kind == "file"]


def test_vector_add(tmp_path: Path) -> None:
    x, y, n = torch.randn(3000, device="xpu"), torch.randn(3000, device="xpu"), 2900
    out = torch.zeros(3000, device="xpu")
    arguments = (x, y, out.clone(), n)
    compiled = vector_add.add_kernel[(3,)](x, y, out, n, BLOCK=1024)
    *_, theirs = run(tmp_path, compiled, 3, arguments)
    assert (theirs[:n] == (x + y).cpu().numpy()[:n]).all()
    np.testing.assert_array_equal(theirs, out.cpu().numpy())


@pytest.mark.parametrize("columns", [300, 1024])
def test_softmax(tmp_path: Path, columns: int, without_visa: None) -> None:
    softmax.softmax_kernel.device_caches.clear()
    x = torch.randn(17, columns, device="xpu") * 5
    out = torch.zeros(17, columns, device="xpu")
    arguments = (x, out.clone(), columns, columns, columns)
    compiled = softmax.softmax_kernel[(17,)](
        x, out, columns, columns, columns, BLOCK=triton.next_power_of_2(columns))
    _, theirs = run(tmp_path, compiled, 17, arguments)
    np.testing.assert_allclose(theirs.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(theirs, out.cpu().numpy(), rtol=1e-5, atol=1e-9)
