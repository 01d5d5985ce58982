"""Pass convert-to-xetile: block loads, block stores and dots become operations on subgroup tiles.

    xe.cursor / xe.advance / xe.block_load / xe.block_store  ->  xetile.init_tile at the subgroup's
                                   part / update_tile_offset / load_tile / store_tile
    tt.dot %a, %b, %c  ->  from_tile(xetile.tile_mma(to_tile %a, to_tile %b, to_tile %c))

Loads that move in a loop are also prefetched, `num_stages - 1` iterations ahead, each subgroup
its share of the work-group's tile.  Loop-carried accumulators are carried as tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import arith_ext
from triton_xe.dialects.xe import AdvanceOp, FromTileOp, ToTileOp, WarpIdOp
from triton_xe.dialects.xetile.memory import LoadTileOp, PrefetchTileOp, StoreTileOp
from triton_xe.dialects.xetile.mma import TileMmaOp
from triton_xe.dialects.xetile.tiles import InitCoopTileOp, InitTileOp, UpdateTileOffsetOp
from triton_xe.dialects.xetile.types import TileType, tile_type
from triton_xe.hardware.target import Target
from triton_xe.layout import LinearLayout, to_linear_layout
from triton_xe.lowering.module_facts import module_warps
from triton_xe.lowering.rewriting import (
    Scalars,
    erase_dead,
    extend_for,
    functions,
    placed,
    yield_more,
)
from triton_xe.lowering.surfaces.affine import attribute
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.plan import Refusal
from triton_xe.plan.prefetch import plan_prefetch

BASE_ALIGNMENT = "xe.base_alignment"
"""Attribute of a tile or descriptor: what is known of its base address, in bytes."""


@dataclass(frozen=True)
class ConvertToXeTilePass(TargetedPass):
    """Accesses to surfaces and dots -> tiles of one warp; prefetches `num_stages - 1` ahead."""

    name: ClassVar = "convert-to-xetile"
    num_stages: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        for function in functions(op):
            _Conversion(function, target, module_warps(op), self.num_stages).run()
            erase_dead(function)


def layout_of(kind: Attribute) -> LinearLayout:
    """The linear layout of a tensor type."""
    assert isinstance(kind, TensorType)
    return to_linear_layout(kind.encoding.encoding, tuple(kind.get_shape()))  # type: ignore[attr-defined]


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
    return VectorType(kind.element_type, subgroup_shape(kind))


class _Conversion:
    def __init__(
        self, function: Operation, target: Target, num_warps: int, num_stages: int
    ) -> None:
        self.function = function
        self.target = target
        self.num_warps = num_warps
        self.num_stages = num_stages
        first = function.regions[0].blocks[0].first_op
        assert first is not None
        self.top = Scalars(InsertPoint.before(first))
        self._warp: SSAValue | None = None
        self._parts: dict[tuple[int, ...], SSAValue | None] = {}

    def run(self) -> None:
        for cursor in self._all("xe.cursor"):
            separate(cursor)
        for cursor in self._all("xe.cursor"):
            self._cursor(cursor)
        for dot in self._all("tt.dot"):
            kind = dot.results[0].type
            assert isinstance(kind, TensorType)
            if kind.encoding.name == "xe.dpas" and len(kind.get_shape()) == 2:
                self._dot(dot)
        for view in self._all("xe.to_tile"):
            if isinstance(view.operands[0], BlockArgument):
                self._carry_tile(view.operands[0], view.results[0].type)
        for view in self._all("xe.to_tile"):
            fold_to_tile(view)

    def _all(self, name: str) -> list[Operation]:
        return [op for op in self.function.walk() if op.name == name]

    # -- where a subgroup's part begins --------------------------------------------------------

    def warp(self) -> SSAValue:
        if self._warp is None:
            self._warp = self.top.insert(WarpIdOp())
        return self._warp

    def part(self, bases: Sequence[int]) -> SSAValue | None:
        """The xor of bases over the bits of the warp number, as i32; None for always 0."""
        key = tuple(bases)
        if key not in self._parts:
            self._parts[key] = self._part(key)
        return self._parts[key]

    def _part(self, bases: tuple[int, ...]) -> SSAValue | None:
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

    def _cursor(self, cursor: Operation) -> None:
        """A cursor has one load or store, either at once or in the loop that carries it."""
        (use,) = list(cursor.results[0].uses)
        user = use.operation
        if user.name == "scf.for":
            self._carried_cursor(cursor, user, use.index - 3)
            return
        access = user
        tile_value = self._init_tile(cursor, access)
        if access.name == "xe.block_store":
            self._store(access, tile_value)
        else:
            self._load(access, tile_value)
        Rewriter.erase_op(cursor)

    def _init_tile(self, cursor: Operation, access: Operation) -> SSAValue:
        transposed, kind = _access_type(access)
        rows, columns = _memory_order(subgroup_shape(kind), transposed)
        bases = layout_of(kind).bases["warp"]
        y_dim, x_dim = _memory_order((0, 1), transposed)
        base, height, width, pitch, y, x = cursor.operands
        at = [
            self._moved(start, [b[dim] for b in bases], cursor)
            for start, dim in ((y, y_dim), (x, x_dim))
        ]
        made = tile_type(rows, columns, kind.element_type)
        return self._new_tile(cursor, base, at, (height, width), pitch, made)

    def _new_tile(
        self, cursor: Operation, base: SSAValue, at: Sequence[SSAValue],
        sizes: tuple[SSAValue, SSAValue], pitch: SSAValue, made: TileType,
    ) -> SSAValue:
        op = InitTileOp(base=base, offsets=at, sizes=sizes, stride=pitch, tile_type=made)
        alignment = attribute(cursor, "base_alignment")
        op.attributes[BASE_ALIGNMENT] = IntegerAttr(alignment.value.data, i32)
        Rewriter.insert_op(op, InsertPoint.before(cursor))
        return op.results[0]

    def _moved(self, start: SSAValue, bases: list[int], before: Operation) -> SSAValue:
        part = self.part(bases)
        if part is None:
            return start
        op = arith.AddiOp(start, part)
        Rewriter.insert_op(op, InsertPoint.before(before))
        return op.results[0]

    def _carried_cursor(self, cursor: Operation, loop: Operation, index: int) -> None:
        body = loop.regions[0].block
        arg = body.args[index + 1]
        load = next(u.operation for u in arg.uses if u.operation.name == "xe.block_load")
        advance = next(u.operation for u in arg.uses if u.operation.name == "xe.advance")
        start = self._init_tile(cursor, load)
        steps = list(advance.operands[1:])
        self._prefetch(cursor, load, loop, steps)
        loop = self._find_loop(body)
        loop.operands[index + 3] = start
        new_arg = Rewriter.replace_value_with_new_type(body.args[index + 1], start.type)
        Rewriter.replace_value_with_new_type(loop.results[index], start.type)
        self._load(load, new_arg)
        Rewriter.replace_op(advance, UpdateTileOffsetOp(tile=new_arg, offsets=steps))
        Rewriter.erase_op(cursor)

    def _find_loop(self, body: Any) -> Operation:
        loop = body.parent_op()
        assert isinstance(loop, Operation)
        return loop

    def _load(self, load: Operation, tile_value: SSAValue) -> None:
        kind = load.results[0].type
        transposed = load.properties.get("transposed") is not None
        op = LoadTileOp(tile=tile_value, transpose=transposed, value_type=tile_vector(kind))
        placed(load, op)
        Rewriter.replace_op(load, [op, FromTileOp(op.results[0], kind)])

    def _store(self, store: Operation, tile_value: SSAValue) -> None:
        view = ToTileOp(store.operands[0], tile_vector(store.operands[0].type))
        op = StoreTileOp(value=view.results[0], tile=tile_value)
        placed(store, view, op)
        first = self._first_copy(store.operands[0].type)
        if first is None:
            Rewriter.replace_op(store, [view, op], [])
            return
        once = scf.IfOp(first, [], [op, scf.YieldOp()])
        placed(store, once)
        Rewriter.replace_op(store, [view, once], [])

    def _first_copy(self, kind: Attribute) -> SSAValue | None:
        """Whether this subgroup is the first that owns its part; None where no two own the same."""
        bases = layout_of(kind).bases["warp"]
        copies = sum(1 << k for k, base in enumerate(bases) if not any(base))
        if not copies:
            return None
        mine = self.top.insert(arith.AndIOp(self.warp(), self.top.constant(copies, i32)))
        return self.top.insert(arith_ext.CmpiOp(mine, self.top.constant(0, i32), "eq"))

    # -- prefetching -----------------------------------------------------------------------------

    def _prefetch(
        self, cursor: Operation, load: Operation, loop: Operation, steps: list[SSAValue]
    ) -> None:
        """Bring the tile of `num_stages - 1` iterations later into the cache."""
        ahead = self.num_stages - 1
        if ahead < 1:
            return
        transposed, kind = _access_type(load)
        shape = kind.get_shape()
        rows, columns = _memory_order((shape[0], shape[1]), transposed)
        bits = _bits_of(kind)
        plan = plan_prefetch(rows, columns, bits, self.num_warps, self.target)
        if isinstance(plan, Refusal) or len(plan.messages) != 1:
            return
        base, height, width, pitch, y, x = cursor.operands
        whole = self._new_tile(
            cursor, base, (y, x), (height, width), pitch,
            tile_type(rows, columns, kind.element_type),
        )
        part_type = tile_type(plan.shape.height, plan.shape.width, kind.element_type)
        part = InitCoopTileOp(
            tile=whole, coop_id=self.warp(), coop_size=self.num_warps, part_type=part_type
        )
        Rewriter.insert_op(part, InsertPoint.before(loop))
        at = part.results[0]
        for _ in range(ahead):
            moved = UpdateTileOffsetOp(tile=at, offsets=steps)
            prefetch = PrefetchTileOp(tile=at)
            placed(load, moved, prefetch)
            Rewriter.insert_op([prefetch, moved], InsertPoint.before(loop))
            at = moved.results[0]
        new_loop, (arg,) = extend_for(loop, [at])
        end = new_loop.regions[0].block.last_op
        assert end is not None
        moved = UpdateTileOffsetOp(tile=arg, offsets=steps)
        prefetch = PrefetchTileOp(tile=arg)
        placed(load, part, moved, prefetch)
        Rewriter.insert_op([prefetch, moved], InsertPoint.before(end))
        yield_more(new_loop, [moved.results[0]])

    # -- dots ------------------------------------------------------------------------------------

    def _dot(self, dot: Operation) -> None:
        views = [ToTileOp(v, tile_vector(v.type)) for v in dot.operands[:3]]
        a, b, acc = (v.results[0] for v in views)
        made = TileMmaOp(a=a, b=b, acc=acc)
        placed(dot, *views, made)
        Rewriter.replace_op(dot, [*views, made, FromTileOp(made.results[0], dot.results[0].type)])

    def _carry_tile(self, value: BlockArgument, kind: Attribute) -> None:
        """Carry a tile instead of a tensor through a loop that only uses it as a tile."""
        loop = value.block.parent_op()
        if loop is None or loop.name != "scf.for" or value.index == 0:
            return
        if any(use.operation.name != "xe.to_tile" for use in value.uses):
            return
        last = loop.regions[0].block.last_op
        assert last is not None
        back = last.operands[value.index - 1].owner
        if not isinstance(back, Operation) or back.name != "xe.from_tile":
            return
        at = 2 + value.index
        view = ToTileOp(loop.operands[at], kind)
        Rewriter.insert_op(view, InsertPoint.before(loop))
        loop.operands[at] = view.results[0]
        last.operands[value.index - 1] = back.operands[0]
        old, index = value.type, value.index
        users = [use.operation for use in value.uses]
        new = Rewriter.replace_value_with_new_type(value, kind)
        for user in users:
            user.results[0].replace_all_uses_with(new)
            Rewriter.erase_op(user)
        result = Rewriter.replace_value_with_new_type(loop.results[index - 1], kind)
        after = FromTileOp(result, old)
        result.replace_all_uses_with(after.results[0])
        after.operands[0] = result
        Rewriter.insert_op(after, InsertPoint.after(loop))


def separate(cursor: Operation) -> None:
    """Give each load its own cursor: loads of one place in two layouts want different tiles."""
    uses = list(cursor.results[0].uses)
    loop = uses[0].operation
    if loop.name != "scf.for":
        for use in uses[1:]:
            copy = cursor.clone()
            Rewriter.insert_op(copy, InsertPoint.after(cursor))
            use.operation.operands[use.index] = copy.results[0]
        return
    arg = loop.regions[0].block.args[uses[0].index - 2]
    loads = [u.operation for u in arg.uses if u.operation.name == "xe.block_load"]
    advance = next(u.operation for u in arg.uses if u.operation.name == "xe.advance")
    for load in loads[1:]:
        copy = cursor.clone()
        Rewriter.insert_op(copy, InsertPoint.after(cursor))
        loop, (added,) = extend_for(loop, copy.results)
        load.operands[0] = added
        moved = AdvanceOp(added, *advance.operands[1:])
        Rewriter.insert_op(moved, InsertPoint.after(advance))
        yield_more(loop, moved.results)


def fold_to_tile(view: Operation) -> None:
    """to_tile(from_tile x) -> x ; to_tile(0) -> vector of 0."""
    if view.parent is None:
        return
    op = view.operands[0].owner
    if not isinstance(op, Operation):
        return
    if op.name == "xe.from_tile":
        view.results[0].replace_all_uses_with(op.operands[0])
    elif op.name == "arith.constant":
        held = attribute(op, "value")
        kind = view.results[0].type
        assert isinstance(kind, VectorType)
        if any(held.data.data):  # only zero is an accumulator that costs nothing
            return
        made = arith.ConstantOp(DenseIntOrFPElementsAttr(kind, held.data), kind)
        Rewriter.insert_op(made, InsertPoint.before(view))
        view.results[0].replace_all_uses_with(made.results[0])


def _access_type(access: Operation) -> tuple[bool, TensorType[Any]]:
    if access.name == "xe.block_store":
        kind = access.operands[0].type
        transposed = False
    else:
        kind = access.results[0].type
        transposed = access.properties.get("transposed") is not None
    assert isinstance(kind, TensorType)
    return transposed, kind


def _memory_order(pair: tuple[int, int], transposed: bool) -> tuple[int, int]:
    """(row-wise, column-wise) in memory of what is given for tensor dimensions 0 and 1."""
    return (pair[1], pair[0]) if transposed else pair


def _bits_of(kind: TensorType[Any]) -> int:
    from triton_xe.lowering.emit.types import bits_of, scalar_type

    return bits_of(scalar_type(kind))
