"""DPAS and 2D blocks: calls into the library on memory images.

DPAS operands are *prepared* once, where they are computed: A as fp32 (or i16) rows, B as fp32 rows
(or i16 pairs).  Thus an operand of many instructions is converted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triton_xe.errors import LegalityError
from triton_xe.hardware.block_2d import alignment
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import find, genisa
from triton_xe.intrinsics.definitions import block_2d
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import Function, Instruction, Operand, constant, zero
from triton_xe.llvm.types import I32, I64, VOID
from triton_xe.runtime.simulator.analysis.calls import argument, is_dpas
from triton_xe.runtime.simulator.analysis.coalesce import accumulator_slots
from triton_xe.runtime.simulator.library.names import Preparation, preparations
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.sanitizer.instrument import guarded_surface
from triton_xe.runtime.simulator.sanitizer.state import Kind
from triton_xe.runtime.simulator.trace.messages import traced_block
from triton_xe.runtime.simulator.widen.dpas_groups import emit_dpas, predict_read
from triton_xe.runtime.simulator.widen.host_function import ERROR, HostFunction
from triton_xe.runtime.simulator.widen.legality import (
    check_block,
    check_dpas,
    check_scaled_dpas,
    dpas_of,
)
from triton_xe.runtime.simulator.widen.parts import BlockArguments, Dpas
from triton_xe.runtime.simulator.widen.values import Slot, Uniform
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def operand_roles(function: Function, target: Target) -> dict[str, set[Preparation]]:
    """For every value used as A or B of a DPAS, the preparations it needs."""
    found: dict[str, set[Preparation]] = {}
    for i in function.instructions():
        if is_dpas(i):
            try:
                roles = preparations(dpas_of(i, target))
            except LegalityError:
                continue  # `dpas` refuses it, and says where
            for operand, role in zip(i.operands[1:3], roles, strict=True):
                if operand.local is not None:
                    found.setdefault(operand.local, set()).add(role)
    return found


def allocate_slots(b: HostFunction, facts: Facts) -> dict[str, Operand]:
    """Memory for the accumulators of a function, by name."""
    numbers = accumulator_slots(facts)
    sizes: dict[int, int] = {}
    for name, number in numbers.items():
        sizes[number] = max(sizes.get(number, 0), facts.makers[name].type.size * b.lanes)
    pointers = {number: b.temporary(size) for number, size in sizes.items()}
    return {name: pointers[number] for name, number in numbers.items()}


def dpas(w: Widener, i: Instruction) -> None:
    """Store the accumulator in its slot, and note the DPAS, which is called with its group."""
    assert i.result is not None
    shape = check_dpas(w, i)
    roles = preparations(shape)
    accumulator = w.value(i.operands[0]) if not i.operands[0].is_undefined else Uniform(
        zero(i.type), i.type
    )
    slot = w.forms.slots[i.result]
    if not (isinstance(accumulator, Slot) and accumulator.pointer == slot):
        w.b.store_image(accumulator, slot)
    a = _prepared(w, i.operands[1], roles[0])
    b = _prepared(w, i.operands[2], roles[1])
    emit_dpas(w, Dpas(shape, i.type.scalar.name, slot, a, b))
    w.define(i, Slot(slot, i.type))


def scaled_dpas(w: Widener, i: Instruction) -> None:
    """Call a DPAS with scales, which are applied in double; it is not merged with neighbours."""
    shape = check_scaled_dpas(w, i)
    accumulator, a, b, left, right = (w.b.to_memory(w.value(o)) for o in i.operands[:5])
    a, b = (w.b.prepared(x, role) for x, role in zip((a, b), preparations(shape), strict=True))
    result = w.b.temporary(i.type.size * w.lanes)
    name = symbol("scaled_dpas", i.type.scalar.name, shape.k, shape.execution_size, shape.scales)
    w.b.call(name, VOID, [result, accumulator, a, b, left, right])
    w.define(i, Slot(result, i.type))


def _prepared(w: Widener, operand: Operand, role: Preparation) -> Operand:
    """The form of an operand that a DPAS reads: made where a value is defined, here for a constant.
    """
    if operand.local is not None:
        return w.matrices.prepared[operand.local, role]
    return w.b.prepared(w.b.to_memory(w.value(operand)), role)


# --- 2D blocks ----------------------------------------------------------------------------------


_MESSAGE = ("bits", "tile_width", "tile_height", "blocks", "transpose", "vnni")


def _constants(w: Widener, i: Instruction, names: Sequence[str]) -> list[int]:
    found = [argument(i, name).integer_value() for name in names]
    if any(v is None for v in found):
        w.fail("a 2D block whose shape is not constant")
    return [int(v or 0) for v in found]


def _from_payload(w: Widener, i: Instruction) -> tuple[Operand, ...]:
    """Base, sizes and position in the payload of a message, moved by the message's steps."""
    payload = w.uniform(argument(i, "payload"))
    base = w.b.load(I64, payload)
    words = [w.b.load(I32, w.b.at(payload, 8 + 4 * k)) for k in range(5)]
    for k, step in enumerate((argument(i, "x"), argument(i, "y"))):
        if step.integer_value() != 0:
            words[3 + k] = w.b.add(words[3 + k], w.uniform(step))
    return base, *words


