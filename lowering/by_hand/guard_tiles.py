"""Pass guard-tiles: two versions of a function, with 2D messages and with gathers.

    body  ->  scf.if %legal { body } else { body with every tile marked xe.gather }

`%legal` tests the rules of messages for base, sizes, stride and offsets (`hardware.block_2d`) that
the program's text does not prove.  It also tests that every loop with tiles runs at least once,
which simplifies the fast version.  A tile whose base or sizes are computed inside loops cannot be
tested and is always gathered; the summary of plans says so.

Source: the surface rules in `triton_xe.hardware.block_2d`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, UnitAttr, i1, i32, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xetile
from triton_xe.dialects.arith_ext import CmpiOp, ExtSIOp, ExtUIOp, IndexCastOp, TruncIOp
from triton_xe.dialects.tt.ops import GetNumProgramsOp, GetProgramIdOp, PtrToIntOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.xe import RUNS
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.lowering.facts.values import constant_of
from triton_xe.lowering.rewriting import all_of, below, detach, functions, if_else
from triton_xe.lowering.surfaces.raise_surfaces import two_versions
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.lowering.tiles.tile_analysis import sources

_SCALAR = (GetProgramIdOp, GetNumProgramsOp, xe.WarpIdOp)
Number = SSAValue | int


@dataclass(frozen=True)
class GuardTilesPass(TargetedPass):
    """In kernels written by hand: a second version with gathers if messages may be illegal."""

    name: ClassVar = "guard-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.device(op).has_block_2d:
            return
        for function in functions(op):
            tiles = all_of(function, xetile.InitTileOp)
            untested = [tile for tile in tiles if tile.base_alignment is None]
            if untested and len(function.regions[0].blocks) == 1:
                _Guard(function).run(untested)


class _Guard:
    """State while one function is versioned."""

    def __init__(self, function: Operation) -> None:
        self.function = function
        body = function.regions[0].block
        assert body.first_op is not None
        self.mark = arith.ConstantOp(IntegerAttr(1, i1))
        Rewriter.insert_op(self.mark, InsertPoint.before(body.first_op))
        self.moved: dict[SSAValue, SSAValue] = {}
        self.tests: list[SSAValue] = []
        self.tested: set[object] = set()
        self.runs: dict[scf.ForOp, SSAValue] = {}

    def run(self, tiles: list[xetile.InitTileOp]) -> None:
        """Test the surfaces of tiles, and split the function into versions for both outcomes."""
        for tile in tiles:
            if not self._add_tests(tile):
                tile.gather = UnitAttr()
        self._check_steps()
        fast = [t for t in tiles if t.gather is None]
        if not fast:
            Rewriter.erase_op(self.mark)
            return
        loops = [loop for loop in all_of(self.function, scf.ForOp) if _has_tiles(loop)]
        running = [loop for loop in loops if self._test_loop(loop)]
        if self.tests or self.runs:
            self._split()
        else:
            Rewriter.erase_op(self.mark)
        for tile in fast:
            tile.base_alignment = IntegerAttr(block_2d.BASE_ALIGNMENT, i32)
        for loop in running:
            RUNS.put(loop)

    # -- what a surface needs --------------------------------------------------------------------

    def _add_tests(self, op: Any) -> bool:
        """Note the tests for one tile; False where its surface cannot be legal or known."""
        kind = op.tile.type
        assert isinstance(kind, xetile.TileType)
        bits = bit_width(kind.element_type)
        if kind.scope != "global" or bits < 8:
            return False
        size = bits // 8
        rows, columns = op.sizes if kind.row_major else (op.sizes[1], op.sizes[0])
        x = op.offsets[1] if kind.row_major else op.offsets[0]
        amounts = {"base": (op.base, 1), "pitch": (op.stride, size), "width": (columns, size),
                   "height": (rows, 1), "x": (x, 1)}
        rules = block_2d.surface_rules(bits, block_2d.x_unit(bits, bits))
        return all([self._add_rule_test(rule, amounts) for rule in sorted(rules, key=_tests)])

    def _add_rule_test(self, rule: Guard, amounts: dict[str, tuple[Number, int]]) -> bool:
        """Add the test of one rule of surfaces; False if it cannot hold, or cannot be tested."""
        value, size = amounts[rule.amount]
        if rule.relation is Relation.MULTIPLE_OF:
            return self._test_multiple(value, size, rule.bound)
        if rule.bound == "width":
            return self._test_at_least(value, amounts["width"][0])
        if rule.relation is Relation.AT_LEAST:
            return self._test_bound(value, "sge", -(-rule.bound // size))
        return self._test_bound(value, "sle", (rule.bound - 1) // size)

    def _check_steps(self) -> None:
        """Mark tiles for gathers if they move along a row by parts of words."""
        for op in all_of(self.function, xetile.UpdateTileOffsetOp):
            kind = op.tile.type
            assert isinstance(kind, xetile.TileType)
            step = op.offsets[1] if kind.row_major else op.offsets[0]
            size = max(bit_width(kind.element_type) // 8, 1)
            if not self._test_multiple(step, size, block_2d.OFFSET_BYTES):
                for source in sources(op.tile):
                    source.gather = UnitAttr()

    # -- tests -----------------------------------------------------------------------------------

    def _test_multiple(self, value: Number, size: int, of: int) -> bool:
        """Add the test that `size` times a value is a multiple of `of`; False if there is no test.
        """
        if divisor(value) * size % of == 0:
            return True
        if isinstance(value, int):
            return False
        held = self._top(value)
        if held is None:
            return False
        key = ("multiple", value, of // gcd(of, size))
        if key not in self.tested:
            self.tested.add(key)
            rest = self._insert(arith.AndIOp(held, self._constant(of // gcd(of, size) - 1)))
            self.tests.append(self._insert(CmpiOp(rest, self._constant(0), "eq")))
        return True

    def _test_bound(self, value: Number, predicate: str, bound: int) -> bool:
        """Add the test that a value is at least ("sge") or at most ("sle") a bound; else False."""
        if isinstance(value, int):
            return value >= bound if predicate == "sge" else value <= bound
        held = self._top(value)
        if held is None:
            return False
        key = (predicate, value, bound)
        if key not in self.tested:
            self.tested.add(key)
            self.tests.append(self._insert(CmpiOp(held, self._constant(bound), predicate)))
        return True

    def _test_at_least(self, value: Number, other: Number) -> bool:
        """Add the test that one value is at least another; False if there is no test."""
        if value == other:
            return True
        if isinstance(value, int) and isinstance(other, int):
            return value >= other
        left, right = self._top(value), self._top(other)
        if left is None or right is None:
            return False
        self.tests.append(self._insert(CmpiOp(left, right, "sge")))
        return True

    def _test_loop(self, loop: scf.ForOp) -> bool:
        """Add the test that a loop runs at least once; False if its bounds cannot be tested."""
        low, high = constant_of(loop.lb), constant_of(loop.ub)
        if low is not None and high is not None:
            return low < high
        left, right = self._top(loop.lb), self._top(loop.ub)
        if left is None or right is None:
            return False
        self.runs[loop] = self._insert(CmpiOp(left, right, "slt"))
        return True

    # -- values at the top of the function -------------------------------------------------------

    def _insert(self, op: Operation) -> SSAValue:
        Rewriter.insert_op(op, InsertPoint.before(self.mark))
        return op.results[0]

    def _constant(self, value: int) -> SSAValue:
        return self._insert(arith.ConstantOp(IntegerAttr(value, i64)))

    def _top(self, value: Number) -> SSAValue | None:
        """The value as i64 at the top of the function; None where it is made by a loop."""
        if isinstance(value, int):
            return self._constant(value)
        held = self._hoisted(value)
        if held is None:
            return None
        if held.type == i64:
            return held
        if isinstance(held.type, PointerType):
            return self._insert(PtrToIntOp.create(operands=[held], result_types=[i64]))
        if isinstance(held.type, IndexType):
            return self._insert(IndexCastOp(held, i64))
        if bit_width(held.type) == 64:
            return None
        return self._insert(ExtSIOp(held, i64))

    def _hoisted(self, value: SSAValue) -> SSAValue | None:
        """A copy of a scalar at the function's start; None if it cannot be computed there."""
        if value in self.moved:
            return self.moved[value]
        op = value.owner
        if not isinstance(op, Operation):
            return value if op.parent_op() is self.function else None
        if op.dialect_name() != "arith" and not isinstance(op, _SCALAR):
            return None
        operands = [self._hoisted(v) for v in op.operands]
        if any(v is None for v in operands):
            return None
        copy = type(op).create(
            operands=[v for v in operands if v is not None],
            result_types=[r.type for r in op.results],
            properties=dict(op.properties), attributes=dict(op.attributes),
        )
        self.moved[value] = self._insert(copy)
        return self.moved[value]

    # -- two versions ----------------------------------------------------------------------------

    def _split(self) -> None:
        """Split the body into a fast and a general version.

        If only one loop has a test, there are two general versions: one for when it does not run.
        """
        body = self.function.regions[0].block
        ops = list(body.ops)
        rest = ops[ops.index(self.mark) + 1 : -1]
        legal = self._all([*self.tests, *self.runs.values()])
        choice = two_versions(legal, InsertPoint.before(self.mark))
        Rewriter.erase_op(self.mark)
        fast, slow = (region.block for region in choice.regions)
        if len(self.runs) == 1:
            ((loop, runs),) = self.runs.items()
            inner = if_else(runs, [])
            slow.add_op(inner)
            running, still = (region.block for region in inner.regions)
            _copy(rest, running, loop, True)
            _copy(rest, still, loop, False)
            for block in (running, still, slow):
                block.add_op(scf.YieldOp())
        else:
            _copy(rest, slow)
            slow.add_op(scf.YieldOp())
        for op in rest:
            detach(op)
            fast.add_op(op)
        fast.add_op(scf.YieldOp())

    def _all(self, tests: list[SSAValue]) -> SSAValue:
        total = tests[0]
        for test in tests[1:]:
            total = self._insert(arith.AndIOp(total, test))
        return total


