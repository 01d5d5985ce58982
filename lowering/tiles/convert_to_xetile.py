"""Pass convert-to-xetile: lower block loads, block stores and dots to operations on subgroup tiles.

    xe.cursor / xe.advance / xe.block_load / xe.block_store  ->  xetile.init_tile at the subgroup's
                                   part / update_tile_offset / load_tile / store_tile
    tt.dot %a, %b, %c  ->  from_tile(xetile.tile_mma(to_tile %a, to_tile %b, to_tile %c))

Loads that move in a loop are also prefetched, `num_stages - 1` iterations ahead; each subgroup
prefetches a part of the work-group's tile.  With `line_prefetches` the tile of that operand has
`xe.gather`, so that each lane prefetches a cache line.  Loop-carried accumulators are carried as
tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    UnitAttr,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects import xe, xetile
from triton_xe.dialects.arith_ext import CmpiOp
from triton_xe.dialects.layouts import DpasAttr, encoding_of
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.layout import DotOperandEncoding, DpasEncoding
from triton_xe.lowering.layouts.rematerialize import layout_of
from triton_xe.lowering.module_facts import module_warps, remark
from triton_xe.lowering.rewriting import (
    Scalars,
    all_of,
    erase_dead,
    extend_for,
    functions,
    locate,
    yield_more,
)
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.plan import Refusal
from triton_xe.plan.prefetch import plan_prefetch

SHORT_ROW = 8
"""Bytes below which rows are not prefetched."""


@dataclass(frozen=True)
class ConvertToXeTilePass(TargetedPass):
    """Accesses to surfaces and dots -> tiles of one warp; prefetches `num_stages - 1` ahead."""

    name: ClassVar = "convert-to-xetile"
    num_stages: int = 2
    keeps_layouts: bool = False
    line_prefetches: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        stages = 1 if self.keeps_layouts else self.num_stages  # such programs prefetch themselves
        for function in functions(op):
            _Conversion(function, target, module_warps(op), stages, self.line_prefetches).run()
            erase_dead(function)


def subgroup_shape(kind: Attribute) -> tuple[int, int]:
    """Rows and columns of the rectangle that one subgroup owns."""
    layout = layout_of(kind)
    rows = columns = 0
    for name in ("register", "lane"):
        for y, x in layout.bases[name]:
            rows |= y
            columns |= x
    return 1 << rows.bit_length(), 1 << columns.bit_length()


def tile_vector(kind: Attribute) -> VectorType[Any]:
    """The vector type of one subgroup's part of a tensor."""
    assert isinstance(kind, TensorType)
    _check_rectangle(kind)
    return VectorType(kind.element_type, subgroup_shape(kind))


def _check_rectangle(kind: TensorType[Attribute]) -> None:
    """Refuse a tensor of which a warp has several rectangles, which are no single tile."""
    encoding = encoding_of(kind)
    operand = encoding if isinstance(encoding, DotOperandEncoding) else None
    parent = operand.parent if operand else encoding
    if not isinstance(parent, DpasEncoding):
        return
    repeated = [size > most for size, most in zip(kind.get_shape()[-2:], parent.block, strict=True)]
    if operand:
        repeated[1 - operand.op_idx] = False
    if any(repeated):
        raise UnsupportedError(
            f"a tensor of {'x'.join(map(str, kind.get_shape()))} elements in {encoding}, where a "
            "warp holds several rectangles; let repCluster cover a warp's part of it"
        )


