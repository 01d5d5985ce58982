"""4-bit elements outside of products, and vectors seen as wider elements, against numpy."""

import numpy as np
import pytest

from triton_xe.errors import LegalityError, SimulatorTrap, UnsupportedError
from triton_xe.tools.commands.run import run_program

RANDOM = np.random.default_rng(5)


def nibbles(array, signed=True):
    """The 4-bit elements of bytes, low half first."""
    low, high = array & 15, (array.view(np.uint8) >> 4).astype(array.dtype)
    out = np.stack([low, high], axis=-1).reshape(*array.shape[:-1], -1).astype(np.int32)
    return np.where(out > 7, out - 16, out) if signed else out


def program(body, out, element, rows=8, columns=64):
    """Block %v of i4 loaded from %a, %r stored to %o."""
    desc, shape = f"!xegpu.tensor_desc<{rows}x{columns}xi4>", "x".join(map(str, out))
    return f"""
func.func @k(%a: i64, %o: i64) {{
  %t = xegpu.create_nd_tdesc %a, 3, 0, 24, 64, 64, 1 : i64 -> {desc}
{body.format(load="xegpu.load_nd %t", desc=desc)}
  %s = xegpu.create_nd_tdesc %o, 0, 0, {out[0]}, {out[1]}, 64, 1
      : i64 -> !xegpu.tensor_desc<{shape}x{element}>
  xegpu.store_nd %r, %s : vector<{shape}x{element}>, !xegpu.tensor_desc<{shape}x{element}>
  func.return
}}"""


