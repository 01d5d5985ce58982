"""Every rule of the XeGPU dialect: what breaks it, and what the message says."""

from __future__ import annotations

import pytest
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from triton_xe.dialects import context

MAP_ROW = "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>"
MAP_COLUMN = "#xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>"
MAP_PAIR = "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>"
MAP_ARC = "#xegpu.sg_map<wi_layout = [1, 8], wi_data = [1, 1]>"
MAP_ARC_A = "#xegpu.sg_map<wi_layout = [1, 8], wi_data = [1, 2]>"
MAP_ARC_B = "#xegpu.sg_map<wi_layout = [1, 8], wi_data = [2, 1]>"


def desc(inside: str) -> str:
    return f"!xegpu.tensor_desc<{inside}>"


BLOCK = desc("8x16xbf16")
LINE = desc("16xbf16, boundary_check = false")
LANES = desc("16xf32, #xegpu.scattered")
CHUNKS = desc("16x4xf32, #xegpu.scattered")


def verify(types: str, op: str) -> None:
    """Parse and verify `op`, whose operands are %v#0, %v#1, ... of `types`."""
    ctx = context()
    ctx.load_dialect(Test)
    count = types.count(" ; ") + 1
    values = f'%v:{count} = "test.op"() : () -> ({types.replace(" ; ", ", ")})\n'
    Parser(ctx, values + op).parse_module().verify()


TYPES = [
    ("8x16x4xbf16, array_length = 2", "only blocks of 1 or 2 dimensions are scattered, arrays"),
    ("0x16xbf16", "a descriptor has positive sizes, not [0, 16]"),
    ("8x16xi3", "elements have 4, 8, 16, 32 or 64 bits, not 3"),
    ("8x16xnone", "none has no size; use an integer or a float type"),
    ("16xbf16, array_length = 2", "array_length needs a 2D block, this one is 1D"),
    ("8x16xbf16, array_length = 0", "array_length is at least 1, not 0"),
    ("5xbf16, #xegpu.scattered", "addresses 1, 2, 4, 8, 16 or 32 work-items, not 5"),
    ("16x5xbf16, #xegpu.scattered", "has chunk_size_per_lane 2, 3, 4 or 8 as its second size, not"),
    ("16x1xbf16, #xegpu.scattered", "without chunks it is 1D"),
    ("16xi4, #xegpu.scattered", "scattered elements have 8, 16, 32 or 64 bits, i4 has 4"),
    ("16xbf16, #xegpu.scattered, array_length = 2", "a scattered descriptor has no array_length"),
    ("16x8xbf16, #xegpu.scattered, chunk_size_per_lane = 4", "chunk_size_per_lane 4 does not fit"),
    ("16xbf16, memory_scope = local", "memory_scope is one of global, slm, not local"),
    ("16xbf16, colour = 1", "a tensor_desc has memory_scope, array_length, boundary_check"),
    ("16xbf16, array_length = 1, array_length = 1", "array_length is given twice"),
    ("16xbf16, 1 : i32", "a tensor_desc takes one #xegpu.sg_map, one #xegpu.tdesc_attr"),
    (f"16x16xbf16, {MAP_ROW}, {MAP_ROW}", "a tensor_desc takes one #xegpu.sg_map"),
    (
        f"8x8xbf16, {MAP_ROW}",
        "size 8 of dimension 1 is not a multiple of wi_layout[1] x wi_data[1]",
    ),
    (
        f"9x16xbf16, {MAP_PAIR}",
        "size 9 of dimension 0 is not a multiple of wi_layout[0] x wi_data[0]",
    ),
    (f"24xbf16, {MAP_ROW}", "size 24 is not a multiple of work-items x wi_data = 16"),
    (f"16xbf16, {MAP_PAIR}", "the sg_map of a 1D descriptor has one row or one column"),
    (
        "16xbf16, #xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 1]>",
        "the sg_map of a 1D descriptor has one row or one column",
    ),
    (f"32x4xf32, #xegpu.scattered, {MAP_COLUMN}", "the sg_map of 32 work-items with chunks has"),
    (f"8x8xf32, #xegpu.scattered, {MAP_ARC}", "wi_layout = [8, 1] and wi_data[0] = 1, one chunk"),
]


