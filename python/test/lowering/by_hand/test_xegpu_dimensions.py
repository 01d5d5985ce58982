"""XeGPU blocks of more than two dimensions, and 2D blocks in shared local memory, against numpy."""

import numpy as np
import pytest

from triton_xe.errors import UnsupportedError
from triton_xe.tools.commands.run import run_program

RANDOM = np.random.default_rng(11)
TYPES = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32}


def by(sizes):
    return "x".join(map(str, sizes))


def block_of(array, at, sizes):
    """The block of an array, zero outside."""
    out = np.zeros(sizes, array.dtype)
    for place in np.ndindex(*sizes):
        where = tuple(a + p for a, p in zip(at, place, strict=True))
        if all(0 <= w < s for w, s in zip(where, array.shape, strict=True)):
            out[place] = array[where]
    return out


def written(array, at, value):
    """The array with a block stored into it, as far as it is inside."""
    out = array.copy()
    for place in np.ndindex(*value.shape):
        where = tuple(a + p for a, p in zip(at, place, strict=True))
        if all(0 <= w < s for w, s in zip(where, array.shape, strict=True)):
            out[where] = value[place]
    return out


def numbers(kind, *shape):
    return RANDOM.integers(-50, 50, shape).astype(TYPES[kind])


@pytest.mark.parametrize(
    ("kind", "tensor", "block", "at", "target", "messages"),
    [
        ("f16", (3, 20, 64), (2, 8, 16), (1, 4, 8), "bmg", 2),
        ("f32", (2, 3, 20, 64), (2, 2, 8, 16), (0, 2, 16, 56), "pvc", 4),
        ("i8", (5, 7, 64), (4, 1, 16), (-1, 3, 56), "bmg", 4),
        ("f16", (5, 20, 63), (4, 8, 16), (2, 4, 8), "lnl", 0),
        ("f16", (4, 9, 64), (2, 8, 8), (3, 4, 60), "dg2", 0),
        ("i32", (2, 2, 2, 9, 64), (2, 1, 2, 4, 8), (1, 0, 1, 7, 3), "bmg", 4),
    ],
)
def test_a_block_is_copied_by_2d_blocks_whatever_lies_outside(
        kind, tensor, block, at, target, messages):
    desc, value = f"!xegpu.tensor_desc<{by(block)}x{kind}>", f"vector<{by(block)}x{kind}>"
    memory = f"memref<{by(tensor)}x{kind}>"
    place = ", ".join(map(str, at))
    text = f"""
func.func @k(%a: {memory}, %o: {memory}) {{
  %t = xegpu.create_nd_tdesc %a, {place} : {memory} -> {desc}
  %s = xegpu.create_nd_tdesc %o, {place} : {memory} -> {desc}
  xegpu.prefetch_nd %t : {desc}
  %v = xegpu.load_nd %t : {desc} -> {value}
  %w = arith.{"addi" if kind[0] == "i" else "addf"} %v, %v : {value}
  xegpu.store_nd %w, %s : {value}, {desc}
  func.return
}}"""
    a, o = numbers(kind, *tensor), numbers(kind, *tensor)
    expected = written(o, at, 2 * block_of(a, at, block))
    done = run_program(text, [a, o], target=target)
    np.testing.assert_array_equal(o, expected)
    assert done.program.metadata["n_block_loads"] == messages


