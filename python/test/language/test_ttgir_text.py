"""Kernels written as TTGIR."""

import pytest
import torch
import triton

from python.test.filecheck import check_text
from triton_xe.errors import UnsupportedError

TEXT = """
#blocked = #ttg.blocked<{{sizePerThread = [1, 2], threadsPerWarp = [4, {columns}], \
warpsPerCTA = [4, 1], order = [1, 0]}}>
module attributes {{ttg.target = "{target}", "ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, \
"ttg.threads-per-warp" = {lanes} : i32}} {{
  tt.func public @moved(%src: !tt.ptr<{kind}>, %dst: !tt.ptr<{kind}>, %i: i32, %j: i32) {{
    %pitch = arith.constant 40 : i64
    %one = arith.constant 1 : i64
    %rows = arith.constant 13 : i32
    %columns = arith.constant 35 : i32
    %from = tt.make_tensor_descriptor %src, [%rows, %columns], [%pitch, %one] \
: !tt.ptr<{kind}>, !tt.tensordesc<16x32x{kind}>
    %to = tt.make_tensor_descriptor %dst, [%rows, %columns], [%pitch, %one] \
: !tt.ptr<{kind}>, !tt.tensordesc<16x32x{kind}>
    {body}
    tt.return
  }}
}}
"""
COPY = """%x = tt.descriptor_load %from[%i, %j] : !tt.tensordesc<16x32x{kind}> \
-> tensor<16x32x{kind}, #blocked>
    tt.descriptor_store %to[%j, %i], %x : !tt.tensordesc<16x32x{kind}>, \
tensor<16x32x{kind}, #blocked>"""
REDUCE = """%x = arith.constant dense<1> : tensor<16x32x{kind}, #blocked>
    tt.descriptor_reduce add, %to[%i, %j], %x : !tt.tensordesc<16x32x{kind}>, \
tensor<16x32x{kind}, #blocked>"""


def compiled(tmp_path, body, kind, lanes=16, target="xpu:bmg"):
    path = tmp_path / "moved.ttgir"
    path.write_text(TEXT.format(kind=kind, lanes=lanes, columns=lanes // 4, target=target,
                                body=body.format(kind=kind)))
    return triton.compile(str(path))


@pytest.mark.covering
@pytest.mark.since_triton(3, 8)
@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("at", [(0, 0), (-3, 5), (4, -7)])
@pytest.mark.parametrize(("kind", "dtype"), [("f32", torch.float32), ("i8", torch.int8)])
def test_descriptors_end_at_their_tensor(tmp_path, kind, dtype, at, lanes):
    kernel = compiled(tmp_path, COPY, kind, lanes)
    source = torch.arange(1, 13 * 40 + 1).reshape(13, 40).to(dtype)
    out = torch.full((13, 40), -1, dtype=dtype, device="xpu")
    kernel[(1, 1, 1)](source.to("xpu"), out, *at)
    (i, j), wanted = at, torch.full((13, 40), -1, dtype=dtype)
    for m in range(16):
        for n in range(32):
            inside = 0 <= i + m < 13 and 0 <= j + n < 35
            if 0 <= j + m < 13 and 0 <= i + n < 35:
                wanted[j + m, i + n] = source[i + m, j + n] if inside else 0
    assert torch.equal(out.cpu(), wanted)


@pytest.mark.since_triton(3, 8)
def test_a_module_for_any_xpu_is_compiled_for_the_active_device(tmp_path):
    kernel = compiled(tmp_path, COPY, "f32", target="xpu")
    check_text(kernel.asm["xetile"], 'CHECK: ttg.target = "xpu:bmg"')


@pytest.mark.since_triton(3, 8)
def test_other_uses_of_descriptors_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(UnsupportedError, match=r"tt\.descriptor_reduce in TTGIR: .* use pointers"):
        compiled(tmp_path, REDUCE, "i32")
