"""Pass convert-xetile-to-xegpu: tiles become instructions, by the block-load planner.

    xetile.load_tile %t   ->  xegpu.load_nd per message, xe.fragment per operand of an instruction
    xetile.tile_mma       ->  xegpu.dpas per (k, n, m) instruction
    xetile.store_tile     ->  xegpu.store_nd per message
    xetile.prefetch_tile  ->  xegpu.prefetch_nd
    arith.addf on tiles   ->  arith.addf on each operand

A tile of registers becomes a list of fragments, each a vector of one work-item; loops carry the
fragments.  A tile in memory becomes a descriptor for each shape of message that its accesses use.
Descriptors keep the element type of the tile: a transposing load of 16-bit elements moves pairs,
which `transpose_bit_width` says.

Where no message fits (`xe.gather` on the tile, a device without them, a K that is no multiple of
the instruction's), each operand is one descriptor with an sg_map, which gathers move; `xe.valid`
on its accesses tells how many of its rows and columns count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    UnitAttr,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe
from triton_xe.dialects.arith_ext import ExtSIOp, IndexCastOp
from triton_xe.dialects.xegpu.dpas import DpasOp
from triton_xe.dialects.xegpu.nd import (
    CreateNdTdescOp,
    LoadNdOp,
    PrefetchNdOp,
    StoreNdOp,
    UpdateNdOffsetOp,
)
from triton_xe.dialects.xegpu.operand_sg_maps import dpas_sg_map
from triton_xe.dialects.xegpu.types import bit_width, tensor_desc
from triton_xe.dialects.xetile.memory import LoadTileOp, PrefetchTileOp, StoreTileOp
from triton_xe.dialects.xetile.mma import TileMmaOp
from triton_xe.dialects.xetile.tiles import InitCoopTileOp, InitTileOp, UpdateTileOffsetOp
from triton_xe.dialects.xetile.types import TileType
from triton_xe.errors import UnsupportedError
from triton_xe.hardware import block_2d
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import Target
from triton_xe.layout import DotOperandEncoding, DpasEncoding
from triton_xe.lowering.module_facts import note_plans
from triton_xe.lowering.rewriting import (
    all_of,
    drop_dead_carries,
    erase_dead,
    extend_for,
    functions,
    last_of,
    place,
)
from triton_xe.lowering.surfaces.affine import attribute
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.lowering.tiles.tile_descriptors import (
    AccessMode,
    Kind,
    Needs,
    Rectangle,
    cache_hints,
    descriptor_type,
    flipped,
    gather_kind,
    in_memory,
    is_ragged,
    is_transposed,
    kept_alike,
    made_for_gathers,
    mark_valid,
    sink_gathers,
)
from triton_xe.lowering.tiles.tile_roles import (
    Role,
    dpas_of,
    fragment_for,
    plain_role,
    plane,
    power_of_2,
    spans,
    vector_fragment,
)
from triton_xe.plan import (
    BlockPlan,
    Refusal,
    SurfaceFacts,
    plan_block_load,
    plan_block_store,
)
from triton_xe.plan.block_load import Objective


@dataclass(frozen=True)
class ConvertXeTileToXeGPUPass(TargetedPass):
    """Tiles -> instructions."""

    name: ClassVar = "convert-xetile-to-xegpu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        for function in functions(op):
            conversion = _Conversion(function, target)
            conversion.run()
            note_plans(op, conversion.plans)


class _Conversion:
    def __init__(self, function: Operation, target: Target) -> None:
        self.function = function
        self.target = target
        self.plans: list[dict[str, Any]] = []
        self.roles: dict[SSAValue, Role] = {}
        self.fragments: dict[SSAValue, list[SSAValue]] = {}
        self.old: list[Operation] = []
        self.old_yields: list[tuple[Operation, int, BlockArgument]] = []
        self.needs: dict[SSAValue, Needs] = {}
        self.descs: dict[SSAValue, dict[Kind, SSAValue]] = {}
        self.rectangles: dict[Operation, list[Rectangle]] = {}

    def run(self) -> None:
        ops = list(self.function.walk())
        for op in ops:
            if isinstance(op, TileMmaOp):
                self._note_roles(op)
        self._spread_roles(ops)
        for op in ops:
            if isinstance(op, LoadTileOp | StoreTileOp):
                self._plan(op)
            elif isinstance(op, PrefetchTileOp):
                needs = self._needs(op.tile)
                needs.kinds[self._prefetch_kind(op.tile.type, needs)] = None
        for block in self.function.regions[0].blocks:
            self._block(block)
        for last, index, arg in self.old_yields:
            last.operands[index] = arg
        self._erase_old()
        erase_dead(self.function)
        if all_of(self.function, xe.FragmentOp, xe.ToFragmentsOp, xe.FromFragmentsOp):
            self.function.attributes[xe.FRAGMENTS] = UnitAttr()
        sink_gathers(self.function)

    def _erase_old(self) -> None:
        """Drop what was replaced: first what uses loop results, then the loops' old carries."""
        left = []
        for op in reversed(self.old):
            if any(r.uses.get_length() for r in op.results):
                left.append(op)
            else:
                Rewriter.erase_op(op)
        for loop in reversed(all_of(self.function, scf.ForOp)):
            drop_dead_carries(loop)
        for op in left:
            Rewriter.erase_op(op)

    # -- what each tile is -----------------------------------------------------------------------

    def _note_roles(self, op: TileMmaOp) -> None:
        dpas = dpas_of(op, self.target)
        for value, operand in zip(op.operands, "abc", strict=False):
            self._note(value, operand, dpas)
        self._note(op.result, "c", dpas)

    def _note(self, value: SSAValue, operand: str, dpas: Dpas) -> None:
        role = Role(operand, dpas, *plane(value.type))
        known = self.roles.setdefault(value, role)
        if known != role:
            raise UnsupportedError(
                "one tile is used as two different operands of xetile.tile_mma; load it twice"
            )

    def _spread_roles(self, ops: list[Operation]) -> None:
        """Values that loops and element-wise ops connect have one role; others a plain one."""
        groups = [group for op in ops for group in kept_alike(op)]
        for op in ops:
            if isinstance(op, xe.ToTileOp | xe.FromTileOp) and op.tile not in self.roles:
                self.roles[op.tile] = self._role_of_tensor(op)
        self._settle(groups)
        for op in ops:
            if isinstance(op, LoadTileOp | StoreTileOp) and op.value not in self.roles:
                self.roles[op.value] = plain_role(*plane(op.value.type), self.target)
                self._settle(groups)

    def _settle(self, groups: list[list[SSAValue]]) -> None:
        changed = True
        while changed:
            changed = False
            for group in groups:
                found = [self.roles[v] for v in group if v in self.roles]
                if len({role.kept for role in found}) > 1:
                    raise UnsupportedError(
                        "a tile is used both as a factor and as the result of xetile.tile_mma,"
                        " which keep it differently in registers; store it and load it again"
                    )
                for value in group if found else ():
                    if value not in self.roles:
                        self.roles[value] = found[0]
                        changed = True

    def _role_of_tensor(self, op: xe.ToTileOp | xe.FromTileOp) -> Role:
        encoding = op.tensor.type.encoding.encoding  # type: ignore[attr-defined]
        operand, parent = "c", encoding
        if isinstance(encoding, DotOperandEncoding):
            operand, parent = "ab"[encoding.op_idx], encoding.parent
        if not isinstance(parent, DpasEncoding):
            raise UnsupportedError(f"a tile of a tensor with layout {encoding}")
        name = {1: "tf32", 2: "f16", 4: "s8"}[parent.ops_per_channel]
        accumulator = "i32" if name == "s8" else "f32"
        dpas = Dpas(name, name, accumulator, parent.repeat_count, parent.execution_size)
        return Role(operand, dpas, *plane(op.tile.type))

    # -- plans -----------------------------------------------------------------------------------

    def _plan(self, op: LoadTileOp | StoreTileOp) -> None:
        """Plan the messages of a load or store, and note the descriptors they need."""
        role, kind = self.roles[op.value], op.tile.type
        assert isinstance(kind, TileType)
        if kind.scope != "global":
            raise UnsupportedError(
                f"{op.name}: tiles lie in global memory; use xegpu ops for shared local memory"
            )
        needs = self._needs(op.tile)
        transposed = is_transposed(op, kind)
        if not needs.gather and not is_ragged(role):
            found = self._rectangles(op, role, kind, transposed)
            if found is not None:
                self.rectangles[op] = found
                for rectangle in found:
                    needs.kinds[descriptor_type(kind, rectangle.plan), AccessMode.MESSAGE] = None
                return
        for row in range(role.grid[0]):
            needs.kinds[gather_kind(role, row, kind, transposed)] = None

    def _rectangles(
        self, op: LoadTileOp | StoreTileOp, role: Role, kind: TileType, transposed: bool
    ) -> list[Rectangle] | None:
        """Plans that cover the tile; None where only gathers can."""
        loads = isinstance(op, LoadTileOp)
        if not loads and any(c.valid < c.size for c in (*role.row_cuts, *role.column_cuts)):
            return None
        surface = SurfaceFacts(contiguous_dim=0 if transposed else 1)
        make = plan_block_load if loads else plan_block_store
        bits = bit_width(kind.element_type)
        out = []
        for rows in spans(role.row_cuts):
            for columns in spans(role.column_cuts):
                part = role.part(rows, columns)
                plan = make(part.layout, surface, bits, self.target,
                            fragment=fragment_for(role, rows.first, bits),
                            objective=Objective.INSTRUCTIONS)
                if isinstance(plan, Refusal):
                    self._refused(op, plan)
                    return None
                start = (role.row_cuts[rows.first].start, role.column_cuts[columns.first].start)
                out.append(Rectangle(rows, columns, start, plan, part))
        self.plans += [self._summary(r.role, r.plan) for r in out]
        return out

    def _refused(self, op: Operation, why: Refusal) -> None:
        """Tensors need the plan; tiles written by hand are gathered, which the summary tells."""
        if any(isinstance(u.operation, xe.FromTileOp) for r in op.results for u in r.uses):
            raise UnsupportedError(f"{op.name}: {why}")
        self.plans.append({"op": "gather", "because": str(why)})

    def _summary(self, role: Role, plan: BlockPlan) -> dict[str, Any]:
        return {"operand": role.operand.upper(), "tile": [role.rows, role.columns],
                **plan.summary()}

    def _prefetch_kind(self, kind: Attribute, needs: Needs) -> Kind:
        """Rows of up to 64 bytes, up to 32 of them."""
        assert isinstance(kind, TileType)
        rows, columns = in_memory(kind, (kind.rows, kind.columns))
        widest = 8 * block_2d.MAX_ROW_BYTES // bit_width(kind.element_type)
        shape = min(32, power_of_2(rows)), min(widest, power_of_2(columns))
        return tensor_desc(shape, kind.element_type), (
            AccessMode.GATHER if needs.gather else AccessMode.MESSAGE)

    def _needs(self, tile: SSAValue) -> Needs:
        """The needs of a tile, shared by all values that are this tile at some time."""
        if tile not in self.needs:
            found = Needs(gather=not self.target.has_block_2d)
            for link in self._chain(tile):
                self.needs[link] = found
                op = link.owner
                if isinstance(op, Operation) and made_for_gathers(op):
                    found.gather = True
        return self.needs[tile]

    def _chain(self, tile: SSAValue) -> list[SSAValue]:
        """Every SSA value that is this tile at some time: moved, and carried by loops."""
        seen: dict[SSAValue, None] = {}
        work = [tile]
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen[value] = None
            op = value.owner
            if isinstance(op, Operation):
                if isinstance(op, UpdateTileOffsetOp):
                    work.append(op.tile)
                elif isinstance(op, scf.ForOp):
                    index = list(op.results).index(value)  # type: ignore[arg-type]
                    work += [op.iter_args[index], op.body.block.args[1 + index]]
            else:
                loop = op.parent_op()
                if isinstance(loop, scf.ForOp) and isinstance(value, BlockArgument):
                    index = value.index - 1
                    work += [loop.iter_args[index], last_of(op).operands[index]]
            work += [u.operation.moved for u in value.uses
                     if isinstance(u.operation, UpdateTileOffsetOp)]
        return list(seen)

    # -- rewriting -------------------------------------------------------------------------------

    def _block(self, block: Any) -> None:
        table: dict[type[Operation], Callable[[Any], None]] = {
            scf.ForOp: self._for, InitTileOp: self._init, InitCoopTileOp: self._coop,
            UpdateTileOffsetOp: self._update, LoadTileOp: self._load, StoreTileOp: self._store,
            PrefetchTileOp: self._prefetch, TileMmaOp: self._mma, xe.ToTileOp: self._to_tile,
            xe.FromTileOp: self._from_tile, arith.ConstantOp: self._constant,
            vector.BroadcastOp: self._elementwise,
        }
        for op in list(block.ops):
            handler = table.get(type(op))
            before = op.prev_op
            if handler is None and op.results and op.results[0] in self.roles:
                handler = self._elementwise
            if handler is not None:
                handler(op)
                place(before, op)
            else:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)

    def _insert(self, before: Operation, op: Operation) -> SSAValue:
        Rewriter.insert_op(op, InsertPoint.before(before))
        return op.results[0]

    def _for(self, loop: scf.ForOp) -> None:
        body, starts = loop.body.block, list(loop.iter_args)
        vectors = [i for i, v in enumerate(starts) if v in self.roles
                   and isinstance(v.type, VectorType)]
        tiles = [i for i, v in enumerate(starts) if isinstance(v.type, TileType)]
        roles = {i: self.roles[starts[i]] for i in vectors}
        kinds = {i: list(self.descs.get(starts[i], {})) for i in tiles}
        more = [f for i in vectors for f in self.fragments[starts[i]]]
        more += [self.descs[starts[i]][k] for i in tiles for k in kinds[i]]
        results_from = len(loop.results)
        loop, added = extend_for(loop, more)
        offset = 0
        for i in vectors:
            count = roles[i].count
            self.fragments[body.args[1 + i]] = list(added[offset : offset + count])
            first = results_from + offset
            self.fragments[loop.results[i]] = list(loop.results[first : first + count])
            self.roles[loop.results[i]] = roles[i]
            offset += count
        for i in tiles:
            first = results_from + offset
            self.descs[body.args[1 + i]] = dict(zip(kinds[i], added[offset:], strict=False))
            self.descs[loop.results[i]] = dict(zip(kinds[i], loop.results[first:], strict=False))
            offset += len(kinds[i])
        self._block(body)
        last = last_of(body)
        following = [f for i in vectors for f in self.fragments[last.operands[i]]]
        following += [self.descs[last.operands[i]][k] for i in tiles for k in kinds[i]]
        last.operands = [*last.operands, *following]
        for i in [*vectors, *tiles]:
            self.old_yields.append((last, i, body.args[1 + i]))

    # -- tiles in memory -------------------------------------------------------------------------

    def _init(self, op: Any) -> None:
        tile = op.tile
        self.old.append(op)
        if tile in self.needs:
            self._describe(op, tile, op, op.offsets)

    def _describe(self, op: Operation, tile: SSAValue, source: Any, at: Sequence[Any]) -> None:
        """Make every descriptor that a tile's accesses need."""
        kind = tile.type
        assert isinstance(kind, TileType)
        needs = self.needs[tile]
        made: dict[Kind, SSAValue] = {}
        for wanted, mode in needs.kinds:
            transposed = mode is AccessMode.GATHER_TRANSPOSED
            desc = CreateNdTdescOp(
                base=source.base, offsets=flipped(in_memory(kind, at), transposed),
                shape=flipped(in_memory(kind, source.sizes), transposed),
                strides=(source.stride, 1), desc_type=wanted,
            )
            desc.base_alignment = source.base_alignment
            desc.gather = None if mode is AccessMode.MESSAGE else UnitAttr()
            desc.gather_transposed = UnitAttr() if transposed else None
            made[wanted, mode] = self._insert(op, desc)
        self.descs[tile] = made

    def _coop(self, op: Any) -> None:
        """The part of a tile that a subgroup takes: rows, then columns, dealt in order."""
        self.old.append(op)
        if op.part not in self.needs:
            return
        source = op.tile.owner
        if not isinstance(source, InitTileOp):
            raise UnsupportedError(
                f"{op.name}: the tile must come from xetile.init_tile; move the part instead"
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
        if by == 1 and kind is not arith.RemUIOp:
            return value
        return self._insert(op, kind(value, self._index_value(op, by, value.type)))

    def _update(self, op: Any) -> None:
        self.old.append(op)
        if op.tile not in self.descs:
            return
        offsets = in_memory(op.tile.type, op.offsets)
        self.descs[op.moved] = {
            kind: self._insert(op, UpdateNdOffsetOp(
                desc=desc, offsets=flipped(offsets, kind[1] is AccessMode.GATHER_TRANSPOSED)))
            for kind, desc in self.descs[op.tile].items()
        }

    def _at(self, op: Operation, desc: SSAValue, x: int, y: int) -> SSAValue:
        if x == 0 and y == 0:
            return desc
        return self._insert(op, UpdateNdOffsetOp(desc=desc, offsets=(y, x)))

    # -- loads and stores ------------------------------------------------------------------------

    def _load(self, op: Any) -> None:
        self.old.append(op)
        role, tile = self.roles[op.value], op.tile
        found = self.rectangles.get(op)
        if found is None:
            self.fragments[op.value] = self._gathered(op, role, tile)
            return
        made: list[SSAValue | None] = [None] * role.count
        for rectangle in found:
            self._load_rectangle(op, role, tile, rectangle, made)
        self.fragments[op.value] = [v for v in made if v is not None]

    def _load_rectangle(
        self, op: Any, role: Role, tile: SSAValue, rectangle: Rectangle,
        made: list[SSAValue | None],
    ) -> None:
        plan, kind = rectangle.plan, tile.type
        assert isinstance(kind, TileType)
        desc = self.descs[tile][descriptor_type(kind, plan), AccessMode.MESSAGE]
        start = flipped(rectangle.start, is_transposed(op, kind))
        loads = [self._load_message(op, desc, plan, m, start) for m in plan.messages]
        row = rectangle.rows.first
        fragment = vector_fragment(role, row, kind.element_type)
        per = role.fragment_at(row).registers
        for r in range(rectangle.rows.count):
            for c in range(rectangle.columns.count):
                first = rectangle.role.index(r, c) * per
                sources = plan.sources[first : first + per]
                used = list(dict.fromkeys(s.message for s in sources))
                flat = [x for s in sources for x in (used.index(s.message), s.element, s.sub)]
                at = role.index(row + r, rectangle.columns.first + c)
                made[at] = self._insert(op, xe.FragmentOp([loads[m] for m in used], flat, fragment))

    def _load_message(
        self, op: Any, desc: SSAValue, plan: BlockPlan, message: Any, start: tuple[int, int]
    ) -> SSAValue:
        desc = self._at(op, desc, start[1] + message.x, start[0] + message.y)
        shape = plan.shape
        kind = VectorType(op.tile.type.element_type, (plan.elements, plan.parts))
        wide = shape.transpose and shape.element_bits != plan.element_bits
        load = LoadNdOp(
            desc=desc, value_type=kind, packed=shape.vnni, transpose=shape.transpose,
            transpose_bit_width=shape.element_bits if wide else 0,
        )
        load.properties.update(cache_hints(op))
        return self._insert(op, load)

    def _gathered(self, op: Any, role: Role, tile: SSAValue) -> list[SSAValue]:
        """One load for each operand, at its place in the tile."""
        kind = tile.type
        assert isinstance(kind, TileType)
        transposed = is_transposed(op, kind)
        made: list[SSAValue | None] = [None] * role.count
        for r, rows in enumerate(role.row_cuts):
            desc = self.descs[tile][gather_kind(role, r, kind, transposed)]
            for c, columns in enumerate(role.column_cuts):
                load = LoadNdOp(
                    desc=self._at(op, desc, columns.start, rows.start),
                    value_type=vector_fragment(role, r, kind.element_type), transpose=False,
                )
                load.properties.update(cache_hints(op))
                mark_valid(load, rows, columns)
                made[role.index(r, c)] = self._insert(op, load)
        return [v for v in made if v is not None]

    def _store(self, op: Any) -> None:
        self.old.append(op)
        role = self.roles[op.value]
        found = self.rectangles.get(op)
        if found is None:
            self._scattered(op, role)
            return
        for rectangle in found:
            self._store_rectangle(op, role, rectangle)

    def _store_rectangle(self, op: Any, role: Role, rectangle: Rectangle) -> None:
        plan, kind = rectangle.plan, op.tile.type
        row, per = rectangle.rows.first, role.fragment_at(rectangle.rows.first).registers
        packed = role.fragment_at(row).packed
        mine: dict[int, SSAValue] = {}
        for r in range(rectangle.rows.count):
            for c in range(rectangle.columns.count):
                at = role.index(row + r, rectangle.columns.first + c)
                mine[rectangle.role.index(r, c)] = self.fragments[op.value][at]
        base = self.descs[op.tile][descriptor_type(kind, plan), AccessMode.MESSAGE]
        for number, message in enumerate(plan.messages):
            where = {(s.element, s.sub): r for r, s in enumerate(plan.sources)
                     if s.message == number}
            registers = [where[e, p] for e in range(plan.elements) for p in range(plan.parts)]
            used = list(dict.fromkeys(r // per for r in registers))
            flat = [x for r in registers
                    for x in (used.index(r // per), r % per // packed, r % packed)]
            vector = VectorType(kind.element_type, (plan.elements, plan.parts))
            if len(used) == 1 and registers == list(range(registers[0], registers[0] + per)):
                value = mine[used[0]]
            else:
                value = self._insert(op, xe.FragmentOp([mine[f] for f in used], flat, vector))
            desc = self._at(op, base, rectangle.start[1] + message.x,
                            rectangle.start[0] + message.y)
            self._put(op, StoreNdOp(value=value, desc=desc))

    def _put(self, op: Any, store: StoreNdOp) -> None:
        store.properties.update(cache_hints(op))
        Rewriter.insert_op(store, InsertPoint.before(op))

    def _scattered(self, op: Any, role: Role) -> None:
        kind = op.tile.type
        transposed = is_transposed(op, kind)
        for r, rows in enumerate(role.row_cuts):
            desc = self.descs[op.tile][gather_kind(role, r, kind, transposed)]
            for c, columns in enumerate(role.column_cuts):
                store = StoreNdOp(
                    value=self.fragments[op.value][role.index(r, c)],
                    desc=self._at(op, desc, columns.start, rows.start),
                )
                mark_valid(store, rows, columns)
                self._put(op, store)

    def _prefetch(self, op: Any) -> None:
        self.old.append(op)
        kind = op.tile.type
        wanted = self._prefetch_kind(kind, self.needs[op.tile])
        rows, columns = in_memory(kind, (kind.rows, kind.columns))
        height, width = wanted[0].get_shape()
        for y in range(0, rows, height):
            for x in range(0, columns, width):
                desc = self._at(op, self.descs[op.tile][wanted], x, y)
                prefetch = PrefetchNdOp(desc=desc)
                prefetch.properties.update(cache_hints(op))
                Rewriter.insert_op(prefetch, InsertPoint.before(op))

    # -- values ----------------------------------------------------------------------------------

    def _mma(self, op: Operation) -> None:
        a, b = (self.fragments[v] for v in op.operands[:2])
        role_a, role_b = (self.roles[v] for v in op.operands[:2])
        role_c = self.roles[op.results[0]]
        dpas = role_c.dpas
        acc = list(self.fragments[op.operands[2]]) if len(op.operands) > 2 else None
        element = op.results[0].type.element_type  # type: ignore[attr-defined]
        lanes = dpas.execution_size
        maps = tuple(dpas_sg_map(o, t, lanes, other) for o, t, other in
                     (("a", dpas.a, dpas.b), ("b", dpas.b, dpas.a), ("c", dpas.accumulator, None)))
        result: list[SSAValue | None] = [None] * role_c.count if acc is None else list(acc)
        (rows, depth), columns = role_a.grid, role_b.grid[1]
        for k in range(depth):
            for n in range(columns):
                for m in range(rows):
                    at = role_c.index(m, n)
                    result[at] = self._insert(op, DpasOp(
                        a=a[role_a.index(m, k)], b=b[role_b.index(k, n)], acc=result[at],
                        result_type=vector_fragment(role_c, m, element),
                        sg_maps=maps,  # type: ignore[arg-type]
                    ))
        self.fragments[op.results[0]] = [v for v in result if v is not None]
        self.old.append(op)

    def _rows_in_order(self, role: Role) -> list[int]:
        """The row of each operand, by its number."""
        where = {role.index(r, c): r for r in range(role.grid[0]) for c in range(role.grid[1])}
        return [where[i] for i in range(role.count)]

    def _to_tile(self, op: Operation) -> None:
        role = self.roles[op.results[0]]
        element = op.results[0].type.element_type  # type: ignore[attr-defined]
        kinds = [vector_fragment(role, row, element) for row in self._rows_in_order(role)]
        made = xe.ToFragmentsOp(op.operands[0], kinds)
        Rewriter.insert_op(made, InsertPoint.before(op))
        self.fragments[op.results[0]] = list(made.results)
        self.old.append(op)

    def _from_tile(self, op: Operation) -> None:
        made = xe.FromFragmentsOp(self.fragments[op.operands[0]], op.results[0].type)
        Rewriter.replace_op(op, made)

    def _elementwise(self, op: Operation) -> None:
        """The same op on every operand of the tiles; scalars stay as they are."""
        (result,) = op.results
        role = self.roles.get(result)
        if role is None:
            return
        if not op.name.startswith(("arith.", "math.", "vector.broadcast")) or op.regions:
            raise UnsupportedError(f"{op.name} on a tile; only element-wise ops are known")
        element = result.type.element_type  # type: ignore[attr-defined]
        made = []
        for number, row in enumerate(self._rows_in_order(role)):
            operands = [self.fragments[v][number] if v in self.fragments else v
                        for v in op.operands]
            part = type(op).create(
                operands=operands, result_types=[vector_fragment(role, row, element)],
                properties=dict(op.properties), attributes=dict(op.attributes),
            )
            made.append(self._insert(op, part))
        self.fragments[result] = made
        self.old.append(op)

    def _constant(self, op: Operation) -> None:
        value = op.results[0]
        role = self.roles.get(value)
        held = attribute(op, "value")
        if role is None or not isinstance(held, DenseIntOrFPElementsAttr):
            return
        if not held.is_splat():
            raise UnsupportedError(f"a constant tile with different elements: {value.type}")
        made: dict[Attribute, SSAValue] = {}
        for row in range(role.grid[0]):
            kind = vector_fragment(role, row, value.type.element_type)  # type: ignore[attr-defined]
            if kind not in made:
                one = arith.ConstantOp(DenseIntOrFPElementsAttr(kind, held.data), kind)
                made[kind] = self._insert(op, one)
        element = value.type.element_type  # type: ignore[attr-defined]
        self.fragments[value] = [made[vector_fragment(role, row, element)]
                                 for row in self._rows_in_order(role)]
        self.old.append(op)
