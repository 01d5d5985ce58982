"""Kernels whose subgroups have another size than the device's own."""

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import target
from triton_xe.lowering.module_facts import module_lanes
from triton_xe.lowering.pipeline import stage_of
from triton_xe.tools import intel


@triton.jit
def reduce_and_scan(x, total, where, prefix, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    held = tl.load(x + row * COLUMNS + column)
    tl.store(total + tl.arange(0, COLUMNS), tl.sum(held, axis=0))
    tl.store(where + tl.arange(0, ROWS), tl.argmax(held, axis=1))
    tl.store(prefix + row * COLUMNS + column, tl.associative_scan(held, 1, _add))


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def matmul(a, b, c, N: tl.constexpr, PRECISION: tl.constexpr):
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x, y = tl.load(a + row * N + column), tl.load(b + row * N + column)
    tl.store(c + row + column * N, tl.dot(x, y, input_precision=PRECISION))


@pytest.mark.covering
@pytest.mark.parametrize("warp_size", [16, 32])
@pytest.mark.parametrize(("rows", "columns", "num_warps"), [(4, 32, 4), (64, 16, 2), (1, 512, 8)])
def test_reductions_scans_and_sums(rows, columns, num_warps, warp_size):
    x = torch.randint(-99, 99, (rows, columns), dtype=torch.int32)
    total = torch.zeros(columns, dtype=torch.int32, device="xpu")
    where = torch.zeros(rows, dtype=torch.int32, device="xpu")
    prefix = torch.zeros((rows, columns), dtype=torch.int32, device="xpu")
    reduce_and_scan[(1,)](x.to("xpu"), total, where, prefix, rows, columns, num_warps=num_warps,
                          warp_size=warp_size)
    assert torch.equal(total.cpu().long(), x.sum(0))
    assert torch.equal(where.cpu().long(), torch.from_numpy(x.numpy().argmax(1)))
    assert torch.equal(prefix.cpu().long(), x.cumsum(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_dot_with_32_lanes_is_multiplied_by_fma(dtype):
    a, b = (torch.randn(32, 32).to(dtype) for _ in range(2))
    c = torch.empty(32, 32, device="xpu")
    kernel = matmul[(1,)](a.to("xpu"), b.to("xpu"), c, 32, "ieee", warp_size=32)
    torch.testing.assert_close(c.cpu(), (a.double() @ b.double()).T.float(), atol=1e-4, rtol=1e-4)
    assert kernel.metadata.n_dpas == 0
    assert "32 lanes" in " ".join(kernel.metadata.remarks)


def test_the_kernel_states_its_subgroup_size():
    source = ASTSource(matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp32"},
                       {"N": 32, "PRECISION": "ieee"})
    for device, size in (("bmg", 32), ("dg2", 16), ("dg2", 8)):
        made = triton.compile(source, target=GPUTarget("xpu", device, size),
                              options={"warp_size": size})
        check_text(made.asm["llir"], f"CHECK: = !{{i32 {size}}}")


def test_a_module_with_a_size_that_the_device_lacks_is_refused():
    text = 'module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 64 : i32} {}'
    with pytest.raises(UnsupportedError, match="64 is not a subgroup size of bmg"):
        module_lanes(stage_of(text).module, target("bmg"))


@pytest.mark.skipif(bool(intel.available()), reason=str(intel.available()))
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_intels_compiler_accepts_32_lanes(device):
    source = ASTSource(
        reduce_and_scan, {"x": "*i32", "total": "*i32", "where": "*i32", "prefix": "*i32"},
        {"ROWS": 16, "COLUMNS": 64},
    )
    made = triton.compile(source, target=GPUTarget("xpu", device, 16), options={"warp_size": 32})
    facts = intel.compile_spirv(made.asm["spv"], device, dump_asm=False).facts
    assert (facts.simd_size, facts.spill_size) == (32, 0)
