"""Block reads that go straight to prepared matrix operands.

A private array filled only by 16-bit block reads, and read only as A (plain tiles 16 wide) or B
(VNNI tiles 16 wide) of DPAS, needs no register image: the read widens its rows to fp32, which is
what both preparations would make of it.  Bytes double, so the image at byte x is at 2x.
"""

from __future__ import annotations

from collections.abc import Mapping

from triton_xe.intrinsics import find
from triton_xe.intrinsics.definitions.block_2d import block_read
from triton_xe.runtime.simulator.analysis.calls import argument, is_dpas
from triton_xe.runtime.simulator.analysis.private_arrays import Pointers, accessed
from triton_xe.runtime.simulator.ir import Block, Function, Instruction
from triton_xe.runtime.simulator.library.names import Preparation

_KINDS = ("f16", "bf16")


def direct_arrays(
    function: Function,
    pointers: Pointers,
    roles: Mapping[str, set[Preparation]],
    uses: Mapping[str, list[Instruction]],
    lanes: int,
) -> dict[str, str]:
    """Array -> element kind (f16, bf16), for the arrays that can stay without an image."""
    if lanes != 16:
        return {}
    kinds: dict[str, str] = {}
    bad: set[str] = set()
    producers: dict[str | None, Instruction] = {
        i.result: i for i in function.instructions() if i.opcode == "call" and i.result
    }
    for block in function.blocks:
        for position, i in enumerate(block.instructions):
            for name in i.locals():
                if name in pointers and i.opcode not in ("load", "store", "getelementptr"):
                    bad.add(pointers[name][0])
            array = accessed(i, pointers)
            if array is None:
                continue
            if i.opcode == "load":
                kind = _load_kind(block, position, pointers, roles, uses)
                if kind is None or kinds.setdefault(array, kind) != kind:
                    bad.add(array)
            elif not _is_read(function, i, pointers, producers, uses):
                bad.add(array)
    return {
        a: k for a, k in kinds.items() if a not in bad and _one_form(function, a, pointers,
                                                                      producers, roles)
    }


def _load_kind(
    block: Block, position: int, pointers: Pointers, roles: Mapping[str, set[Preparation]],
    uses: Mapping[str, list[Instruction]],
) -> str | None:
    """The element kind of a load used only as one operand role, before the array changes."""
    i = block.instructions[position]
    name = i.result or ""
    array, offset = pointers[i.operands[0].local or ""]
    found = roles.get(name, set())
    if len(found) != 1 or offset is None:
        return None
    role, size = next(iter(found)), i.type.scalar.size
    kind = role.element
    is_a = role.operand == "a" and size == 2 and role.columns == 16
    is_b = role.operand == "b" and size == 4 and (role.rows, role.columns) == (16, 16)
    if kind not in _KINDS or not (is_a or is_b) or offset % i.type.scalar.size:
        return None
    waiting = {id(u) for u in uses.get(name, ())}
    if not all(is_dpas(u) and u.operands[0].local != name for u in uses.get(name, ())):
        return None
    for later in block.instructions[position + 1 :]:
        waiting.discard(id(later))
        if not waiting:
            return kind
        if later.opcode == "store" and accessed(later, pointers) == array:
            return None
        if find(later.callee).definition is block_read and any(
            u.opcode == "store" and accessed(u, pointers) == array
            for u in uses.get(later.result or "", ())
        ):
            return None
    return None


def stored_at_once(
    function: Function, read: Instruction, store: Instruction, pointers: Pointers
) -> bool:
    """Whether `store` follows `read` in its block with no access to the array between."""
    array = pointers[store.operands[1].local or ""][0]
    block = next(b for b in function.blocks if any(x is read for x in b.instructions))
    position = next(k for k, x in enumerate(block.instructions) if x is read)
    for x in block.instructions[position + 1 :]:
        if x is store:
            return True
        if accessed(x, pointers) == array:
            return False
    return False


def _is_read(
    function: Function, store: Instruction, pointers: Pointers,
    producers: Mapping[str | None, Instruction],
    uses: Mapping[str, list[Instruction]],
) -> bool:
    value = store.operands[0].local
    source = producers.get(value)
    if source is None or len(uses.get(value or "", ())) != 1:
        return False
    return (
        _tile(source) is not None
        and pointers[store.operands[1].local or ""][1] is not None
        and stored_at_once(function, source, store, pointers)
    )


def _tile(i: Instruction) -> str | None:
    """a for a plain, b for a VNNI read of 16-bit tiles 16 wide."""
    if find(i.callee).definition is not block_read:
        return None
    bits, width, height, transpose, vnni = (
        argument(i, name).integer_value()
        for name in ("bits", "tile_width", "tile_height", "transpose", "vnni")
    )
    if bits != 16 or width != 16 or transpose or height is None:
        return None
    if not vnni:
        return "a" if height % 2 == 0 else None
    return "b"


def _one_form(
    function: Function, array: str, pointers: Pointers,
    producers: Mapping[str | None, Instruction], roles: Mapping[str, set[Preparation]],
) -> bool:
    """Plain reads feed A only, VNNI reads B only."""
    forms: set[str] = set()
    for i in function.instructions():
        if accessed(i, pointers) != array:
            continue
        if i.opcode == "load":
            forms |= {role.operand for role in roles[i.result or ""]}
        else:
            forms.add(_tile(producers[i.operands[0].local]) or "")
    return len(forms) == 1
