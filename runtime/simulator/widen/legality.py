"""Refuse, before running, errors that a real device would not report."""

from __future__ import annotations

from triton_xe.errors import LegalityError
from triton_xe.hardware import block_2d, dpas
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import find
from triton_xe.intrinsics.genisa import DPAS
from triton_xe.llvm import Instruction
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.widen.parts import BlockArguments
from triton_xe.runtime.simulator.widen.widener import Widener

_CHECKS = {
    "Read": block_2d.check_load,
    "Write": block_2d.check_store,
    "Prefetch": block_2d.check_prefetch,
}
_ACCUMULATORS = {llvm: name for name, llvm in dpas.ACCUMULATOR_LLVM.items()}
_TYPES = {code: name for name, code in dpas.PRECISION.items()}
_DPAS_CONSTANTS = [p.name for p in DPAS.parameters if p.constant]


def check_block(w: Widener, action: str, arguments: BlockArguments, i: Instruction) -> None:
    """Refuse a 2D block that is not in the device's tables, or whose type has another size."""
    try:
        shape = block_2d.BlockShape(
            arguments.bits, arguments.tile_width, arguments.tile_height, arguments.blocks,
            arguments.transpose, arguments.vnni,
        )
    except LegalityError as error:
        w.refuse(i, str(error))
    reason = _CHECKS[action](shape, w.kernel.target)
    if reason is not None:
        w.refuse(i, f"illegal 2D block {action.lower()}: {reason}")
    if w.lanes != block_2d.SUBGROUP_SIZE:
        w.refuse(i, f"2D blocks need a subgroup of {block_2d.SUBGROUP_SIZE} lanes, this kernel has "
                    f"{w.lanes}")
    if action == "Prefetch":
        return
    t = i.type if action == "Read" else i.operands[-1].type
    nbytes = t.size * w.lanes
    if nbytes != shape.result_bytes:
        w.refuse(i, f"the registers of a 2D block {action.lower()} {shape} hold "
                    f"{shape.result_bytes} bytes, the LLVM type has {nbytes}")


def dpas_of(i: Instruction, target: Target) -> dpas.Dpas:
    """The DPAS that a call names, scaled or not; `LegalityError` if its types are not known."""
    code_a, code_b = (argument(i, f"precision_{x}").integer_value() or 0 for x in "ab")
    if code_a not in _TYPES or code_b not in _TYPES:
        raise LegalityError(f"DPAS precision codes {code_a}, {code_b} are not known")
    known = find(i.callee)
    rows = dpas.MAX_REPEAT_COUNT
    if known.has("repeat_count"):
        rows = argument(i, "repeat_count").integer_value() or 0
    accumulator = _ACCUMULATORS.get(i.type.scalar.name, i.type.scalar.name)
    return dpas.Dpas(
        _TYPES[code_a], _TYPES[code_b], accumulator, rows, target.dpas_execution_size or 8)


def check_dpas(w: Widener, i: Instruction) -> dpas.Dpas:
    """Refuse a DPAS that is not in the device's table, or whose operands have a wrong size."""
    if any(argument(i, name).integer_value() is None for name in _DPAS_CONSTANTS):
        w.refuse(i, "a DPAS whose types are not constants")
    if argument(i, "dpasw").integer_value():
        w.refuse(i, "DPASW is not simulated")
    try:
        shape = dpas_of(i, w.kernel.target)
    except LegalityError as error:
        w.refuse(i, f"illegal DPAS: {error}")
    reason = dpas.check_dpas(
        shape.a, shape.b, shape.accumulator, w.kernel.target,
        repeat_count=shape.repeat_count, subgroup_size=w.lanes,
        depth=argument(i, "depth").integer_value() or 0,
    )
    if reason is not None:
        w.refuse(i, f"illegal DPAS: {reason}")
    _check_sizes(w, i, shape)
    return shape


def check_scaled_dpas(w: Widener, i: Instruction) -> dpas.Dpas:
    """Refuse a scaled DPAS that the device lacks, or whose operands or scales have a wrong size."""
    if any(argument(i, name).integer_value() is None for name in ("precision_a", "precision_b")):
        w.refuse(i, "a DPAS whose types are not constants")
    try:
        shape = dpas_of(i, w.kernel.target)
    except LegalityError as error:
        w.refuse(i, f"illegal DPAS: {error}")
    reason = dpas.check_scaled_dpas(
        shape.a, shape.b, shape.accumulator, w.kernel.target, subgroup_size=w.lanes)
    if reason is not None:
        w.refuse(i, f"illegal DPAS: {reason}")
    _check_sizes(w, i, shape)
    for name in ("scale_a", "scale_b"):
        found = argument(i, name).type.size
        if found != shape.scales:
            w.refuse(i, f"{name} of a DPAS of {shape.a} by {shape.b} has {shape.scales} bytes in "
                        f"each lane, its type has {found}")
    return shape


def _check_sizes(w: Widener, i: Instruction, shape: dpas.Dpas) -> None:
    """Refuse operands that do not have the size that the instruction takes.

    The type of A may be larger if A has one row.
    """
    expected = (shape.repeat_count * shape.execution_size * i.type.scalar.size,
                shape.a_bytes, shape.b_bytes)
    for name, operand, want in zip(
        ("accumulator", "A", "B"), i.operands[:3], expected, strict=True
    ):
        found = operand.type.size * w.lanes
        if found != want and not (name == "A" and shape.repeat_count == 1 and found > want):
            w.refuse(i, f"operand {name} of a DPAS with {shape.repeat_count} rows holds {want} "
                        f"bytes, its type has {found}")
