"""Programs whose block lies inside all bounds work without masks; others as before."""

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import loops
from python.test.filecheck import check_text
from python.test.operations import instructions


@triton.jit
def shifted(x, out, n, m, stride, BLOCK: tl.constexpr, LOW: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.arange(0, 4)
    inside = (i[:, None] < n) & (j[None, :] < m) & (i[:, None] >= LOW)
    at = i[:, None] * stride + j[None, :]
    v = tl.load(x + at, mask=inside, other=-1)
    tl.store(out + at, tl.where(inside, v + 1, 7), mask=i[:, None] < n)


@pytest.mark.parametrize(("n", "m", "low"), [(64, 4, 0), (61, 4, 0), (64, 3, 0), (64, 4, 3)])
def test_blocks_inside_and_at_edges(n, m, low):
    x = torch.arange(64 * 4, dtype=torch.int32).reshape(64, 4)
    out = torch.zeros_like(x, device="xpu")
    shifted[(4,)](x.to("xpu"), out, n, m, 4, 16, low, num_warps=1)
    wanted = torch.full_like(x, 7)
    wanted[low:n, :m] = x[low:n, :m] + 1
    wanted[n:] = 0
    assert torch.equal(out.cpu(), wanted)


def test_loads_inside_are_wide_and_without_masks():
    kernel = loops.compiled("add, n odd", "bmg")
    assert "without masks, if the block is inside" in " ".join(kernel.metadata.remarks)
    fast = instructions(kernel.asm["llir"], "then")
    assert fast.count("load") == 8
    assert "icmp" not in fast
    assert fast.count("getelementptr") == 9  # three from the first address of each tensor


def test_lanes_that_are_masked_as_a_whole_need_one_version():
    kernel = loops.compiled("add", "bmg")
    assert not any("without masks" in remark for remark in kernel.metadata.remarks)
    code = instructions(kernel.asm["llir"])
    assert code.count("br") == 1  # from the entry
    assert code.count("GenISA.PredicatedLoad") == 8


@triton.jit
def whole(x, out):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.load(x + i, mask=i < 64))


@triton.jit
def reduced(x, out, n):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.sum(tl.load(x + i, mask=i < n, other=0), 0), mask=i < n)


@triton.jit
def error_function(x, out, n):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.erf(tl.load(x + i, mask=i < n)), mask=i < n)


@pytest.mark.parametrize(
    ("kernel", "remark"), [(whole, "without masks"), (reduced, ""), (error_function, "")])
def test_masks_that_are_always_true_go_and_kernels_that_compute_more_keep_theirs(kernel, remark):
    types = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    source = ASTSource(kernel, {k: types[k] for k in kernel.arg_names}, {}, {})
    made = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 1})
    check_text(made.asm["xegpu"], "CHECK-NOT: xe.versions")
    found = [r.partition(": ")[2] for r in made.metadata.remarks if "mask" in r]
    assert "".join(found) == remark


def test_kernels_that_compute_much_for_each_access_have_one_version():
    """Dropout draws a random number for each element; two versions would draw in both."""
    kernel = loops.compiled("dropout", "bmg")
    check_text(kernel.asm["xegpu"], "CHECK-NOT: xe.versions")
    assert not any("without masks" in remark for remark in kernel.metadata.remarks)
