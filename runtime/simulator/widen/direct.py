"""Block reads that write prepared matrix operands directly.

Some private arrays need no register image.  They are filled only by block reads, and read only as A
or B of DPAS.  For A, these are plain 16-bit tiles 16 wide.  For B, they are VNNI 16-bit tiles 16
wide, or transposed tiles of 16 rows of pairs.  The read then widens its rows or columns to fp32,
which is the result of both preparations.  Bytes double, so that the image at byte x is at 2x.
"""

from __future__ import annotations

from collections.abc import Mapping

from triton_xe.intrinsics import find
from triton_xe.intrinsics.definitions.block_2d import block_read
from triton_xe.llvm import Block, Instruction
from triton_xe.llvm.facts import Facts
from triton_xe.runtime.simulator.analysis.calls import argument, is_dpas
from triton_xe.runtime.simulator.analysis.private_arrays import Pointers, accessed
from triton_xe.runtime.simulator.library.names import Preparation

_KINDS = ("f16", "bf16")


def direct_arrays(
    facts: Facts, pointers: Pointers, roles: Mapping[str, set[Preparation]], lanes: int
) -> dict[str, str]:
    """Array -> element kind (f16, bf16), for the arrays that need no image."""
    return _Direct(facts, pointers, roles).arrays() if lanes == 16 else {}


class _Direct:
    def __init__(
        self, facts: Facts, pointers: Pointers, roles: Mapping[str, set[Preparation]]
    ) -> None:
        self.facts, self.pointers, self.roles = facts, pointers, roles

    def arrays(self) -> dict[str, str]:
        """Private arrays that block reads may write in prepared form, with the form of each."""
        kinds: dict[str, str] = {}
        bad: set[str] = set()
        for block in self.facts.function.blocks:
            for position, i in enumerate(block.instructions):
                for name in i.locals():
                    if name in self.pointers and i.opcode not in ("load", "store", "getelementptr"):
                        bad.add(self.pointers[name][0])
                array = accessed(i, self.pointers)
                if array is None:
                    continue
                if i.opcode == "load":
                    kind = self._load_kind(block, position)
                    if kind is None or kinds.setdefault(array, kind) != kind:
                        bad.add(array)
                elif not self._is_read(i):
                    bad.add(array)
        return {a: k for a, k in kinds.items() if a not in bad and self._one_form(a)}

    def _load_kind(self, block: Block, position: int) -> str | None:
        """The element kind of a load used only as one operand role, before the array changes."""
        i = block.instructions[position]
        name = i.result or ""
        array, offset = self.pointers[i.operands[0].local or ""]
        found, uses = self.roles.get(name, set()), self.facts.users.get(name, ())
        if len(found) != 1 or offset is None:
            return None
        role, size = next(iter(found)), i.type.scalar.size
        is_a = role.operand == "a" and size == 2 and role.columns == 16
        is_b = role.operand == "b" and size == 4 and (role.rows, role.columns) == (16, 16)
        if role.element not in _KINDS or not (is_a or is_b) or offset % size:
            return None
        waiting = {id(u) for u in uses}
        if not all(is_dpas(u) and u.operands[0].local != name for u in uses):
            return None
        for later in block.instructions[position + 1 :]:
            waiting.discard(id(later))
            if not waiting:
                return role.element
            if self._fills(later, array) or (find(later.callee).definition is block_read and any(
                    self._fills(u, array) for u in self.facts.users.get(later.result or "", ()))):
                return None
        return None

    def _fills(self, i: Instruction, array: str) -> bool:
        return i.opcode == "store" and accessed(i, self.pointers) == array

    def _is_read(self, store: Instruction) -> bool:
        """True if a block read fills the array, with no access in between."""
        value = store.operands[0]
        source = self.facts.maker(value)
        if source is None or len(self.facts.users[value.text]) != 1:
            return False
        return (
            _tile(source) is not None
            and self.pointers[store.operands[1].local or ""][1] is not None
            and stored_at_once(self.facts, source, store, self.pointers)
        )

    def _one_form(self, array: str) -> bool:
        """True if plain reads are used for A only, and VNNI reads for B only."""
        forms: set[str] = set()
        for i in self.facts.function.instructions():
            if accessed(i, self.pointers) != array:
                continue
            if i.opcode == "load":
                forms |= {role.operand for role in self.roles[i.result or ""]}
            else:
                forms.add(_tile(self.facts.makers[i.operands[0].text]) or "")
        return len(forms) == 1


def stored_at_once(
    facts: Facts, read: Instruction, store: Instruction, pointers: Pointers
) -> bool:
    """True if `store` follows `read` in its block with no access to the array between."""
    array = pointers[store.operands[1].local or ""][0]
    block = facts.blocks[facts.homes[read]]
    position = block.instructions.index(read)
    for x in block.instructions[position + 1 :]:
        if x is store:
            return True
        if accessed(x, pointers) == array:
            return False
    return False


def _tile(i: Instruction) -> str | None:
    """"a" for a plain read, "b" for a VNNI or transposed one, of 16-bit tiles 16 wide or high."""
    if find(i.callee).definition is not block_read:
        return None
    bits, width, height, transpose, vnni = (
        argument(i, name).integer_value()
        for name in ("bits", "tile_width", "tile_height", "transpose", "vnni")
    )
    if transpose:
        return "b" if (bits, height, vnni) == (32, 16, 0) else None
    if bits != 16 or width != 16 or height is None:
        return None
    if not vnni:
        return "a" if height % 2 == 0 else None
    return "b"