def run(text, kind, target, shape=(24, 64)):
    """What was stored, and the bytes of columns 0 to 63; messages need wider rows."""
    wide = 64 if target == "dg2" else 128
    a = RANDOM.integers(-128, 128, (24, wide // 2)).astype(np.int8)
    o = np.zeros(shape, kind)
    text = text.replace("%a, 3, 0, 24, 64, 64,", f"%a, 3, 0, 24, {wide}, {wide},")
    run_program(text, [a, o], target=target)
    return np.ascontiguousarray(a[:, :32]), o


LOAD = "  %v = {load} : {desc} -> vector<8x64xi4>\n"


@pytest.mark.covering
@pytest.mark.parametrize("target", ["bmg", "dg2"])
@pytest.mark.parametrize(("op", "element", "kind"), [
    ("extsi", "i8", np.int8), ("extui", "i32", np.int32), ("sitofp", "f16", np.float16),
    ("uitofp", "f32", np.float32), ("extsi", "i16", np.int16),
])
def test_elements_of_4_bits_are_widened(op, element, kind, target):
    body = LOAD + f"  %r = arith.{op} %v : vector<8x64xi4> to vector<8x64x{element}>"
    wide = {"i8": 64, "i16": 32, "f16": 32}.get(element, 16)
    parts = "".join(
        f"""
  %r{c} = vector.extract_strided_slice %r {{offsets = [0, {c}], sizes = [8, {wide}],
      strides = [1, 1]}} : vector<8x64x{element}> to vector<8x{wide}x{element}>
  %s{c} = xegpu.create_nd_tdesc %o, 0, {c}, 24, 64, 64, 1
      : i64 -> !xegpu.tensor_desc<8x{wide}x{element}>
  xegpu.store_nd %r{c}, %s{c} : vector<8x{wide}x{element}>,
      !xegpu.tensor_desc<8x{wide}x{element}>"""
        for c in range(0, 64, wide))
    text = program(body, (8, 64), element).split("  %s = ")[0] + parts + "\n  func.return\n}"
    a, o = run(text, kind, target)
    np.testing.assert_array_equal(o[:8], nibbles(a, "u" not in op)[3:11])


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_they_are_copied_computed_with_and_narrowed(target):
    body = LOAD + """
  %c = arith.constant dense<3> : vector<8x64xi4>
  %p = arith.addi %v, %c : vector<8x64xi4>
  %m = arith.cmpi slt, %p, %v : vector<8x64xi4>
  %h = arith.shrui %v, %c : vector<8x64xi4>
  %x = arith.select %m, %h, %p : vector<8x64xi1>, vector<8x64xi4>
  %w = arith.extsi %x : vector<8x64xi4> to vector<8x64xi32>
  %r = arith.trunci %w : vector<8x64xi32> to vector<8x64xi4>"""
    a, o = run(program(body, (8, 64), "i4"), np.int8, target, (8, 32))
    v = nibbles(a)[3:11]
    p = (v + 3 + 8) % 16 - 8
    np.testing.assert_array_equal(nibbles(o), np.where(p < v, (v % 16) >> 3, p))


@pytest.mark.parametrize("target", ["bmg", "dg2"])
def test_they_are_copied(target):
    a, o = run(program(LOAD.replace("%v", "%r"), (8, 64), "i4"), np.int8, target, (8, 32))
    np.testing.assert_array_equal(o, a[3:11])


@pytest.mark.parametrize("target", ["bmg", "dg2"])
def test_a_line_of_them_is_widened(target):
    desc = "!xegpu.tensor_desc<64x{}, boundary_check = false>"
    text = f"""
func.func @k(%a: i64, %o: i64) {{
  %t = xegpu.create_nd_tdesc %a, 32 : i64 -> {desc.format("i4")}
  %v = xegpu.load_nd %t : {desc.format("i4")} -> vector<64xi4>
  %r = arith.extsi %v : vector<64xi4> to vector<64xi32>
  %s = xegpu.create_nd_tdesc %o, 0 : i64 -> {desc.format("i32")}
  xegpu.store_nd %r, %s : vector<64xi32>, {desc.format("i32")}
  func.return
}}"""
    a, o = RANDOM.integers(-128, 128, 64).astype(np.int8), np.zeros(64, np.int32)
    run_program(text, [a, o], target=target)
    np.testing.assert_array_equal(o, nibbles(a)[32:96])


@pytest.mark.covering
@pytest.mark.parametrize("target", ["bmg", "dg2"])
@pytest.mark.parametrize(("form", "shape", "order"), [
    ("packed", "1x64x8", lambda v: v.T.reshape(8, 64)),
    ("transpose = [1, 0]", "64x8", lambda v: v.T.reshape(8, 64)),
    ("transpose = [1, 0], transpose_bit_width = 32", "8x64",
     lambda v: v.reshape(8, 8, 8).swapaxes(0, 1).reshape(8, 64)),
])
def test_loads_are_packed_and_transposed(form, shape, order, target):
    body = "  %v = {load}" + f" {{{{{form}}}}} : {{desc}} -> vector<{shape}xi4>\n" + (
        f"  %r = vector.shape_cast %v : vector<{shape}xi4> to vector<8x64xi4>")
    a, o = run(program(body, (8, 64), "i4"), np.int8, target, (8, 32))
    np.testing.assert_array_equal(nibbles(o), order(nibbles(a)[3:11]))


def test_what_they_cannot_do_is_refused():
    body = LOAD + """
  %e = vector.extract %v[0, 0] : i4 from vector<8x64xi4>
  %r = vector.broadcast %e : i4 to vector<8x64xi4>"""
    with pytest.raises(UnsupportedError, match="extend them before"):
        run(program(body, (8, 64), "i4"), np.int8, "bmg")


def test_32_bytes_of_a_lane_are_stored_at_once():
    text = """
func.func @k(%a: memref<16x64xi8>, %o: memref<16x64xi8>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<16x64xi8> -> !xegpu.tensor_desc<8x64xi8>
  %s = xegpu.create_nd_tdesc %o, 0, 0 : memref<16x64xi8> -> !xegpu.tensor_desc<8x64xi8>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x64xi8> -> vector<8x64xi8>
  %w = arith.addi %v, %v : vector<8x64xi8>
  xegpu.store_nd %w, %s : vector<8x64xi8>, !xegpu.tensor_desc<8x64xi8>
  func.return
}"""
    a, o = RANDOM.integers(-64, 64, (16, 64)).astype(np.int8), np.zeros((16, 64), np.int8)
    run_program(text, [a, o], target="bmg")
    np.testing.assert_array_equal(o[:8], 2 * a[:8])


@pytest.mark.parametrize("target", ["bmg", "dg2"])
@pytest.mark.parametrize(("small", "wide", "per"), [("i8", "i16", 2), ("i8", "i32", 4),
                                                    ("i16", "i32", 2)])
def test_vectors_are_seen_as_wider_elements(small, wide, per, target):
    columns = 8 * per
    text = f"""
func.func @k(%a: memref<16x64x{small}>, %o: memref<16x64x{wide}>) {{
  %t = xegpu.create_nd_tdesc %a, 0, 0
      : memref<16x64x{small}> -> !xegpu.tensor_desc<8x{columns}x{small}>
  %s = xegpu.create_nd_tdesc %o, 0, 0 : memref<16x64x{wide}> -> !xegpu.tensor_desc<8x8x{wide}>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x{columns}x{small}> -> vector<8x{columns}x{small}>
  %w = vector.bitcast %v : vector<8x{columns}x{small}> to vector<8x8x{wide}>
  xegpu.store_nd %w, %s : vector<8x8x{wide}>, !xegpu.tensor_desc<8x8x{wide}>
  func.return
}}"""
    a = RANDOM.integers(-128, 128, (16, 64)).astype(f"int{small[1:]}")
    o = np.zeros((16, 64), f"int{wide[1:]}")
    run_program(text, [a, o], target=target)
    np.testing.assert_array_equal(o[:8, :8], a[:8, :columns].copy().view(o.dtype))


COPY = """
func.func @k(%a: memref<16x128xi4>, %o: memref<16x128xi4>, %c: index) {{
  %t = xegpu.create_nd_tdesc %a, 0, {} -> !xegpu.tensor_desc<8x32xi4>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x32xi4> -> vector<8x32xi4>
  %s = xegpu.create_nd_tdesc %o, 4, {} -> !xegpu.tensor_desc<8x32xi4>
  %m = xegpu.update_nd_offset %s, 0, 8
      : !xegpu.tensor_desc<8x32xi4> -> !xegpu.tensor_desc<8x32xi4>
  xegpu.store_nd %v, %m : vector<8x32xi4>, !xegpu.tensor_desc<8x32xi4>
  func.return
}}"""
KNOWN, ASKED = "{} : memref<16x128xi4>", "%c : memref<16x128xi4>, index"


@pytest.mark.covering
@pytest.mark.parametrize("target", ["bmg", "pvc", "dg2"])
@pytest.mark.parametrize(("source", "into"), [
    (KNOWN.format(48), KNOWN.format(16)), (ASKED, KNOWN.format(0)), (KNOWN.format(8), ASKED)])
def test_columns_count_elements_of_4_bits(source, into, target):
    a, o = (RANDOM.integers(-128, 128, (16, 64)).astype(np.int8) for _ in range(2))
    at = [40 if where == ASKED else int(where.split()[0]) for where in (source, into)]
    expected = nibbles(o)
    expected[4:12, at[1] + 8 : at[1] + 40] = nibbles(a)[:8, at[0] : at[0] + 32]
    run_program(COPY.format(source, into), [a, o, 40], target=target)
    np.testing.assert_array_equal(nibbles(o), expected)


@pytest.mark.parametrize("target", ["bmg", "dg2"])
def test_a_block_that_begins_within_a_byte_is_refused(target):
    a, o = np.zeros((16, 64), np.int8), np.zeros((16, 64), np.int8)
    with pytest.raises(LegalityError, match="5 elements of 4 bits end within a byte"):
        run_program(COPY.format(KNOWN.format(5), KNOWN.format(0)), [a, o, 0], target=target)
    for column in (1, 13):
        with pytest.raises(SimulatorTrap, match=r"not a multiple of 4 bytes|no memory"):
            run_program(COPY.format(ASKED, KNOWN.format(0)), [a, o, column], target=target)
