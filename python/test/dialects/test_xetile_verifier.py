"""Every rule of the XeTile dialect: what breaks it, and what the message says."""

from __future__ import annotations

import pytest
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from triton_xe.dialects import context

TILE = "!xetile.tile<64x64xbf16>"
COLUMNS = "!xetile.tile<64x64xbf16, order = [0, 1]>"
LOCAL = "!xetile.tile<64x64xbf16, memory_scope = slm>"


def verify(types: str, op: str) -> None:
    """Parse and verify `op`, whose operands are %v#0, %v#1, ... of `types`."""
    ctx = context()
    ctx.load_dialect(Test)
    count = types.count(" ; ") + 1
    values = f'%v:{count} = "test.op"() : () -> ({types.replace(" ; ", ", ")})\n'
    Parser(ctx, values + op).parse_module().verify()


def inits(numbers: str, base: str = "i64", tile: str = TILE) -> tuple[str, str]:
    return base, f"%t = xetile.init_tile %v#0, {numbers} : {base} -> {tile}"


def parts(part: str, size: str = "64") -> tuple[str, str]:
    return f"{TILE} ; i32", f"%p = xetile.init_coop_tile %v#0, %v#1, {size} : {TILE}, i32 -> {part}"


def loads(entries: str, value: str, tile: str = TILE) -> tuple[str, str]:
    return tile, f"%r = xetile.load_tile %v#0 {{{entries}}} : {tile} -> vector<{value}>"


def stores(value: str, entries: str = "") -> tuple[str, str]:
    types = f"vector<{value}>, {TILE}"
    return types.replace(", ", " ; "), f"xetile.store_tile %v#0, %v#1 {{{entries}}} : {types}"


def multiplies(*types: str) -> tuple[str, str]:
    *operands, result = (f"vector<{shape}>" for shape in types)
    names = ", ".join(f"%v#{i}" for i in range(len(operands)))
    return " ; ".join(operands), f"%r = xetile.tile_mma {names} : {', '.join(operands)} -> {result}"