def test_products_of_a_loop_over_moved_blocks():
    """Batches of A, packed B, and B transposed: sizes and strides are the launch's."""
    text = """
!a = !xegpu.tensor_desc<2x8x16xf16>
!b = !xegpu.tensor_desc<2x16x16xf16>
func.func @k(%a: i64, %b: i64, %c: memref<4x8x16xf32>, %batches: index, %k: index) {
  %zero = arith.constant 0 : index
  %step = arith.constant 16 : index
  %g = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
  %two = arith.constant 2 : index
  %at = arith.muli %g, %two : index
  %apitch = arith.muli %k, %step : index
  %eight = arith.constant 8 : index
  %abatch = arith.muli %k, %eight : index
  %ta = xegpu.create_nd_tdesc %a, %at, 0, 0, %batches, 8, %k, %abatch, %k, 1
      : i64, index, index, index, index, index -> !a
  %tb = xegpu.create_nd_tdesc %b, %at, 0, 0, %batches, %k, 32, %bbatch, 32, 1
      : i64, index, index, index, index -> !b
  %tc = xegpu.create_nd_tdesc %c, %at, 0, 0
      : memref<4x8x16xf32>, index -> !xegpu.tensor_desc<2x8x16xf32>
  %c0 = arith.constant dense<0.0> : vector<8x16xf32>
  %ra, %rb, %r0, %r1 = scf.for %i = %zero to %k step %step
      iter_args(%da = %ta, %db = %tb, %s0 = %c0, %s1 = %c0)
      -> (!a, !b, vector<8x16xf32>, vector<8x16xf32>) {
    %va = xegpu.load_nd %da : !a -> vector<2x8x16xf16>
    %vb = xegpu.load_nd %db {packed} : !b -> vector<2x8x16x2xf16>
    %a0 = vector.extract %va[0] : vector<8x16xf16> from vector<2x8x16xf16>
    %a1 = vector.extract %va[1] : vector<8x16xf16> from vector<2x8x16xf16>
    %b0 = vector.extract %vb[0] : vector<8x16x2xf16> from vector<2x8x16x2xf16>
    %b1 = vector.extract %vb[1] : vector<8x16x2xf16> from vector<2x8x16x2xf16>
    %n0 = xegpu.dpas %a0, %b0, %s0
        : vector<8x16xf16>, vector<8x16x2xf16>, vector<8x16xf32> -> vector<8x16xf32>
    %n1 = xegpu.dpas %a1, %b1, %s1
        : vector<8x16xf16>, vector<8x16x2xf16>, vector<8x16xf32> -> vector<8x16xf32>
    %na = xegpu.update_nd_offset %da, 0, 0, %step : !a, index -> !a
    %nb = xegpu.update_nd_offset %db, 0, %step, 0 : !b, index -> !b
    scf.yield %na, %nb, %n0, %n1 : !a, !b, vector<8x16xf32>, vector<8x16xf32>
  }
  %o0 = arith.constant dense<0.0> : vector<2x8x16xf32>
  %o1 = vector.insert %r0, %o0[0] : vector<8x16xf32> into vector<2x8x16xf32>
  %o2 = vector.insert %r1, %o1[1] : vector<8x16xf32> into vector<2x8x16xf32>
  xegpu.store_nd %o2, %tc : vector<2x8x16xf32>, !xegpu.tensor_desc<2x8x16xf32>
  func.return
}""".replace("  %apitch = arith.muli %k, %step : index\n", "  %n = arith.constant 32 : index\n"
             "  %bbatch = arith.muli %k, %n : index\n")
    a, b = numbers("f16", 3, 8, 64) / 16, numbers("f16", 3, 64, 32) / 16
    a, b, c = a.astype(np.float16), b.astype(np.float16), numbers("f32", 4, 8, 16)
    run_program(text, [a, b, c, 3, 64], target="bmg", grid=(2, 1, 1))
    expected = np.zeros((4, 8, 16))  # the fourth batch is outside of A and B
    expected[:3] = a.astype(float) @ b[:, :, :16].astype(float)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("target", ["bmg", "dg2"])
