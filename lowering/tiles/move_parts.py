"""Move the split of a tile among subgroups before moves of the tile.

    init_coop_tile(update_tile_offset(t, y, x))  ->  update_tile_offset(init_coop_tile(t), y, x)
    init_coop_tile of a tile that a loop carries ->  the loop carries the part as well
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xetile
from triton_xe.lowering.facts.values import Carried, carried
from triton_xe.lowering.rewriting import all_of, extend_for, last_of, locate, yield_more


def move_parts(function: Operation) -> None:
    """Make every part one of a tile that `xetile.init_tile` creates, if possible."""
    work = all_of(function, xetile.InitCoopTileOp)
    while work:
        work += _moved(work.pop())


def _moved(op: xetile.InitCoopTileOp) -> list[xetile.InitCoopTileOp]:
    """Rewrite a part by one step; return the parts that remain to be rewritten."""
    owner = op.tile.owner
    if isinstance(owner, xetile.UpdateTileOffsetOp):
        part = _part(op, owner.tile, InsertPoint.before(op))
        moved = xetile.UpdateTileOffsetOp(tile=part.part, offsets=owner.offsets)
        _replace(op, moved)
        return [part]
    held = carried(op.tile)
    if held is None or not all(_is_outside(v, held.loop) for v in op.indices):
        return []
    return _carry(op, held)


def _carry(op: xetile.InitCoopTileOp, held: Carried) -> list[xetile.InitCoopTileOp]:
    """Carry the part of a tile next to the tile."""
    first = _part(op, held.start, InsertPoint.before(held.loop))
    loop, (part,) = extend_for(held.loop, [first.part])
    again = _part(op, held.end, InsertPoint.before(last_of(loop.body.block)))
    yield_more(loop, [again.part])
    tile = op.tile
    op.part.replace_all_uses_with(part)
    Rewriter.erase_op(op)
    return [first, *_folded(again, tile, part)]


def _folded(
    op: xetile.InitCoopTileOp, tile: SSAValue, part: SSAValue
) -> list[xetile.InitCoopTileOp]:
    """Rewrite the yielded value, a part of `tile` or of that tile moved, in terms of its `part`."""
    owner = op.tile.owner
    if op.tile is tile:
        op.part.replace_all_uses_with(part)
        Rewriter.erase_op(op)
        return []
    if not isinstance(owner, xetile.UpdateTileOffsetOp):
        return [op]
    before = _part(op, owner.tile, InsertPoint.before(op))
    _replace(op, xetile.UpdateTileOffsetOp(tile=before.part, offsets=owner.offsets))
    return _folded(before, tile, part)


def _part(
    op: xetile.InitCoopTileOp, tile: SSAValue, at: InsertPoint
) -> xetile.InitCoopTileOp:
    """Take this part of another tile."""
    made = xetile.InitCoopTileOp(
        tile=tile, coop_id=op.coop_id, coop_size=op.coop_size, part_type=op.part_type
    )
    locate(op, made)
    Rewriter.insert_op(made, at)
    return made


def _replace(op: xetile.InitCoopTileOp, update: xetile.UpdateTileOffsetOp) -> None:
    locate(op, update)
    Rewriter.replace_op(op, update)


def _is_outside(value: SSAValue, loop: Operation) -> bool:
    owner = value.owner
    inside = owner.parent_op() if isinstance(owner, Block) else owner
    while inside is not None and inside is not loop:
        inside = inside.parent_op()
    return inside is None