class _Conversion:
    """Converts one function."""

    def __init__(
        self, function: Operation, target: Target, num_warps: int, num_stages: int,
        line_prefetches: str,
    ) -> None:
        self.function = function
        self.target = target
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.line_prefetches = line_prefetches
        first = function.regions[0].blocks[0].first_op
        assert first is not None
        self.top = Scalars(InsertPoint.before(first))
        self._warp: SSAValue | None = None
        self._parts: dict[tuple[int, ...], SSAValue | None] = {}
        self._prefetched: set[tuple[object, ...]] = set()

    def run(self) -> None:
        """Convert cursors, then dots; carry tiles instead of tensors through loops."""
        for cursor in all_of(self.function, xe.CursorOp):
            if cursor.cursor.first_use is None:
                Rewriter.erase_op(cursor)
            else:
                separate(cursor)
        for cursor in all_of(self.function, xe.CursorOp):
            self._cursor(cursor)
        for dot in all_of(self.function, DotOp):
            kind = dot.d.type
            assert isinstance(kind, TensorType)
            if isinstance(kind.encoding, DpasAttr) and len(kind.get_shape()) == 2:
                self._dot(dot)
        for scaled in all_of(self.function, xe.ScaledDotOp):
            self._scaled_dot(scaled)
        for loop in all_of(self.function, scf.ForOp):
            view_sums(loop)
        for view in all_of(self.function, xe.ToTileOp):
            if isinstance(view.tensor, BlockArgument):
                self._carry_tile(view.tensor, view.tile.type)
        for view in all_of(self.function, xe.ToTileOp):
            fold_to_tile(view)

    # -- start of a subgroup's part ------------------------------------------------------------

    def warp(self) -> SSAValue:
        if self._warp is None:
            self._warp = self.top.insert(xe.WarpIdOp(id_type=i32))
        return self._warp

    def part(self, bases: Sequence[int]) -> SSAValue | None:
        """Emit the xor of the bases of the warp number's set bits, as i32; None if always 0."""
        key = tuple(bases)
        if key not in self._parts:
            self._parts[key] = self._part(key)
        return self._parts[key]

    def _part(self, bases: tuple[int, ...]) -> SSAValue | None:
        """Emit the sum of the warp number's bits times their bases.

        Consecutive bits whose bases double are one term.
        """
        total: SSAValue | None = None
        bit = 0
        while bit < len(bases):
            if not bases[bit]:
                bit += 1
                continue
            count = 1
            while bit + count < len(bases) and bases[bit + count] == bases[bit] << count:
                count += 1
            piece = self._bits(bit, count, len(bases), bases[bit])
            total = piece if total is None else self.top.insert(arith.AddiOp(total, piece))
            bit += count
        return total

    def _bits(self, first: int, count: int, known: int, scale: int) -> SSAValue:
        """Emit `count` bits of the warp number (of `known` bits) from `first` on, times `scale`."""
        value = self.warp()
        if first:
            value = self.top.insert(arith.ShRUIOp(value, self.top.constant(first, i32)))
        if first + count < known:
            mask = self.top.constant((1 << count) - 1, i32)
            value = self.top.insert(arith.AndIOp(value, mask))
        if scale == 1:
            return value
        return self.top.insert(arith.MuliOp(value, self.top.constant(scale, i32)))

    # -- cursors ---------------------------------------------------------------------------------

    def _cursor(self, cursor: xe.CursorOp) -> None:
        """Convert a cursor and the load, store or prefetch that uses it, directly or in a loop."""
        (use,) = list(cursor.cursor.uses)
        user = use.operation
        if isinstance(user, scf.ForOp):
            self._carried_cursor(cursor, user, use.index - 3)
        elif isinstance(user, xe.BlockStoreOp):
            self._store(user, self._init_tile(cursor, user))
            Rewriter.erase_op(cursor)
        elif isinstance(user, xe.BlockLoadOp) and _is_prefetch(user):
            share = self._share(cursor, user, InsertPoint.before(cursor))
            self._prefetch_at(user, share)
            Rewriter.erase_op(cursor)
        elif isinstance(user, xe.BlockLoadOp):
            self._load(user, self._init_tile(cursor, user))
            Rewriter.erase_op(cursor)

    def _init_tile(self, cursor: xe.CursorOp, access: xe.BlockLoadOp | xe.BlockStoreOp) -> SSAValue:
        """Create the tile of the subgroup's part at a cursor, with rows and columns of memory."""
        transposed, kind = _access_type(access)
        rows, columns = _memory_order(subgroup_shape(kind), transposed)
        bases = layout_of(kind).bases["warp"]
        y_dim, x_dim = _memory_order((0, 1), transposed)
        at = [
            self._moved(start, [b[dim] for b in bases], cursor)
            for start, dim in ((cursor.y, y_dim), (cursor.x, x_dim))
        ]
        return self._new_tile(cursor, at, xetile.tile_type(rows, columns, kind.element_type))

    def _new_tile(
        self, cursor: xe.CursorOp, at: Sequence[SSAValue], tile_type: xetile.TileType, *,
        gather: bool = False,
    ) -> SSAValue:
        op = xetile.InitTileOp(base=cursor.base, offsets=at, sizes=(cursor.height, cursor.width),
                               stride=cursor.pitch, tile_type=tile_type)
        op.base_alignment = cursor.base_alignment
        op.gather = UnitAttr() if gather else None
        Rewriter.insert_op(op, InsertPoint.before(cursor))
        return op.results[0]

    def _moved(self, start: SSAValue, bases: list[int], before: Operation) -> SSAValue:
        """Add the start of the subgroup's part to a coordinate of the tile."""
        part = self.part(bases)
        if part is None:
            return start
        op = arith.AddiOp(start, part)
        Rewriter.insert_op(op, InsertPoint.before(before))
        return op.results[0]

    def _carried_cursor(self, cursor: xe.CursorOp, loop: scf.ForOp, index: int) -> None:
        """Carry the tile of an access through a loop instead of its cursor, and prefetch it."""
        body = loop.body.block
        (load, *_), advance = carried_uses(body.args[index + 1])
        steps = [advance.rows, advance.columns]
        if _is_prefetch(load):
            start = self._share(cursor, load, InsertPoint.before(loop))
        else:
            start = self._init_tile(cursor, load)
            loop = self._prefetch(cursor, load, loop, steps)
        loop.operands[index + 3] = start
        new_arg = Rewriter.replace_value_with_new_type(body.args[index + 1], start.type)
        Rewriter.replace_value_with_new_type(loop.results[index], start.type)
        (self._prefetch_at if _is_prefetch(load) else self._load)(load, new_arg)
        Rewriter.replace_op(advance, xetile.UpdateTileOffsetOp(tile=new_arg, offsets=steps))
        Rewriter.erase_op(cursor)

    def _load(self, load: xe.BlockLoadOp, tile_value: SSAValue) -> None:
        kind, transposed = load.value.type, load.transposed is not None
        op = xetile.LoadTileOp(tile=tile_value, transpose=transposed, value_type=tile_vector(kind))
        locate(load, op)
        Rewriter.replace_op(load, [op, xe.FromTileOp(tile=op.value, tensor_type=kind)])

    def _store(self, store: xe.BlockStoreOp, tile_value: SSAValue) -> None:
        """Store a tile; of several subgroups with copies, only the first stores it."""
        view = _tile_view(store.value)
        op = xetile.StoreTileOp(value=view.tile, tile=tile_value)
        locate(store, view, op)
        first = self._first_copy(store.value.type)
        if first is None:
            Rewriter.replace_op(store, [view, op], [])
            return
        once = scf.IfOp(first, [], [op, scf.YieldOp()])
        locate(store, once)
        Rewriter.replace_op(store, [view, once], [])

    def _first_copy(self, kind: Attribute) -> SSAValue | None:
        """Emit an i1, true in the first of the subgroups with equal parts; None without copies."""
        bases = layout_of(kind).bases["warp"]
        copies = sum(1 << k for k, base in enumerate(bases) if not any(base))
        if not copies:
            return None
        mine = self.top.insert(arith.AndIOp(self.warp(), self.top.constant(copies, i32)))
        return self.top.insert(CmpiOp(mine, self.top.constant(0, i32), "eq"))

    # -- prefetching -----------------------------------------------------------------------------

    def _prefetch(
        self, cursor: xe.CursorOp, load: xe.BlockLoadOp, loop: scf.ForOp, steps: list[SSAValue]
    ) -> scf.ForOp:
        """Prefetch a load's tile `num_stages - 1` iterations ahead; return the new loop.

        A tile that is loaded twice, as a matrix and its transpose, is prefetched once.  Short rows
        are not prefetched, because a cache line has those of the next iterations.
        """
        ahead = self.num_stages - 1
        transposed, kind = _access_type(load)
        rows, columns = kind.get_shape()
        memory = _memory_order((rows, columns), transposed)
        tile = (loop.body.block, *cursor.operands, *steps, memory)
        if tile in self._prefetched:
            return loop
        self._prefetched.add(tile)
        is_short = memory[1] * bit_width(kind.element_type) < 8 * SHORT_ROW
        by_lines = self.line_prefetches != "" and _operand_name(kind) == self.line_prefetches
        part = None if ahead < 1 or is_short else self._prefetched_part(
            cursor, load, InsertPoint.before(loop), by_lines=by_lines)
        if part is None:
            return loop
        if by_lines:
            remark(load, "each lane prefetches a cache line, instead of a 2D message")
        at: SSAValue = part.part
        for _ in range(ahead):
            moved = xetile.UpdateTileOffsetOp(tile=at, offsets=steps)
            prefetch = xetile.PrefetchTileOp(tile=at)
            locate(load, moved, prefetch)
            Rewriter.insert_op([prefetch, moved], InsertPoint.before(loop))
            at = moved.moved
        new_loop, (arg,) = extend_for(loop, [at])
        end = new_loop.body.block.last_op
        assert end is not None
        moved = xetile.UpdateTileOffsetOp(tile=arg, offsets=steps)
        prefetch = xetile.PrefetchTileOp(tile=arg)
        locate(load, part, moved, prefetch)
        Rewriter.insert_op([prefetch, moved], InsertPoint.before(end))
        yield_more(new_loop, [moved.moved])
        return new_loop

    def _prefetched_part(
        self, cursor: xe.CursorOp, load: xe.BlockLoadOp, at: InsertPoint, *, by_lines: bool = False
    ) -> xetile.InitCoopTileOp | None:
        """Create the part of a tile that this warp prefetches by one message; None if it cannot.

        With `by_lines` the part has the same shape, and lanes prefetch its cache lines.
        """
        transposed, kind = _access_type(load)
        shape = kind.get_shape()
        rows, columns = _memory_order((shape[0], shape[1]), transposed)
        bits = bit_width(kind.element_type)
        plan = plan_prefetch(rows, columns, bits, self.num_warps, self.target)
        if isinstance(plan, Refusal) or len(plan.messages) != 1:
            return None
        whole = self._new_tile(
            cursor, (cursor.y, cursor.x), xetile.tile_type(rows, columns, kind.element_type),
            gather=by_lines,
        )
        part_type = xetile.tile_type(plan.shape.height, plan.shape.width, kind.element_type)
        part = xetile.InitCoopTileOp(
            tile=whole, coop_id=self.warp(), coop_size=self.num_warps, part_type=part_type
        )
        Rewriter.insert_op(part, at)
        return part

    def _share(self, cursor: xe.CursorOp, load: xe.BlockLoadOp, at: InsertPoint) -> SSAValue:
        """`_prefetched_part` for a prefetch that the program requests."""
        part = self._prefetched_part(cursor, load, at)
        if part is None:
            raise UnsupportedError(
                f"a prefetch of {'x'.join(map(str, load.value.type.get_shape()))} elements is not "
                f"one message for each of {self.num_warps} warps; prefetch it in parts"
            )
        locate(load, part)
        return part.part

    def _prefetch_at(self, load: xe.BlockLoadOp, tile: SSAValue) -> None:
        """Replace a load whose value is unused by a prefetch message."""
        for use in list(load.value.uses):
            Rewriter.erase_op(use.operation)
        prefetch = xetile.PrefetchTileOp(tile=tile)
        locate(load, prefetch)
        Rewriter.insert_op(prefetch, InsertPoint.before(load))
        Rewriter.erase_op(load)

    # -- dots ------------------------------------------------------------------------------------

    def _dot(self, dot: DotOp) -> None:
        views = [_tile_view(v) for v in (dot.a, dot.b, dot.c)]
        a, b, acc = (v.tile for v in views)
        made = xetile.TileMmaOp(a=a, b=b, acc=acc)
        locate(dot, *views, made)
        back = xe.FromTileOp(tile=made.result, tensor_type=dot.d.type)
        Rewriter.replace_op(dot, [*views, made, back])

    def _scaled_dot(self, dot: xe.ScaledDotOp) -> None:
        views = [_tile_view(v) for v in dot.operands]
        made = xetile.TileMmaMxOp(**dict(zip(
            ("a", "b", "acc", "scale_a", "scale_b"), (v.tile for v in views), strict=True)),
            result_type=views[2].tile.type)
        locate(dot, *views, made)
        back = xe.FromTileOp(tile=made.result, tensor_type=dot.d.type)
        Rewriter.replace_op(dot, [*views, made, back])

    def _carry_tile(self, value: BlockArgument, kind: Attribute) -> None:
        """Carry a tile instead of a tensor through a loop that only uses it as a tile."""
        loop = value.block.parent_op()
        if not isinstance(loop, scf.ForOp) or value.index == 0:
            return
        if not all(isinstance(use.operation, xe.ToTileOp) for use in value.uses):
            return
        last = loop.body.block.last_op
        assert last is not None
        back = last.operands[value.index - 1].owner
        if not isinstance(back, xe.FromTileOp):
            return
        at = 2 + value.index
        view = xe.ToTileOp(tensor=loop.operands[at], tile_type=kind)
        Rewriter.insert_op(view, InsertPoint.before(loop))
        loop.operands[at] = view.tile
        last.operands[value.index - 1] = back.tile
        old, index = value.type, value.index
        users = [use.operation for use in value.uses]
        new = Rewriter.replace_value_with_new_type(value, kind)
        for user in users:
            user.results[0].replace_all_uses_with(new)
            Rewriter.erase_op(user)
        result = Rewriter.replace_value_with_new_type(loop.results[index - 1], kind)
        after = xe.FromTileOp(tile=result, tensor_type=old)
        result.replace_all_uses_with(after.tensor)
        after.operands[0] = result
        Rewriter.insert_op(after, InsertPoint.after(loop))


