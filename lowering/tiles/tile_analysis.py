"""Facts about all tiles of a function, computed before any of them is rewritten.

A tile of registers is an operand of matrix instructions, or plain.  Tiles that loops and
elementwise operations connect have the same layout.  A tile in memory needs a descriptor for each
shape of message that its accesses use.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from triton_xe.dialects import xe, xegpu, xetile
from triton_xe.dialects.vector_ext import ShapeCastOp, vector_shape
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.errors import UnsupportedError
from triton_xe.hardware import block_2d
from triton_xe.hardware.register_file import MOST_BESIDE_TILES
from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.values import carried
from triton_xe.lowering.layouts.dpas_choice import scaled_instruction
from triton_xe.lowering.rewriting import all_of, below
from triton_xe.lowering.tiles.tile_descriptors import (
    Kind,
    MessageKind,
    Needs,
    Rectangle,
    descriptor_type,
    gather_kind,
    in_memory,
    is_transposed,
    same_layout_groups,
)
from triton_xe.lowering.tiles.tile_operands import (
    TileOperand,
    dpas_of,
    fragment_for,
    operand_of,
    operand_of_tensor,
    plain_tile,
    plane,
    power_of_2,
    scales_tile,
    spans,
)
from triton_xe.plan import Refusal, SurfaceFacts, plan_block_load, plan_block_store
from triton_xe.plan.block_load import Objective

UNPACKED = {8: (8, 32), 16: (4, 32)}
"""Rows and columns of a store of bytes and of 16-bit elements that one function unpacks from
words.
"""
Access = xetile.LoadTileOp | xetile.StoreTileOp


class TileAnalysis:
    """The tiles of registers, the needs of those in memory, and the messages of each access."""

    def __init__(self, function: Operation, target: Target) -> None:
        self.target = target
        self.operands: dict[SSAValue, TileOperand] = {}
        self.needs: dict[SSAValue, Needs] = {}
        self.rectangles: dict[Operation, list[Rectangle]] = {}
        self.plans: list[dict[str, Any]] = []
        self._find_operands(function)
        accesses: list[Access | xetile.PrefetchTileOp] = all_of(
            function, xetile.LoadTileOp, xetile.StoreTileOp, xetile.PrefetchTileOp)
        for op in accesses:
            if isinstance(op, xetile.PrefetchTileOp):
                self._needs_of(op.tile).kinds[self.prefetch_kind(op.tile)] = None
            else:
                self._plan_access(op)

    # -- tiles of registers ----------------------------------------------------------------------

    def _find_operands(self, function: Operation) -> None:
        """Find which operand of a product each tile is, directly or because layouts are equal."""
        for product in all_of(function, xetile.TileMmaOp):
            dpas = dpas_of(product, self.target)
            for value, name in zip((*product.operands, product.result), _operand_names(product),
                                   strict=True):
                self._note(value, operand_of(name, dpas, value.type))
        for scaled in all_of(function, xetile.TileMmaMxOp):
            for value, name in zip((*scaled.operands[:3], scaled.result), "abcc", strict=True):
                self._note(value, operand_of(name, scaled_instruction(scaled.a.type), value.type))
            for value in scaled.operands[3:]:
                self._note(value, scales_tile(value.type))
        tensors: list[xe.ToTileOp | xe.FromTileOp] = all_of(function, xe.ToTileOp, xe.FromTileOp)
        for tensor in tensors:
            if tensor.tile not in self.operands:
                self.operands[tensor.tile] = operand_of_tensor(tensor)
        given: list[Access | ShapeCastOp] = all_of(
            function, xetile.LoadTileOp, xetile.StoreTileOp, ShapeCastOp)
        if not self.operands and not given:
            return
        groups = [group for op in below(function) for group in same_layout_groups(op)]
        self._propagate_layouts(groups)
        for op in given:
            tile = _cast_tile(op) if isinstance(op, ShapeCastOp) else op.value
            if tile is not None and tile not in self.operands:
                self.operands[tile] = plain_tile(tile.type, self.target)
                self._propagate_layouts(groups)

    def _note(self, value: SSAValue, operand: TileOperand) -> None:
        """Note which operand a tile is; refuse a tile that is two different ones."""
        if self.operands.setdefault(value, operand) != operand:
            raise UnsupportedError(
                "one tile is used as two different operands of xetile.tile_mma; load it twice"
            )

    def _propagate_layouts(self, groups: list[list[SSAValue]]) -> None:
        """Give connected tiles one layout, until a fixed point."""
        changed = True
        while changed:
            changed = False
            for group in groups:
                found = [self.operands[v] for v in group if v in self.operands]
                if len({operand.layout_key for operand in found}) > 1:
                    raise UnsupportedError(
                        "a tile is used both as a factor and as the result of xetile.tile_mma,"
                        " which keep it differently in registers; store it and load it again"
                    )
                for value in group if found else ():
                    if value not in self.operands:
                        self.operands[value] = found[0]
                        changed = True

    # -- messages --------------------------------------------------------------------------------

    def _plan_access(self, op: Access) -> None:
        """Plan the messages of a load or store, and record the descriptors they need."""
        operand, kind = self.operands[op.value], op.tile.type
        assert isinstance(kind, xetile.TileType)
        needs = self._needs_of(op.tile)
        transposed = is_transposed(op, kind)
        found = None if needs.gather or operand.is_ragged else (
            self._rectangles(op, operand, kind, transposed))
        if found is None:
            kinds = [gather_kind(operand, row, kind, transposed) for row in range(operand.grid[0])]
        else:
            self.rectangles[op] = found
            kinds = [(descriptor_type(kind, r.plan), MessageKind.BLOCK) for r in found]
        needs.kinds.update(dict.fromkeys(kinds))

    def _rectangles(
        self, op: Access, operand: TileOperand, kind: xetile.TileType, transposed: bool
    ) -> list[Rectangle] | None:
        """Plans that cover the tile; None if only gathers can."""
        loads = isinstance(op, xetile.LoadTileOp)
        cuts = (*operand.row_cuts, *operand.column_cuts)
        if not loads and any(c.valid < c.size for c in cuts):
            return None
        surface = SurfaceFacts(contiguous_dim=0 if transposed else 1)
        make = plan_block_load if loads else plan_block_store
        bits = bit_width(kind.element_type)
        # 16-bit elements are converted from or to accumulators, so that a conversion moves them
        transposes = self._is_transposed_store(op, bits)
        is_moved = bits == 16 and (not loads or operand.operand == "c")
        objective = Objective.ROWS if is_moved or transposes else Objective.INSTRUCTIONS
        most = UNPACKED[bits] if transposes else None
        out = []
        steps = operand.grid[0]
        if operand.operand == "b" and loads and self._is_crowded(op.value):
            steps = max(1, steps // 2)
        for rows in spans(operand.row_cuts, steps):
            for columns in spans(operand.column_cuts, operand.grid[1]):
                part = operand.part(rows, columns)
                plan = make(part.layout, surface, bits, self.target,
                            fragment=fragment_for(operand, rows.first, bits),
                            objective=objective, same_width=True, most=most)
                if isinstance(plan, Refusal):
                    self.plans.append({"op": "gather", "because": str(plan)})
                    return None
                start = (operand.row_cuts[rows.first].start,
                         operand.column_cuts[columns.first].start)
                out.append(Rectangle(rows, columns, start, plan, part))
        self.plans += [
            {"operand": r.part.operand.upper(), "tile": [r.part.rows, r.part.columns],
             **r.plan.summary()} for r in out
        ]
        return out

    def _is_transposed_store(self, op: Access, bits: int) -> bool:
        """True if a store has rows of 32 bytes or 16-bit elements that were loaded transposed in
        words.
        """
        load, (_, columns) = op.value.owner, plane(op.value.type)
        return (isinstance(op, xetile.StoreTileOp) and isinstance(load, xetile.LoadTileOp)
                and is_transposed(load, load.tile.type)  # type: ignore[arg-type]
                and bits in UNPACKED and columns * 2 >= self.target.grf_bytes)

    def _is_crowded(self, loaded: SSAValue) -> bool:
        """True if a product and its operands do not fit into the registers, nor the product, A and
        one message of B.

        Then operands are loaded at their use, and B by messages with half of the steps each.
        """
        register = self.target.grf_bytes
        room = max(self.target.grf_modes) * register
        most = MOST_BESIDE_TILES * register - block_2d.MAX_RESULT_REGISTERS * block_2d.GRF_BYTES
        sizes = [(_bytes(op.a) + _bytes(op.result), _bytes(op.b))
                 for op in self._products_of(loaded)]
        return any(rest + b > room and rest > most for rest, b in sizes)

    def _products_of(self, tile: SSAValue) -> list[xetile.TileMmaOp | xetile.TileMmaMxOp]:
        """The products of a tile, or of values computed from it elementwise."""
        found: list[xetile.TileMmaOp | xetile.TileMmaMxOp] = []
        work = [tile]
        while work:
            for op in (use.operation for use in work.pop().uses):
                if isinstance(op, xetile.TileMmaOp | xetile.TileMmaMxOp):
                    found.append(op)
                elif not op.regions and op.parent is tile.owner.parent:
                    work += op.results
        return found

    # -- tiles in memory -------------------------------------------------------------------------

    def prefetch_kind(self, tile: SSAValue) -> Kind:
        """Descriptor for prefetches: up to 32 rows of the whole tile, or of up to 64 bytes."""
        kind = tile.type
        assert isinstance(kind, xetile.TileType)
        rows, columns = map(power_of_2, in_memory(kind, (kind.rows, kind.columns)))
        bits = bit_width(kind.element_type)
        height, width = min(block_2d.MAX_HEIGHT, rows), columns
        if bits not in block_2d.ELEMENT_BITS or block_2d.check_prefetch(
                block_2d.BlockShape(bits, width, height), self.target) is not None:
            width = min(columns, 8 * block_2d.MAX_ROW_BYTES // bits)
        moved_by = MessageKind.GATHER if self._needs_of(tile).gather else MessageKind.BLOCK
        return xegpu.tensor_desc((height, width), kind.element_type), moved_by

    def _needs_of(self, tile: SSAValue) -> Needs:
        """The needs of a tile, shared by all values that represent this tile."""
        if tile not in self.needs:
            assert isinstance(tile.type, xetile.TileType)
            local = tile.type.scope == "slm"
            found = Needs(gather=local or not self.target.has_block_2d)
            for link in _same_tile(tile):
                self.needs[link] = found
            found.gather |= any(source.gather is not None for source in sources(tile))
        return self.needs[tile]


def _cast_tile(op: ShapeCastOp) -> SSAValue | None:
    """The tile that an op converts to or from a vector of one dimension."""
    tile, line = sorted((op.source, op.result), key=lambda v: -len(vector_shape(v)))
    return tile if len(vector_shape(tile)) > len(vector_shape(line)) == 1 else None


def _bytes(tile: SSAValue) -> int:
    """Bytes of a tile in one subgroup."""
    rows, columns = plane(tile.type)
    return rows * columns * bit_width(tile.type.element_type) // 8  # type: ignore[attr-defined]


def _operand_names(op: xetile.TileMmaOp) -> str:
    return "abc" if op.acc is None else "abcc"


def sources(tile: SSAValue) -> list[xetile.InitTileOp]:
    """Every init_tile that may have created a tile, or the tile that it is a part of."""
    found = []
    for link in _same_tile(tile):
        if isinstance(link.owner, xetile.InitTileOp):
            found.append(link.owner)
        elif isinstance(link.owner, xetile.InitCoopTileOp):
            found += sources(link.owner.tile)
    return found


def _same_tile(tile: SSAValue) -> list[SSAValue]:
    """Every SSA value that represents this tile: moved, or carried by loops."""
    seen: dict[SSAValue, None] = {}
    work = [tile]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen[value] = None
        op = value.owner
        if isinstance(op, xetile.UpdateTileOffsetOp):
            work.append(op.tile)
        elif isinstance(op, scf.ForOp):
            index = list(op.results).index(value)  # type: ignore[arg-type]
            work += [op.iter_args[index], op.body.block.args[1 + index]]
        elif (held := carried(value)) is not None:
            work += [held.start, held.end]
        work += [u.operation.moved for u in value.uses
                 if isinstance(u.operation, xetile.UpdateTileOffsetOp)]
    return list(seen)
