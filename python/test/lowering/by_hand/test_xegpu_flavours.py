"""The RFC's end-to-end examples, both flavours side by side, and what is refused."""

import numpy as np
import pytest

from triton_xe.errors import LegalityError, UnsupportedError
from triton_xe.intrinsics.definitions.conversions import bf16_to_float, float_to_bf16
from triton_xe.lowering.by_hand.dialect_pipeline import compile_text
from triton_xe.tools.commands.run import run_program

RANDOM = np.random.default_rng(5)

TWO_D = """
#a = #xegpu.sg_map<wi_layout = [1, {lanes}], wi_data = [1, {da}]>
#b = #xegpu.sg_map<wi_layout = [1, {lanes}], wi_data = [2, 1]>
#c = #xegpu.sg_map<wi_layout = [1, {lanes}], wi_data = [1, 1]>
func.func @k(%a: memref<32x64xbf16>, %b: memref<32x64xbf16>, %c: memref<32x64xf32>, %y: index) {{
  %t1 = xegpu.create_nd_tdesc %a, %y, 0 : memref<32x64xbf16>, index
      -> !xegpu.tensor_desc<8x16xbf16, #a>
  %va = xegpu.load_nd %t1 : !xegpu.tensor_desc<8x16xbf16, #a> -> vector<8x{da}xbf16>
  xegpu.prefetch_nd %t1 : !xegpu.tensor_desc<8x16xbf16, #a>
  %t2 = xegpu.create_nd_tdesc %b, 0, 0 : memref<32x64xbf16>
      -> !xegpu.tensor_desc<16x{lanes}xbf16, #b>
  %vb = xegpu.load_nd %t2 : !xegpu.tensor_desc<16x{lanes}xbf16, #b> -> vector<8x2xbf16>
  %vc = xegpu.dpas %va, %vb {{sg_map_a = #a, sg_map_b = #b, sg_map_c = #c}}
      : vector<8x{da}xbf16>, vector<8x2xbf16> -> vector<8x1xf32>
  %two = arith.constant dense<2.0> : vector<8x1xf32>
  %vd = arith.mulf %vc, %two : vector<8x1xf32>
  %t3 = xegpu.create_nd_tdesc %c, %y, 0 : memref<32x64xf32>, index
      -> !xegpu.tensor_desc<8x{lanes}xf32, #c>
  xegpu.store_nd %vd, %t3 : vector<8x1xf32>, !xegpu.tensor_desc<8x{lanes}xf32, #c>
  %moved = xegpu.update_nd_offset %t1, 8, 0
      : !xegpu.tensor_desc<8x16xbf16, #a> -> !xegpu.tensor_desc<8x16xbf16, #a>
  func.return
}}"""


