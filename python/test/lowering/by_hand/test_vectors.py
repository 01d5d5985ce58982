"""The dialect `vector` next to XeGPU and XeTile, on the simulator, against numpy."""

import numpy as np
import pytest

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.by_hand.dialect_pipeline import compile_text
from triton_xe.tools import intel
from triton_xe.tools.commands.run import run_program

RANDOM = np.random.default_rng(5)
LANES = pytest.mark.parametrize("target", ["bmg", "dg2"])
MAPS = """
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> ({b})>
#c = affine_map<(m, n, k) -> (m, n)>
"""
ITERATORS = 'iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>'


def kernel(arguments, body, attributes=""):
    return f"func.func @k({arguments}){attributes} {{\n{body}\n  func.return\n}}\n"


def load(name, source, shape, element="f32", at="%z"):
    """Lines that load `shape` elements in a row, as a vector of that shape."""
    count = int(np.prod(shape))
    size = "x".join(map(str, shape))
    flat = f"""
  %{name}_flat = vector.load {source}[{at}] : memref<?x{element}>, vector<{count}x{element}>"""
    return f"""{flat}
  %{name} = vector.shape_cast %{name}_flat : vector<{count}x{element}> to vector<{size}x{element}>
"""


def store(name, into, shape, element="f32"):
    count, size = int(np.prod(shape)), "x".join(map(str, shape))
    return f"""
  %{name}_out = vector.shape_cast %{name} : vector<{size}x{element}> to vector<{count}x{element}>
  vector.store %{name}_out, {into}[%z] : memref<?x{element}>, vector<{count}x{element}>"""


ZERO = "  %z = arith.constant 0 : index"


@LANES
@pytest.mark.parametrize("count", [3, 16, 40])
def test_loads_and_stores(target, count):
    vector = f"vector<{count}xf16>"
    x, out = RANDOM.random((9, 100)).astype(np.float16), np.zeros((5, 80), np.float16)
    run_program(kernel("%m: memref<9x100xf16>, %o: memref<5x80xf16>, %y: index", f"""
  %c3 = arith.constant 3 : index
  %v = vector.load %m[%y, %c3] : memref<9x100xf16>, {vector}
  vector.store %v, %o[%c3, %y] : memref<5x80xf16>, {vector}"""), [x, out, 4], target=target)
    expected = np.zeros_like(out)
    expected[3, 4:4 + count] = x[4, 3:3 + count]
    np.testing.assert_array_equal(out, expected)


@LANES
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int8])
@pytest.mark.parametrize("values", [range(-3, 45, 2), RANDOM.permutation(24)])
def test_constants_with_different_elements(target, kind, values):
    numbers, out = np.array(values, kind), np.zeros(30, kind)
    element = {np.float32: "f32", np.int32: "i32", np.int8: "i8"}[kind]
    run_program(kernel(f"%o: memref<?x{element}>", f"""{ZERO}
  %v = arith.constant dense<{numbers.tolist()}> : vector<24x{element}>
  vector.store %v, %o[%z] : memref<?x{element}>, vector<24x{element}>"""), [out], target=target)
    np.testing.assert_array_equal(out, [*numbers, *[0] * 6])


@LANES
@pytest.mark.parametrize("count", [5, 24])
def test_gathers_and_scatters(target, count):
    n = 200
    x, out = RANDOM.random(n).astype(np.float32), np.zeros(n, np.float32)
    places = RANDOM.permutation(n - 10)[:count].astype(np.int32)
    chosen = RANDOM.integers(0, 2, count).astype(np.int32)
    run_program(kernel(
        "%m: memref<?xf32>, %o: memref<?xf32>, %p: memref<?xi32>, %c: memref<?xi32>", f"""{ZERO}
  %c7 = arith.constant 7 : index
  %i = vector.load %p[%z] : memref<?xi32>, vector<{count}xi32>
  %f = vector.load %c[%z] : memref<?xi32>, vector<{count}xi32>
  %none = arith.constant dense<0> : vector<{count}xi32>
  %mask = arith.cmpi ne, %f, %none : vector<{count}xi32>
  %all = arith.cmpi eq, %none, %none : vector<{count}xi32>
  %other = arith.constant dense<-1.5> : vector<{count}xf32>
  %v = vector.gather %m[%c7][%i], %mask, %other : memref<?xf32>, vector<{count}xi32>,
       vector<{count}xi1>, vector<{count}xf32> into vector<{count}xf32>
  vector.scatter %o[%z][%i], %all, %v : memref<?xf32>, vector<{count}xi32>,
       vector<{count}xi1>, vector<{count}xf32>
  vector.scatter %o[%c7][%i], %mask, %v : memref<?xf32>, vector<{count}xi32>,
       vector<{count}xi1>, vector<{count}xf32>"""), [x, out, places, chosen], target=target)
    expected = np.zeros_like(out)
    values = np.where(chosen, x[np.minimum(places + 7, n - 1)], np.float32(-1.5))
    expected[places] = values
    expected[places[chosen > 0] + 7] = values[chosen > 0]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.covering