def _operand_name(kind: TensorType[Any]) -> str:
    """The operand of a product, "a" or "b", that a tensor's layout is for; empty if for none."""
    encoding = encoding_of(kind)
    return "ab"[encoding.op_idx] if isinstance(encoding, DotOperandEncoding) else ""


def _is_prefetch(load: xe.BlockLoadOp) -> bool:
    """True if a load's value is only needed in the cache."""
    return any(isinstance(use.operation, xe.PrefetchedOp) for use in load.value.uses)


def carried_uses(cursor: SSAValue) -> tuple[list[xe.BlockLoadOp], xe.AdvanceOp]:
    """The loads through a cursor that a loop carries, and the move to its next iteration."""
    users = [use.operation for use in cursor.uses]
    (advance,) = (user for user in users if isinstance(user, xe.AdvanceOp))
    return [user for user in users if isinstance(user, xe.BlockLoadOp)], advance


def separate(cursor: xe.CursorOp) -> None:
    """Give each load its own cursor, because loads in different layouts need different tiles."""
    uses = list(cursor.cursor.uses)
    loop = uses[0].operation
    if not isinstance(loop, scf.ForOp):
        for use in uses[1:]:
            copy = cursor.clone()
            Rewriter.insert_op(copy, InsertPoint.after(cursor))
            use.operation.operands[use.index] = copy.cursor
        return
    loads, advance = carried_uses(loop.body.block.args[uses[0].index - 2])
    for load in loads[1:]:
        copy = cursor.clone()
        Rewriter.insert_op(copy, InsertPoint.after(cursor))
        loop, (added,) = extend_for(loop, copy.results)
        load.operands[0] = added
        moved = xe.AdvanceOp(cursor=added, rows=advance.rows, columns=advance.columns,
                          moved_type=added.type)
        Rewriter.insert_op(moved, InsertPoint.after(advance))
        yield_more(loop, moved.results)


