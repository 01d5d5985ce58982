"""Ops of the dialect `vector` on tiles of XeTile themselves, against numpy."""

import numpy as np
import pytest

from triton_xe.errors import UnsupportedError
from triton_xe.tools.commands.run import run_program

RANDOM = np.random.default_rng(13)
TYPES = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32}


def numbers(kind, *shape):
    return RANDOM.integers(-6, 7, shape).astype(TYPES[kind])


def run(body, tiles, target, grid=(1, 1, 1)):
    """Run `body`; each tile (name, kind, rows, columns) is %name_tile, in an array of its size."""
    arguments = ", ".join(f"%{n}: memref<{r}x{c}x{k}>" for n, k, r, c in tiles)
    made = "".join(
        f"  %{n}_tile = xetile.init_tile %{n}, 0, 0 : memref<{r}x{c}x{k}>"
        f" -> !xetile.tile<{r}x{c}x{k}>\n" for n, k, r, c in tiles)
    for n, k, r, c in tiles:
        body = body.replace(
            f"load {n}\n", f"xetile.load_tile %{n}_tile : !xetile.tile<{r}x{c}x{k}>"
            f" -> vector<{r}x{c}x{k}>\n")
        body = body.replace(
            f"to {n}\n", f", %{n}_tile : vector<{r}x{c}x{k}>, !xetile.tile<{r}x{c}x{k}>\n")
    arrays = [numbers(k, r, c) for _, k, r, c in tiles]
    before = [a.copy() for a in arrays]
    run_program(f"func.func @k({arguments}) {{\n{made}{body}  func.return\n}}", arrays,
                target=target, grid=grid)
    return before, arrays


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kind", "rows", "columns", "target"), [
    ("f32", 8, 32, "bmg"), ("f16", 8, 16, "dg2"), ("i8", 16, 32, "pvc"), ("f32", 5, 16, "bmg"),
])
def test_transposes_slices_and_rows(kind, rows, columns, target):
    body = f"""
  %v = load a
  %t = vector.transpose %v, [1, 0] : vector<{rows}x{columns}x{kind}>
      to vector<{columns}x{rows}x{kind}>
  xetile.store_tile %t to b
  %s = vector.extract_strided_slice %v {{offsets = [1, 3], sizes = [4, 8], strides = [1, 1]}}
      : vector<{rows}x{columns}x{kind}> to vector<4x8x{kind}>
  xetile.store_tile %s to c
  %r = vector.extract %v[2] : vector<{columns}x{kind}> from vector<{rows}x{columns}x{kind}>
  %i = vector.insert %r, %v[4] : vector<{columns}x{kind}> into vector<{rows}x{columns}x{kind}>
  %x = vector.extract %v[3, 9] : {kind} from vector<{rows}x{columns}x{kind}>
  %j = vector.insert %x, %i[0, 5] : {kind} into vector<{rows}x{columns}x{kind}>
  xetile.store_tile %j to d
"""
    (a, *_), (_, b, c, d) = run(body, [
        ("a", kind, rows, columns), ("b", kind, columns, rows), ("c", kind, 4, 8),
        ("d", kind, rows, columns)], target)
    np.testing.assert_array_equal(b, a.T)
    np.testing.assert_array_equal(c, a[1:5, 3:11])
    expected = a.copy()
    expected[4], expected[0, 5] = a[2], a[3, 9]
    np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize("target", ["bmg", "arl-h"])