@LANES
@pytest.mark.parametrize(("shape", "order", "element", "kind"), [
    ((8, 16), (1, 0), "f32", np.float32), ((3, 5), (1, 0), "i8", np.int8),
    ((2, 4, 8), (2, 0, 1), "f32", np.float32),
])
def test_transposes(target, shape, order, element, kind):
    x = RANDOM.integers(0, 100, shape).astype(kind)
    wanted = x.transpose(order)
    out = np.zeros(x.size, kind)
    sizes = ["x".join(map(str, s)) for s in (shape, wanted.shape)]
    run_program(kernel(
        f"%m: memref<?x{element}>, %o: memref<?x{element}>",
        f"""{ZERO}{load("v", "%m", shape, element)}
  %t = vector.transpose %v, {list(order)} : vector<{sizes[0]}x{element}> to
       vector<{sizes[1]}x{element}>{store("t", "%o", wanted.shape, element)}"""),
        [x.ravel(), out], target=target)
    np.testing.assert_array_equal(out.reshape(wanted.shape), wanted)


@LANES
def test_slices(target):
    x, out = RANDOM.random((6, 5, 4)).astype(np.float32), np.zeros(2 * 3 * 4, np.float32)
    run_program(kernel(
        "%m: memref<?xf32>, %o: memref<?xf32>", f"""{ZERO}{load("v", "%m", x.shape)}
  %t = vector.extract_strided_slice %v {{offsets = [1, 2], sizes = [2, 3], strides = [3, 1]}} :
       vector<6x5x4xf32> to vector<2x3x4xf32>{store("t", "%o", (2, 3, 4))}"""),
        [x.ravel(), out], target=target)
    np.testing.assert_array_equal(out.reshape(2, 3, 4), x[1:5:3, 2:5])


@pytest.mark.covering
@LANES
@pytest.mark.parametrize(("how", "combine", "shape", "dims"), [
    ("add", np.add, (3, 4, 8), (0, 2)), ("mul", np.multiply, (8, 5), (0,)),
    ("maximumf", np.maximum, (6, 16), (1,)), ("minnumf", np.minimum, (5, 4), (1,)),
])
def test_reductions(target, how, combine, shape, dims):
    x = (0.5 + RANDOM.random(shape)).astype(np.float32)
    wanted = combine.reduce(x, axis=dims)
    sizes = ["x".join(map(str, s)) for s in (shape, wanted.shape, (x.size,))]
    start = np.full(wanted.size, 0.75, np.float32)
    out, one = np.zeros(wanted.size, np.float32), np.zeros(1, np.float32)
    run_program(kernel(
        "%m: memref<?xf32>, %s: memref<?xf32>, %o: memref<?xf32>, %p: memref<?xf32>",
        f"""{ZERO}{load("v", "%m", shape)}{load("a", "%s", wanted.shape)}
  %t = vector.multi_reduction <{how}>, %v, %a {list(dims)} : vector<{sizes[0]}xf32> to
       vector<{sizes[1]}xf32>{store("t", "%o", wanted.shape)}
  %r = vector.reduction <{how}>, %v_flat : vector<{sizes[2]}xf32> into f32
  %w = vector.broadcast %r : f32 to vector<1xf32>
  vector.store %w, %p[%z] : memref<?xf32>, vector<1xf32>"""),
        [x.ravel(), start, out, one], target=target)
    np.testing.assert_allclose(out.reshape(wanted.shape), combine(wanted, np.float32(0.75)), 1e-5)
    np.testing.assert_allclose(one[0], combine.reduce(x.ravel()), 1e-5)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("target", "b", "m", "n", "k"), [
    ("bmg", "k, n", 3, 5, 7), ("dg2", "n, k", 3, 5, 7), ("bmg", "k, n", 8, 16, 16),
    ("dg2", "k, n", 8, 8, 16), ("bmg", "n, k", 4, 16, 8),
])
def test_contractions(target, b, m, n, k):
    """On DPAS where the shape is its own, else element by element."""
    x, y = (RANDOM.integers(-4, 5, s).astype(np.float16) for s in ((m, k), (k, n)))
    acc, out = RANDOM.integers(-4, 5, (m, n)).astype(np.float32), np.zeros(m * n, np.float32)
    transposed = b == "n, k"
    right = y.T.copy() if transposed else y
    text = MAPS.format(b=b) + kernel(
        "%x: memref<?xf16>, %y: memref<?xf16>, %c: memref<?xf32>, %o: memref<?xf32>",
        f"""{ZERO}{load("l", "%x", x.shape, "f16")}{load("r", "%y", right.shape, "f16")}
{load("a", "%c", acc.shape)}
  %d = vector.contract {{indexing_maps = [#a, #b, #c], {ITERATORS}}} %l, %r, %a :
       vector<{m}x{k}xf16>, vector<{right.shape[0]}x{right.shape[1]}xf16> into vector<{m}x{n}xf32>
{store("d", "%o", (m, n))}""")
    run_program(text, [x.ravel(), right.ravel(), acc.ravel(), out], target=target)
    np.testing.assert_array_equal(out.reshape(m, n), acc + x.astype(np.float32) @ y)
    uses_dpas = not transposed and (target, n) in (("bmg", 16), ("dg2", 8)) and m == 8
    assert ("dpas" in compile_text(text, target).llvm_ir) == uses_dpas