@pytest.mark.parametrize(("target", "lanes"), [("pvc", 16), ("bmg", 16), ("dg2", 8)])
def test_the_2d_load_example(target, lanes):
    a, b = (float_to_bf16(RANDOM.integers(-5, 6, (32, 64)).astype(np.float32)) for _ in range(2))
    c = np.zeros((32, 64), np.float32)
    run_program(TWO_D.format(lanes=lanes, da=16 // lanes), [a, b, c, 8], target=target)
    expected = np.zeros((32, 64))
    expected[8:16, :lanes] = 2 * (bf16_to_float(a)[8:16, :16] @ bf16_to_float(b)[:16, :lanes])
    np.testing.assert_array_equal(c, expected)


TRANSPOSING_GATHER = """
  %lane = vector.step : vector<{lanes}xindex>
  %four = arith.constant dense<4> : vector<{lanes}xindex>
  %offsets = arith.muli %lane, %four : vector<{lanes}xindex>
  %mask = arith.constant dense<true> : vector<{lanes}xi1>
  %t = xegpu.create_tdesc %src, %offsets {{chunk_size_per_lane = 4}} : i64, vector<{lanes}xindex>
      -> !chunks
  %v = xegpu.load_gather %t, %mask {{L1_hint = cached, L3_hint = uncached, transpose = [1, 0]}}
      : !chunks, vector<{lanes}xi1> -> vector<4x1xf32>
  %f = vector.shape_cast %v : vector<4x1xf32> to vector<4xf32>"""
REGULAR = """
#t = #xegpu.sg_map<wi_layout = [{lanes}, 1], wi_data = [1, 1]>
#m = #xegpu.sg_map<wi_layout = [1, {lanes}], wi_data = [1, 1]>
!chunks = !xegpu.tensor_desc<{lanes}x4xf32, #xegpu.scattered, #t>
!block = !xegpu.tensor_desc<{n}xf32, boundary_check = false, #m>
func.func @k(%src: i64, %dest: i64) {{
""" + TRANSPOSING_GATHER + """
  %t2 = xegpu.create_nd_tdesc %dest, 0 : i64 -> !block
  xegpu.store_nd %f, %t2 : vector<4xf32>, !block
  func.return
}}"""


@pytest.mark.parametrize(("target", "lanes"), [("pvc", 16), ("arl-h", 8)])
def test_the_regular_load_example_transposes(target, lanes):
    source = RANDOM.standard_normal((lanes, 4)).astype(np.float32)
    out = np.zeros((4, lanes), np.float32)
    run_program(REGULAR.format(lanes=lanes, n=4 * lanes), [source, out], target=target)
    np.testing.assert_array_equal(out, source.T)


REGULAR_SLM = """
#t = #xegpu.sg_map<wi_layout = [{lanes}, 1], wi_data = [1, 1]>
#m = #xegpu.sg_map<wi_layout = [1, {lanes}], wi_data = [1, 1]>
!chunks = !xegpu.tensor_desc<{lanes}x4xf32, memory_scope = slm, #xegpu.scattered, #t>
!local = !xegpu.tensor_desc<{n}xf32, memory_scope = slm, boundary_check = false, #m>
!block = !xegpu.tensor_desc<{n}xf32, boundary_check = false, #m>
func.func @k(%in: i64, %out: i64) attributes {{xe.slm_bytes = 4096 : i32}} {{
  %src = arith.constant 0 : i64
  %dest = arith.constant 2048 : i64
  %ti = xegpu.create_nd_tdesc %in, 0 : i64 -> !block
  %vi = xegpu.load_nd %ti : !block -> vector<4xf32>
  %ts = xegpu.create_nd_tdesc %src, 0 : i64 -> !local
  xegpu.store_nd %vi, %ts : vector<4xf32>, !local
  xegpu.fence {{scope = workgroup, memory_kind = shared}}
""" + TRANSPOSING_GATHER + """
  %t2 = xegpu.create_nd_tdesc %dest, 0 : i64 -> !local
  xegpu.store_nd %f, %t2 : vector<4xf32>, !local
  xegpu.fence {{scope = workgroup, memory_kind = shared}}
  %w = xegpu.load_nd %t2 : !local -> vector<4xf32>
  %to = xegpu.create_nd_tdesc %out, 0 : i64 -> !block
  xegpu.store_nd %w, %to : vector<4xf32>, !block
  func.return
}}"""


@pytest.mark.parametrize(("target", "lanes"), [("bmg", 16), ("dg2", 8)])
def test_the_regular_load_example_in_shared_memory(target, lanes):
    """As the RFC has it: from shared local memory, to shared local memory."""
    source = RANDOM.standard_normal((lanes, 4)).astype(np.float32)
    out = np.zeros((4, lanes), np.float32)
    run_program(REGULAR_SLM.format(lanes=lanes, n=4 * lanes), [source, out], target=target)
    np.testing.assert_array_equal(out, source.T)


EXCHANGE = """
!local = !xegpu.tensor_desc<{lanes}xf32, memory_scope = slm, boundary_check = false>
!line = !xegpu.tensor_desc<{lanes}xf32, boundary_check = false>
func.func @k(%in: i64, %out: i64)
    attributes {{xe.subgroups = 4 : i32, xe.slm_bytes = 1024 : i32}} {{
  %w = xe.warp_id : i32
  %size = arith.constant {lanes} : i32
  %three = arith.constant 3 : i32
  %mine = arith.muli %w, %size : i32
  %mirror = arith.subi %three, %w : i32
  %other = arith.muli %mirror, %size : i32
  %zero = arith.constant 0 : i64
  %count = arith.constant 2 : i8
  %id = arith.constant 1 : i8
  %all = arith.constant 4 : i8
  xegpu.alloc_nbarrier %count : i8
  %b = xegpu.init_nbarrier %id, %all : i8, i8 -> !xegpu.nbarrier
  %ti = xegpu.create_nd_tdesc %in, %mine : i64, i32 -> !line
  %v = xegpu.load_nd %ti : !line -> vector<{lanes}xf32>
  %ts = xegpu.create_nd_tdesc %zero, %mine : i64, i32 -> !local
  xegpu.store_nd %v, %ts : vector<{lanes}xf32>, !local
  xegpu.fence {{scope = workgroup, memory_kind = shared}}
  xegpu.nbarrier_arrive %b : !xegpu.nbarrier
  xegpu.nbarrier_wait %b : !xegpu.nbarrier
  %tr = xegpu.create_nd_tdesc %zero, %other : i64, i32 -> !local
  %r = xegpu.load_nd %tr : !local -> vector<{lanes}xf32>
  %to = xegpu.create_nd_tdesc %out, %mine : i64, i32 -> !line
  xegpu.store_nd %r, %to : vector<{lanes}xf32>, !line
  func.return
}}"""


@pytest.mark.parametrize(("target", "lanes"), [("bmg", 16), ("pvc", 16), ("dg2", 8)])
def test_subgroups_meet_at_a_named_barrier(target, lanes):
    """Each reads what another wrote before it; on dg2 through the barrier of the work-group."""
    source = RANDOM.standard_normal((4, lanes)).astype(np.float32)
    out = np.zeros((4, lanes), np.float32)
    run_program(EXCHANGE.format(lanes=lanes), [source, out], target=target)
    np.testing.assert_array_equal(out, source[::-1])


def refused(body, target, arguments="%a: memref<64x64xf16>", attributes=""):
    text = f"func.func @k({arguments}) {attributes} {{\n{body}\n  func.return\n}}"
    compile_text(text, target)


def test_hints_that_a_target_lacks_are_refused():
    body = """
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<8x16xf16>
  %v = xegpu.load_nd %t {L1_hint = read_invalidate, L3_hint = uncached}
      : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>"""
    with pytest.raises(LegalityError, match=r"bmg has no read cache policy 'ri\.uc'; known: "):
        refused(body, "bmg")


@pytest.mark.parametrize(
    ("target", "outer", "known"),
    [("pvc", "cached", True), ("dg2", "cached", True), ("bmg", "read_invalidate", True),
     ("pvc", "read_invalidate", False), ("bmg", "cached", False)],
)
def test_each_generation_has_its_own_last_use(target, outer, known):
    lanes = 8 if target == "dg2" else 16
    body = f"""
  %lane = vector.step : vector<{lanes}xindex>
  %m = arith.constant dense<true> : vector<{lanes}xi1>
  %t = xegpu.create_tdesc %a, %lane : i64, vector<{lanes}xindex>
      -> !xegpu.tensor_desc<{lanes}xf32, #xegpu.scattered>
  %v = xegpu.load_gather %t, %m {{L1_hint = read_invalidate, L3_hint = {outer}}}
      : !xegpu.tensor_desc<{lanes}xf32, #xegpu.scattered>, vector<{lanes}xi1>
      -> vector<{lanes}xf32>"""
    if known:
        refused(body, target, "%a: i64")
        return
    with pytest.raises(LegalityError, match=rf"{target} has no read cache policy 'ri\."):
        refused(body, target, "%a: i64")


@pytest.mark.parametrize("hints", [
    "L1_hint = uncached, L3_hint = uncached", "L1_hint = read_invalidate",
])
def test_a_prefetch_that_keeps_nothing_is_refused(hints):
    body = f"""
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<8x16xf16>
  xegpu.prefetch_nd %t {{{hints}}} : !xegpu.tensor_desc<8x16xf16>"""
    with pytest.raises(LegalityError, match="keeps nothing in a cache; hint that L1 or L3"):
        refused(body, "bmg")


def test_shapes_that_no_message_has_are_refused():
    body = """
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<64x16xf16>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<64x16xf16> -> vector<64x16xf16>"""
    with pytest.raises(LegalityError, match="height 64 is over the limit of 32 rows"):
        refused(body, "pvc")


@pytest.mark.parametrize("participants", [4, 8])
def test_named_barriers_where_the_device_has_none(participants):
    body = f"""
  %id = arith.constant 0 : i8
  %n = arith.constant {participants} : i8
  %b = xegpu.init_nbarrier %id, %n : i8, i8 -> !xegpu.nbarrier
  xegpu.nbarrier_arrive %b : !xegpu.nbarrier
  xegpu.nbarrier_wait %b : !xegpu.nbarrier"""
    attributes = "attributes {xe.subgroups = 8 : i32}"
    if participants == 8:
        refused(body, "dg2", attributes=attributes)
        return
    with pytest.raises(LegalityError, match="no named barriers, and its one barrier is for all 8"):
        refused(body, "dg2", attributes=attributes)


def test_an_inner_stride_that_only_the_run_knows_is_refused():
    """Messages and gathers take neighbours along a row to be neighbours in memory."""
    body = """
  %t = xegpu.create_nd_tdesc %a, 0, 0, 64, 64, 64, %s : i64, index -> !xegpu.tensor_desc<8x16xf16>
  xegpu.prefetch_nd %t : !xegpu.tensor_desc<8x16xf16>"""
    with pytest.raises(LegalityError, match="innermost stride is known at run time only; write 1"):
        refused(body, "bmg", "%a: i64, %s: index")
    one = body.replace("  %t", "  %one = arith.constant 1 : index\n  %t").replace("%s :", "%one :")
    refused(one, "bmg", "%a: i64")


def test_flavours_do_not_mix():
    body = """
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<1x16xf16,
      #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
  %s = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<1x1xf16>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<1x16xf16,
      #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>> -> vector<1x1xf16>
  xegpu.store_nd %v, %s : vector<1x1xf16>, !xegpu.tensor_desc<1x1xf16>"""
    with pytest.raises(UnsupportedError, match="use descriptors and dpas of one flavour"):
        refused(body, "bmg")


def test_a_map_for_other_lanes_is_refused():
    with pytest.raises(LegalityError, match="has 8 work-items, subgroups on bmg have 16"):
        compile_text(TWO_D.format(lanes=8, da=2), "bmg")


def test_local_memory_needs_a_size():
    body = """
  %z = arith.constant 0 : i64
  %t = xegpu.create_nd_tdesc %z, 0 : i64
      -> !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>"""
    with pytest.raises(UnsupportedError, match=r"give its size as the function's attribute"):
        refused(body, "bmg")
