"""XeTile programs of all forms on the simulator, against numpy."""

import numpy as np
import pytest

from python.test.gemm.pairwise import settings
from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics.definitions.conversions import bf16_to_float, float_to_bf16
from triton_xe.tools.commands.run import run_program

RANDOM = np.random.default_rng(3)
TYPES = {
    "f16": (np.float16, "f32", np.float32), "bf16": (np.uint16, "f32", np.float32),
    "f32": (np.float32, "f32", np.float32), "i8": (np.int8, "i32", np.int32),
}


def matrix(kind, rows, columns):
    values = RANDOM.integers(-6, 7, (rows, columns))
    if kind == "bf16":
        return float_to_bf16(values.astype(np.float32))
    return values.astype(TYPES[kind][0])


def numbers(array, kind):
    return (bf16_to_float(array) if kind == "bf16" else array).astype(np.float64)


def product(kind, m, n, k, a_form="", b_form="", transposed=(False, False)):
    """One tile of C from one tile of A and B, each in the corner of a larger matrix."""
    _, out, _ = TYPES[kind]
    a_tile = (k, m) if transposed[0] else (m, k)
    b_tile = (n, k) if transposed[1] else (k, n)
    turn = [" {{transpose}}" if t else "" for t in transposed]
    forms = [a_form or turn[0], b_form or turn[1]]
    return f"""
func.func @k(%a: memref<{{ah}}x{{aw}}x{kind}>, %b: memref<{{bh}}x{{bw}}x{kind}>,
             %c: memref<{{ch}}x{{cw}}x{out}>) {{{{
  %ta = xetile.init_tile %a, 2, 4 : memref<{{ah}}x{{aw}}x{kind}>
      -> !xetile.tile<{a_tile[0]}x{a_tile[1]}x{kind}>
  %tb = xetile.init_tile %b, 3, 8 : memref<{{bh}}x{{bw}}x{kind}>
      -> !xetile.tile<{b_tile[0]}x{b_tile[1]}x{kind}>
  %tc = xetile.init_tile %c, 1, 4 : memref<{{ch}}x{{cw}}x{out}> -> !xetile.tile<{m}x{n}x{out}>
  %va = xetile.load_tile %ta{forms[0]} : !xetile.tile<{a_tile[0]}x{a_tile[1]}x{kind}>
      -> vector<{m}x{k}x{kind}>
  %vb = xetile.load_tile %tb{forms[1]} : !xetile.tile<{b_tile[0]}x{b_tile[1]}x{kind}>
      -> vector<{k}x{n}x{kind}>
  %vc = xetile.load_tile %tc : !xetile.tile<{m}x{n}x{out}> -> vector<{m}x{n}x{out}>
  %d = xetile.tile_mma %va, %vb, %vc : vector<{m}x{k}x{kind}>, vector<{k}x{n}x{kind}>,
      vector<{m}x{n}x{out}> -> vector<{m}x{n}x{out}>
  xetile.store_tile %d, %tc : vector<{m}x{n}x{out}>, !xetile.tile<{m}x{n}x{out}>
  func.return
}}}}
"""