TILES = MAPS.format(b="k, n") + kernel(
    "%x: memref<64x64xf16>, %y: memref<64x64xf16>, %o: memref<64x64xf32>", f"""
  %ta = xetile.init_tile %x, 0, 0 : memref<64x64xf16> -> !xetile.tile<32x32xf16>
  %tb = xetile.init_tile %y, 0, 0 : memref<64x64xf16> -> !xetile.tile<32x32xf16>
  %a = xetile.load_tile %ta : !xetile.tile<32x32xf16> -> vector<32x32xf16>
  %b = xetile.load_tile %tb : !xetile.tile<32x32xf16> -> vector<32x32xf16>
  %z = arith.constant dense<1.0> : vector<32x32xf32>
  %c = vector.contract {{indexing_maps = [#a, #b, #c], {ITERATORS}}} %a, %b, %z :
       vector<32x32xf16>, vector<32x32xf16> into vector<32x32xf32>
  %to = xetile.init_tile %o, 0, 0 : memref<64x64xf32> -> !xetile.tile<32x32xf32>
  xetile.store_tile %c, %to : vector<32x32xf32>, !xetile.tile<32x32xf32>""")


def test_a_contraction_of_tiles_is_their_product():
    x, y = (RANDOM.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    run_program(TILES, [x, y, out], target="bmg")
    wanted = 1 + x[:32, :32].astype(np.float32) @ y[:32, :32]
    np.testing.assert_array_equal(out[:32, :32], wanted)


def test_vectors_next_to_tiles():
    """Rows of numbers are loaded, added up and stored beside a tile."""
    x, out = RANDOM.random((64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
    m, o = RANDOM.random(40).astype(np.float32), np.zeros(41, np.float32)
    text = kernel("%x: memref<64x64xf32>, %o: memref<64x64xf32>, %m: memref<?xf32>,"
                  " %p: memref<?xf32>", f"""{ZERO}
  %c40 = arith.constant 40 : index
  %t = xetile.init_tile %x, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %a = xetile.load_tile %t : !xetile.tile<16x16xf32> -> vector<16x16xf32>
  %v = vector.load %m[%z] : memref<?xf32>, vector<40xf32>
  %w = arith.addf %v, %v : vector<40xf32>
  vector.store %w, %p[%z] : memref<?xf32>, vector<40xf32>
  %r = vector.reduction <add>, %v : vector<40xf32> into f32
  %s = vector.broadcast %r : f32 to vector<1xf32>
  vector.store %s, %p[%c40] : memref<?xf32>, vector<1xf32>
  %u = arith.addf %a, %a : vector<16x16xf32>
  %to = xetile.init_tile %o, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  xetile.store_tile %u, %to : vector<16x16xf32>, !xetile.tile<16x16xf32>""")
    run_program(text, [x, out, m, o], target="bmg")
    np.testing.assert_array_equal(out[:16, :16], 2 * x[:16, :16])
    np.testing.assert_array_equal(o[:40], 2 * m)
    np.testing.assert_allclose(o[40], m.sum(), 1e-5)
    turned = text.replace("%u = arith.addf %a, %a : vector<16x16xf32>", "%u = vector.transpose %a,"
                          " [1, 0] : vector<16x16xf32> to vector<16x16xf32>")
    run_program(turned, [x, out, m, o], target="bmg")
    np.testing.assert_array_equal(out[:16, :16], x[:16, :16].T)


@LANES
@pytest.mark.parametrize(("element", "kind"), [
    ("f32", np.float32), ("f16", np.float16), ("i8", np.int8), ("i64", np.int64),
])
def test_single_values(target, element, kind):
    x, out = RANDOM.integers(0, 100, 20).astype(kind), np.zeros(20, kind)
    run_program(kernel(
        f"%m: memref<20x{element}>, %o: i64, %x: index, %w: {element}, %c: i32", f"""
  %one = arith.constant 1 : i32
  %yes = arith.cmpi eq, %c, %one : i32
  %no = arith.cmpi ne, %c, %one : i32
  %five = arith.constant 5 : i64
  %p = xegpu.load_scalar %m, %x, %yes, %w : memref<20x{element}>, index, i1, {element} -> {element}
  %q = xegpu.load_scalar %m, %x, %no, %w : memref<20x{element}>, index, i1, {element} -> {element}
  xegpu.store_scalar %p, %o, %x, %yes : {element}, i64, index, i1
  xegpu.store_scalar %q, %o, %five, %yes : {element}, i64, i64, i1
  xegpu.store_scalar %q, %o, %c, %no : {element}, i64, i32, i1"""),
        [x, out, 7, 33, 1], target=target)
    expected = np.zeros_like(out)
    expected[7], expected[5] = x[7], 33
    np.testing.assert_array_equal(out, expected)


def test_shared_local_memory():
    x, out = RANDOM.random(32).astype(np.float32), np.zeros(32, np.float32)
    run_program(kernel("%m: memref<?xf32>, %o: memref<?xf32>", f"""{ZERO}
  %c4 = arith.constant 4 : index
  %l = memref.alloca() : memref<64xf32, 3>
  %v = vector.load %m[%z] : memref<?xf32>, vector<32xf32>
  vector.store %v, %l[%c4] : memref<64xf32, 3>, vector<32xf32>
  %w = vector.load %l[%c4] : memref<64xf32, 3>, vector<32xf32>
  vector.store %w, %o[%z] : memref<?xf32>, vector<32xf32>"""), [x, out], target="bmg")
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(("line", "message"), [
    ("%t = vector.transpose %v, [0, 0] : vector<2x8xf32> to vector<8x2xf32>", "no permutation"),
    ("%t = vector.extract_strided_slice %v {offsets = [1], sizes = [2], strides = [1]} :"
     " vector<2x8xf32> to vector<2x8xf32>", "the slice leaves vector<2x8xf32>"),
    ("%t = vector.multi_reduction <and>, %v, %f [0] : vector<2x8xf32> to vector<8xf32>",
     "<and> of f32"),
    ("xegpu.store_scalar %f, %m, %z, %b : vector<8xf32>, memref<?xf32>, index, i1",
     "a value is a number"),
    ("%l = memref.alloca() : memref<8xf32, 3>\n"
     "xegpu.store_scalar %s, %l, %z, %b : f32, memref<8xf32, 3>, index, i1", "only global memory"),
    ("%t = vector.load %m[%z] : memref<?xf32>, vector<2x8xf32>", "one dimension at a time"),
    ("%t = vector.load %n[%z, %z] : memref<4x?xf32>, vector<8xf32>", "strides of .* not known"),
])
def test_what_is_refused(line, message):
    text = kernel("%m: memref<?xf32>, %n: memref<4x?xf32>", f"""{ZERO}
  %b = arith.constant 1 : i1
  %s = arith.constant 0.0 : f32
  %f = arith.constant dense<0.0> : vector<8xf32>
  %v = arith.constant dense<0.0> : vector<2x8xf32>
  {line}""")
    with pytest.raises(UnsupportedError, match=f"module:\\d+:\\d+: .*{message}"):
        compile_text(text, "bmg")


@pytest.mark.intel_compiler
def test_intels_compiler_takes_them():
    text = kernel("%m: memref<?xf32>, %o: memref<?xf32>", f"""{ZERO}{load("v", "%m", (8, 16))}
  %t = vector.transpose %v, [1, 0] : vector<8x16xf32> to vector<16x8xf32>
  %a = arith.constant dense<0.0> : vector<16xf32>
  %s = vector.multi_reduction <add>, %t, %a [1] : vector<16x8xf32> to vector<16xf32>
  vector.store %s, %o[%z] : memref<?xf32>, vector<16xf32>""")
    made = intel.compile_spirv(compile_text(text, "bmg").spirv, "bmg")
    assert made.facts.spill_size == 0
