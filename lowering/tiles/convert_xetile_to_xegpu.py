"""Pass convert-xetile-to-xegpu: lower tiles to instructions, according to the block-load planner.

    xetile.load_tile %t   ->  xegpu.load_nd per message, xe.fragment per operand of an instruction
    xetile.tile_mma       ->  xegpu.dpas per (k, n, m) instruction
    xetile.store_tile     ->  xegpu.store_nd per message
    xetile.prefetch_tile  ->  xegpu.prefetch_nd
    arith.addf on tiles   ->  arith.addf on each operand

A tile of registers becomes a list of fragments, each a vector of one work-item; loops carry the
fragments.  A tile in memory becomes a descriptor for each shape of message that its accesses use.
Descriptors keep the element type of the tile.  A transposing load of 16-bit elements moves pairs,
as `transpose_bit_width` says.

No message fits if the tile has `xe.gather`, the device has no messages, or K is no multiple of the
instruction's.  Then each operand is one descriptor with an sg_map, which gathers move.  `xe.valid`
on its accesses is the number of its valid rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, ClassVar, TypeVar

from xdsl.context import Context
from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    UnitAttr,
    VectorType,
    i8,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xegpu, xetile
from triton_xe.dialects.arith_ext import ExtSIOp, IndexCastOp
from triton_xe.dialects.vector_ext import ShapeCastOp
from triton_xe.dialects.xegpu.dpas import dpas_sg_map
from triton_xe.dialects.xegpu.types import bit_width, vector_type
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.dpas import MAX_REPEAT_COUNT, SCALE_GROUP
from triton_xe.lowering.module_facts import note_plans
from triton_xe.lowering.rewriting import (
    erase_dead,
    extend_for,
    functions,
    last_of,
    locate_since,
)
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.lowering.tiles.move_parts import move_parts
from triton_xe.lowering.tiles.tile_analysis import TileAnalysis
from triton_xe.lowering.tiles.tile_descriptors import (
    Kind,
    MessageKind,
    Rectangle,
    cache_hints,
    descriptor_type,
    flipped,
    gather_kind,
    in_memory,
    is_transposed,
    mark_valid,
    sink_gathers,
)
from triton_xe.lowering.tiles.tile_operands import Cut, dpas_of, places, scaled_dpas_of
from triton_xe.plan import BlockPlan


@dataclass(frozen=True)
class ConvertXeTileToXeGPUPass(TargetedPass):
    """Tiles -> instructions."""

    name: ClassVar = "convert-xetile-to-xegpu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        for function in functions(op):
            move_parts(function)
            tiles = TileAnalysis(function, target)
            _Conversion(function, tiles).run()
            note_plans(op, tiles.plans)


_Access = TypeVar("_Access", xegpu.LoadNdOp, xegpu.StoreNdOp, xegpu.PrefetchNdOp)


class _Conversion:
    """Creates the instructions before each operation on tiles, which is then dead."""

    def __init__(self, function: Operation, tiles: TileAnalysis) -> None:
        self.function = function
        self.tiles = tiles
        self.operands = tiles.operands
        self.needs = tiles.needs
        self.fragments: dict[SSAValue, list[SSAValue]] = {}
        self.descs: dict[SSAValue, dict[Kind, SSAValue]] = {}
        self.done: list[Operation] = []
        self.dead_carries: list[tuple[Operation, int, SSAValue]] = []

    def run(self) -> None:
        """Convert all operations, then erase the old ones."""
        for block in self.function.regions[0].blocks:
            self._block(block)
        for last, index, arg in self.dead_carries:
            last.operands[index] = arg
        for op in self.done:
            Rewriter.erase_op(op)
        erase_dead(self.function)
        sink_gathers(self.function)

    # -- rewriting -------------------------------------------------------------------------------

    def _block(self, block: Any) -> None:
        """Convert the operations of a block and of its regions."""
        table: dict[type[Operation], Callable[[Any], None]] = {
            scf.ForOp: self._for, xetile.InitTileOp: self._init, xetile.InitCoopTileOp: self._coop,
            xetile.UpdateTileOffsetOp: self._update, xetile.LoadTileOp: self._load,
            xetile.StoreTileOp: self._store, xetile.PrefetchTileOp: self._prefetch,
            xetile.TileMmaOp: self._mma, xetile.TileMmaMxOp: self._mma_mx,
            xe.ToTileOp: self._to_tile, xe.FromTileOp: self._from_tile,
            arith.ConstantOp: self._constant, vector.BroadcastOp: self._elementwise,
            ShapeCastOp: self._cast,
        }
        for op in list(block.ops):
            handler = table.get(type(op))
            before = op.prev_op
            if handler is None and op.results and op.results[0] in self.operands:
                handler = self._elementwise
            if handler is not None:
                handler(op)
                locate_since(before, op)
            else:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)

    def _insert(self, before: Operation, op: Operation) -> SSAValue:
        Rewriter.insert_op(op, InsertPoint.before(before))
        return op.results[0]

    def _for(self, loop: scf.ForOp) -> None:
        """Carry the parts of each tile; the loop-carried values of the tile itself become dead."""
        body, starts = loop.body.block, list(loop.iter_args)
        tiles = [i for i, v in enumerate(starts) if isinstance(v.type, xetile.TileType)]
        registers = [i for i, v in enumerate(starts) if v in self.operands]
        carried = {i: self._parts(starts[i]) for i in (*registers, *tiles)}
        first = len(loop.results)
        loop, added = extend_for(loop, [part for parts in carried.values() for part in parts])
        at = 0
        for i, parts in carried.items():
            end = at + len(parts)
            self._set_parts(body.args[1 + i], starts[i], added[at:end])
            self._set_parts(loop.results[i], starts[i], loop.results[first + at : first + end])
            at = end
        self._block(body)
        last = last_of(body)
        following = [part for i in carried for part in self._parts(last.operands[i])]
        last.operands = [*last.operands, *following]
        self.dead_carries += [(last, i, body.args[1 + i]) for i in carried]

    def _parts(self, tile: SSAValue) -> list[SSAValue]:
        """The fragments of a tile of registers, or the descriptors of one in memory."""
        if tile in self.fragments:
            return self.fragments[tile]
        return list(self.descs.get(tile, {}).values())

    def _set_parts(self, tile: SSAValue, like: SSAValue, parts: Sequence[SSAValue]) -> None:
        """Note fragments or descriptors of a tile whose form is that of another."""
        if like in self.fragments:
            self.fragments[tile] = list(parts)
            self.operands[tile] = self.operands[like]
        else:
            self.descs[tile] = dict(zip(self.descs.get(like, {}), parts, strict=True))

    # -- tiles in memory -------------------------------------------------------------------------

    def _init(self, op: xetile.InitTileOp) -> None:
        if op.tile in self.needs:
            self._describe(op, op.tile, op, op.offsets)

    def _describe(self, op: Operation, tile: SSAValue, source: Any, at: Sequence[Any]) -> None:
        """Create every descriptor that a tile's accesses need."""
        kind = tile.type
        assert isinstance(kind, xetile.TileType)
        needs = self.needs[tile]
        made: dict[Kind, SSAValue] = {}
        for wanted, moved_by in needs.kinds:
            transposed = moved_by is MessageKind.GATHER_TRANSPOSED
            desc = xegpu.CreateNdTdescOp(
                base=source.base, offsets=flipped(in_memory(kind, at), transposed),
                shape=flipped(in_memory(kind, source.sizes), transposed),
                strides=(source.stride, 1), desc_type=wanted,
            )
            desc.base_alignment = source.base_alignment
            desc.gather = None if moved_by is MessageKind.BLOCK else UnitAttr()
            desc.gather_transposed = UnitAttr() if transposed else None
            made[wanted, moved_by] = self._insert(op, desc)
        self.descs[tile] = made

    def _coop(self, op: Any) -> None:
        """Describe the part of a tile that a subgroup processes; parts are counted row by row."""
        if op.part not in self.needs:
            return
        source = op.tile.owner
        if not isinstance(source, xetile.InitTileOp):
            raise UnsupportedError(
                f"{op.name}: the tile must be one of xetile.init_tile, moved or carried by a loop"
                " that coop_id and coop_size are not made in"
            )
        whole, part = op.tile.type.get_shape(), op.part.type.get_shape()
        across, down = whole[1] // part[1], whole[0] // part[0]
        index = self._index_value(op, op.coop_id)
        parts = across * down
        coop_size = op.coop_size if isinstance(op.coop_size, int) else None
        if coop_size is None or coop_size > parts:
            index = self._arith(op, arith.RemUIOp, index, parts)
        y, x = (self._index_value(op, v, index.type) for v in source.offsets)
        row = index if across == 1 else self._arith(op, arith.DivUIOp, index, across)
        row = self._arith(op, arith.MuliOp, row, part[0])
        y = self._sum(op, y, row)
        if across > 1:
            column = self._arith(op, arith.RemUIOp, index, across)
            x = self._sum(op, x, self._arith(op, arith.MuliOp, column, part[1]))
        self._describe(op, op.part, source, (y, x))

    def _sum(self, op: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
        """Add integers, of which the narrower one is sign-extended."""
        if left.type != right.type:
            if "index" in (str(left.type), str(right.type)):
                right = self._insert(op, IndexCastOp(right, left.type))
            elif bit_width(right.type) < bit_width(left.type):
                right = self._insert(op, ExtSIOp(right, left.type))
            else:
                left = self._insert(op, ExtSIOp(left, right.type))
        return self._insert(op, arith.AddiOp(left, right))

    def _index_value(
        self, op: Operation, value: SSAValue | int, kind: Attribute = i32
    ) -> SSAValue:
        if isinstance(value, int):
            return self._insert(op, arith.ConstantOp(IntegerAttr(value, kind)))  # type: ignore[call-overload]
        return value

    def _arith(self, op: Operation, kind: Any, value: SSAValue, by: int) -> SSAValue:
        """Apply an operation to an integer and a constant, unless it would change nothing."""
        if by == 1 and kind is not arith.RemUIOp:
            return value
        return self._insert(op, kind(value, self._index_value(op, by, value.type)))

    def _update(self, op: Any) -> None:
        if op.tile not in self.descs:
            return
        offsets = in_memory(op.tile.type, op.offsets)
        self.descs[op.moved] = {
            kind: self._insert(op, xegpu.UpdateNdOffsetOp(
                desc=desc, offsets=flipped(offsets, kind[1] is MessageKind.GATHER_TRANSPOSED)))
            for kind, desc in self.descs[op.tile].items()
        }

    def _moved_desc(self, op: Operation, desc: SSAValue, x: int, y: int) -> SSAValue:
        """A descriptor that is moved by `x` and `y` elements."""
        if x == 0 and y == 0:
            return desc
        return self._insert(op, xegpu.UpdateNdOffsetOp(desc=desc, offsets=(y, x)))

    # -- loads and stores ------------------------------------------------------------------------

    def _load(self, op: xetile.LoadTileOp) -> None:
        tile, made = self.operands[op.value], dict[int, SSAValue]()
        for rectangle in self.tiles.rectangles.get(op, ()):
            self._load_rectangle(op, rectangle, made)
        for at, desc, rows, columns in () if made else self._gathers(op):
            load = xegpu.LoadNdOp(desc=desc, value_type=self._fragment_type(op.value, at))
            mark_valid(load, rows, columns)
            made[at] = self._access(op, load).value
        self.fragments[op.value] = [made[i] for i in range(tile.count)]

    def _load_rectangle(
        self, op: xetile.LoadTileOp, rectangle: Rectangle, fragments: dict[int, SSAValue]
    ) -> None:
        """Load a rectangle of a tile by its plan's messages, and add to `fragments`."""
        plan, kind = rectangle.plan, op.tile_type
        desc = self.descs[op.tile][descriptor_type(kind, plan), MessageKind.BLOCK]
        y, x = flipped(rectangle.start, is_transposed(op, kind))
        loads = [self._load_message(op, self._moved_desc(op, desc, x + m.x, y + m.y), plan)
                 for m in plan.messages]
        per = self.operands[op.value].fragment_at(rectangle.rows.first).registers
        for at, inside in self._blocks(op.value, rectangle):
            fragment = self._fragment_type(op.value, at)
            sources = plan.sources[inside * per : (inside + 1) * per]
            used = list(dict.fromkeys(s.message for s in sources))
            flat = [x for s in sources for x in (used.index(s.message), s.element, s.sub)]
            fragments[at] = self._fragment(op, [loads[m] for m in used], flat, fragment)

    def _fragment(
        self, op: Operation, loads: list[SSAValue], sources: list[int], kind: VectorType[Any],
        swapped: bool = False,
    ) -> SSAValue:
        return self._insert(op, xe.FragmentOp(
            loads=loads, sources=xe.SourcesAttr(tuple(sources)), value_type=kind,
            swapped=swapped))

    def _load_message(self, op: xetile.LoadTileOp, desc: SSAValue, plan: BlockPlan) -> SSAValue:
        """Load one 2D block."""
        shape = plan.shape
        wide = shape.transpose and shape.element_bits != plan.element_bits
        return self._access(op, xegpu.LoadNdOp(
            desc=desc, packed=shape.vnni, transpose=shape.transpose,
            value_type=vector_type(op.tile_type.element_type, (plan.elements, plan.parts)),
            transpose_bit_width=shape.element_bits if wide else 0,
        )).value

    def _store(self, op: xetile.StoreTileOp) -> None:
        self.done.append(op)
        rectangles = self.tiles.rectangles.get(op)
        stored = [(rectangle, self._stored(op, rectangle)) for rectangle in rectangles or ()]
        for rectangle, values in stored:
            self._store_rectangle(op, rectangle, values)
        for at, desc, rows, columns in () if rectangles else self._gathers(op):
            store = xegpu.StoreNdOp(value=self.fragments[op.value][at], desc=desc)
            mark_valid(store, rows, columns)
            self._access(op, store)

    def _stored(self, op: xetile.StoreTileOp, rectangle: Rectangle) -> list[SSAValue]:
        """The values of the messages that store a rectangle, with the registers in their order."""
        plan, kind = rectangle.plan, op.tile_type
        fragment = self.operands[op.value].fragment_at(rectangle.rows.first)
        per, packed = fragment.registers, fragment.packed
        mine = {inside: self.fragments[op.value][at]
                for at, inside in self._blocks(op.value, rectangle)}
        made = []
        for number in range(len(plan.messages)):
            where = {(s.element, s.sub): r for r, s in enumerate(plan.sources)
                     if s.message == number}
            registers = [where[e, p] for e in range(plan.elements) for p in range(plan.parts)]
            used = list(dict.fromkeys(r // per for r in registers))
            value = mine[used[0]]
            if len(used) > 1 or registers != list(range(registers[0], registers[0] + per)):
                flat = [x for r in registers
                        for x in (used.index(r // per), r % per // packed, r % packed)]
                vector = vector_type(kind.element_type, (plan.elements, plan.parts))
                value = self._fragment(op, [mine[f] for f in used], flat, vector)
            made.append(value)
        return made

    def _store_rectangle(
        self, op: xetile.StoreTileOp, rectangle: Rectangle, values: Sequence[SSAValue]
    ) -> None:
        """Store a rectangle of a tile by its plan's messages."""
        kind, plan = op.tile_type, rectangle.plan
        base = self.descs[op.tile][descriptor_type(kind, plan), MessageKind.BLOCK]
        for value, message in zip(values, plan.messages, strict=True):
            desc = self._moved_desc(op, base, rectangle.start[1] + message.x,
                            rectangle.start[0] + message.y)
            self._access(op, xegpu.StoreNdOp(value=value, desc=desc))

    def _prefetch(self, op: xetile.PrefetchTileOp) -> None:
        self.done.append(op)
        wanted = self.tiles.prefetch_kind(op.tile)
        rows, columns = in_memory(op.tile_type, (op.tile_type.rows, op.tile_type.columns))
        height, width = wanted[0].get_shape()
        for y in range(0, rows, height):
            for x in range(0, columns, width):
                desc = self._moved_desc(op, self.descs[op.tile][wanted], x, y)
                self._access(op, xegpu.PrefetchNdOp(desc=desc))

    def _blocks(self, value: SSAValue, rectangle: Rectangle) -> Iterator[tuple[int, int]]:
        """The index of each operand of a rectangle, in the whole tile and in the rectangle."""
        for r in range(rectangle.rows.count):
            for c in range(rectangle.columns.count):
                at = rectangle.rows.first + r, rectangle.columns.first + c
                yield self.operands[value].index(*at), rectangle.part.index(r, c)

    def _gathers(
        self, op: xetile.LoadTileOp | xetile.StoreTileOp
    ) -> Iterator[tuple[int, SSAValue, Cut, Cut]]:
        """Index, descriptor, rows and columns of each operand, which is moved separately."""
        tile, transposed = self.operands[op.value], is_transposed(op, op.tile_type)
        for r, rows in enumerate(tile.row_cuts):
            desc = self.descs[op.tile][gather_kind(tile, r, op.tile_type, transposed)]
            for c, columns in enumerate(tile.column_cuts):
                moved = self._moved_desc(op, desc, columns.start, rows.start)
                yield tile.index(r, c), moved, rows, columns

    def _access(self, op: Operation, access: _Access) -> _Access:
        """Insert an access with the cache hints of the tile's access."""
        access.properties.update(cache_hints(op))
        Rewriter.insert_op(access, InsertPoint.before(op))
        return access

    # -- values ----------------------------------------------------------------------------------

    def _mma(self, op: xetile.TileMmaOp) -> None:
        dpas = dpas_of(op, self.tiles.target)
        maps: Any = tuple(dpas_sg_map(o, t, dpas.execution_size, other) for o, t, other in (
            ("a", dpas.a, dpas.b), ("b", dpas.b, dpas.a), ("c", dpas.accumulator, None)))
        self._multiply(op, lambda k, n, m, **parts: xegpu.DpasOp(**parts, sg_maps=maps))

    def _multiply(
        self, op: xetile.TileMmaOp | xetile.TileMmaMxOp, instruction: Callable[..., Operation]
    ) -> None:
        """Write an `instruction` for each part of K, columns and rows."""
        a, b = self.fragments[op.a], self.fragments[op.b]
        tile_a, tile_b, tile_c = (self.operands[v] for v in (op.a, op.b, op.result))
        result: list[Any] = [None] * tile_c.count if op.acc is None else [*self.fragments[op.acc]]
        (rows, depth), columns = tile_a.grid, tile_b.grid[1]
        for k, n, m in product(range(depth), range(columns), range(rows)):
            at = tile_c.index(m, n)
            result[at] = self._insert(op, instruction(
                k, n, m, a=a[tile_a.index(m, k)], b=b[tile_b.index(k, n)], acc=result[at],
                result_type=self._fragment_type(op.result, at)))
        self.fragments[op.result] = result

    def _mma_mx(self, op: xetile.TileMmaMxOp) -> None:
        tile_a, tile_b = self.operands[op.a], self.operands[op.b]
        made = scaled_dpas_of(op)
        (rows, depth), columns = tile_a.grid, tile_b.grid[1]
        left, right = (
            [[self._scales(op, scales, size * i, k * made.k // SCALE_GROUP, made.scales)
              for i in range(count)] for k in range(depth)]
            for scales, size, count in ((op.scale_a, tile_a.unit[0], rows),
                                        (op.scale_b, tile_b.unit[1], columns)))
        self._multiply(op, lambda k, n, m, **parts: xegpu.DpasMxOp(
            **parts, scale_a=left[k][m], scale_b=right[k][n]))

    def _scales(
        self, op: Operation, scales: SSAValue, first: int, group: int, count: int
    ) -> SSAValue:
        """Assemble `count` scales from `group` on, of rows of A or columns of B from `first` on.

        Scales of the upper eight lanes are exchanged with those of the lower ones.
        """
        import numpy as np

        tile = self.operands[scales]
        fragment = tile.fragment_at(0)
        places = tile.layout.apply_numpy({
            "register": np.arange(tile.layout.in_dims["register"]), "lane": 0}).values()
        number = {place: r for r, place in enumerate(zip(*map(np.ravel, places), strict=True))}
        swapped = (first, 0) not in number
        first -= MAX_REPEAT_COUNT * swapped
        registers = [number[first, group + i] for i in range(count)]
        used = list(dict.fromkeys(r // fragment.registers for r in registers))
        flat = [x for r in registers
                for x in (used.index(r // fragment.registers),
                          *divmod(r % fragment.registers, fragment.packed))]
        return self._fragment(op, [self.fragments[scales][f] for f in used], flat,
                              vector_type(i8, (count, 1)), swapped)

    def _fragment_type(self, value: SSAValue, number: int) -> VectorType[Any]:
        """The type of one operand of a tile: [vector elements, values packed in each]."""
        tile = self.operands[value]
        fragment = tile.fragment_at(tile.row_of(number))
        element = value.type.element_type  # type: ignore[attr-defined]
        return vector_type(element, (fragment.elements, fragment.packed))

    def _to_tile(self, op: xe.ToTileOp) -> None:
        first, self.fragments[op.tile] = 0, []
        for number in range(self.operands[op.tile].count):
            kind = self._fragment_type(op.tile, number)
            self.fragments[op.tile].append(self._insert(op, xe.ToFragmentOp(
                tensor=op.tensor, first=IntegerAttr(first, i32), fragment_type=kind)))
            first += prod(kind.get_shape())

    def _from_tile(self, op: xe.FromTileOp) -> None:
        Rewriter.replace_op(op, xe.FromFragmentsOp(
            fragments=self.fragments[op.tile], tensor_type=op.tensor.type))

    def _cast(self, op: ShapeCastOp) -> None:
        """Convert a tile to a vector of the subgroup, or back."""
        lanes = self.tiles.target.subgroup_size
        if op.source in self.operands:
            Rewriter.replace_op(op, xe.VectorOfFragmentsOp(
                fragments=self.fragments[op.source], vector_type=op.result.type,
                places=places(self.operands[op.source], op.source.type, lanes)))
        elif op.result in self.operands:
            tile = self.operands[op.result]
            where = {place: p for p, place in enumerate(places(tile, op.result.type, lanes))}
            made, first = [], 0
            for number in range(tile.count):
                kind = self._fragment_type(op.result, number)
                size = prod(kind.get_shape()) * lanes
                held = [where.get(place, -1) for place in range(first, first + size)]
                first += size
                made.append(self._insert(op, xe.FragmentOfVectorOp(
                    source=op.source, fragment_type=kind, places=held)))
            self.fragments[op.result] = made

    def _elementwise(self, op: Operation) -> None:
        """Apply the op to every operand of the tiles; scalars do not change."""
        (result,) = op.results
        if result not in self.operands:
            return
        known = op.dialect_name() in ("arith", "math") or isinstance(
            op, vector.BroadcastOp | xe.RoundTf32Op)
        if not known or op.regions:
            raise UnsupportedError(
                f"{op.name} on a tile; only element-wise ops are known: store the tile, and load it"
                " in the order that is needed")
        self.fragments[result] = [
            self._insert(op, type(op).create(
                operands=[self.fragments[v][number] if v in self.fragments else v
                          for v in op.operands],
                result_types=[self._fragment_type(result, number)],
                properties=dict(op.properties), attributes=dict(op.attributes),
            ))
            for number in range(self.operands[result].count)
        ]

    def _constant(self, op: arith.ConstantOp) -> None:
        value, held = op.result, op.value
        tile = self.operands.get(value)
        if tile is None or not isinstance(held, DenseIntOrFPElementsAttr):
            return
        if not held.is_splat():
            raise UnsupportedError(f"a constant tile with different elements: {value.type}")
        kinds = [self._fragment_type(value, number) for number in range(tile.count)]
        made = {kind: arith.ConstantOp(DenseIntOrFPElementsAttr(kind, held.data), kind)
                for kind in dict.fromkeys(kinds)}
        Rewriter.insert_op(tuple(made.values()), InsertPoint.before(op))
        self.fragments[value] = [made[kind].result for kind in kinds]
