"""Fuse multiplications and additions here, instead of in the compilers that follow.

The emitter marks candidates with `contract`.  A product with one use, which is an addition or
subtraction in its own block, becomes part of it:

    p = fmul contract a, b;  s = fadd contract p, c     ->    s = llvm.fma(a, b, c)

The remaining marks are removed, so that neither Intel's compiler nor the simulator's fuses
anything, and both round equally.
"""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.intrinsics import llvm
from triton_xe.lowering.emit.links import Links
from triton_xe.lowering.emit.writer import ModuleState

MARK = "contract"


def fuse_products(state: ModuleState) -> None:
    """Fuse the marked products of a module with marked sums, and remove all marks."""
    for function in state.llvm.functions.values():
        if any(MARK in i.flags for i in function.instructions()):
            links = Links(function, "fma")
            for block in function.blocks:
                _fuse_in_block(state, block, links)


def _fuse_in_block(state: ModuleState, block: ir.Block, links: Links) -> None:
    """Fuse marked products into marked sums, if the product has no other use."""
    products: dict[str, ir.Instruction] = {}
    gone: set[ir.Instruction] = set()
    written: list[ir.Instruction] = []
    for i in block.instructions:
        written.append(i)
        if MARK not in i.flags:
            continue
        i.flags = tuple(flag for flag in i.flags if flag != MARK)
        if i.opcode == "fmul":
            if i.result is not None and len(links.users.get(i.result, ())) == 1:
                products[i.result] = i
            continue
        product = next((products.pop(o.text) for o in i.operands if o.text in products), None)
        if product is None:
            continue
        gone.add(product)
        written[-1:] = made = _fused(state, i, product, links)
        for one in made:
            one.debug = i.debug
        links.give_users(i, made[-1].value)
    if gone:
        block.instructions[:] = [i for i in written if i not in gone]


def _fused(
    state: ModuleState, total: ir.Instruction, product: ir.Instruction, links: Links
) -> list[ir.Instruction]:
    """Return the instructions that replace the sum `total` of `product` and another value.

        left * right + other   ->   llvm.fma(left, right, other)

    A difference negates `left` or `other` first.
    """
    (left, right), (first, second) = product.operands, total.operands
    is_first = first.text == product.result
    other = second if is_first else first
    made: list[ir.Instruction] = []
    if total.opcode == "fsub":
        made.append(ir.Instruction("fneg", total.type, [other if is_first else left]))
        minus = links.named(made[0])
        left, other = (left, minus) if is_first else (minus, other)
    made.append(state.call(llvm.named("fma"), [left, right, other]))
    links.named(made[-1])
    return made
