"""Ops built in Python: what they hold, what their accessors say, what they print."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.dialects import test as any_op
from xdsl.dialects.builtin import (
    IntegerType,
    MemRefType,
    VectorType,
    bf16,
    f16,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

from python.test.filecheck import check_text
from triton_xe.dialects import xegpu, xetile
from triton_xe.errors import LegalityError
from triton_xe.hardware.block_2d import cache_code
from triton_xe.hardware.target import target

MAPS = (
    xegpu.sg_map((1, 16), (1, 1)),
    xegpu.sg_map((1, 16), (2, 1)),
    xegpu.sg_map((1, 16), (1, 1)),
)


def value(type_: Attribute, name: str) -> SSAValue:
    result = any_op.TestOp(result_types=[type_]).results[0]
    result.name_hint = name
    return result


def show(op: Operation) -> str:
    op.verify()
    out = StringIO()
    Printer(out).print_op(op)
    return out.getvalue()


def vector(element: Attribute, *shape: int) -> VectorType[Attribute]:
    return VectorType(element, shape)


@pytest.fixture
def x() -> SSAValue:
    return value(i32, "x")


def test_create_nd_tdesc(x: SSAValue) -> None:
    base = value(i64, "base")
    type_ = xegpu.tensor_desc((32, 16), f16, array_length=2, sg_map=MAPS[0])
    op = xegpu.CreateNdTdescOp(
        base=base, offsets=(0, x), shape=(x, 64), strides=(128, 1), desc_type=type_
    )
    op.verify()
    assert (op.offsets, op.shape, op.strides) == ((0, x), (x, 64), (128, 1))
    assert op.desc_type is type_
    assert (type_.array_length, type_.rank, type_.element_bits) == (2, 2, 16)
    assert (type_.lane_map, type_.memory_scope, type_.boundary_check) == (MAPS[0], "global", True)
    assert type_.get_shape() == (32, 16)


def test_create_nd_tdesc_of_a_memref(x: SSAValue) -> None:
    base = value(MemRefType(bf16, (64, 64)), "base")
    type_ = xegpu.tensor_desc((8, 16), bf16)
    op = xegpu.CreateNdTdescOp(base=base, offsets=(x, 8), desc_type=type_)
    assert (op.offsets, op.shape, op.strides) == ((x, 8), (), ())
    op.verify()


def test_create_1d_tdesc() -> None:
    type_ = xegpu.tensor_desc((64,), f32, memory_scope="slm", boundary_check=False)
    op = xegpu.CreateNdTdescOp(base=value(i64, "base"), offsets=(8,), desc_type=type_)
    assert show(op) == (
        "%0 = xegpu.create_nd_tdesc %base, 8 : i64"
        " -> !xegpu.tensor_desc<64xf32, memory_scope = slm, boundary_check = false>"
    )


def test_load_nd() -> None:
    desc = value(xegpu.tensor_desc((16, 16), f16), "t")
    op = xegpu.LoadNdOp(desc=desc, value_type=vector(f16, 8, 16, 2), packed=True, l1_hint="cached")
    op.verify()
    assert op.packed is not None
    assert op.cache_hints == ("cached", None, None)
    turned = xegpu.LoadNdOp(
        desc=desc, value_type=vector(f16, 8, 32), transpose=True, transpose_bit_width=32
    )
    turned.verify()
    assert (turned.unit_bits, op.unit_bits) == (32, 0)
    assert turned.desc_type == desc.type


def test_store_prefetch_and_update_nd(x: SSAValue) -> None:
    desc = value(xegpu.tensor_desc((8, 16), f16), "t")
    store = xegpu.StoreNdOp(value=value(vector(f16, 8, 16), "v"), desc=desc, l3_hint="write_back")
    assert show(store) == (
        "xegpu.store_nd %v, %t {L3_hint = write_back} : vector<8x16xf16>,"
        " !xegpu.tensor_desc<8x16xf16>"
    )
    prefetch = xegpu.PrefetchNdOp(desc=desc, l1_hint="uncached", l2_hint="cached")
    prefetch.verify()
    assert prefetch.cache_hints == ("uncached", "cached", None)
    update = xegpu.UpdateNdOffsetOp(desc=desc, offsets=(0, x))
    update.verify()
    assert update.offsets == (0, x)
    assert update.moved.type == desc.type


def test_dpas() -> None:
    a, b = value(vector(f16, 8, 1), "a"), value(vector(f16, 8, 2), "b")
    c = value(vector(f32, 8, 1), "c")
    op = xegpu.DpasOp(a=a, b=b, acc=c, sg_maps=MAPS)
    op.verify()
    assert op.sg_maps == MAPS
    assert str(op.instruction) == "dpas 8x16x16 f16 x f16 -> f32"
    assert op.result.type == c.type
    zero = xegpu.DpasOp(a=a, b=b, result_type=c.type, sg_maps=MAPS)
    zero.verify()
    assert zero.acc is None
    with pytest.raises(LegalityError, match=r"xegpu.dpas without acc needs a result type"):
        xegpu.DpasOp(a=a, b=b)


def test_scattered() -> None:
    lanes = xegpu.tensor_desc((16,), f32, scattered=True)
    chunks = xegpu.tensor_desc((16, 4), f32, scattered=True, memory_scope="slm")
    assert (lanes.chunk_size_per_lane, chunks.chunk_size_per_lane) == (1, 4)
    base, offsets = value(i64, "base"), value(vector(i32, 16), "o")
    mask, values = value(vector(i1, 16), "m"), value(vector(f32, 16), "v")
    create = xegpu.CreateTdescOp(base=base, offsets=offsets, desc_type=chunks)
    create.verify()
    gather = xegpu.LoadGatherOp(desc=create.desc, mask=mask, value_type=vector(f32, 4, 16))
    check_text(show(gather), "CHECK: {transpose = [1, 0]}")
    plain = xegpu.CreateTdescOp(base=base, offsets=offsets, desc_type=lanes).desc
    one = xegpu.LoadGatherOp(desc=plain, mask=mask, value_type=vector(f32, 16), l2_hint="cached")
    one.verify()
    assert one.transpose is None
    store = xegpu.StoreScatterOp(
        value=value(vector(f32, 4, 16), "w"), desc=create.desc, mask=mask, transpose=True
    )
    store.verify()
    xegpu.PrefetchOp(desc=plain, l1_hint="streaming").verify()
    moved = xegpu.UpdateOffsetOp(desc=plain, offsets=offsets)
    moved.verify()
    assert moved.moved.type == lanes
    for kind in ("addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf", "assign"):
        op = xegpu.AtomicRmwOp(kind=kind, value=values, desc=plain, mask=mask)
        op.verify()
        assert op.old.type == values.type


@pytest.mark.parametrize(
    "kind",
    ["addi", "muli", "maxs", "maxu", "mins", "minu", "ori", "andi", "xori", "assign"],
)
def test_integer_atomics(kind: str) -> None:
    desc = value(xegpu.tensor_desc((16,), i32, scattered=True), "t")
    op = xegpu.AtomicRmwOp(
        kind=kind, value=value(vector(i32, 16), "v"), desc=desc, mask=value(vector(i1, 16), "m")
    )
    assert show(op).startswith(f'%0 = xegpu.atomic_rmw "{kind}", %v, %t, %m : ')


def test_barriers_and_fence() -> None:
    count = value(i8, "n")
    xegpu.AllocNbarrierOp(count=count).verify()
    init = xegpu.InitNbarrierOp(nbarrier_id=count, participants=count)
    init.verify()
    xegpu.NbarrierArriveOp(nbarrier=init.nbarrier).verify()
    xegpu.NbarrierWaitOp(nbarrier=init.nbarrier).verify()
    fence = xegpu.FenceOp(scope="workgroup", memory_kind="shared")
    assert show(fence) == "xegpu.fence {scope = workgroup, memory_kind = shared}"


def test_init_tile(x: SSAValue) -> None:
    base = value(IntegerType(64), "base")
    type_ = xetile.tile_type(32, 64, f16, order=(0, 1))
    op = xetile.InitTileOp(base=base, offsets=(x, 0), sizes=(100, x), stride=x, tile_type=type_)
    op.verify()
    assert (op.offsets, op.sizes, op.stride) == ((x, 0), (100, x), x)
    assert (type_.rows, type_.columns, type_.row_major, type_.scope) == (32, 64, False, "global")
    memref = value(MemRefType(f16, (64, 64)), "m")
    short = xetile.InitTileOp(base=memref, offsets=(0, 0), tile_type=xetile.tile_type(8, 8, f16))
    short.verify()
    assert (short.sizes, short.stride) == ((), None)


def test_cooperative_tile(x: SSAValue) -> None:
    tile = value(xetile.tile_type(64, 32, f16), "t")
    op = xetile.InitCoopTileOp(
        tile=tile, coop_id=x, coop_size=16, part_type=xetile.tile_type(8, 16, f16)
    )
    op.verify()
    assert (op.coop_id, op.coop_size, op.parts) == (x, 16, (8, 2))


def test_tile_accesses(x: SSAValue) -> None:
    tile = value(xetile.tile_type(64, 32, f16), "t")
    load = xetile.LoadTileOp(tile=tile, inner_blocks=(8, 16), transpose=True, l3_hint="cached")
    load.verify()
    assert load.value.type == vector(f16, 2, 8, 16, 8)
    assert (load.blocks, load.cache_hints) == ((8, 16), (None, None, "cached"))
    plain = xetile.LoadTileOp(tile=tile)
    plain.verify()
    assert (plain.value.type, plain.blocks) == (vector(f16, 64, 32), None)
    xetile.StoreTileOp(value=plain.value, tile=tile, l1_hint="streaming").verify()
    xetile.PrefetchTileOp(tile=tile, l1_hint="cached").verify()
    update = xetile.UpdateTileOffsetOp(tile=tile, offsets=(x, 32))
    update.verify()
    assert update.offsets == (x, 32)


def test_tile_mma() -> None:
    a, b = value(vector(f16, 64, 32), "a"), value(vector(f16, 32, 48), "b")
    c = value(vector(f32, 64, 48), "c")
    op = xetile.TileMmaOp(a=a, b=b, acc=c)
    op.verify()
    assert [v.get_shape() for v in op.vectors] == [(64, 32), (32, 48), (64, 48)]
    xetile.TileMmaOp(a=a, b=b, result_type=c.type).verify()
    with pytest.raises(LegalityError, match=r"xetile.tile_mma without acc needs a result type"):
        xetile.TileMmaOp(a=a, b=b)


@pytest.mark.parametrize(
    ("blocks", "transpose", "shape"),
    [
        (None, False, (64, 32)),
        (None, True, (32, 64)),
        ((8, 16), False, (8, 2, 8, 16)),
        ((8, 16), True, (2, 8, 16, 8)),
    ],
)
def test_register_shape(
    blocks: tuple[int, int] | None, transpose: bool, shape: tuple[int, ...]
) -> None:
    assert xetile.register_shape(xetile.tile_type(64, 32, f16), blocks, transpose) == shape


@pytest.mark.parametrize(
    ("hints", "policy"),
    [
        ({}, "default"),
        ({"l1_hint": "uncached"}, "uc.ca"),
        ({"l3_hint": "uncached"}, "ca.uc"),
        ({"l1_hint": "streaming", "l2_hint": "uncached"}, "st.uc"),
        ({"l1_hint": "uncached", "l2_hint": "uncached", "l3_hint": "cached"}, "uc.ca"),
        ({"l1_hint": "read_invalidate"}, "ri"),
    ],
)
def test_cache_policy_of_loads(hints: dict[str, str], policy: str) -> None:
    desc = value(xegpu.tensor_desc((8, 16), f16), "t")
    load = xegpu.LoadNdOp(desc=desc, value_type=vector(f16, 8, 16), **hints)
    assert load.cache_policy == policy
    cache_code(policy, target("bmg"))


@pytest.mark.parametrize(
    ("hints", "policy"),
    [
        ({}, "default"),
        ({"l1_hint": "uncached"}, "uc.wb"),
        ({"l1_hint": "write_through", "l3_hint": "uncached"}, "wt.uc"),
        ({"l2_hint": "write_back"}, "wb.wb"),
    ],
)
def test_cache_policy_of_stores(hints: dict[str, str], policy: str) -> None:
    desc = value(xegpu.tensor_desc((8, 16), f16), "t")
    store = xegpu.StoreNdOp(value=value(vector(f16, 8, 16), "v"), desc=desc, **hints)
    assert store.cache_policy == policy
    cache_code(policy, target("bmg"), write=True)


def test_cache_policy_that_no_target_has() -> None:
    tile = value(xetile.tile_type(8, 16, f16), "t")
    store = xetile.StoreTileOp(value=value(vector(f16, 8, 16), "v"), tile=tile, l3_hint="streaming")
    store.verify()
    with pytest.raises(LegalityError, match=r"bmg has no write cache policy 'wb.st'"):
        cache_code(store.cache_policy, target("bmg"), write=True)
