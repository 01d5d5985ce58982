"""Cache prepared matrix tiles that the warps of a work-group load several times.

The warps of a work-group multiply the same tiles of A and B.  A load of such a tile stores its
prepared form (see `direct`) in a table of its thread, under its address and pitch.  The next load
of that tile takes it from there.  In effect that load happens earlier, which must be unobservable.
Therefore the kernel must have no atomics and volatile accesses, and no store to global memory may
precede the load.  Stores of other work-groups do not matter, because they are not ordered with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from triton_xe.intrinsics import Effect, find
from triton_xe.intrinsics.definitions.block_2d import block_read
from triton_xe.llvm import Block, Instruction
from triton_xe.llvm.facts import Facts
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.analysis.private_arrays import Pointers, accessed
from triton_xe.runtime.simulator.context import HEAD_BYTES, TILE_WORDS, WINDOW

ALL_BYTES = 1 << 21
"""Bytes for the tiles of a thread: the L2 cache of a large core.

Most kernels use half of them, because only one of two matrices profits from its table.
"""


@dataclass(frozen=True)
class TileTable:
    """Offsets of a table in the memory of a thread, its capacity, and the size of its tiles."""

    head: int
    tiles: int
    capacity: int
    tile_bytes: int

    @property
    def key_bits(self) -> int:
        """Bits of the hash; there are four keys per tile, so that collisions are rare."""
        return (4 * self.capacity - 1).bit_length()

    @property
    def slots(self) -> int:
        """Offset in the table of the slot numbers of the tiles, after the keys."""
        return HEAD_BYTES + 8 * ((1 << self.key_bits) + WINDOW)

    @property
    def nbytes(self) -> int:
        """Bytes of the table without the tiles, in whole cache lines."""
        records = self.slots + 4 * ((1 << self.key_bits) + WINDOW)
        return -(-(records + 8 * TILE_WORDS * self.capacity) // 64) * 64


@dataclass(frozen=True)
class TileTables:
    """The tables of a kernel, by `id` of the loads that use them."""

    by_load: Mapping[int, TileTable]
    head_bytes: int = 0
    """Bytes at the start that are zero when a launch begins."""
    nbytes: int = 0


NO_TABLES = TileTables({})


def tile_tables(
    facts: Facts, pointers: Pointers, direct: Mapping[str, str], lanes: int
) -> TileTables:
    """A table for each matrix and tile shape among the loads that may share tiles."""
    function = facts.function
    if not direct or not function.is_kernel or any(map(_orders, function.instructions())):
        return NO_TABLES
    late = function.reachable([
        b.label for b in function.blocks if any(_writes(i, pointers) for i in b.instructions)
    ])
    readers: dict[tuple[str, ...], list[Instruction]] = {}
    for block in function.blocks:
        for position, i in enumerate(block.instructions):
            if find(i.callee).definition is not block_read or block.label in late:
                continue
            array = _filled_alone(facts, block, position, pointers)
            if array in direct and block.label in function.reachable(block.successors):
                readers.setdefault((direct[array], *_table_key(i)), []).append(i)
    return _with_offsets(list(readers.values()), lanes)


_SHAPE = ("bits", "tile_width", "tile_height", "blocks", "transpose", "vnni")


def _table_key(read: Instruction) -> Iterator[str]:
    """Key of the matrix, and the shape of the tiles."""
    yield read.operands[0].text
    for name in _SHAPE:
        yield argument(read, name).text


def _with_offsets(readers: list[list[Instruction]], lanes: int) -> TileTables:
    """Assign offsets to tables: first the heads of all, then the tiles of all."""
    plain = []
    for reads in readers:
        size = 2 * reads[0].type.size * lanes
        capacity = ALL_BYTES // len(readers) // size
        if capacity:
            plain.append((reads, TileTable(0, 0, capacity, size)))
    head_bytes = sum(t.nbytes for _, t in plain)
    found: dict[int, TileTable] = {}
    head, tiles = 0, head_bytes
    for reads, t in plain:
        found |= dict.fromkeys(map(id, reads), replace(t, head=head, tiles=tiles))
        head += t.nbytes
        tiles += t.capacity * t.tile_bytes
    return TileTables(found, head_bytes, tiles)


def _filled_alone(
    facts: Facts, block: Block, position: int, pointers: Pointers
) -> str:
    """The private array that only this load fills for later loads of its block, or ""."""
    name = block.instructions[position].result or ""
    array, offset = next((
        pointers.get(u.operands[1].local or "", ("", None)) for u in facts.users.get(name, ())
        if u.opcode == "store"
    ), ("", None))
    following = {id(i) for i in block.instructions[position + 1 :]}
    accesses = [i for i in facts.function.instructions() if accessed(i, pointers) == array]
    alone = offset == 0 and sum(i.opcode == "store" for i in accesses) == 1
    return array if alone and all(id(i) in following for i in accesses) else ""


def _orders(i: Instruction) -> bool:
    """True if an instruction may order accesses to global memory of different work-items."""
    if i.opcode in ("atomicrmw", "cmpxchg", "fence"):
        return True
    if i.opcode in ("load", "store"):
        return "volatile" in i.flags
    return i.opcode == "call" and Effect.ORDERS in find(i.callee).effects


def _writes(i: Instruction, pointers: Pointers) -> bool:
    if i.opcode == "store":
        address = i.operands[1]
        return address.type.space != 3 and address.local not in pointers
    return i.opcode == "call" and Effect.WRITES in find(i.callee).effects