def block_arguments(w: Widener, i: Instruction) -> BlockArguments:
    """The surface, position and shape that an `LSC2DBlock*` message names."""
    if find(i.callee).has("payload"):
        surface = _from_payload(w, i)
    else:
        surface = tuple(w.uniform(o) for o in i.operands[:6])
    bits, width, height, blocks, transpose, vnni = _constants(w, i, _MESSAGE)
    return BlockArguments(surface, bits, width, height, blocks, bool(transpose), bool(vnni))


def _message(action: str) -> Rule:
    """An `LSC2DBlock*` message that is a Read, Write or Prefetch."""

    def rule(w: Widener, i: Instruction) -> None:
        arguments = block_arguments(w, i)
        check_block(w, action, arguments, i)
        w.note_location(i)
        if action != "Prefetch":
            arguments = guarded_surface(w, i, arguments, Kind.WRITE if action == "Write" else 0)
        traced_block(w, i, arguments, action)
        tail = [ERROR, constant(I32, i.line)]
        if action == "Read":
            _read(w, i, arguments, tail)
        elif action == "Write":
            image = w.b.to_memory(w.value(argument(i, "value")))
            name = symbol("block_write", arguments.bits, arguments.tile_width,
                          arguments.tile_height, *alignment(w.kernel.target))
            w.b.call(name, VOID, [image, *arguments.surface, *tail])

    return rule


def _read(w: Widener, i: Instruction, arguments: BlockArguments, tail: list[Operand]) -> None:
    """Call the library's block read; its result is in new memory."""
    name = symbol("block_read", arguments.bits, arguments.tile_width, arguments.tile_height,
                  arguments.blocks, *alignment(w.kernel.target), arguments.mode)
    pointer = w.b.temporary(i.type.size * w.lanes)
    predict_read(w, arguments.surface, arguments.tile_height, arguments.bits // 8)
    w.b.call(name, VOID, [pointer, *arguments.surface, *tail])
    w.define(i, Slot(pointer, i.type))


def _create_payload(w: Widener, i: Instruction) -> None:
    """Write the surface, position and sizes to new memory: the value is its address."""
    payload = w.b.temporary(64)
    w.b.store(w.uniform(i.operands[0]), payload)
    for k in range(5):
        w.b.store(w.uniform(i.operands[1 + k]), w.b.at(payload, 8 + 4 * k))
    w.define_uniform(i, payload)


def _copy_payload(w: Widener, i: Instruction) -> None:
    payload = w.b.temporary(64)
    w.b.copy(payload, w.uniform(i.operands[0]), 32, align=16)
    w.define_uniform(i, payload)


def _set_payload(w: Widener, i: Instruction) -> None:
    """Write, or add to, one field of a payload in memory."""
    payload = w.uniform(argument(i, "payload"))
    field, add = _constants(w, i, ("field", "add"))
    if not 1 <= field <= len(genisa.FIELDS):
        w.fail(f"2D block payload field {field} does not exist")
    value = w.uniform(argument(i, "value"))
    where = payload if field == genisa.BASE else w.b.at(payload, 4 * field)
    if add and field in (genisa.X, genisa.Y):
        value = w.b.add(w.b.load(value.type, where), value)
    w.b.store(value, where)


BLOCK_RULES: dict[Callable[..., object] | None, Rule] = {
    block_2d.block_read: _message("Read"),
    block_2d.block_write: _message("Write"),
    block_2d.block_prefetch: _message("Prefetch"),
    block_2d.create_payload: _create_payload,
    block_2d.copy_payload: _copy_payload,
    block_2d.set_payload_field: _set_payload,
}
