"""DPAS and 2D blocks: calls into the library on memory images.

DPAS operands are *prepared* once, where they are computed: A as fp32 (or i16) rows, B as fp32
rows (or i16 pairs), so that the many instructions sharing an operand convert it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_xe.errors import LegalityError
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import find
from triton_xe.intrinsics.definitions import block_2d
from triton_xe.runtime.simulator.analysis.calls import argument, is_dpas
from triton_xe.runtime.simulator.analysis.coalesce import accumulator_slots
from triton_xe.runtime.simulator.analysis.legality import check_block, check_dpas, dpas_of
from triton_xe.runtime.simulator.ir import Function, Instruction, Operand
from triton_xe.runtime.simulator.library.names import (
    block_read_name,
    block_write_name,
    dpas_roles,
    prepare_name,
    tile_name,
)
from triton_xe.runtime.simulator.sanitizer.instrument import guarded_surface
from triton_xe.runtime.simulator.sanitizer.state import Kind
from triton_xe.runtime.simulator.trace.messages import traced_block
from triton_xe.runtime.simulator.widen.direct import stored_at_once
from triton_xe.runtime.simulator.widen.dpas_groups import Dpas, note_dpas, note_read, note_tile
from triton_xe.runtime.simulator.widen.values import Slot, Uniform, Value
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def operand_roles(function: Function, target: Target) -> dict[str, set[str]]:
    """For every value used as A or B of a DPAS, the preparations it needs."""
    found: dict[str, set[str]] = {}
    for i in function.instructions():
        if is_dpas(i):
            try:
                roles = dpas_roles(dpas_of(i, target))
            except LegalityError:
                continue  # `dpas` refuses it, and says where
            for operand, role in zip(i.operands[1:3], roles, strict=True):
                if operand.local is not None:
                    found.setdefault(operand.local, set()).add(role)
    return found


def assign_slots(w: Widener) -> None:
    """Allocate the accumulator slots of a function."""
    numbers = accumulator_slots(w.function)
    types = {i.result: i.type for i in w.function.instructions() if i.result in numbers}
    sizes: dict[int, int] = {}
    for name, number in numbers.items():
        sizes[number] = max(sizes.get(number, 0), types[name].size * w.lanes)
    pointers = {number: w.temporary(size) for number, size in sizes.items()}
    w.slots = {name: pointers[number] for name, number in numbers.items()}


def prepare_roles(w: Widener, name: str, value: Value) -> None:
    """Prepare a value for each of its uses as a matrix operand."""
    first = len(w.block.lines)
    image = w.to_memory(value)
    for role in sorted(w.roles[name]):
        w.prepared[name, role] = prepare(w, image, role)
    if not isinstance(value, Slot):
        w.own_memory.update(
            x for x in w.block.lines[first:] if x.startswith(("store ", "call void @xe_prepare_"))
        )


def prepare(w: Widener, image: str, role: str) -> str:
    nbytes = int(role.rsplit("_", 1)[1])
    target = w.temporary(nbytes)
    w.call_helper(prepare_name(role), "void", [f"ptr {target}", f"ptr {image}"])
    return target


def dpas(w: Widener, i: Instruction) -> None:
    assert i.result is not None
    shape = check_dpas(w, i)
    roles = dpas_roles(shape)
    accumulator = w.value(i.operands[0]) if not i.operands[0].is_undefined else Uniform(
        "zeroinitializer", i.type
    )
    slot = w.slots[i.result]
    if not (isinstance(accumulator, Slot) and accumulator.pointer == slot):
        w.store_image(accumulator, slot)
        if w.block.lines[-1].startswith("store "):
            w.slot_stores[w.block.lines[-1]] = slot
    a = _prepared(w, i.operands[1], roles[0])
    b = _prepared(w, i.operands[2], roles[1])
    note_dpas(w, Dpas(shape, i.type.scalar.name, slot, a, b))
    w.define(i, Slot(slot, i.type))


def _prepared(w: Widener, operand: Operand, role: str) -> str:
    if operand.local is not None:
        return w.prepared[operand.local, role]
    return prepare(w, w.to_memory(w.value(operand)), role)


# --- 2D blocks ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockArguments:
    """Host operands of the surface and position, and the constants of the message."""

    surface: tuple[str, ...]
    """base, width - 1, height - 1, pitch - 1, x, y"""
    bits: int
    tile_width: int
    tile_height: int
    blocks: int
    transpose: bool
    vnni: bool

    @property
    def mode(self) -> str:
        return "transpose" if self.transpose else "vnni" if self.vnni else "plain"

    @property
    def texts(self) -> list[str]:
        base, *rest = self.surface
        return [f"i64 {base}", *(f"i32 {n}" for n in rest)]


_MESSAGE = ("bits", "tile_width", "tile_height", "blocks", "transpose", "vnni")


def _constants(w: Widener, i: Instruction, names: Sequence[str]) -> list[int]:
    found = [argument(i, name).integer_value() for name in names]
    if any(v is None for v in found):
        w.fail("a 2D block whose shape is not constant")
    return [int(v or 0) for v in found]


def _from_payload(w: Widener, i: Instruction) -> tuple[str, ...]:
    payload = w.uniform(argument(i, "payload"))
    base = w.emit(f"load i64, ptr {payload}")
    names = [w.emit(f"load i32, ptr {w.at(payload, 8 + 4 * k)}") for k in range(5)]
    for k, step in enumerate((argument(i, "x"), argument(i, "y"))):
        if step.integer_value() != 0:
            names[3 + k] = w.emit(f"add i32 {names[3 + k]}, {w.uniform(step)}")
    return base, *names


def block_arguments(w: Widener, i: Instruction) -> BlockArguments:
    """The surface, place and shape that an `LSC2DBlock*` message names."""
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
        w.note_place(i)
        if action != "Prefetch":
            arguments = guarded_surface(w, i, arguments, Kind.WRITE if action == "Write" else 0)
        traced_block(w, i, arguments, action)
        tail = [f"ptr {w.error_pointer()}", f"i32 {i.line}"]
        if action == "Read":
            _read(w, i, arguments, tail)
        elif action == "Write":
            image = w.to_memory(w.value(argument(i, "value")))
            name = block_write_name(arguments.bits, arguments.tile_width, arguments.tile_height)
            w.call_helper(name, "void", [f"ptr {image}", *arguments.texts, *tail])

    return rule


def _read(w: Widener, i: Instruction, arguments: BlockArguments, tail: list[str]) -> None:
    assert i.result is not None
    target, kind = _redirect(w, i)
    mode = f"rows_{kind}" if kind else arguments.mode
    name = block_read_name(arguments.bits, arguments.tile_width, arguments.tile_height,
                           arguments.blocks, mode)
    nbytes = i.type.size * w.lanes
    pointer = target if target is not None else w.temporary(nbytes)
    note_read(w, arguments.surface, arguments.tile_height, arguments.bits // 8)
    if id(i) in w.tables.of:
        _tile(w, i, arguments, pointer, tail)
        return
    w.call_helper(name, "void", [f"ptr {pointer}", *arguments.texts, *tail])
    if target is None:
        w.define(i, Slot(pointer, i.type))


def _tile(
    w: Widener, i: Instruction, arguments: BlockArguments, own: str, tail: list[str]
) -> None:
    """A read into a direct array that may find its tile in a table; `own` is the array."""
    table = w.tables.of[id(i)]
    (store,) = w.uses[i.result or ""]
    array, _ = w.private_pointers[store.operands[1].local or ""]
    host_array = w.arrays[array]
    name = tile_name(arguments.bits, arguments.tile_width, arguments.tile_height,
                     arguments.blocks, f"rows_{w.direct_kinds[array]}")
    group = w.emit(f"load i64, ptr {w.at('%ctx', 80)}")
    head = w.at("%tiles", table.head)
    tile = w.direct[host_array] = w.call_helper(name, "ptr", [
        f"ptr {own}", *arguments.texts, *tail, f"ptr {head}", f"ptr {w.at('%tiles', table.tiles)}",
        f"i64 {table.capacity}", f"i64 {table.key_bits}", f"i64 {table.slots}",
        f"i64 {w.emit(f'add i64 {group}, 1')}",
    ])
    note_tile(w, head, tile, table.tile_bytes)


def _redirect(w: Widener, i: Instruction) -> tuple[str | None, str]:
    """(private memory a read is stored to when nothing touches it between, prepared kind)."""
    uses = w.uses.get(i.result or "", [])
    if len(uses) != 1 or uses[0].opcode != "store" or uses[0].operands[0].local != i.result:
        return None, ""
    store = uses[0]
    array, offset = w.private_pointers.get(store.operands[1].local or "", ("", None))
    host_array = w.arrays.get(array)
    if host_array is None or offset is None:
        return None, ""
    if array in w.direct_kinds:
        w.skipped.add(id(store))
        return w.at(w.direct[host_array], 2 * offset * w.lanes), w.direct_kinds[array]
    if w.granules[host_array] != i.type.scalar.size or not stored_at_once(
        w.function, i, store, w.private_pointers
    ):
        return None, ""
    w.skipped.add(id(store))
    return w.at(host_array, offset * w.lanes), ""


def _create_payload(w: Widener, i: Instruction) -> None:
    payload = w.temporary(64)
    w.do(f"store i64 {w.uniform(i.operands[0])}, ptr {payload}")
    for k in range(5):
        w.do(f"store i32 {w.uniform(i.operands[1 + k])}, ptr {w.at(payload, 8 + 4 * k)}")
    w.define(i, Uniform(payload, i.type))


def _copy_payload(w: Widener, i: Instruction) -> None:
    payload = w.temporary(64)
    w.copy(payload, w.uniform(i.operands[0]), 32)
    w.define(i, Uniform(payload, i.type))


def _set_payload(w: Widener, i: Instruction) -> None:
    payload, changed = w.uniform(argument(i, "payload")), argument(i, "value")
    field, add = _constants(w, i, ("field", "add"))
    if not 1 <= field <= 6:
        w.fail(f"2D block payload field {field} does not exist")
    value, t = w.uniform(changed), changed.type.text
    where = payload if field == 1 else w.at(payload, 4 * field)
    if add and field in (5, 6):
        value = w.emit(f"add {t} {w.emit(f'load {t}, ptr {where}')}, {value}")
    w.do(f"store {t} {value}, ptr {where}")


BLOCK_RULES: dict[Callable[..., object] | None, Rule] = {
    block_2d.block_read: _message("Read"),
    block_2d.block_write: _message("Write"),
    block_2d.block_prefetch: _message("Prefetch"),
    block_2d.create_payload: _create_payload,
    block_2d.copy_payload: _copy_payload,
    block_2d.set_payload_field: _set_payload,
}
