"""Pass assume-full-rows: assume that rows which fill the registers fill their block.

    %m = cmpi slt, make_range(0, 8192), splat %n ; tt.load %p, %m ; select %m ; tt.reduce

 -> tt.load %p, true ; select true ; tt.reduce                     condition: %n is at least 8192

Intel's compiler gives each masked message separate 64-bit addresses, two registers each, and
initialises its registers.  Unmasked messages share an address.  Rows that stay in registers while
they are reduced leave no room for that.  Launches that fail the guard use the general version.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.dialects.tt.structure import FuncOp, ReduceOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.facts.values import constant_of, shape_of
from triton_xe.lowering.module_facts import module_warps, options_of, remark
from triton_xe.lowering.rewriting import all_of, functions
from triton_xe.lowering.surfaces.launch_guards import assume, tested_in_kernel
from triton_xe.lowering.surfaces.split_inside import what_makes_true
from triton_xe.lowering.targeted_pass import TargetedPass

FILLING = 128
"""Registers of loaded values live at a reduction, as words, from which masks are dropped.

It is half of the larger file.  With 192 the masks made layer norm's gradient spill up to 2,688
bytes.  With 128 the softmax's gradient has 487 instructions with masks and 308 without (IGC 2.40).
"""
WORD_BYTES = 4


@dataclass(frozen=True)
class AssumeFullRowsPass(TargetedPass):
    """Assume that rows fill their block if they fill the registers, checked by a launch guard."""

    name: ClassVar = "assume-full-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        if options_of(op).guards == "kernel":
            return
        full = FILLING * target.grf_bytes * module_warps(op)
        for function in functions(op):
            if function.is_kernel and not all_of(function, DotOp) and _held(function) >= full:
                _assume(function)


def _held(function: FuncOp) -> int:
    """Bytes of loaded values live at a reduction, each element as a word."""
    return max((_loaded(block) for block in _reducing(function)), default=0)


def _reducing(function: FuncOp) -> dict[Block, None]:
    """The blocks with reductions."""
    parents = (op.parent for op in all_of(function, ReduceOp))
    return dict.fromkeys(block for block in parents if block is not None)


def _loaded(block: Block) -> int:
    loads = [op for op in block.ops if isinstance(op, LoadOp)]
    return sum(prod(shape_of(op.result)) * WORD_BYTES for op in loads if shape_of(op.result))


def _assume(function: FuncOp) -> None:
    """Add guards that make the masks of whole rows true."""
    affine = Affine()
    accesses: list[LoadOp | StoreOp] = [*all_of(function, LoadOp), *all_of(function, StoreOp)]
    masked = {op.mask: op for op in reversed(accesses) if op.mask is not None}
    for mask, first in masked.items():
        guards = _lengths(mask, affine, function)
        if guards and not tested_in_kernel(guards, first):
            assume(guards, first)
            remark(first, "without masks, if rows are as long as their block")
            _make_true(mask)


def _lengths(mask: SSAValue, affine: Affine, function: FuncOp) -> list[Guard] | None:
    """Conditions on arguments alone under which a mask is true in all lanes."""
    if not shape_of(mask) or constant_of(mask) is not None:
        return None
    guards = what_makes_true(mask, affine)
    arguments = set(function.body.blocks[0].args)
    known = guards is not None and all(
        isinstance(amount, Poly) and amount.symbols <= arguments
        for guard in guards for amount in (guard.amount, guard.bound))
    return guards if known else None


def _make_true(mask: SSAValue) -> None:
    assert isinstance(mask.type, TensorType)
    true = arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(mask.type, [1]))
    owner = mask.owner
    at = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
    Rewriter.insert_op(true, at)
    mask.replace_all_uses_with(true.result)
