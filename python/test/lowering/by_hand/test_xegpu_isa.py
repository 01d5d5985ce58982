"""What Intel's compiler makes of each XeGPU op, on each device that has it.

All programs of a device are kernels of one module, which is compiled once.
"""

import re

import pytest

from python.test.filecheck import check_text
from python.test.lowering.by_hand.xegpu_programs import ATOMICS, PROGRAMS, SMALL
from triton_xe.lowering.by_hand.dialect_pipeline import compile_text
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler

BLOCKS = {
    "block f32": ("load_block2d.ugm.d32.", "load_block2d.ugm.d32.a64.ca.ca", "store_block2d"),
    "block f16": ("load_block2d.ugm.d16.", "store_block2d.ugm.d16."),
    "block i8": ("load_block2d.ugm.d8.", "store_block2d.ugm.d8."),
    "block f64": ("load_block2d.ugm.d64.", "store_block2d.ugm.d64."),
    "block hints": ("load_block2d.ugm.d32.a64.uc.ca", "store_block2d.ugm.d32.a64.wb.wb"),
    "packed f16": ("load_block2d.ugm.d16v",),
    "packed i8": ("load_block2d.ugm.d8v",),
    "transpose f32": ("load_block2d.ugm.d32t",),
    "transpose pairs": ("load_block2d.ugm.d32t",),
    "array": ("load_block2d.ugm.d16.",),
    "packed array": ("load_block2d.ugm.d16v",),
    "moved": ("load_block2d.ugm.d32.",),
    "dpas f16 2d": ("dpas.8x8", "load_block2d.ugm.d16v"),
    "dpas tf32 2d": ("dpas.8x8", ":tf32 .*:tf32"),
    "dpas tf32 two rows": ("dpas.8x2",),
    "dpas tf32 one row": ("dpas.8x1", ":tf32 .*:tf32"),
}
GATHERED = {
    "block f32": ("load.ugm.d32.", "store.ugm.d32.", "load.ugm.d8u32.a64.ca.ca"),
    "block hints": ("load.ugm.d32.a64.uc.ca", "store.ugm.d32.a64.wb.wb"),
    "packed f16": ("load.ugm.d16u32",),
    "moved": ("load.ugm.d32",),
}
ATOMIC_NAMES = {
    "addf": "fadd", "addi": "iadd", "maxs": "smax", "mins": "smin", "maxu": "umax",
    "minu": "umin", "ori": "or", "andi": "and", "xori": "xor", "assign": "store",
}
"""Those with an instruction of their own; the others swap until nothing came between."""
ANYWHERE = {
    "shared memory": ("load.slm", "store.slm", "fence"),
    "gather": ("load.ugm.d32.", "store.ugm.d32.", "load.ugm.d32x4.a64.ca.ca"),
    "gather f16": ("load.ugm.d16u32", "store.ugm.d16u32"),
    "gather i8": ("load.ugm.d8u32", "store.ugm.d8u32"),
    "gather chunks": ("load.ugm.d32x4", "store.ugm.d32x4"),
    "gather shared": ("load.slm.d32x4", "store.slm.d32x4"),
    "gather hints": ("load.ugm.d32x2.a64.ca.uc", "store.ugm.d32x2.a64.st.wb",
                     "load.ugm.d32x4.a64.uc.ca"),
    "gather hints i8": ("load.ugm.d8u32.a64.ca.uc", "store.ugm.d8u32.a64.st.wb"),
    "gather hints f16": ("load.ugm.d16u32.a64.ca.uc", "store.ugm.d16u32.a64.st.wb"),
    "gather hints eight halves": ("load.ugm.d32.a64.ca.uc", "store.ugm.d32.a64.st.wb"),
    "gather hints i64": ("load.ugm.d64x2.a64.ca.uc", "store.ugm.d64x2.a64.st.wb"),
    "line hints f32": ("load.ugm.d32.a64.ca.uc", "store.ugm.d32.a64.st.wb",
                       "load.ugm.d8u32.a64.uc.ca"),
    "line hints f16": ("load.ugm.d16u32.a64.ca.uc", "store.ugm.d16u32.a64.st.wb"),
    "atomic addi i64": ("atomic_iadd.ugm.d64",),
    "atomic addf bf16": ("atomic_icas.ugm.d16",),
    "atomic addf f16": ("atomic_icas.ugm.d16",),
    "dpas f16 2d": ("dpas.8x8", ":f .*:hf .*:hf"),
    "dpas bf16 vnni": ("dpas.8x8", ":f .*:bf .*:bf"),
    "dpas s8 3d": ("dpas.8x4", ":d .*:b .*:b"),
    "dpas u8 2d": ("dpas.8x8", ":d .*:ub .*:ub"),
    "dpas f16h 2d": ("dpas.8x8", ":hf .*:hf .*:hf"),
    "dpas bf16h 2d": ("dpas.8x8", ":bf .*:bf .*:bf"),
    "dpas f16 one row": ("dpas.8x1",),
}
for kind in ATOMICS:
    ANYWHERE[f"atomic {kind}"] = (f"atomic_{ATOMIC_NAMES.get(kind, 'icas')}.ugm.d32",)
