"""Refuse, before running, what a real device would silently do wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triton_xe.errors import LegalityError, SimulatorTrap
from triton_xe.hardware import block_2d, dpas
from triton_xe.runtime.simulator.ir import Instruction
from triton_xe.runtime.simulator.library.precision import DpasShape
from triton_xe.runtime.simulator.widen.widener import Widener

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.widen.matrix import BlockArguments

_CHECKS = {
    "Read": block_2d.check_load,
    "Write": block_2d.check_store,
    "Prefetch": block_2d.check_prefetch,
}
_ACCUMULATORS = {"float": "f32", "i32": "i32", "half": "f16", "i16": "bf16"}


def check_block(w: Widener, action: str, arguments: BlockArguments, i: Instruction) -> None:
    """A 2D block must be in the device's tables and have the right result size."""
    try:
        shape = block_2d.BlockShape(
            arguments.bits, arguments.tile_width, arguments.tile_height, arguments.blocks,
            arguments.transpose, arguments.vnni,
        )
    except LegalityError as error:
        raise SimulatorTrap(f"{w.where(i)}: {error}") from None
    reason = _CHECKS[action](shape, w.context.target)
    if reason is not None:
        raise SimulatorTrap(f"{w.where(i)}: illegal 2D block {action.lower()}: {reason}")
    if w.lanes != block_2d.SUBGROUP_SIZE:
        raise SimulatorTrap(
            f"{w.where(i)}: 2D blocks need a subgroup of {block_2d.SUBGROUP_SIZE} lanes, "
            f"this kernel has {w.lanes}"
        )
    if action == "Prefetch":
        return
    t = i.type if action == "Read" else i.operands[-1].type
    nbytes = t.size * w.lanes
    if nbytes != shape.result_bytes:
        raise SimulatorTrap(
            f"{w.where(i)}: the registers of a 2D block {action.lower()} {shape} hold "
            f"{shape.result_bytes} bytes, the LLVM type has {nbytes}"
        )


def check_dpas(w: Widener, i: Instruction, shape: DpasShape) -> None:
    """A DPAS must be in the device's table and its operands must have the right size."""
    constants = [o.integer_value() for o in i.operands[3:8]]
    if None in constants:
        raise SimulatorTrap(f"{w.where(i)}: a DPAS whose types are not constants")
    if constants[4]:
        raise SimulatorTrap(f"{w.where(i)}: DPASW is not simulated")
    accumulator = _ACCUMULATORS.get(i.type.scalar.name, i.type.scalar.name)
    reason = dpas.check_dpas(
        shape.a, shape.b, accumulator, w.context.target,
        repeat_count=shape.rows, subgroup_size=w.lanes, depth=int(constants[2] or 0),
    )
    if reason is not None:
        raise SimulatorTrap(f"{w.where(i)}: illegal DPAS: {reason}")
    if {shape.a, shape.b} & {"bf8", "hf8"}:
        raise SimulatorTrap(f"{w.where(i)}: DPAS of {shape.a} by {shape.b} is not simulated")
    expected = (shape.rows * shape.columns * i.type.scalar.size, shape.bytes_a, shape.bytes_b)
    for name, operand, want in zip(
        ("accumulator", "A", "B"), i.operands[:3], expected, strict=True
    ):
        found = operand.type.size * w.lanes
        if found != want and not (name == "A" and shape.rows == 1 and found > want):
            raise SimulatorTrap(
                f"{w.where(i)}: operand {name} of a DPAS with {shape.rows} rows holds "
                f"{want} bytes, its type has {found}"
            )
