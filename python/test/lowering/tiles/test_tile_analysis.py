"""Sizes of messages: B is loaded by half of its rows if more do not fit into the registers."""

import pytest
import triton
from triton.backends.compiler import GPUTarget

from benchmarks.loops import ROWS, Row
from examples.attention import attention_kernel
from triton_xe.dialects import xegpu
from triton_xe.lowering.pipeline import stage_of

WIDE_HEADS = Row(
    attention_kernel, {"BLOCK_M": 128, "BLOCK_N": 32, "DEPTH": 128, "CAUSAL": False}, 8)


@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize(("row", "rows"), [(WIDE_HEADS, 32), (ROWS["gemm tf32 32"], 16)])
def test_messages_of_b_are_halved_if_a_whole_one_does_not_fit(device, row, rows):
    """The product of attention fills 128 registers and A 16; A of the other product 128 too."""
    text = triton.compile(row.source(), target=GPUTarget("xpu", device, 16),
                          options={"num_warps": row.num_warps}).asm["xegpu"]
    heights = [op.desc.type.get_shape()[0] for op in stage_of(text).module.walk()
               if isinstance(op, xegpu.LoadNdOp) and op.parent_op().name == "scf.for"
               and not op.transpose and op.desc.type.get_shape()[1] == 16]
    assert max(heights) == rows
