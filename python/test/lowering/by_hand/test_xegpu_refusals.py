"""What the lowering of hand-written programs refuses, and what it says."""

import pytest

from triton_xe.errors import XeError
from triton_xe.lowering.by_hand.dialect_pipeline import compile_text

LANES = (
    "%lane = vector.step : vector<16xindex>\n"
    "%m = arith.constant dense<true> : vector<16xi1>\n"
)
LINE_SLM = "!xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>"
FACTORS = (
    "%a = arith.constant dense<0.0> : {}\n%b = arith.constant dense<0.0> : {}\n".format
)
KERNELS = {
    "tf32 on dg2": (
        "dg2", "",
        FACTORS("vector<8x8xf32>", "vector<8x8xf32>")
        + "%d = xegpu.dpas %a, %b : vector<8x8xf32>, vector<8x8xf32> -> vector<8x8xf32>",
        "dg2 has no tf32 DPAS"),
    "fp8": (
        "bmg", "",
        FACTORS("vector<8x32xf8E5M2>", "vector<32x16xf8E5M2>")
        + "%d = xegpu.dpas %a, %b : vector<8x32xf8E5M2>, vector<32x16xf8E5M2> -> vector<8x16xf32>",
        "bmg has no fp8 DPAS; convert to f16 first"),
    "the width of another device": (
        "dg2", "",
        FACTORS("vector<8x16xf16>", "vector<16x16xf16>")
        + "%d = xegpu.dpas %a, %b : vector<8x16xf16>, vector<16x16xf16> -> vector<8x16xf32>",
        "C is 16 wide, on dg2 it must be 8"),
    "plain 4-bit B": (
        "bmg", "%a: memref<64x64xi4>",
        "%ta = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xi4> -> !xegpu.tensor_desc<8x64xi4>\n"
        "%tb = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xi4> -> !xegpu.tensor_desc<64x16xi4>\n"
        "%va = xegpu.load_nd %ta : !xegpu.tensor_desc<8x64xi4> -> vector<8x64xi4>\n"
        "%vb = xegpu.load_nd %tb : !xegpu.tensor_desc<64x16xi4> -> vector<64x16xi4>\n"
        "%d = xegpu.dpas %va, %vb : vector<8x64xi4>, vector<64x16xi4> -> vector<8x16xi32>",
        "B of s4 must be in VNNI form, K/v x N x v"),
    "bytes by atomics": (
        "bmg", "%a: i64",
        LANES + "%v = arith.constant dense<1> : vector<16xi8>\n"
        "%t = xegpu.create_tdesc %a, %lane : i64, vector<16xindex>"
        " -> !xegpu.tensor_desc<16xi8, #xegpu.scattered>\n"
        '%o = xegpu.atomic_rmw "addi", %v, %t, %m : vector<16xi8>,'
        " !xegpu.tensor_desc<16xi8, #xegpu.scattered>, vector<16xi1> -> vector<16xi8>",
        "atomics have 16 to 64 bits; use a larger type"),
    "a prefetch of shared memory": (
        "bmg", "",
        "%a = memref.alloca() : memref<16xf32, 3>\n"
        f"%t = xegpu.create_nd_tdesc %a, 0 : memref<16xf32, 3> -> {LINE_SLM}\n"
        f"xegpu.prefetch_nd %t : {LINE_SLM}",
        "shared local memory is not cached"),
    "too many barriers": (
        "bmg", "", "%n = arith.constant 40 : i8\nxegpu.alloc_nbarrier %n : i8",
        "1 to 32 barriers, not 40"),
    "more participants than subgroups": (
        "bmg", "",
        "%i = arith.constant 1 : i8\n%n = arith.constant 3 : i8\n"
        "%b = xegpu.init_nbarrier %i, %n : i8, i8 -> !xegpu.nbarrier",
        "3 participants, but the work-group has 1 subgroups"),
    "participants that only the run knows": (
        "dg2", "%n: i8",
        "%i = arith.constant 1 : i8\n"
        "%b = xegpu.init_nbarrier %i, %n : i8, i8 -> !xegpu.nbarrier",
        "not for a number known only at run time"),
    "a memref without sizes": (
        "bmg", "%a: memref<?x64xf16>",
        "%t = xetile.init_tile %a, 0, 0 : memref<?x64xf16> -> !xetile.tile<8x16xf16>\n"
        "xetile.prefetch_tile %t : !xetile.tile<8x16xf16>",
        "sizes"),
    "allocated private memory": (
        "bmg", "", "%a = memref.alloca() : memref<16xf32>",
        "only shared local memory of static shape"),
    "a tile at a memref elsewhere": (
        "bmg", "%a: memref<64x64xf16>",
        "%t = xetile.init_tile %a, 0, 0 : memref<64x64xf16>"
        " -> !xetile.tile<8x16xf16, memory_scope = slm>",
        "the memref is in global memory; say memory_scope = global"),
    "a part of shared memory": (
        "bmg", "",
        "%m = memref.alloca() : memref<64x64xf16, 3>\n"
        "%s = memref.subview %m[0, 0][8, 16][1, 1] : memref<64x64xf16, 3> to"
        " memref<8x16xf16, strided<[64, 1]>, 3>",
        "add its offset to those of the tile"),
    "a factor that is a sum": (
        "bmg", "%a: memref<64x64xf16>",
        "%t = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x16xf16>\n"
        "%u = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x16xf16>\n"
        "%v = xetile.load_tile %t : !xetile.tile<16x16xf16> -> vector<16x16xf16>\n"
        "%w = xetile.load_tile %u : !xetile.tile<16x16xf16> -> vector<16x16xf16>\n"
        "%d = xetile.tile_mma %v, %w, %w : vector<16x16xf16>, vector<16x16xf16>, vector<16x16xf16>"
        " -> vector<16x16xf16>",
        "one tile is used as two different operands"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_refused(name):
    target, arguments, body, message = KERNELS[name]
    with pytest.raises(XeError) as error:
        compile_text(f"func.func @k({arguments}) {{\n  {body}\n  func.return\n}}", target)
    assert message in str(error.value)


def test_kernels_of_one_module_have_one_size():
    text = """
func.func @a() attributes {xe.subgroups = 4 : i32} {
  func.return
}
func.func @b() {
  func.return
}"""
    with pytest.raises(XeError, match=r"different numbers of subgroups \(\[1, 4\]\)"):
        compile_text(text, "bmg")