def test_the_last_two_dimensions_are_swapped(target):
    columns = 8
    text = f"""
func.func @k(%a: memref<3x32x64xf32>, %o: memref<2x{columns}x16xf32>) {{
  %t = xegpu.create_nd_tdesc %a, 1, 4, 8
      : memref<3x32x64xf32> -> !xegpu.tensor_desc<2x16x{columns}xf32>
  %v = xegpu.load_nd %t {{transpose = [0, 2, 1]}}
      : !xegpu.tensor_desc<2x16x{columns}xf32> -> vector<2x{columns}x16xf32>
  %s = xegpu.create_nd_tdesc %o, 0, 0, 0
      : memref<2x{columns}x16xf32> -> !xegpu.tensor_desc<2x{columns}x16xf32>
  xegpu.store_nd %v, %s : vector<2x{columns}x16xf32>, !xegpu.tensor_desc<2x{columns}x16xf32>
  func.return
}}"""
    a, o = numbers("f32", 3, 32, 64), np.zeros((2, columns, 16), np.float32)
    run_program(text, [a, o], target=target)
    np.testing.assert_array_equal(o, a[1:, 4:20, 8 : 8 + columns].transpose(0, 2, 1))


@pytest.mark.covering
@pytest.mark.parametrize("target", ["bmg", "dg2"])
@pytest.mark.parametrize("block", [(8, 16), (2, 4, 16)])
def test_blocks_in_shared_local_memory(target, block):
    """Two subgroups exchange what they loaded; what lies outside reads as zero."""
    tensor = (*((4,) if len(block) == 3 else ()), 16, 32)
    local = f"!xegpu.tensor_desc<{by(block)}xf32, memory_scope = slm>"
    desc, value = f"!xegpu.tensor_desc<{by(block)}xf32>", f"vector<{by(block)}xf32>"
    memory, kept = f"memref<{by(tensor)}xf32>", f"memref<{by(tensor)}xf32, 3>"
    zeros = ", 0" * (len(block) - 1)
    text = f"""
func.func @k(%a: {memory}, %o: {memory}) attributes {{xe.subgroups = 2 : i32}} {{
  %m = memref.alloca() : {kept}
  %id = "gpu.subgroup_id"() : () -> index
  %two = arith.constant {block[0]} : index
  %one = arith.constant 1 : index
  %y = arith.muli %id, %two : index
  %t = xegpu.create_nd_tdesc %a, %y{zeros} : {memory}, index -> {desc}
  %v = xegpu.load_nd %t : {desc} -> {value}
  %d = xegpu.create_nd_tdesc %m, %y{zeros[:-1]}16 : {kept}, index -> {local}
  xegpu.store_nd %v, %d : {value}, {local}
  xegpu.fence {{scope = "workgroup", memory_kind = "shared"}}
  gpu.barrier
  %other = arith.subi %one, %id : index
  %z = arith.muli %other, %two : index
  %e = xegpu.create_nd_tdesc %m, %z{zeros[:-1]}24 : {kept}, index -> {local}
  %w = xegpu.load_nd %e : {local} -> {value}
  %s = xegpu.create_nd_tdesc %o, %y{zeros} : {memory}, index -> {desc}
  xegpu.store_nd %w, %s : {value}, {desc}
  func.return
}}"""
    a, o = numbers("f32", *tensor), numbers("f32", *tensor)
    expected, rest = o, (0,) * (len(block) - 2)
    for mine, other in ((0, block[0]), (block[0], 0)):
        value = block_of(a, (other, *rest, 0), block)
        value = np.concatenate([value[..., 8:], np.zeros_like(value[..., 8:])], axis=-1)
        expected = written(expected, (mine, *rest, 0), value)
    run_program(text, [a, o], target=target)
    np.testing.assert_array_equal(o, expected)


def test_blocks_that_lanes_would_share_unevenly_are_refused():
    text = """
func.func @k(%a: memref<3x8x64xf32>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0, 0 : memref<3x8x64xf32> -> !xegpu.tensor_desc<3x2x4xf32>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<3x2x4xf32> -> vector<3x2x4xf32>
  %s = xegpu.create_nd_tdesc %a, 0, 0, 4 : memref<3x8x64xf32> -> !xegpu.tensor_desc<3x2x4xf32>
  xegpu.store_nd %v, %s : vector<3x2x4xf32>, !xegpu.tensor_desc<3x2x4xf32>
  func.return
}"""
    with pytest.raises(UnsupportedError, match="8 elements of each 2D block"):
        run_program(text, [numbers("f32", 3, 8, 64)], target="bmg")