ON_TILES = (xe.RoundTf32Op, arith.AddfOp, arith.AddiOp, arith.MulfOp)
"""Operations on tiles: they are computed fragment by fragment, each loaded right before its use."""


def _is_of_tiles(op: Operation | Block) -> TypeGuard[Operation]:
    """True if an operation can work on tiles: its elements are words, and some are in tiles."""
    return isinstance(op, ON_TILES) and bit_width(
        get_element_type_or_self(op.results[0].type)) == 32 and any(
            isinstance(v.owner, xe.FromTileOp) or _is_of_tiles(v.owner) for v in op.operands)


def view_sums(loop: scf.ForOp) -> None:
    """Let a loop carry tiles instead of tensors that it computes from tiles.

        yield (arg + from_tile x)  ->  yield from_tile (to_tile (from_tile (to_tile arg) + ...))
    """
    body = loop.body.block
    last = body.last_op
    assert last is not None
    for index, arg in enumerate(body.args[1:]):
        back = last.operands[index]
        if not _is_of_tiles(back.owner) or not arg.has_one_use() or not back.has_one_use():
            continue
        for value in (arg, back):
            (use,) = value.uses
            view = _tile_view(value)
            tensor = xe.FromTileOp(tile=view.tile, tensor_type=value.type)
            Rewriter.insert_op((view, tensor), InsertPoint.before(use.operation))
            use.operation.operands[use.index] = tensor.tensor


