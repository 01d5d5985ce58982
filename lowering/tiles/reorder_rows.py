"""Pass reorder-rows: order the rows of transposed operands such that unpacking them is cheapest.

A transposed message of dwords has two rows of A in each: dword i of a lane has rows 2i and 2i+1.
Unpacking the low or high halves of four dwords handles two registers per instruction, but eight
rows in natural order take one instruction each.  A sum may have its rows in any order.  So they
have A's order inside the loop, and are restored after it:

    %a = xe.fragment %x from <0:0:0, 0:0:1, 0:1:0, ...>   ->   from <0:0:0, 0:1:0, ..., 0:0:1, ...>
    %sum = scf.for ... (dpas %a, %b, %c)                  ->   xe.fragment %sum from <rows>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xegpu
from triton_xe.lowering.emit.xegpu.fragments import BY_HALVES, follow, triples
from triton_xe.lowering.rewriting import all_of, functions, last_of, locate
from triton_xe.lowering.targeted_pass import TargetedPass

ROWS = len(BY_HALVES)
WORD = 16
REGISTER_BYTES = 64
"""Bytes of a register on devices whose instructions process two registers of dwords."""
_IN_ORDER = tuple((i // 2, i % 2) for i in range(ROWS))


@dataclass(frozen=True)
class Sum:
    """A loop-carried sum, with the products that are added to it in sequence."""

    loop: scf.ForOp
    index: int
    products: tuple[xegpu.DpasOp, ...]


@dataclass(frozen=True)
class ReorderRowsPass(TargetedPass):
    """Order the rows of transposed operands such that unpacking them is cheapest."""

    name: ClassVar = "reorder-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.device(op).grf_bytes != REGISTER_BYTES:
            return
        for function in functions(op):
            sums = _agreeing([s for loop in all_of(function, scf.ForOp) for s in _sums(loop)])
            for fragment in dict.fromkeys(p.a.owner for s in sums for p in s.products):
                assert isinstance(fragment, xe.FragmentOp)
                load, first, _ = triples(fragment)[0]
                fragment.sources = _sources((load, first + e, p) for e, p in BY_HALVES)
            for found in sums:
                _restore(found)


def _sums(loop: scf.ForOp) -> Iterator[Sum]:
    """Loop-carried sums that start as constants, of products with such operands."""
    body = loop.body.block
    for index, (start, first) in enumerate(zip(loop.iter_args, body.args[1:], strict=True)):
        products, value = list[xegpu.DpasOp](), cast(SSAValue, first)
        while (product := _only_product(value)) is not None:
            products.append(product)
            value = product.result
        ends = [(use.operation, use.index) for use in value.uses] == [(last_of(body), index)]
        if ends and products and _is_same_everywhere(start) and all(map(_has_pairs, products)):
            yield Sum(loop, index, tuple(products))


def _only_product(value: SSAValue) -> xegpu.DpasOp | None:
    """The product that is the only user of a value, as its addend."""
    users = [use.operation for use in value.uses]
    if len(users) != 1 or not isinstance(users[0], xegpu.DpasOp):
        return None
    product = users[0]
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    return product if product.acc is value and product.parent is block else None


def _is_same_everywhere(value: SSAValue) -> bool:
    """True if all rows of a value are equal."""
    held = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return isinstance(held, DenseIntOrFPElementsAttr) and held.is_splat()


def _has_pairs(product: xegpu.DpasOp) -> bool:
    """True if A is eight rows, two in each dword of a transposed message."""
    fragment = product.a.owner
    if not isinstance(fragment, xe.FragmentOp) or not follow(triples(fragment), _IN_ORDER):
        return False
    load = fragment.loads[triples(fragment)[0][0]].owner
    return (isinstance(load, xegpu.LoadNdOp) and load.valid is None
            and load.desc_type.element_bits == WORD and load.unit_bits == 2 * WORD)


def _agreeing(sums: list[Sum]) -> list[Sum]:
    """Those of the sums whose operands have no other products."""
    while True:
        inside = {product for s in sums for product in s.products}
        kept = [s for s in sums if all(
            use.operation in inside and use.index == 0
            for product in s.products for use in product.a.uses)]
        if len(kept) == len(sums):
            return kept
        sums = kept


def _restore(found: Sum) -> None:
    """Restore the natural order of rows after the loop."""
    result = found.loop.results[found.index]
    if result.first_use is None:
        return
    places = [(0, BY_HALVES.index(row), 0) for row in _IN_ORDER]
    made = xe.FragmentOp(loads=[result], sources=_sources(places), value_type=result.type)
    locate(found.loop, made)
    result.replace_all_uses_with(made.value)
    made.operands[0] = result
    Rewriter.insert_op(made, InsertPoint.after(found.loop))


def _sources(places: Iterable[tuple[int, int, int]]) -> xe.SourcesAttr:
    return xe.SourcesAttr(tuple(number for place in places for number in place))
