"""A layout conversion in several turns, for tensors that do not fit shared memory at once.

A turn exchanges the elements whose register number in the source has certain bits equal to the
number of the turn.  In the result these elements may be anywhere.  For the element in a slot of the
result, bit i of its turn is linear in the slot.  It is the parity of register & mr, lane & ml and
warp & mw.

>>> from triton_xe.layout.linear_layout import LinearLayout
>>> def held(register, warp):
...     bases = {"register": register, "lane": [], "warp": warp, "block": []}
...     return LinearLayout(bases, {"x": 4})
>>> turns = split(held([(1,)], [(2,)]), held([(2,)], [(1,)]), 1)
>>> turns.bits, turns.where
((0,), (Swap(registers=0, lanes=0, warps=1),))
"""

from __future__ import annotations

from dataclasses import dataclass

from triton_xe.errors import out_of_resources
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.lane_shuffles import SLOT_DIMS, Swap, columns_by_dim


@dataclass(frozen=True)
class Turns:
    """The turn of each slot: `bits` of the source's register number, parities `where` in the
    result.

    `source` and `result` are the layouts of the elements of one turn.  Each slot of `result`
    receives an element in every turn, and the right one in its own.
    """

    bits: tuple[int, ...]
    where: tuple[Swap, ...]
    source: LinearLayout
    result: LinearLayout

    @property
    def count(self) -> int:
        return 1 << len(self.bits)

    def register(self, turn: int, register: int) -> int:
        """The source's register that is `register` of `source` in a turn."""
        for i, bit in enumerate(self.bits):
            low = register & ((1 << bit) - 1)
            register = (register ^ low) << 1 | (turn >> i & 1) << bit | low
        return register


def split(source: LinearLayout, result: LinearLayout, n_bits: int) -> Turns:
    """Split a conversion into turns by `n_bits` bits of the source's registers that hold no
    copies.
    """
    home = columns_by_dim(source.invert_and_compose(source).flatten_outs())
    read = columns_by_dim(result.invert_and_compose(source).flatten_outs())
    n_registers = len(home["register"])
    if n_registers < n_bits:
        out_of_resources(
            1 << n_bits, 1 << n_registers, "turns through shared memory",
            f"converting this layout takes {1 << n_bits} turns through shared local memory, but "
            f"lanes hold {1 << n_registers} elements")
    where = [_slots_with_bit(read, bit) for bit in range(n_registers)]
    order = sorted(range(n_registers), key=lambda b: (where[b].lanes, where[b].warps, -b))
    bits = tuple(sorted(order[:n_bits]))
    used = [c for columns in home.values() for c in columns]
    kept = [b for b in range(max(used).bit_length()) if any(c >> b & 1 for c in used)
            and b not in bits]
    registers = [c for b, c in enumerate(home["register"]) if b not in bits]
    return Turns(
        bits, tuple(where[b] for b in bits),
        _rest({**home, "register": tuple(registers)}, kept), _rest(read, kept))


def _slots_with_bit(columns: dict[str, tuple[int, ...]], bit: int) -> Swap:
    """Parities of the slots whose column sum has a bit."""
    return Swap(*(sum((c >> bit & 1) << i for i, c in enumerate(columns[name]))
                  for name in ("register", "lane", "warp")))


def _rest(columns: dict[str, tuple[int, ...]], kept: list[int]) -> LinearLayout:
    """The layout of elements that are numbered by the `kept` bits of their slots."""
    bases = {
        name: [(sum((c >> b & 1) << i for i, b in enumerate(kept)),) for c in columns[name]]
        for name in SLOT_DIMS
    }
    return LinearLayout(bases, {"element": 1 << len(kept)}, require_surjective=False)