def fold_to_tile(view: xe.ToTileOp) -> None:
    """Compute a tile directly, without the tensor that it is a view of.

        to_tile(from_tile x)  ->  x
        to_tile(x + y)        ->  to_tile x + to_tile y, if x and y are from_tile or such sums
        to_tile(0)            ->  vector of 0

    A sum that has other uses remains a tensor, so that it is computed once.
    """
    if view.parent is None:
        return
    op = view.tensor.owner
    if isinstance(op, xe.FromTileOp):
        view.tile.replace_all_uses_with(op.tile)
    elif _is_of_tiles(op):
        uses = [use.operation for use in view.tensor.uses]
        if not all(isinstance(use, xe.ToTileOp) for use in uses):
            return
        views = [_tile_view(value) for value in op.operands]
        on_tiles = type(op).create(
            operands=[v.tile for v in views], result_types=[view.tile.type],
            properties=dict(op.properties), attributes=dict(op.attributes))
        locate(op, on_tiles)
        Rewriter.insert_op((*views, on_tiles), InsertPoint.before(op))
        for use in uses:
            use.results[0].replace_all_uses_with(on_tiles.results[0])
            Rewriter.erase_op(use)
        Rewriter.erase_op(op)
        for inner in views:
            fold_to_tile(inner)
    elif isinstance(op, arith.ConstantOp):
        held, kind = op.value, view.tile.type
        assert isinstance(held, DenseIntOrFPElementsAttr)
        assert isinstance(kind, VectorType)
        if any(held.data.data):  # only zero is an accumulator that costs nothing
            return
        made = arith.ConstantOp(DenseIntOrFPElementsAttr(kind, held.data), kind)
        Rewriter.insert_op(made, InsertPoint.before(view))
        view.tile.replace_all_uses_with(made.result)


def _tile_view(value: SSAValue) -> xe.ToTileOp:
    return xe.ToTileOp(tensor=value, tile_type=tile_vector(value.type))


def _access_type(access: xe.BlockLoadOp | xe.BlockStoreOp) -> tuple[bool, TensorType[Any]]:
    transposed = isinstance(access, xe.BlockLoadOp) and access.transposed is not None
    assert isinstance(access.value.type, TensorType)
    return transposed, access.value.type


def _memory_order(pair: tuple[int, int], transposed: bool) -> tuple[int, int]:
    """(along the rows, along the columns) of memory, from values for tensor dimensions 0 and 1."""
    return (pair[1], pair[0]) if transposed else pair
