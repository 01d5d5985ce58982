"""Reads move to their uses where a block reads more than its registers can hold, else they stay."""

import re

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from xdsl.context import Context

from benchmarks.loops import Row, compiled
from examples.attention import attention_kernel
from python.test.lowering.module_text import attributes
from python.test.operations import operations
from triton_xe.hardware.target import target
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.tiles.convert_to_xetile import ConvertToXeTilePass
from triton_xe.lowering.tiles.convert_xetile_to_xegpu import ConvertXeTileToXeGPUPass
from triton_xe.lowering.tiles.sink_loads import SinkLoadsPass

PASSES = (ConvertToXeTilePass(num_stages=1), ConvertXeTileToXeGPUPass(), SinkLoadsPass())
TEXT = """
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2,
                  threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [1, ACROSS]}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
""" + attributes(warps=1) + """ {
tt.func public @f(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>) -> tensor<8xNxf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<8xNxf32, #dpas>
  %a0 = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0]
      : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0]
      : !tt.ptr<f16> -> !xe.cursor<f16>
  %a = xe.block_load %a0 : !xe.cursor<f16> -> tensor<8x64xf16, #dot_a>
  %b = xe.block_load %b0 : !xe.cursor<f16> -> tensor<64xNxf16, #dot_b>
  %d = tt.dot %a, %b, %zero
      : tensor<8x64xf16, #dot_a> * tensor<64xNxf16, #dot_b> -> tensor<8xNxf32, #dpas>
  tt.return %d : tensor<8xNxf32, #dpas>
}
}
"""


STORED = """
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2,
                  threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [ROWS, 4]}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
""" + attributes(warps=1) + """ {
tt.func public @f(%s: !tt.ptr<f32>, %a: tensor<Mx32xf16, #dot_a>, %b: tensor<32x64xf16, #dot_b>) {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<Mx64xf32, #dpas>
  %d = tt.dot %a, %b, %zero
      : tensor<Mx32xf16, #dot_a> * tensor<32x64xf16, #dot_b> -> tensor<Mx64xf32, #dpas>
  %to = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0]
      : !tt.ptr<f32> -> !xe.cursor<f32>
  xe.block_store %d, %to : tensor<Mx64xf32, #dpas>, !xe.cursor<f32>
  tt.return
}
}
"""