CASES = [
    (*loads("", "64xbf16", "!xetile.tile<64xbf16>"), "a tile has rows and columns, both positive"),
    (*loads("", "0x8xbf16", "!xetile.tile<0x8xbf16>"), "both positive, not [0, 8]"),
    (*loads("", "8x8xnone", "!xetile.tile<8x8xnone>"), "none has no size"),
    (
        *loads("", "8x8xbf16", "!xetile.tile<8x8xbf16, order = [1, 1]>"),
        "order is [1, 0] (row-major)",
    ),
    (*loads("", "8x8xbf16", "!xetile.tile<8x8xbf16, f32>"), "a tile takes order, memory_scope and"),
    (
        *loads("", "8x8xbf16", "!xetile.tile<8x8xbf16, memory_scope = l1>"),
        "memory_scope is one of global, slm, not l1",
    ),
    (*inits("0, 0", "f32"), "a base address is a memref, i64, ui64, index, !tt.ptr or !llvm.ptr"),
    (*inits("0, 0"), "takes 2 offsets, 2 sizes and 1 stride (a memref of static shape may"),
    (*inits("0, 0", "memref<?x64xbf16>"), "not 2, 0 and 0"),
    (
        *inits("0, 0, 64"),
        "takes 2 offsets, alone or with 2 sizes and a stride; these are 3 numbers",
    ),
    (*inits("0, 0, -1, 64, 64"), "sizes are not negative and the stride is positive, not -1"),
    (*inits("0, 0, 64, 64, 0"), "sizes are not negative and the stride is positive, not 0"),
    (*inits("0, 0", "memref<64xbf16>"), "2D blocks are in 2D memrefs, not in memref<64xbf16>"),
    (*inits("0, 0", "memref<64x64xf16>"), "the memref holds f16, the blocks bf16"),
    (*inits("0, 0", "memref<64x64xbf16>", COLUMNS), "a memref is row-major, so are its tiles"),
    (*inits("0, 0, 64, 64, 64", tile="i32"), "expected a !xetile.tile, not i32"),
    (
        "i64 ; f32",
        f"%t = xetile.init_tile %v#0, %v#1, 0, 64, 64, 64 : i64, f32 -> {TILE}",
        "an offset, size, stride or count is index, i32 or i64, not f32",
    ),
    (
        *parts("!xetile.tile<8x8xf16>"),
        "a part has the elements, order and memory_scope of its tile",
    ),
    (*parts("!xetile.tile<8x8xbf16, order = [0, 1]>"), "a part has the elements, order and"),
    (*parts("!xetile.tile<24x8xbf16>"), "does not divide into parts of 24x8"),
    (*parts("!xetile.tile<8x8xbf16>", "32"), "32 subgroups cannot take 64 parts, one each"),
    (
        f"{TILE} ; i32",
        f"%p = xetile.init_coop_tile %v#0, %v#1 : {TILE}, i32 -> {TILE}",
        "takes coop_id and coop_size, not 1",
    ),
    (*loads("", "64x32xbf16"), "is vector<64x64xbf16>, not vector<64x32xbf16>"),
    (*loads("", "64x64xf16"), "is vector<64x64xbf16>, not vector<64x64xf16>"),
    (*loads("inner_blocks = [8, 16]", "8x4x16x8xbf16"), "is vector<8x4x8x16xbf16>, not"),
    (*loads("inner_blocks = [8, 16], transpose", "8x4x8x16xbf16"), "is vector<4x8x16x8xbf16>, not"),
    (*loads("inner_blocks = [8]", "64x64xbf16"), "inner_blocks is two positive numbers, not [8]"),
    (*loads("inner_blocks = [24, 16]", "64x64xbf16"), "[24, 16] do not divide !xetile.tile"),
    (*loads("L1_hint = write_back", "64x64xbf16"), "L1_hint is one of cached"),
    (*stores("32x64xbf16"), "is vector<64x64xbf16>, not vector<32x64xbf16>"),
    (*stores("64x64xbf16", "inner_blocks = [8, 16]"), "is vector<8x4x8x16xbf16>, not"),
    (*stores("64x64xbf16", "inner_blocks = [0, 16]"), "inner_blocks is two positive numbers"),
    (*stores("64x64xbf16", "transpose"), "xetile.store_tile has no transpose"),
    (*stores("64x64xbf16", "packed"), "xetile.store_tile has no packed"),
    (*stores("64x64xbf16", "L1_hint = cached"), "L1_hint is one of uncached, write_through"),
    (LOCAL, f"xetile.prefetch_tile %v#0 : {LOCAL}", "only global memory is cached"),
    (TILE, f"xetile.prefetch_tile %v#0 {{L3_hint = write_back}} : {TILE}", "L3_hint is one of"),
    (
        *multiplies("8x16xf16", "16x16xf16", "8x16xf16", "8x16xf32"),
        "C and the result have the same",
    ),
    (*multiplies("8x16xf16", "8x16xf16", "8x16xf32"), "shapes must be MxK, KxN and MxN"),
    (
        *multiplies("8x4x8x8xf16", "4x8x16x8xf16", "8x8x8x8xf32"),
        "shapes must be MxK, KxN and MxN, both outer and inner",
    ),
    (*multiplies("8x4x8x8xf16", "32x128xf16", "64x128xf32"), "are all 2D or all 4D"),
    (*multiplies("128xf16", "128xf16", "128xf32"), "is a 2D vector, or 4D with inner blocks"),
    (*multiplies("8x16xf16", "16x16xf16", "8x16xi32"), "all hold floats or all integers"),
    (*multiplies("8x16xf32", "16x16xf32", "8x16xf16"), "at least as wide as those of A and B"),
    (
        TILE,
        f"%t = xetile.update_tile_offset %v#0, 8 : {TILE} -> {TILE}",
        "a tile moves by 2 offsets, not 1",
    ),
    (
        TILE,
        f"%t = xetile.update_tile_offset %v#0, 8, 0 : {TILE} -> {COLUMNS}",
        "moving keeps the type of the tile",
    ),
    (
        TILE,
        f'%t = "xetile.update_tile_offset"(%v#0) <{{static_offsets = array<i64: 0,'
        f" -9223372036854775808>}}> : ({TILE}) -> {TILE}",
        "the static arrays leave 1 entries to values, but there are 0",
    ),
]


@pytest.mark.parametrize(("types", "op", "message"), CASES)
def test_tile_op_is_refused(types: str, op: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as error:
        verify(types, op)
    assert message in str(error.value)


@pytest.mark.parametrize(("types", "message"), [
    (("32x64xf8E5M2", "32x48xf8E5M2", "32x48xf32", "32x2xi8", "48x2xi8"), "MxK, KxN and MxN"),
    (("32x64xi8", "64x48xf8E5M2", "32x48xf32", "32x4xi8", "48x4xi8"), "of one width"),
    (("32x64xf8E5M2", "64x48xf8E5M2", "32x48xf32", "32x4xi8", "48x2xi8"), "32x2 of them"),
    (("32x64xi8", "64x48xi8", "32x48xf32", "32x4xi8", "48x4xf8E4M3FN"), "scales are i8"),
])
def test_scaled_product_is_refused(types: tuple[str, ...], message: str) -> None:
    operands = [f"vector<{shape}>" for shape in types]
    names = ", ".join(f"%v#{i}" for i in range(len(operands)))
    op = f"%r = xetile.tile_mma_mx {names} : {', '.join(operands)} -> {operands[2]}"
    with pytest.raises(VerifyException, match=message):
        verify(" ; ".join(operands), op)
