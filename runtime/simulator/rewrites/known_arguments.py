"""Add a version for argument values of an earlier launch to a kernel that runs in step.

Masks mostly depend on an argument: `column < N`.  For the value that the argument had, these masks
are known, so that widening writes plain accesses, or none.  Other launches use the general version.
Only integers become constants, so that the results have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from triton_xe.llvm import Block, Function, Operand
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import constant, integers, substitute
from triton_xe.llvm.solver import reached
from triton_xe.llvm.types import I1, I32, I64, VOID
from triton_xe.runtime.simulator.analysis.shapes import RULES, WIDE, ShapeAnalysis


def mask_arguments(
    function: Function, values: Sequence[int], shapes: ShapeAnalysis
) -> dict[str, int]:
    """Values of the arguments that masks depend on: they are compared with a number of each lane.

    `shapes` are those of all subgroups.
    """
    users = Facts(function).users
    masks = [i for i in function.instructions() if i.opcode == "icmp"]

    def is_known(x: Operand) -> bool:
        shape = shapes.of(function, x)
        return shape.pure and not shape.same_in_all_lanes

    found: dict[str, int] = {}
    for (name, t), value in zip(function.parameters, values, strict=False):
        depends = reached([name], lambda x: [
            i.value.text for i in users.get(x, ()) if i.opcode in RULES])
        if t in (I32, I64) and any(x.text in depends and is_known(y) for i in masks
                                   for x, y in (i.operands, i.operands[::-1])):
            found[name] = value
    return found


def with_arguments(function: Function, values: Mapping[str, int]) -> Function:
    """A copy of a kernel with constants in place of arguments."""
    return _with_constants(function, f"{function.name}.known", {
        name: constant(t, values[name]) for name, t in function.parameters if name in values})


def with_masks(function: Function, shapes: ShapeAnalysis) -> Function:
    """A copy of a kernel with constants for masks that are equal in all lanes of all subgroups."""
    found: dict[str, Operand] = {}
    for i in function.instructions():
        shape = shapes.of(function, i.value) if i.opcode == "icmp" else WIDE
        if shape.pure and shape.table is not None and shape.same_in_all_lanes:
            flags = shape.table[:, 0].tolist()
            found[i.value.text] = (
                integers(I1, flags) if i.type.kind == "vec" else constant(I1, flags[0]))
    return _with_constants(function, function.name, found)


def _with_constants(function: Function, name: str, values: Mapping[str, Operand]) -> Function:
    blocks = [Block(b.label, [*b.instructions]) for b in function.blocks]
    substitute(blocks, values)
    return replace(function, name=name, blocks=blocks)


def with_choice(
    kernel: Function, values: Mapping[str, int], general: Function, special: Function
) -> list[Function]:
    """Two host functions of a kernel, and one that calls the second if arguments have `values`."""
    chooser = replace(general, blocks=[Block("%entry")])
    for version, name in ((general, "general"), (special, "special")):
        version.name, version.is_internal = f"{chooser.name}_{name}", True
        version.attributes += " noinline"
    b = Builder(chooser, "fits")
    for k, (name, t) in enumerate(kernel.parameters):
        if name in values:
            x, following = b.load(t, b.at(chooser.arguments[0], 8 * k), align=8), b.label("fits")
            b.cond_br(b.icmp("eq", x, values[name]), following, "%other")
            b.start(following)
    b.br("%like")
    for label, version in (("%like", special), ("%other", general)):
        b.start(label)
        b.call(version.name, VOID, chooser.arguments)
        b.ret()
    return [chooser, general, special]
