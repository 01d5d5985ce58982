"""What follows a product: sums with matrices and atomics work in the layout of its result."""

import pytest
import torch

from benchmarks import loop_kernels, loops


@pytest.mark.parametrize("name", ["split-K", "add bf16", "add int8"])
def test_epilogues_of_large_blocks(name):
    row = loops.ROWS[f"gemm {name}"]
    constants = row.constants | {"BLOCK_M": 128, "BLOCK_N": 128}
    m, n, k = 200, 144, 128
    types = {"add bf16": torch.bfloat16, "add int8": torch.int8}
    dtype = types.get(name, torch.float16)
    # the kernel loads whole blocks of its operands
    a, b = (torch.randint(-4, 5, shape).to(dtype) for shape in ((256, k), (k, 256)))
    c = torch.zeros(m, n, dtype=torch.int32 if dtype == torch.int8 else torch.float32)
    added = torch.randint(-9, 9, (m, n)).to(c.dtype)
    out = c.to("xpu")
    loop_kernels.gemm[(2, 2, constants["SPLIT_K"])](
        a.to("xpu"), b.to("xpu"), out, added.to("xpu"), m, n, k, k, 1, 256, 1, n,
        **constants, num_warps=16)
    wanted = a[:m].float() @ b[:, :n].float() + (added.float() if "add" in name else 0)
    assert torch.equal(out.cpu().float(), wanted)


def test_a_full_register_file_adds_what_was_there_before_it_stores():
    """Messages follow one another, yet all of them come before the first store."""
    row = loops.ROWS["gemm add bf16"]
    size, k = 256, 64
    a, b = (torch.randint(-4, 5, shape).to(torch.bfloat16) for shape in ((size, k), (k, size)))
    there = torch.randint(-9, 9, (size + 16, size)).float()
    out = there.to("xpu")
    compiled = loop_kernels.gemm[(1, 1, 1)](
        a.to("xpu"), b.to("xpu"), out, out[16:], size, size, k, k, 1, size, 1, size,
        **row.constants, num_warps=32)
    text = compiled.asm["xegpu"]
    assert text.rindex("xegpu.load_nd") < text.index("xegpu.store_nd")
    assert torch.equal(out[:size].cpu(), a.float() @ b.float() + there[16:])


@pytest.mark.parametrize("name", ["split-K", "add bf16", "add int8"])
def test_epilogues_exchange_no_results(name):
    kernel = loops.compiled(f"gemm {name}", "bmg")
    assert kernel.metadata.shared <= 32 * 1024  # for operands, in the version with gathers