def run_product(kind, m, n, k, target, transposed=(False, False), pad=0):
    """`pad` changes the pitch: odd pitches can only be gathered."""
    _, _, out = TYPES[kind]
    a_tile = (k, m) if transposed[0] else (m, k)
    b_tile = (n, k) if transposed[1] else (k, n)
    ah, aw, bh, bw, ch, cw = (
        a_tile[0] + 4, 128 + pad, b_tile[0] + 4, 128 + pad, m + 3, 128 + pad)
    a, b = matrix(kind, ah, aw), matrix(kind, bh, bw)
    c = RANDOM.integers(-6, 7, (ch, cw)).astype(out)
    expected = c.astype(np.float64)
    x = numbers(a, kind)[2 : 2 + a_tile[0], 4 : 4 + a_tile[1]]
    y = numbers(b, kind)[3 : 3 + b_tile[0], 8 : 8 + b_tile[1]]
    expected[1 : 1 + m, 4 : 4 + n] += (x.T if transposed[0] else x) @ (
        y.T if transposed[1] else y)
    text = product(kind, m, n, k, transposed=transposed).format(
        ah=ah, aw=aw, bh=bh, bw=bw, ch=ch, cw=cw)
    done = run_program(text, [a, b, c], target=target)
    np.testing.assert_array_equal(c, expected)
    return done.program.llvm_ir


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("kind", "m", "n", "k", "target"),
    [
        ("f16", 32, 32, 32, "bmg"), ("bf16", 24, 48, 48, "pvc"), ("f16", 7, 16, 16, "lnl"),
        ("i8", 20, 32, 64, "bmg"), ("f32", 16, 16, 24, "pvc"), ("f16", 13, 40, 32, "ptl"),
        ("f16", 8, 16, 24, "bmg"), ("f32", 3, 16, 8, "bmg"), ("f16", 12, 24, 32, "dg2"),
        ("i8", 9, 12, 40, "arl-h"),
    ],
)
def test_tiles_of_any_size(kind, m, n, k, target):
    text = run_product(kind, m, n, k, target)
    uses_messages = "LSC2DBlockRead" in text
    assert uses_messages == (target not in ("dg2", "arl-h"))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kind", "transposed", "target"),
    [
        ("f16", (True, False), "bmg"), ("bf16", (False, True), "pvc"), ("i8", (False, True), "bmg"),
        ("f32", (False, True), "bmg"), ("f16", (True, True), "dg2"), ("i8", (True, False), "pvc"),
    ],
)
def test_transposed_tiles(kind, transposed, target):
    run_product(kind, 16, 32, 64 if kind == "i8" else 32, target, transposed)


@pytest.mark.parametrize("kind", ["f16", "f32", "i8"])
def test_an_unaligned_pitch_is_gathered(kind):
    text = run_product(kind, 16, 16, 32, "bmg", pad=1)
    assert "LSC2DBlockRead" not in text
    assert "PredicatedLoad" in text


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kind", "m", "k", "transposed", "target"),
    [
        ("f32", 16, 8, (True, False), "bmg"), ("f32", 13, 24, (True, True), "pvc"),
        ("f16", 12, 24, (True, False), "lnl"), ("i8", 9, 40, (True, True), "bmg"),
        ("f16", 16, 32, (True, False), "arl-h"),
    ],
)
def test_transposed_tiles_are_gathered(kind, m, k, transposed, target):
    run_product(kind, m, 16, k, target, transposed, pad=1)


@pytest.mark.sample(2)
@pytest.mark.parametrize(*settings(
    kinds=(("f16", False), ("i8", False), ("f16", True)), target=("bmg", "dg2"), strength=1))