for a, b in SMALL:
    names = [{"s8": "b", "u8": "ub"}.get(t, t) for t in (b, a)]
    ANYWHERE[f"dpas {a} by {b}"] = ("dpas.8x8", ":d .*:{} .*:{} ".format(*names))
NARROW = {"dg2", "arl-h"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", [
    "pvc", "bmg", "dg2",
    *(pytest.param(other, marks=pytest.mark.slow) for other in ("lnl", "ptl", "arl-h"))])
def test_the_instructions_are_there(target):
    if (reason := intel.available()) is not None:
        pytest.skip(reason)
    lanes = 8 if target in NARROW else 16
    wanted = ANYWHERE | (GATHERED if target in NARROW else BLOCKS)
    texts = {name: PROGRAMS[name](lanes)[0].replace("func.func @k(", f"func.func @k{i}(")
             for i, name in enumerate(wanted)}
    built = intel.compile_spirv(compile_text("\n".join(texts.values()), target).spirv, target)
    missing = []
    for i, (name, parts) in enumerate(wanted.items()):
        listing, facts = built.asm[f"k{i}"], built.kernels[f"k{i}"]
        missing += [(name, part) for part in parts if not found(part, listing)]
        assert (name, facts.simd_size, facts.spill_size) == (name, lanes, 0)
        if lanes == 8:
            check_text(listing, "CHECK-NOT: block2d")
    assert missing == []


def found(part, listing):
    return re.search(part if "*" in part else re.escape(part), listing)


NAMED_BARRIER = """
func.func @k() attributes {xe.subgroups = 8 : i32} {
  %count = arith.constant 2 : i8
  %id = arith.constant 1 : i8
  %half = arith.constant 4 : i8
  xegpu.alloc_nbarrier %count : i8
  %b = xegpu.init_nbarrier %id, %half : i8, i8 -> !xegpu.nbarrier
  xegpu.nbarrier_arrive %b : !xegpu.nbarrier
  xegpu.nbarrier_wait %b : !xegpu.nbarrier
  func.return
}"""


@pytest.mark.parametrize(("target", "participants"), [
    ("pvc", 4), ("bmg", 4), ("lnl", 4), ("ptl", 4), ("dg2", 8), ("arl-h", 8),
])
def test_a_named_barrier(target, participants):
    """Where there is none, the barrier of the work-group serves all of its subgroups."""
    if (reason := intel.available()) is not None:
        pytest.skip(reason)
    text = NAMED_BARRIER.replace("constant 4", f"constant {participants}")
    built = intel.compile_spirv(compile_text(text, target).spirv, target)
    assert built.facts.barrier_count >= 2 if participants == 4 else built.facts.barrier_count == 1
    check_text(built.asm["k"], "CHECK: sync.bar")


TILES = """
func.func @k(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %c: memref<64x64xf32>) {
  %w = xe.warp_id : i32
  %ta = xetile.init_tile %a, 8, 16 : memref<64x64xf16> -> !xetile.tile<16x32xf16>
  %tb = xetile.init_tile %b, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x32xf16>
  %tc = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %p = xetile.init_coop_tile %ta, %w, 4 : !xetile.tile<16x32xf16>, i32 -> !xetile.tile<4x32xf16>
  xetile.prefetch_tile %p {L1_hint = uncached} : !xetile.tile<4x32xf16>
  %n = xetile.update_tile_offset %ta, 16, 0 : !xetile.tile<16x32xf16> -> !xetile.tile<16x32xf16>
  %va = xetile.load_tile %n {inner_blocks = [8, 16]}
      : !xetile.tile<16x32xf16> -> vector<2x2x8x16xf16>
  %vb = xetile.load_tile %tb {inner_blocks = [16, 16], transpose}
      : !xetile.tile<16x32xf16> -> vector<2x1x16x16xf16>
  %vc = xetile.load_tile %tc {inner_blocks = [8, 16]}
      : !xetile.tile<16x16xf32> -> vector<2x1x8x16xf32>
  %d = xetile.tile_mma %va, %vb, %vc
      : vector<2x2x8x16xf16>, vector<2x1x16x16xf16>, vector<2x1x8x16xf32> -> vector<2x1x8x16xf32>
  xetile.store_tile %d, %tc {inner_blocks = [8, 16]}
      : vector<2x1x8x16xf32>, !xetile.tile<16x16xf32>
  func.return
}"""
TILE_PARTS = ("load_block2d.ugm.d16.a64", "load_block2d.ugm.d32t.a64", "load_block2d.ugm.d32.a64",
              "store_block2d.ugm.d32.a64", "load_block2d.ugm.d16.a64.uc.ca", "dpas.8x8")
GATHERED_PARTS = ("load.ugm.d32.a64", "store.ugm.d32.a64", "load.ugm.d8u32.a64.uc.ca", "dpas.8x8")


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", ["pvc", "bmg", "lnl", "ptl", "dg2", "arl-h"])
def test_what_becomes_of_tiles(target):
    if (reason := intel.available()) is not None:
        pytest.skip(reason)
    built = intel.compile_spirv(compile_text(TILES, target).spirv, target)
    wanted = GATHERED_PARTS if target in NARROW else TILE_PARTS
    check_text(built.asm["k"], "\n".join(f"CHECK-DAG: {part}" for part in wanted))
    assert built.facts.simd_size == (8 if target in NARROW else 16)