def test_a_softmax_of_a_product(target):
    """Rows are reduced and spread again; a vector of sums is carried by a loop."""
    body = """
  %va = load a
  %vb = load b
  %p = xetile.tile_mma %va, %vb
      : vector<8x32xf16>, vector<32x32xf16> -> vector<8x32xf32>
  %low = arith.constant dense<-1.0e30> : vector<8xf32>
  %m = vector.multi_reduction <maxnumf>, %p, %low [1] : vector<8x32xf32> to vector<8xf32>
  %mb = vector.broadcast %m : vector<8xf32> to vector<32x8xf32>
  %mt = vector.transpose %mb, [1, 0] : vector<32x8xf32> to vector<8x32xf32>
  %d = arith.subf %p, %mt : vector<8x32xf32>
  %e = math.exp %d : vector<8x32xf32>
  %none = arith.constant dense<0.0> : vector<8xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %sum = scf.for %i = %zero to %two step %one iter_args(%s = %none) -> (vector<8xf32>) {
    %n = vector.multi_reduction <add>, %e, %s [1] : vector<8x32xf32> to vector<8xf32>
    scf.yield %n : vector<8xf32>
  }
  %sc = vector.shape_cast %sum : vector<8xf32> to vector<8x1xf32>
  %sb = vector.broadcast %sc : vector<8x1xf32> to vector<8x32xf32>
  %r = arith.divf %e, %sb : vector<8x32xf32>
  xetile.store_tile %r to c
"""
    (a, b, _), (_, _, c) = run(body, [("a", "f16", 8, 32), ("b", "f16", 32, 32),
                                      ("c", "f32", 8, 32)], target)
    product = a.astype(float) @ b.astype(float)
    e = np.exp(product - product.max(1, keepdims=True))
    np.testing.assert_allclose(c, e / (2 * e.sum(1, keepdims=True)), rtol=1e-5, atol=1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kind", "out", "target"), [
    ("f16", "f32", "bmg"), ("i8", "i32", "pvc"), ("f16", "f32", "dg2")])
def test_factors_made_by_vector_ops(kind, out, target):
    """A and B are transposed in registers, and B is also summed up by rows."""
    k = 16 if kind == "f16" else 32
    zeros = "0.0" if out == "f32" else "0"
    extend = "arith.extf" if out == "f32" else "arith.extsi"
    body = f"""
  %va = load a
  %vb = load b
  %ta = vector.transpose %va, [1, 0] : vector<{k}x16x{kind}> to vector<16x{k}x{kind}>
  %tb = vector.transpose %vb, [1, 0] : vector<16x{k}x{kind}> to vector<{k}x16x{kind}>
  %p = xetile.tile_mma %ta, %tb
      : vector<16x{k}x{kind}>, vector<{k}x16x{kind}> -> vector<16x16x{out}>
  xetile.store_tile %p to c
  %w = {extend} %vb : vector<16x{k}x{kind}> to vector<16x{k}x{out}>
  %z = arith.constant dense<{zeros}> : vector<16x{out}>
  %s = vector.multi_reduction <add>, %w, %z [1] : vector<16x{k}x{out}> to vector<16x{out}>
  %d1 = vector.broadcast %s : vector<16x{out}> to vector<8x16x{out}>
  xetile.store_tile %d1 to d
"""
    (a, b, *_), (_, _, c, d) = run(body, [
        ("a", kind, k, 16), ("b", kind, 16, k), ("c", out, 16, 16), ("d", out, 8, 16)], target)
    a, b = a.astype(int), b.astype(int)
    np.testing.assert_array_equal(c, a.T @ b.T)
    np.testing.assert_array_equal(d, np.tile(b.sum(1), (8, 1)))


def test_tiles_with_inner_blocks():
    body = """
  %t = xetile.init_tile %a, 0, 0 : memref<32x32xf32> -> !xetile.tile<32x32xf32>
  %v = xetile.load_tile %t {inner_blocks = [8, 16]}
      : !xetile.tile<32x32xf32> -> vector<4x2x8x16xf32>
  %r = vector.extract %v[1, 1] : vector<8x16xf32> from vector<4x2x8x16xf32>
  xetile.store_tile %r to b
"""
    (a, _), (_, b) = run(body, [("a", "f32", 32, 32), ("b", "f32", 8, 16)], "bmg")
    np.testing.assert_array_equal(b, a[8:16, 16:32])


def test_a_gather_of_a_tile_is_refused():
    body = """
  %v = load a
  %w = vector.bitcast %v : vector<8x16xf32> to vector<8x32xf16>
  %x = vector.extract %w[0] : vector<32xf16> from vector<8x32xf16>
"""
    with pytest.raises(UnsupportedError):
        run(body, [("a", "f32", 8, 16)], "bmg")