def _tests(rule: Guard) -> tuple[bool, bool]:
    """Order of tests: multiples, bounds, and then what compares two amounts."""
    return rule.relation is not Relation.MULTIPLE_OF, rule.bound == "width"


def _copy(
    ops: list[Operation], into: Block, loop: scf.ForOp | None = None, runs: bool = False
) -> None:
    """Copy ops with their tiles marked for gathers; `loop` is known to run, or not to."""
    copies: dict[SSAValue, SSAValue] = {}
    blocks: dict[Block, Block] = {}
    for op in ops:
        if op is loop and not runs:
            assert loop is not None
            for result, start in zip(loop.res, loop.iter_args, strict=True):
                copies[result] = copies.get(start, start)
            continue
        copy = op.clone(copies, blocks)
        into.add_op(copy)
        if op is loop:
            RUNS.put(copy)
        for inner in below(copy):
            if isinstance(inner, xetile.InitTileOp):
                inner.gather = UnitAttr()


def divisor(value: Number, depth: int = 8) -> int:
    """A number that divides a value, as far as constants tell; a power of 2 up to 64.

    >>> divisor(48), divisor(0)
    (16, 64)
    """
    if isinstance(value, int):
        return 64 if value == 0 else min(64, value & -value)
    known = constant_of(value)
    if known is not None:
        return divisor(known)
    op = value.owner
    if not isinstance(op, Operation) or depth == 0:
        return 1
    parts = [divisor(v, depth - 1) for v in op.operands]
    if isinstance(op, arith.MuliOp):
        return min(64, parts[0] * parts[1])
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        return min(parts)
    if isinstance(op, arith.ShLIOp):
        shift = constant_of(op.rhs)
        return min(64, parts[0] << shift) if shift is not None else parts[0]
    if isinstance(op, ExtSIOp | ExtUIOp | TruncIOp | IndexCastOp):
        return parts[0]
    return 1


def _has_tiles(loop: Operation) -> bool:
    return any(op.dialect_name() == "xetile" for op in below(loop))
