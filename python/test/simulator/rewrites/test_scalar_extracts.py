"""Elements taken out of vector arithmetic are computed as scalars, and are what they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.scalar_extracts import scalar_extracts

P = "ptr addrspace(1)"
MASK = ", ".join(f"i32 {k}" for k in (0, 1, 3, 2, 0, 0, 1, 1))
BODY = f"""
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %at = getelementptr <4 x i32>, {P} %in, i32 %lane
  %v = load <4 x i32>, {P} %at, align 16
  %w = add <4 x i32> %v, <i32 10, i32 20, i32 30, i32 40>
  %x = extractelement <4 x i32> %w, i32 2
  %i = insertelement <2 x i32> undef, i32 %x, i32 0
  %j = insertelement <2 x i32> %i, i32 %lane, i32 1
  %s = shufflevector <2 x i32> %j, <2 x i32> %j, <8 x i32> <{MASK}>
  %e = sext <8 x i32> %s to <8 x i64>
  %m = mul nsw <8 x i64> %e, splat (i64 3)
  %n = sub <8 x i64> %m, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
  %a = extractelement <8 x i64> %n, i32 5
  %b = extractelement <8 x i64> %n, i32 2
  %t = mul i64 %a, 1000
  %r = add i64 %t, %b
  %q = getelementptr i64, {P} %out, i32 %lane
  store i64 %r, {P} %q, align 8"""


def test_elements_are_what_they_were(run: Callable[..., None], kernel: Callable[..., str]) -> None:
    text = kernel(f"{P} %in, {P} %out", BODY)
    data = np.random.default_rng(0).integers(-99, 99, (16, 4)).astype(np.int32)
    out = np.zeros(16, np.int64)
    run(text, data, out)
    a, b = (data[:, 2] + 30) * 3 - 5, np.arange(16) * 3 - 2
    np.testing.assert_array_equal(out, a.astype(np.int64) * 1000 + b)


def test_only_scalars_are_left(kernel: Callable[..., str]) -> None:
    (function,) = parse_module(kernel(f"{P} %in, {P} %out", BODY)).kernels()
    assert {i.opcode for i in function.instructions()} >= {"shufflevector", "insertelement"}
    left = list(scalar_extracts(function).instructions())
    assert not {"shufflevector", "insertelement"} & {i.opcode for i in left}
    assert [i.type.kind for i in left if i.opcode in ("add", "sub", "mul", "sext")] == ["int"] * 9


@triton.jit
def copy_blocks(
    out, source, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
):
    descriptor = tl.make_tensor_descriptor(
        source, shape=[M, N, K], strides=[N * K, K, 1], block_shape=[ROWS, COLUMNS, DEPTH]
    )
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None, None]
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :, None]
    k = tl.arange(0, DEPTH)[None, None, :]
    values = descriptor.load([tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS, 0])
    tl.store(out + i * N * K + j * K + k, values, (i < M) & (j < N) & (k < K))


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.int32])
def test_rows_of_three_dims_are_read_from_their_own_addresses(dtype: Any) -> None:
    """With int16, x86 code for AVX-512 read some rows at other rows' addresses."""
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="xpu"))
    source = torch.arange(16 * 16 * 128, dtype=torch.int32).to(dtype).reshape(16, 16, 128)
    out = torch.full_like(source, 77, device="xpu")
    copy_blocks[(2, 2)](out, source.to("xpu"), 16, 16, 128, 8, 8, 128)
    assert torch.equal(out.cpu(), source)