def test_tiles_in_shared_local_memory(kinds, target):
    """Subgroups bring their parts of A into shared memory; all multiply it by B from there."""
    kind, turned = kinds
    m, k, n, out = 32, 64, 16, TYPES[kind][1]
    form, b_tile = (" {transpose}", (n, k)) if turned else ("", (k, n))
    b_memory = f"memref<{b_tile[0]}x{b_tile[1]}x{kind}>"
    local = f"!xetile.tile<{{}}x{{}}x{kind}, memory_scope = slm>"
    text = f"""
func.func @k(%a: memref<{m}x{k}x{kind}>, %b: {b_memory}, %c: memref<64x{n}x{out}>)
    attributes {{xe.subgroups = 4 : i32}} {{
  %ma = memref.alloca() : memref<{m}x{k}x{kind}, 3>
  %mb = memref.alloca() : {b_memory[:-1]}, 3>
  %id = "gpu.subgroup_id"() : () -> index
  %rows = arith.constant 8 : index
  %y = arith.muli %id, %rows : index
  %ga = xetile.init_tile %a, 0, 0 : memref<{m}x{k}x{kind}> -> !xetile.tile<{m}x{k}x{kind}>
  %part = xetile.init_coop_tile %ga, %id, 4
      : !xetile.tile<{m}x{k}x{kind}>, index -> !xetile.tile<8x{k}x{kind}>
  %v = xetile.load_tile %part : !xetile.tile<8x{k}x{kind}> -> vector<8x{k}x{kind}>
  %ta = xetile.init_tile %ma, %y, 0 : memref<{m}x{k}x{kind}, 3>, index -> {local.format(8, k)}
  xetile.store_tile %v, %ta : vector<8x{k}x{kind}>, {local.format(8, k)}
  %gb = xetile.init_tile %b, 0, 0 : {b_memory} -> !xetile.tile<{b_tile[0]}x{b_tile[1]}x{kind}>
  %tb = xetile.init_tile %mb, 0, 0 : {b_memory[:-1]}, 3> -> {local.format(*b_tile)}
  %w = xetile.load_tile %gb : !xetile.tile<{b_tile[0]}x{b_tile[1]}x{kind}>
      -> vector<{b_tile[0]}x{b_tile[1]}x{kind}>
  xetile.store_tile %w, %tb : vector<{b_tile[0]}x{b_tile[1]}x{kind}>, {local.format(*b_tile)}
  xegpu.fence {{scope = "workgroup", memory_kind = "shared"}}
  "gpu.barrier"() : () -> ()
  %all = xetile.init_tile %ma, 0, 0 : memref<{m}x{k}x{kind}, 3> -> {local.format(16, k)}
  %next = xetile.update_tile_offset %all, 16, 0 : {local.format(16, k)}
      -> {local.format(16, k)}
  %va = xetile.load_tile %next : {local.format(16, k)} -> vector<16x{k}x{kind}>
  %vb = xetile.load_tile %tb{form} : {local.format(*b_tile)} -> vector<{k}x{n}x{kind}>
  %d = xetile.tile_mma %va, %vb
      : vector<16x{k}x{kind}>, vector<{k}x{n}x{kind}> -> vector<16x{n}x{out}>
  %sixteen = arith.constant 16 : index
  %z = arith.muli %id, %sixteen : index
  %tc = xetile.init_tile %c, %z, 0 : memref<64x{n}x{out}>, index -> !xetile.tile<16x{n}x{out}>
  xetile.store_tile %d, %tc : vector<16x{n}x{out}>, !xetile.tile<16x{n}x{out}>
  func.return
}}"""
    a, b, c = matrix(kind, m, k), matrix(kind, *b_tile), np.zeros((64, n), TYPES[kind][2])
    run_program(text, [a, b, c], target=target)
    expected = numbers(a, kind)[16:] @ (numbers(b, kind).T if turned else numbers(b, kind))
    np.testing.assert_array_equal(c, np.tile(expected, (4, 1)))


def test_inner_blocks():
    text = """
func.func @k(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %c: memref<64x64xf32>) {
  %ta = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<32x32xf16>
  %tb = xetile.init_tile %b, 32, 0 : memref<64x64xf16> -> !xetile.tile<32x32xf16>
  %tc = xetile.init_tile %c, 0, 32 : memref<64x64xf32> -> !xetile.tile<32x32xf32>
  %va = xetile.load_tile %ta {inner_blocks = [8, 16]}
      : !xetile.tile<32x32xf16> -> vector<4x2x8x16xf16>
  %vb = xetile.load_tile %tb {inner_blocks = [16, 16], transpose}
      : !xetile.tile<32x32xf16> -> vector<2x2x16x16xf16>
  %d = xetile.tile_mma %va, %vb
      : vector<4x2x8x16xf16>, vector<2x2x16x16xf16> -> vector<4x2x8x16xf32>
  xetile.store_tile %d, %tc {inner_blocks = [8, 16]}
      : vector<4x2x8x16xf32>, !xetile.tile<32x32xf32>
  func.return
}"""
    a, b, c = matrix("f16", 64, 64), matrix("f16", 64, 64), np.zeros((64, 64), np.float32)
    run_program(text, [a, b, c], target="bmg")
    expected = np.zeros((64, 64))
    expected[:32, 32:] = a[:32, :32].astype(float) @ b[32:, :32].astype(float).T
    np.testing.assert_array_equal(c, expected)


