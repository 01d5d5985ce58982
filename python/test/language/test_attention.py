"""Flash attention: right, and without detours through memory between its two products."""

from itertools import groupby

import pytest
import torch
import triton
import triton.language as tl

from benchmarks import loop_kernels
from examples.attention import launch, reference
from python.test.gemm.pairwise import settings
from python.test.operations import instructions, operations


@pytest.mark.parametrize(*settings(
    kernel=((torch.float16, 64, (64, 32), 4), (torch.bfloat16, 32, (32, 32), 2)),
    causal=(True, False), strength=1))
def test_attention(kernel, causal):
    dtype, depth, blocks, warps = kernel
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 128, depth).to(dtype).to("xpu") for _ in range(3))
    out, kernel = launch(q, k, v, causal, blocks, num_warps=warps, num_stages=2)
    bound = 4e-3 if dtype == torch.float16 else 3e-2
    assert (out.cpu().float() - reference(q, k, v, causal)).abs().max() < bound
    assert sum("2D block load" in line for line in kernel.metadata.remarks) == 3 + 2 * causal


def test_the_fast_loop_exchanges_nothing_between_subgroups():
    q, k, v = (torch.randn(1, 1, 64, 64).half().to("xpu") for _ in range(3))
    _, kernel = launch(q, k, v, False, (64, 32), num_warps=4)
    loop = instructions(kernel.asm["llir"], "loop")
    assert {"phi", "GenISA.LSC2DBlockReadAddrPayload", "GenISA.sub.group.dpas"} <= {*loop}
    assert not {"load.slm", "store.slm", "__spirv_ControlBarrier"} & {*loop}


def test_q_that_does_not_fit_beside_the_rest_is_read_in_the_loop():
    """And the products of what one message of V reads follow each other."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 128, 128).half() for _ in range(3))
    out, kernel = launch(*(t.to("xpu") for t in (q, k, v)), blocks=(128, 64), num_warps=8)
    assert (out.cpu().float() - reference(q, k, v)).abs().max() < 4e-3
    assert "xegpu.load_nd" not in operations(kernel.asm["xegpu"], before="scf.for")
    loop = operations(kernel.asm["xegpu"], after="scf.for")
    loop = [name for name in loop if name in ("xegpu.load_nd", "xegpu.dpas", "scf.yield")]
    assert loop.index("scf.yield") > loop.index("xegpu.load_nd")
    runs = [len([*run]) for name, run in groupby(loop) if name == "xegpu.dpas"]
    assert set(runs[-8:]) == {8}


@pytest.mark.sample(2)
@pytest.mark.parametrize(*settings(
    length=(64, 100, 93), dtype=(torch.float16, torch.float32, torch.int8), strength=1))
def test_a_bias_comes_by_blocks(length, dtype):
    """Where its pitch allows; where not, the loads of K and V stay block loads."""
    torch.manual_seed(length)
    heads, depth, pitch = 2, 32, length + (4 if length == 100 else 0)
    q, k, v = (torch.randn(heads, length, depth).half() for _ in range(3))
    bias = (torch.randn(heads, length, pitch) * 4).to(dtype)
    out = torch.full((heads, length, depth), 7.0).half().to("xpu")
    kernel = loop_kernels.masked_attention[(-(-length // 32), heads)](
        *(t.to("xpu") for t in (q, k, v, bias)), out, length, depth, pitch, length * depth,
        length * pitch, depth**-0.5, BLOCK_M=32, BLOCK_N=32, DEPTH=depth, num_warps=2)
    scores = q.float() @ k.float().mT * depth**-0.5 + bias[:, :, :length].float()
    wanted = scores.softmax(-1) @ v.float()
    assert (out.cpu().float() - wanted).abs().max() < 4e-3
    assert sum("2D block load" in line for line in kernel.metadata.remarks) == 4


@pytest.mark.sample(2)
@pytest.mark.parametrize(("length", "window"), [(192, 70), (201, 40), (96, 500)])
def test_a_loop_from_where_the_window_begins_reads_blocks(length, window):
    torch.manual_seed(length)
    heads, group, depth = 4, 2, 32
    q = torch.randn(heads, length, depth).half()
    k, v = (torch.randn(heads, length, depth).half() for _ in range(2))
    out = torch.full((heads, length, depth), 7.0).half().to("xpu")
    kernel = loop_kernels.windowed_attention[(-(-length // 64), heads)](
        *(t.to("xpu") for t in (q, k, v)), out, length, depth, length * depth, window,
        depth**-0.5 * 1.44269504, GROUP=group, BLOCK_M=64, BLOCK_N=32, DEPTH=depth, num_warps=4)
    shared = torch.arange(heads) // group
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    scores = q.float() @ k[shared].float().mT * depth**-0.5
    scores = scores.masked_fill((i < j) | (i - j >= window), float("-inf"))
    wanted = scores.softmax(-1) @ v[shared].float()
    assert (out.cpu().float() - wanted).abs().max() < 4e-3
    assert sum("2D block load" in line for line in kernel.metadata.remarks) == 3


@triton.jit
def rewriting(x, y, z, count, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    acc = tl.zeros((M, N), tl.float32)
    for _ in range(count):
        p = tl.dot(a, tl.load(y + k[:, None] * N + n[None, :]))
        acc += p * p
        tl.store(x + m[:, None] * K + k[None, :], a * 0.0)
    tl.store(z + m[:, None] * N + n[None, :], acc)


def test_what_the_loop_may_overwrite_is_read_before_it():
    x, y = torch.randint(-2, 3, (16, 128)).half(), torch.randint(-2, 3, (128, 128)).half()
    z = torch.empty(16, 128, device="xpu")
    kernel = rewriting[(1,)](x.to("xpu"), y.to("xpu"), z, 3, 16, 128, 128, num_warps=1)
    assert torch.equal(z.cpu(), 3 * (x.float() @ y.float()) ** 2)
    assert "xegpu.load_nd" in operations(kernel.asm["xegpu"], before="scf.for")