@pytest.mark.parametrize(("inside", "message"), TYPES)
def test_descriptor_type_is_refused(inside: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify(desc(inside), "")
    assert message in str(error.value)


ATTRIBUTES = [
    ("sg_map<wi_layout = [1, 16, 1], wi_data = [1, 1]>", "wi_layout is two positive numbers"),
    ("sg_map<wi_layout = [1, 16], wi_data = [0, 1]>", "wi_data is two positive numbers"),
    ("sg_map<wi_layout = [1, 12], wi_data = [1, 1]>", "has 12 work-items; their product is the"),
    ("tdesc_attr<chunk_size_per_lane = 5, scattered = true>", "is one of 1, 2, 3, 4, 8, not 5"),
    ("tdesc_attr<chunk_size_per_lane = 2>", "chunk_size_per_lane needs scattered = true"),
    ("tdesc_attr<array_length = -1>", "array_length is at least 1, not -1"),
    ("cache_hint<warm>", "xegpu.cache_hint is one of cached, uncached, streaming"),
    ("fence_scope<tile>", "xegpu.fence_scope is one of workgroup, gpu, not tile"),
    ("memory_kind<slm>", "xegpu.memory_kind is one of global, shared, not slm"),
    ("atomic_kind<subf>", "xegpu.atomic_kind is one of addf, maximumf"),
]


@pytest.mark.parametrize(("text", "message"), ATTRIBUTES)
def test_attribute_is_refused(text: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify("i32", f'"test.op"() {{a = #xegpu.{text}}} : () -> ()')
    assert message in str(error.value)


def creates(inside: str, numbers: str, base: str = "i64") -> tuple[str, str]:
    return base, f"%t = xegpu.create_nd_tdesc %v#0, {numbers} : {base} -> {desc(inside)}"


def create_generic(offsets: str, shape: str, strides: str, inside: str = "8x16xbf16") -> str:
    arrays = (("offsets", offsets), ("shape", shape), ("strides", strides))
    properties = ", ".join(f"static_{name} = array<i64{text}>" for name, text in arrays)
    return f'%t = "xegpu.create_nd_tdesc"(%v#0) <{{{properties}}}> : (i64) -> {desc(inside)}'


def loads(inside: str, entries: str, value: str) -> tuple[str, str]:
    type_ = desc(inside)
    return type_, f"%r = xegpu.load_nd %v#0 {{{entries}}} : {type_} -> vector<{value}>"


BLOCKS = [
    (*creates("8x16xbf16", "0, 0, 8, 16, 16, 1", "f32"), "a base address is a memref, i64, ui64"),
    (
        *creates("16xbf16, #xegpu.scattered", "0"),
        "a scattered descriptor comes from xegpu.create_tdesc",
    ),
    (*creates("16xbf16", "0"), "a 1D descriptor needs boundary_check = false"),
    (*creates("8x16xbf16", "0, 0"), "takes 2 sizes and 2 strides of the base tensor, not 0 and 0"),
    (
        *creates("8x16xbf16", "0"),
        "takes 2 offsets, alone or with 2 sizes and 2 strides; these are 1",
    ),
    (
        *creates("8x16xbf16", "0, 0, 8, 16, 32, 2"),
        "stride of the innermost dimension must be 1, not 2",
    ),
    ("i64", create_generic(": 0", ": 8, 16", ": 16, 1"), "takes 2 offsets, not 1"),
    ("i64", create_generic(": 0, 0", ": 8", ": 16, 1"), "not 1 and 2"),
    (
        "i64",
        create_generic(": 0, -9223372036854775808", ": 8, 16", ": 16, 1"),
        "the static arrays leave 1 entries to values, but there are 0",
    ),
    (*creates("8x16xbf16", "0, 0", "memref<64xbf16>"), "2D blocks are in 2D memrefs"),
    (*creates("8x16xbf16", "0, 0", "memref<64x64xf16>"), "the memref holds f16, the blocks bf16"),
    (
        *creates("8x16xbf16", "0, 0", "memref<64x64xbf16, strided<[1, 64]>>"),
        "is not contiguous; its stride must be 1",
    ),
    (
        *creates("8x16xbf16", "0, 0", "memref<?x64xbf16>"),
        "a 2D descriptor at memref<?x64xbf16> takes 2 sizes and 2 strides",
    ),
    (
        "i64 ; f32",
        f"%t = xegpu.create_nd_tdesc %v#0, %v#1, 0, 8, 16, 16, 1 : i64, f32 -> {BLOCK}",
        "an offset, size, stride or count is index, i32 or i64, not f32",
    ),
    (
        "i64 ; i32",
        f"%t = xegpu.create_nd_tdesc %v#0, %v#1, 0, 8, 16, 16, 1 : i64 -> {BLOCK}",
        "1 values in the index list, but 0 types for them",
    ),
    (
        "i64",
        "%t = xegpu.create_nd_tdesc %v#0, 0, 0 : i64 -> i32",
        "makes a !xegpu.tensor_desc, not i32",
    ),
    (*loads("16xf32, #xegpu.scattered", "", "16xf32"), "takes a block from xegpu.create_nd_tdesc"),
    (*loads("8x16xbf16", "", "8x8xbf16"), "is vector<8x16xbf16>, not vector<8x8xbf16>"),
    (*loads("8x16xbf16", "", "8x16xf16"), "is vector<8x16xbf16>, not vector<8x16xf16>"),
    (
        *loads("8x16xbf16, array_length = 2", "", "8x16xbf16"),
        "is vector<8x32xbf16> or vector<2x8x16xbf16>, not vector<8x16xbf16>",
    ),
    (
        *loads(f"8x16xbf16, {MAP_ROW}", "", "8x16xbf16"),
        "is vector<8x1xbf16>, not vector<8x16xbf16>",
    ),
    (*loads("16x16xbf16", "packed", "16x16xbf16"), "is vector<8x16x2xbf16>, not"),
    (
        *loads("16x16xbf16", "packed, transpose = [1, 0]", "16x16xbf16"),
        "packed (VNNI) and transpose cannot be combined",
    ),
    (*loads("8x16xf32", "packed", "8x16xf32"), "is for elements of less than 32 bits, not f32"),
    (*loads("7x16xbf16", "packed", "7x16xbf16"), "whose rows are a multiple of 2"),
    (*loads("16xbf16", "packed", "16xbf16"), "packed (VNNI) needs a 2D block"),
    (
        *loads(f"16x16xbf16, {MAP_ROW}", "packed", "16x1xbf16"),
        "wi_data[0] must be the VNNI factor 2 of bf16, not 1",
    ),
    (
        *loads("16x8xf32", "transpose = [0, 1]", "16x8xf32"),
        "transpose is [1, 0] and needs a 2D block",
    ),
    (*loads("16xf32", "transpose = [1, 0]", "16xf32"), "transpose is [1, 0] and needs a 2D block"),
    (
        *loads(f"16x16xf32, {MAP_ROW}", "transpose = [1, 0]", "16x1xf32"),
        "the work-items are along the rows: wi_layout = [16, 1], not [1, 16]",
    ),
    (*loads("16x16xf16", "transpose_bit_width = 32", "16x16xf16"), "needs transpose = [1, 0]"),
    (
        *loads("16x16xf32", "transpose = [1, 0], transpose_bit_width = 16", "16x16xf32"),
        "transpose_bit_width is a multiple of the element's 32 bits",
    ),
    (
        *loads("16x6xf16", "transpose = [1, 0], transpose_bit_width = 64", "16x6xf16"),
        "that divides a row of 96 bits, not 64",
    ),
    (
        *loads("8x16xbf16", "L1_hint = write_back", "8x16xbf16"),
        "L1_hint is one of cached, uncached, streaming, read_invalidate, not write_back",
    ),
    (*loads("8x16xbf16", "L1 = cached, L1_hint = cached", "8x16xbf16"), "L1_hint is given twice"),
    (
        f"vector<8x16xbf16> ; {BLOCK}",
        f"xegpu.store_nd %v#0, %v#1 {{L3_hint = cached}} : vector<8x16xbf16>, {BLOCK}",
        "L3_hint is one of uncached, write_through, write_back, streaming, not cached",
    ),
    (
        f"vector<16x8xbf16> ; {BLOCK}",
        f"xegpu.store_nd %v#0, %v#1 : vector<16x8xbf16>, {BLOCK}",
        "is vector<8x16xbf16>, not vector<16x8xbf16>",
    ),
    (
        f"vector<16xf32> ; {LANES}",
        f"xegpu.store_nd %v#0, %v#1 : vector<16xf32>, {LANES}",
        "xegpu.store_nd: takes a block",
    ),
    (LANES, f"xegpu.prefetch_nd %v#0 : {LANES}", "xegpu.prefetch_nd: takes a block"),
    (
        BLOCK,
        f"xegpu.prefetch_nd %v#0 {{memory_scope = slm}} : {BLOCK}",
        "memory_scope is slm, but the descriptor's is global",
    ),
    (
        BLOCK,
        f"xegpu.prefetch_nd %v#0 {{L2_hint = write_through}} : {BLOCK}",
        "L2_hint is one of cached",
    ),
    (
        BLOCK,
        f"%t = xegpu.update_nd_offset %v#0, 8 : {BLOCK} -> {BLOCK}",
        "a 2D descriptor moves by 2 offsets, not 1",
    ),
    (
        BLOCK,
        f"%t = xegpu.update_nd_offset %v#0, 8, 0 : {BLOCK} -> {desc('8x8xbf16')}",
        "moving keeps the type of the descriptor",
    ),
    (
        f"vector<8x16xbf16> ; {BLOCK}",
        f"xegpu.store_nd %v#0, %v#1 {{packed}} : vector<8x16xbf16>, {BLOCK}",
        "xegpu.store_nd has no packed",
    ),
    (
        f"vector<8x16xbf16> ; {BLOCK}",
        f'"xegpu.store_nd"(%v#0, %v#1) {{transpose = [1, 0]}} : (vector<8x16xbf16>, {BLOCK}) -> ()',
        "xegpu.store_nd has no transpose",
    ),
    (
        LANES,
        f"%t = xegpu.update_nd_offset %v#0, 8 : {LANES} -> {LANES}",
        "xegpu.update_nd_offset: takes a block",
    ),
    (
        "i64",
        f"%t = xegpu.create_nd_tdesc %v#0, 0, 0, 8, 16, 16, 1 {{xe.transposed}} : i64 -> {BLOCK}",
        "only gathers take xe.transposed",
    ),
    (
        "i64",
        "%t = xegpu.create_nd_tdesc %v#0, 0, 0, 8, 16, 16, 1 {xe.base_alignment = 48} : i64"
        f" -> {BLOCK}",
        "xe.base_alignment is a power of 2, not 48",
    ),
    (*loads("8x16xbf16", "xe.valid = [9, 16]", "8x16xbf16"), "xe.valid = (9, 16) is no part of"),
    (*loads("8x16xbf16", "xe.gather", "8x16xbf16"), "xegpu.load_nd has no xe.gather"),
    (
        f"vector<8x16xbf16> ; {BLOCK}",
        f"xegpu.store_nd %v#0, %v#1 {{xe.transposed}} : vector<8x16xbf16>, {BLOCK}",
        "xegpu.store_nd has no xe.transposed",
    ),
]


@pytest.mark.parametrize(("types", "op", "message"), BLOCKS)
def test_block_op_is_refused(types: str, op: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify(types, op)
    assert message in str(error.value)


def creates_lanes(offsets: str, inside: str, entries: str = "", base: str = "i64"):
    text = f"%t = xegpu.create_tdesc %v#0, %v#1 {entries} : {base}, {offsets} -> {desc(inside)}"
    return f"{base} ; {offsets}", text


def gathers(inside: str, mask: str, entries: str, value: str) -> tuple[str, str]:
    types = f"{desc(inside)}, {mask}"
    text = f"%r = xegpu.load_gather %v#0, %v#1 {{{entries}}} : {types} -> vector<{value}>"
    return f"{desc(inside)} ; {mask}", text


def scatters(value: str, inside: str, mask: str, entries: str = "") -> tuple[str, str]:
    types = (f"vector<{value}>", desc(inside), mask)
    text = f"xegpu.store_scatter %v#0, %v#1, %v#2 {{{entries}}} : {', '.join(types)}"
    return " ; ".join(types), text


def atomics(kind: str, value: str, inside: str, mask: str = "vector<16xi1>", result: str = ""):
    types = (f"vector<{value}>", desc(inside), mask)
    text = f'%r = xegpu.atomic_rmw "{kind}", %v#0, %v#1, %v#2 : {", ".join(types)}'
    return " ; ".join(types), f"{text} -> vector<{result or value}>"


SCATTERED = "16xf32, #xegpu.scattered"
CHUNKED = "16x4xf32, #xegpu.scattered"
OWN = f"16xf32, #xegpu.scattered, {MAP_ROW}"
MASK = "vector<16xi1>"

LANE_OPS = [
    (
        *creates_lanes("vector<16xindex>", "16xf32"),
        "makes scattered descriptors (#xegpu.scattered)",
    ),
    (*creates_lanes("vector<8xindex>", SCATTERED), "a vector of 16 index, i16, i32 or i64, not"),
    (*creates_lanes("vector<16xf32>", SCATTERED), "a vector of 16 index, i16, i32 or i64, not"),
    (*creates_lanes("i32", SCATTERED), "a vector of 16 index, i16, i32 or i64, not i32"),
    (
        *creates_lanes("f32", OWN),
        "16 index, i16, i32 or i64, or one index, i16, i32 or i64, not f32",
    ),
    (
        *creates_lanes("vector<16xi32>", CHUNKED, "{chunk_size_per_lane = 2}"),
        "chunk_size_per_lane is 2, but",
    ),
    (*creates_lanes("vector<16xi32>", SCATTERED, base="f64"), "a base address is a memref"),
    (
        *creates_lanes("vector<16xi32>", SCATTERED, base="memref<4x4xf32>"),
        "1D blocks are in 1D memrefs",
    ),
    (
        *gathers("16xf32", MASK, "", "16xf32"),
        "takes a scattered descriptor from xegpu.create_tdesc",
    ),
    (*gathers(SCATTERED, "vector<8xi1>", "", "16xf32"), "a vector of 16 i1, not vector<8xi1>"),
    (*gathers(SCATTERED, "vector<16xi8>", "", "16xf32"), "a vector of 16 i1, not vector<16xi8>"),
    (*gathers(SCATTERED, "i1", "", "16xf32"), "a vector of 16 i1, not i1"),
    (*gathers(SCATTERED, MASK, "", "8xf32"), "is vector<16xf32>, not vector<8xf32>"),
    (*gathers(OWN, "i1", "", "16xf32"), "is vector<1xf32> or vector<1x1xf32>, not vector<16xf32>"),
    (*gathers(CHUNKED, MASK, "", "4x16xf32"), "chunks are loaded with transpose = [1, 0]"),
    (*gathers(CHUNKED, MASK, "transpose = [1, 0]", "16x4xf32"), "is vector<4x16xf32>, not"),
    (*gathers(CHUNKED, MASK, "transpose = [0, 1]", "16x4xf32"), "transpose is [1, 0], not [0, 1]"),
    (
        *gathers(SCATTERED, MASK, "transpose = [1, 0]", "16xf32"),
        "transpose needs a chunk_size_per_lane larger than 1",
    ),
    (*gathers(SCATTERED, MASK, "L1 = write_back", "16xf32"), "L1_hint is one of cached"),
    (*scatters("16xf32", "16xf32", MASK), "xegpu.store_scatter: takes a scattered descriptor"),
    (*scatters("8xf32", SCATTERED, MASK), "is vector<16xf32>, not vector<8xf32>"),
    (*scatters("4x16xf32", CHUNKED, MASK), "is vector<16x4xf32>, not vector<4x16xf32>"),
    (*scatters("16xf32", SCATTERED, "vector<1xi1>"), "the mask of"),
    (*scatters("16xf32", SCATTERED, MASK, "L1 = cached"), "L1_hint is one of uncached"),
    (*scatters("16xf32", SCATTERED, MASK, "memory_scope = slm"), "memory_scope is slm, but"),
    (BLOCK, f"xegpu.prefetch %v#0 : {BLOCK}", "xegpu.prefetch: takes a scattered descriptor"),
    (LANES, f"xegpu.prefetch %v#0 {{L1 = write_back}} : {LANES}", "L1_hint is one of cached"),
    (
        f"{LANES} ; vector<8xindex>",
        f"%t = xegpu.update_offset %v#0, %v#1 : {LANES}, vector<8xindex> -> {LANES}",
        "xegpu.update_offset: the offsets of",
    ),
    (
        f"{LANES} ; vector<16xindex>",
        f"%t = xegpu.update_offset %v#0, %v#1 : {LANES}, vector<16xindex> -> {CHUNKS}",
        "xegpu.update_offset: moving keeps the type of the descriptor",
    ),
    (
        f"{BLOCK} ; vector<16xindex>",
        f"%t = xegpu.update_offset %v#0, %v#1 : {BLOCK}, vector<16xindex> -> {BLOCK}",
        "xegpu.update_offset: takes a scattered descriptor",
    ),
    (*atomics("addf", "16xf32", "16xf32"), "xegpu.atomic_rmw: takes a scattered descriptor"),
    (*atomics("addf", "8xf32", SCATTERED), "is vector<16xf32>, not vector<8xf32>"),
    (*atomics("addf", "16xf32", SCATTERED, "vector<8xi1>"), "the mask of"),
    (*atomics("addf", "16xf32", SCATTERED, result="8xf32"), "returns the type of its value"),
    (*atomics("addi", "16xf32", SCATTERED), "addi is for integers, not f32; floats have addf"),
    (
        *atomics("addf", "16xi32", "16xi32, #xegpu.scattered"),
        "addf is for floats, not i32; integers have addi",
    ),
    (*atomics("subf", "16xf32", SCATTERED), "xegpu.atomic_kind is one of"),
    (
        f"vector<16xf32> ; {LANES} ; {MASK}",
        f'%r = xegpu.atomic_rmw "addf", %v#0, %v#1, %v#2 {{L1_hint = cached}} : vector<16xf32>,'
        f" {LANES}, {MASK} -> vector<16xf32>",
        "xegpu.atomic_rmw has no L1_hint",
    ),
]


@pytest.mark.parametrize(("types", "op", "message"), LANE_OPS)
def test_scattered_op_is_refused(types: str, op: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify(types, op)
    assert message in str(error.value)


def multiplies(a: str, b: str, result: str, maps: tuple[str, ...] = (), c: str = ""):
    types = [f"vector<{shape}>" for shape in (a, b, c) if shape]
    names = ("sg_map_a", "sg_map_b", "sg_map_c")
    entries = ", ".join(f"{name} = {value}" for name, value in zip(names, maps, strict=False))
    operands = ", ".join(f"%v#{i}" for i in range(len(types)))
    text = f"%r = xegpu.dpas {operands} {{{entries}}} : {', '.join(types)} -> vector<{result}>"
    return " ; ".join(types), text


TF32_A = "#xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 1]>"
PVC = (MAP_ROW, MAP_PAIR, MAP_ROW)

DPAS = [
    (
        *multiplies("8x16xbf16", "16x16xbf16", "8x16xf32", c="8x16xbf16"),
        "C and the result have the",
    ),
    (
        *multiplies("8x16xbf16", "8x16xbf16", "8x16xf32"),
        "A is 8x16, B 8x16, C 8x16; it must be MxK",
    ),
    (*multiplies("8x8xbf16", "8x16xbf16", "8x16xf32"), "sums over K = 16 of bf16, not 8"),
    (*multiplies("9x16xbf16", "16x16xbf16", "9x16xf32"), "DPAS has 1 to 8 rows, not 9"),
    (*multiplies("8x16xbf16", "16x4xbf16", "8x4xf32"), "DPAS is 8 or 16 wide, not 4"),
    (*multiplies("8x16xbf16", "16x16xf16", "8x16xf32"), "DPAS cannot multiply bf16 by f16"),
    (*multiplies("8x16xbf16", "16x16xbf16", "8x16xi32"), "accumulates in f32 or bf16, not i32"),
    (*multiplies("8x32xi8", "32x16xi8", "8x16xui32"), "accumulates in i32, not ui32"),
    (*multiplies("8x16xf64", "16x16xf64", "8x16xf64"), "DPAS has no operand type 'f64'"),
    (*multiplies("8x8x2xbf16", "16x16xbf16", "8x16xf32"), "B must be in VNNI layout too"),
    (*multiplies("8x16xbf16", "4x16x4xbf16", "8x16xf32"), "ends in 32 / 16 = 2"),
    (*multiplies("8x4x2xf32", "4x16x2xf32", "8x16xf32"), "is for elements of less than 32 bits"),
    (*multiplies("128xbf16", "16x16xbf16", "8x16xf32"), "matrix A is 2D, or 3D"),
    (*multiplies("8x16xbf16", "16x16xbf16", "128xf32"), "matrix C is 2D, not"),
    (
        *multiplies("8x1xbf16", "8x2xbf16", "8x1xf32", PVC[:2]),
        "has sg_map_a, sg_map_b and sg_map_c; only sg_map_a, sg_map_b is given",
    ),
    (
        *multiplies("8x1xbf16", "8x2xbf16", "8x1xf32", (MAP_ROW, MAP_PAIR, MAP_ARC)),
        "the sg_maps of A, B and C have 16, 16, 8 work-items",
    ),
    (
        *multiplies("8x1xbf16", "8x2xbf16", "8x1xf32", (MAP_ROW, MAP_ROW, MAP_ROW)),
        f"matrix B of bf16 needs {MAP_PAIR} on PVC, not {MAP_ROW}",
    ),
    (
        *multiplies("8x1xbf16", "8x2xbf16", "8x1xf32", (MAP_ARC, MAP_ARC_B, MAP_ARC)),
        f"matrix A of bf16 needs {MAP_ARC_A} on ARC, not {MAP_ARC}",
    ),
    (
        *multiplies("8x1xbf16", "8x2xbf16", "8x1xf32", (MAP_ROW, MAP_PAIR, MAP_COLUMN)),
        f"matrix C of f32 needs {MAP_ROW} on PVC, not {MAP_COLUMN}",
    ),
    (
        *multiplies(
            "8x1xbf16",
            "8x2xbf16",
            "8x1xf32",
            ("#xegpu.sg_map<wi_layout = [1, 32], wi_data = [1, 1]>",) * 3,
        ),
        "DPAS needs subgroups of 16 (PVC) or 8 (ARC) work-items, not 32",
    ),
    (
        *multiplies("4x1xbf16", "8x2xbf16", "8x1xf32", PVC),
        "fragment of matrix A is vector<8x1xbf16> for 8x16x16, not vector<4x1xbf16>",
    ),
    (
        *multiplies("4x1xf32", "8x1xf32", "7x1xf32", (TF32_A, MAP_ROW, MAP_ROW)),
        "matrix A of 7x16x8 has 56 elements, which 16 work-items cannot share by 1; use an even",
    ),
    (
        *multiplies("8x1xbf16", "16x1xbf16", "8x1xf32", PVC),
        "fragment of matrix B is vector<8x2xbf16>",
    ),
    (
        *multiplies("8x1xbf16", "8x2xbf16", "4x2xf32", PVC),
        "fragment of matrix C is vector<8x1xf32>",
    ),
]


@pytest.mark.parametrize(("types", "op", "message"), DPAS)
def test_dpas_is_refused(types: str, op: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify(types, op)
    assert message in str(error.value)


def scales(*types: str) -> tuple[str, str]:
    *operands, result = (f"vector<{shape}>" for shape in types)
    names = ", ".join(f"%v#{i}" for i in range(len(operands)))
    return " ; ".join(operands), f"%r = xegpu.dpas_mx {names} : {', '.join(operands)} -> {result}"


HF8, HF8_B, SUMS = "8x2xf8E4M3FN", "8x4xf8E4M3FN", "8x1xf32"
SCALED = [
    (*scales(HF8, HF8_B, SUMS, "1x1xi8", "1x1xi8", "8x1xf16"), "have the same type"),
    (*scales(HF8, "8x4xi8", SUMS, "1x1xi8", "1x1xi8", SUMS), "cannot multiply hf8 by e2m1"),
    (*scales("4x2xf8E4M3FN", HF8_B, SUMS, "1x1xi8", "1x1xi8", SUMS), "a is vector<8x2xf8E4M3FN>"),
    (*scales(HF8, HF8_B, SUMS, "2x1xi8", "1x1xi8", SUMS), "scale_a is vector<1x1xi8>"),
    (*scales("8x2xi8", "8x4xi8", SUMS, "2x1xi8", "1x1xi8", SUMS), "scale_b is vector<2x1xi8>"),
    (*scales(HF8, HF8_B, SUMS, "1x1xi8", "1x1xf8E4M3FN", SUMS), "scale_b is vector<1x1xi8>"),
]


@pytest.mark.parametrize(("types", "op", "message"), SCALED)
def test_scaled_dpas_is_refused(types: str, op: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify(types, op)
    assert message in str(error.value)


SYNC = [
    ("f32", "xegpu.alloc_nbarrier %v#0 : f32", "is i8, ui8, i32 or index, not f32"),
    (
        "i8 ; i64",
        "%b = xegpu.init_nbarrier %v#0, %v#1 : i8, i64 -> !xegpu.nbarrier",
        "is i8, ui8, i32 or index, not i64",
    ),
    ("i8", "xegpu.nbarrier_wait %v#0 : i8", "operand 'nbarrier' at position 0 does not verify"),
    ("i8", "xegpu.fence {scope = gpu}", "property 'memory_kind' expected in operation"),
    (
        "i8",
        "xegpu.fence {scope = tile, memory_kind = global}",
        "is one of workgroup, gpu, not tile",
    ),
]


@pytest.mark.parametrize(("types", "op", "message"), SYNC)
def test_barrier_or_fence_is_refused(types: str, op: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify(types, op)
    assert message in str(error.value)