@pytest.mark.parametrize(("rows", "by_sum"), [(32, False), (64, True)])
def test_sums_of_products_that_fill_the_registers_are_stored_one_by_one(rows, by_sum):
    text = STORED.replace("ROWS", str(rows // 8)).replace("Mx", f"{rows}x")
    module = import_ttgir(text)
    for step in PASSES:
        step.apply(Context(), module)
    module.verify()
    names = [op.name for op in module.walk() if op.name in ("xegpu.dpas", "xegpu.store_nd")]
    sums = rows // 8 * 4
    one, stores = ["xegpu.dpas"] * 2, ["xegpu.store_nd"]
    assert names == ((one + stores) * sums if by_sum else one * sums + stores * sums)


@pytest.mark.parametrize(("columns", "moved"), [(32, False), (128, True)])
def test_only_large_reads_move(columns, moved):
    text = TEXT.replace("ACROSS", str(columns // 16)).replace("xN", f"x{columns}")
    module = import_ttgir(text)
    for step in PASSES:
        step.apply(Context(), module)
    module.verify()
    names = [op.name for op in module.walk() if op.name in ("xegpu.load_nd", "xegpu.dpas")]
    last_load = len(names) - 1 - names[::-1].index("xegpu.load_nd")
    assert (last_load > names.index("xegpu.dpas")) == moved
    assert names.count("xegpu.dpas") == 4 * columns // 16


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, log_ptr, length, scale,
):
    row = tl.program_id(0) * 128
    q_desc = tl.make_tensor_descriptor(q_ptr, [length, 64], [64, 1], [128, 64])
    k_desc = tl.make_tensor_descriptor(k_ptr, [length, 64], [64, 1], [64, 64])
    v_desc = tl.make_tensor_descriptor(v_ptr, [length, 64], [64, 1], [64, 64])
    o_desc = tl.make_tensor_descriptor(o_ptr, [length, 64], [64, 1], [128, 64])
    rows = row + tl.arange(0, 128)
    q = q_desc.load([row, 0])
    top = tl.full((128,), float("-inf"), tl.float32)
    total = tl.zeros((128,), tl.float32)
    acc = tl.zeros((128, 64), tl.float32)
    for start in range(0, length, 64):
        scores = tl.dot(q, k_desc.load([start, 0]).T)
        higher = tl.maximum(top, tl.max(scores, 1) * scale)
        p = tl.exp2(scores * scale - higher[:, None])
        faded = tl.exp2(top - higher)
        total = total * faded + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v_desc.load([start, 0]), acc * faded[:, None])
        top = higher
    tl.store(log_ptr + rows, top + tl.log2(total))
    o_desc.store([row, 0], (acc / total[:, None]).to(tl.float16))


def test_queries_stay_in_registers_next_to_positions_of_rows_for_after_the_loop():
    pointers = ("q_ptr", "k_ptr", "v_ptr", "o_ptr")
    types = dict.fromkeys(pointers, "*fp16") | {
        "log_ptr": "*fp32", "length": "i32", "scale": "fp32"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    kernel = triton.compile(
        ASTSource(attention, types, {}, aligned),
        target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 8})
    before = operations(kernel.asm["xegpu"], before="scf.for")
    assert before.count("xegpu.load_nd") == 2


@pytest.mark.parametrize(("device", "depth", "columns", "causal", "kept"), [
    ("bmg", 64, 64, False, 2),
    ("bmg", 64, 64, True, 2),
    ("pvc", 64, 32, True, 2),
    ("bmg", 128, 32, False, 2),
    ("pvc", 128, 32, False, 0),
    ("bmg", 128, 64, False, 0),
])
def test_as_many_queries_stay_in_registers_as_fit(device, depth, columns, causal, kept):
    """`kept` is the number of messages before the loops, each of 16 rows and 32 columns of Q."""
    row = Row(attention_kernel, {"BLOCK_M": 128, "BLOCK_N": columns, "DEPTH": depth,
                                 "CAUSAL": causal}, 8)
    text = triton.compile(row.source(), target=GPUTarget("xpu", device, 16),
                          options={"num_warps": 8}).asm["xegpu"]
    assert operations(text, before="scf.for").count("xegpu.load_nd") == kept


@triton.jit
def sum_of_product(a_ptr, b_ptr, c_ptr, d_ptr, length):
    a_desc = tl.make_tensor_descriptor(a_ptr, [4096, 4096], [4096, 1], [128, 32])
    b_desc = tl.make_tensor_descriptor(b_ptr, [4096, 4096], [4096, 1], [32, 128])
    c_desc = tl.make_tensor_descriptor(c_ptr, [4096, 4096], [4096, 1], [128, 128])
    d_desc = tl.make_tensor_descriptor(d_ptr, [4096, 4096], [4096, 1], [128, 128])
    acc = tl.zeros((128, 128), tl.float32)
    for start in range(0, length, 32):
        acc = tl.dot(a_desc.load([0, start]), b_desc.load([start, 0]), acc)
    d_desc.store([0, 0], acc + c_desc.load([0, 0]))


def xegpu_of_sum(kind, num_warps):
    """The operations of `sum_of_product`, in order."""
    types = {"a_ptr": kind, "b_ptr": kind, "c_ptr": "*fp32", "d_ptr": "*fp32", "length": "i32"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    return operations(triton.compile(
        ASTSource(sum_of_product, types, {}, aligned),
        target=GPUTarget("xpu", "bmg", 16), options={"num_warps": num_warps}).asm["xegpu"])


@pytest.mark.parametrize(("num_warps", "by_message"), [(8, True), (32, False)])
def test_a_tile_is_added_message_by_message_if_it_does_not_fit(num_warps, by_message):
    names = xegpu_of_sum("*fp16", num_warps)
    after = names[names.index("scf.yield"):]
    last_load = len(after) - 1 - after[::-1].index("xegpu.load_nd")
    assert (after.index("arith.addf") < last_load) == by_message


def test_operands_are_rounded_to_tf32_one_fragment_at_a_time():
    names = xegpu_of_sum("*fp32", 16)
    assert names.count("xe.round_tf32") > 2
    assert not {"xe.from_fragments", "xe.to_fragment"} & {*names}


@triton.jit
def scaled_products(a_ptr, b_ptr, s_ptr, c_ptr, length, BLOCK: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, [4096, 4096], [4096, 1], [BLOCK, 128])
    b_desc = tl.make_tensor_descriptor(b_ptr, [4096, 4096], [4096, 1], [128, 128])
    c_desc = tl.make_tensor_descriptor(c_ptr, [4096, 4096], [4096, 1], [BLOCK, 128])
    acc = tl.zeros((BLOCK, 128), tl.float32)
    for start in range(0, length, 128):
        scale = tl.load(s_ptr + start + tl.arange(0, 128))
        acc += tl.dot(a_desc.load([0, start]), b_desc.load([start, 0])) * scale[None, :]
    c_desc.store([0, 0], acc)


@pytest.mark.parametrize(("rows", "again"), [(128, True), (32, False)])
def test_factors_without_room_are_read_again_from_shared_memory(rows, again):
    types = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "s_ptr": "*fp32", "c_ptr": "*fp32",
             "length": "i32", "BLOCK": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    text = triton.compile(
        ASTSource(scaled_products, types, {"BLOCK": rows}, aligned),
        target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 8}).asm["xegpu"]
    reads = re.findall(r"xe.to_fragment (%\w+ from \d+) .*dot_op", text)
    assert (len(set(reads)) < len(reads)) == again
    loop = text.partition("scf.for")[2]
    first, last = loop.index("arith.addf"), loop.rindex("xegpu.dpas")
    assert (first < last) == again


@triton.jit
def exact_products(a_ptr, b_ptr, c_ptr, length, BLOCK: tl.constexpr):
    m, k = tl.arange(0, BLOCK)[:, None], tl.arange(0, 32)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, length, 32):
        a = tl.load(a_ptr + m * length + (start + k)[None, :] * 2)
        b = tl.load(b_ptr + (start + k)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :] * 2)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m * BLOCK + tl.arange(0, BLOCK)[None, :], acc)


def test_a_loop_whose_tensors_fill_the_registers_without_products_of_tiles():
    """No sum is there to be made after another one."""
    types = {"a_ptr": "*fp32", "b_ptr": "*fp32", "c_ptr": "*fp32", "length": "i32",
             "BLOCK": "constexpr"}
    text = triton.compile(
        ASTSource(exact_products, types, {"BLOCK": 64}),
        target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 1}).asm["xegpu"]
    assert "tt.dot" in operations(text)


@pytest.mark.parametrize("name", ["wcl", "nvl-s", "nvl-u", "bmg-g31"])
def test_a_device_gets_the_code_of_that_whose_binaries_it_runs(name):
    """The backward loop of attention is among those for which limits depend on the device."""
    other = target(name).binaries_of
    made, wanted = (compiled("attention backward", each).asm["llir"].replace(each, "device")
                    for each in (name, other))
    assert made == wanted
