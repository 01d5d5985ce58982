"""Fuse multiplications and additions here, instead of in the compilers that follow.

The emitter marks candidates with `contract`.  A product with one use, which is an addition or
subtraction in its own block, becomes part of it:

    p = fmul contract a, b;  s = fadd contract p, c     ->    s = llvm.fma(a, b, c)

The remaining marks are removed, so that neither Intel's compiler nor the simulator's fuses
anything, and both round equally.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions

from triton_xe.intrinsics import llvm
from triton_xe.lowering.emit.links import operands_of
from triton_xe.lowering.emit.writer import ModuleState

MARK = "contract"


def fuse_products(state: ModuleState) -> None:
    """Fuse the marked products of a module with marked sums, and remove all marks."""
    for function in state.llvm.functions:
        users = _users(function)
        for block in function.blocks:
            _fuse_in_block(state, block, users)


def _users(function: ir.Function) -> dict[ir.Instruction, list[ir.Instruction]]:
    """The instructions that use each marked one, once for each use."""
    users: dict[ir.Instruction, list[ir.Instruction]] = {}
    marked = {id(i) for block in function.blocks for i in block.instructions if MARK in i.flags}
    if not marked:
        return users
    for block in function.blocks:
        for user in block.instructions:
            for value in operands_of(user):
                if id(value) in marked:
                    users.setdefault(value, []).append(user)
    return users


def _fuse_in_block(
    state: ModuleState, block: ir.Block, users: dict[ir.Instruction, list[ir.Instruction]]
) -> None:
    """Fuse marked products into marked sums, if the product has no other use."""
    products: set[Any] = set()
    gone: set[ir.Instruction] = set()
    written: list[ir.Instruction] = []
    for instruction in block.instructions:
        written.append(instruction)
        if MARK not in instruction.flags:
            continue
        instruction.flags.remove(MARK)
        if instruction.opname == "fmul":
            if len(users.get(instruction, ())) == 1:
                products.add(instruction)
            continue
        product = next((v for v in instruction.operands if v in products), None)
        if product is None:
            continue
        products.discard(product)
        gone.add(product)
        written[-1:] = made = _fused(state, instruction, product)
        for one in made:
            one.metadata.update(instruction.metadata)
        for user in users.get(instruction, ()):
            user.replace_usage(instruction, made[-1])
    if gone:
        block.instructions[:] = [i for i in written if i not in gone]


def _fused(
    state: ModuleState, total: ir.Instruction, product: ir.Instruction
) -> list[ir.Instruction]:
    """Return the instructions that replace the sum `total` of `product` and another value.

        left * right + other   ->   llvm.fma(left, right, other)

    A difference negates `left` or `other` first.
    """
    block, kind = total.parent, total.type
    (left, right), (first, second) = product.operands, total.operands
    other = second if product is first else first
    made: list[ir.Instruction] = []
    if total.opname == "fsub":
        negated = other if other is second else left
        minus = instructions.Instruction(block, kind, "fneg", [negated])
        left, other = (left, minus) if other is second else (minus, other)
        made.append(minus)
    function = state.declare(llvm.named("fma"), [kind] * 3)
    return [*made, instructions.CallInstr(block, function, [left, right, other])]
