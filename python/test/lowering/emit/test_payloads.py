"""Which descriptors become address payloads."""

import pytest
from xdsl.ir import Operation

from benchmarks.loops import compiled
from python.test.operations import instructions
from triton_xe.dialects.xegpu.nd import CreateNdTdescOp, UpdateNdOffsetOp
from triton_xe.hardware.block_2d import BlockShape
from triton_xe.hardware.target import target
from triton_xe.lowering.emit.xegpu.payloads import is_stored_soon, payload_shape, step_before
from triton_xe.lowering.import_ttgir import import_ttgir

DESC = "!xegpu.tensor_desc<8x16xf32>"
HEAD = f"""
func.func @k(%a: memref<64x64xf32>, %n: index, %v: vector<8x16xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf32> -> {DESC}
"""
LOAD = f": {DESC} -> vector<8x16xf32>"
MOVE = f": {DESC} -> {DESC}"
STORE = f": vector<8x16xf32>, {DESC}"


def created(body: str) -> Operation:
    module = import_ttgir(HEAD + body + "func.return }")
    (op,) = (op for op in module.walk() if isinstance(op, CreateNdTdescOp))
    return op


def loop(*body: str) -> str:
    lines = "\n".join(body)
    return f"""%e = scf.for %i = %c0 to %n step %c1 iter_args(%at = %t) -> ({DESC}) {{
      {lines}
      scf.yield %m : {DESC}
    }}
    """


TWO = (f"%x = xegpu.load_nd %at {LOAD}", f"%u = xegpu.update_nd_offset %at, 8, 0 {MOVE}",
       f"%y = xegpu.load_nd %u {LOAD}")
THREE = (*TWO, f"%w = xegpu.update_nd_offset %at, 16, 0 {MOVE}",
         f"%z = xegpu.load_nd %w {LOAD}")
MOVED = f"%m = xegpu.update_nd_offset %at, 0, 16 {MOVE}"
SHAPE = BlockShape(32, 16, 8)


def shape(body: str, device: str = "bmg") -> BlockShape | None:
    return payload_shape(created(body), target(device), lambda value: True)


@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_several_stores_share_one(device):
    body = f"""xegpu.store_nd %v, %t {STORE}
    %u = xegpu.update_nd_offset %t, 8, 0 {MOVE}
    xegpu.store_nd %v, %u {STORE}
    """
    assert shape(body, device) == SHAPE
    assert shape(body.replace("%t, 8,", "%t, 512,"), device) is None


def test_one_message_makes_its_own():
    assert shape(f"xegpu.store_nd %v, %t {STORE}\n") is None


@pytest.mark.parametrize("messages", [TWO[:1], TWO, THREE])
def test_a_loop_moves_one_where_messages_have_offsets(messages):
    assert shape(loop(*messages, MOVED)) == SHAPE
    assert shape(loop(*messages, MOVED), "pvc") is None


def test_no_message_may_see_it_moved():
    assert shape(loop(*THREE[:-1], MOVED, THREE[-1])) is None
    assert shape(loop(*THREE, MOVED) + f"%o = xegpu.load_nd %e {LOAD}\n") is None
    assert shape(loop(*THREE, MOVED) + f"%o = xegpu.load_nd %t {LOAD}\n") is None


def test_messages_of_two_shapes_do_not_share():
    store, load = f"xegpu.store_nd %v, %t {STORE}\n", f"%x = xegpu.load_nd %t {LOAD}\n"
    assert shape(store + load) == SHAPE
    other = load.replace("%t :", "%t {transpose = [1, 0]} :").replace("8x16xf32>\n", "16x8xf32>\n")
    assert shape(store + other) is None


def steps_before(body: str, device: str) -> list[tuple[int, int] | None]:
    """What moves between prefetches leave to the offsets of messages, one by one."""
    desc = created(body)
    assert desc.parent is not None
    moves = [op for op in desc.parent.ops if isinstance(op, UpdateNdOffsetOp)]
    return [step_before(op, target(device)) for op in moves]


def test_prefetches_before_a_loop_need_one_move():
    ask = f": {DESC}"
    body = f"""xegpu.prefetch_nd %t {ask}
    %u = xegpu.update_nd_offset %t, 0, 16 {MOVE}
    xegpu.prefetch_nd %u {ask}
    %w = xegpu.update_nd_offset %u, 0, 16 {MOVE}
    """
    rest = loop(f"xegpu.prefetch_nd %at {ask}", MOVED).replace("= %t)", "= %w)")
    assert steps_before(body + rest, "bmg") == [(0, 16), None]
    assert steps_before(body + rest, "pvc") == [None, None]


def test_copies_of_a_payload_live_from_there_to_the_stores():
    move = f"%u = xegpu.update_nd_offset %t, 8, 0 {MOVE}\n"
    store = f"xegpu.store_nd %v, %u {STORE}\n"
    between = "scf.for %i = %c0 to %n step %c1 {\n}\n"
    assert is_stored_soon(created(move + store))
    assert not is_stored_soon(created(between + move + store))
    assert not is_stored_soon(created(move + store + f"%x = xegpu.load_nd %t {LOAD}\n"))


@pytest.mark.parametrize(("row", "block", "messages"), [
    ("gemm ABt", "loop", 8), ("grouped", "loop.1", 16)])
def test_a_loop_moves_copies_before_its_messages_without_offsets(row, block, messages):
    """The copies begin one iteration early; a loop neither creates nor copies a payload."""
    text = compiled(row, "pvc").asm["llir"]
    names = instructions(text, block)
    first = names.index("GenISA.LSC2DBlockReadAddrPayload")
    assert names[:first].count("GenISA.LSC2DBlockSetAddrPayloadField") == messages
    assert names.count("GenISA.LSC2DBlockReadAddrPayload") == messages
    assert "GenISA.LSC2DBlockCopyAddrPayload" not in names
    assert instructions(text).count("GenISA.LSC2DBlockCopyAddrPayload") >= messages - 1