def test_element_wise_ops_and_a_column_major_tile():
    text = """
func.func @k(%a: i64, %o: memref<64x64xf32>, %s: f32) {
  %ta = xetile.init_tile %a, 3, 2, 48, 64, 48 : i64 -> !xetile.tile<24x16xf32, order = [0, 1]>
  %to = xetile.init_tile %o, 0, 0 : memref<64x64xf32> -> !xetile.tile<24x16xf32>
  %va = xetile.load_tile %ta : !xetile.tile<24x16xf32, order = [0, 1]> -> vector<24x16xf32>
  %vs = vector.broadcast %s : f32 to vector<24x16xf32>
  %two = arith.constant dense<2.0> : vector<24x16xf32>
  %x = arith.mulf %va, %vs : vector<24x16xf32>
  %y = arith.addf %x, %two : vector<24x16xf32>
  xetile.store_tile %y, %to : vector<24x16xf32>, !xetile.tile<24x16xf32>
  func.return
}"""
    a, o = matrix("f32", 64, 48), np.zeros((64, 64), np.float32)
    run_program(text, [a, o, 3.0], target="bmg")
    expected = np.zeros((64, 64))
    expected[:24, :16] = a.T[3:27, 2:18] * 3 + 2
    np.testing.assert_array_equal(o, expected)


def test_one_tile_cannot_be_two_operands():
    text = """
func.func @k(%a: memref<64x64xf16>) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x16xf16>
  %v = xetile.load_tile %t : !xetile.tile<16x16xf16> -> vector<16x16xf16>
  %d = xetile.tile_mma %v, %v : vector<16x16xf16>, vector<16x16xf16> -> vector<16x16xf32>
  func.return
}"""
    with pytest.raises(UnsupportedError, match="two different operands"):
        run_program(text, [matrix("f16", 64, 64)])


MOVED_PARTS = """
func.func @k(%a: memref<96x64xf32>, %o: memref<96x64xf32>, %n: index)
    attributes {xe.subgroups = 4 : i32} {
  %w = xe.warp_id : i32
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %t = xetile.init_tile %a, 0, 0 : memref<96x64xf32> -> !xetile.tile<16x32xf32>
  %s = xetile.init_tile %o, 0, 0 : memref<96x64xf32> -> !xetile.tile<16x32xf32>
  %t1 = xetile.update_tile_offset %t, 8, 16
      : !xetile.tile<16x32xf32> -> !xetile.tile<16x32xf32>
  %s1 = xetile.update_tile_offset %s, 8, 16
      : !xetile.tile<16x32xf32> -> !xetile.tile<16x32xf32>
  %e:2 = scf.for %i = %zero to %n step %one iter_args(%u = %t1, %q = %s1)
      -> (!xetile.tile<16x32xf32>, !xetile.tile<16x32xf32>) {
    %p = xetile.init_coop_tile %u, %w, 4 : !xetile.tile<16x32xf32>, i32 -> !xetile.tile<8x16xf32>
    %r = xetile.init_coop_tile %q, %w, 4 : !xetile.tile<16x32xf32>, i32 -> !xetile.tile<8x16xf32>
    %v = xetile.load_tile %p : !xetile.tile<8x16xf32> -> vector<8x16xf32>
    xetile.store_tile %v, %r : vector<8x16xf32>, !xetile.tile<8x16xf32>
    %u2 = xetile.update_tile_offset %u, 16, 0
        : !xetile.tile<16x32xf32> -> !xetile.tile<16x32xf32>
    %u3 = xetile.update_tile_offset %u2, %one, 0
        : !xetile.tile<16x32xf32>, index -> !xetile.tile<16x32xf32>
    %q2 = xetile.update_tile_offset %q, 17, 0
        : !xetile.tile<16x32xf32> -> !xetile.tile<16x32xf32>
    scf.yield %u3, %q2 : !xetile.tile<16x32xf32>, !xetile.tile<16x32xf32>
  }
  func.return
}
"""


@pytest.mark.parametrize("target", ["bmg", "dg2"])
def test_parts_of_moved_tiles(target):
    """Four subgroups copy a tile that moves down by 17 rows, a quarter each."""
    a, out = RANDOM.standard_normal((96, 64)).astype(np.float32), np.zeros((96, 64), np.float32)
    run_program(MOVED_PARTS, [a, out, 3], target=target)
    expected = np.zeros_like(out)
    for row in (8, 25, 42):
        expected[row : row + 16, 16:48] = a[row : row + 16, 16:48]
    np.testing.assert_array_equal(out, expected)
