"""Native reads of matrix tiles through a table of those prepared before (see `tile_tables`)."""

from __future__ import annotations

from triton_xe.runtime.simulator.context import (
    FOUND,
    GROUP,
    HEAD_BYTES,
    OFF,
    PITCH,
    READ_NOW,
    USED,
    WINDOW,
)
from triton_xe.runtime.simulator.ir import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    Function,
    Operand,
    Parameter,
    array,
    constant,
    define,
    integer,
    vector,
)
from triton_xe.runtime.simulator.library.blocks import SURFACE, Surface, Tile, copy_function
from triton_xe.runtime.simulator.library.dpas import WIDE
from triton_xe.runtime.simulator.library.names import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

_MIXER = -7046029254386353131
_KEYS = vector(WINDOW, I64)
_TABLE: list[Parameter] = [
    ("table", PTR), ("tiles", PTR), ("capacity", I64), ("key_bits", I64), ("slots", I64),
    ("group", I64),
]


class _Table:
    """The table of a thread: words at its start, then keys, then numbers of tiles."""

    def __init__(self, b: Builder, table: Operand, tiles: Operand, slots: Operand) -> None:
        self.b, self.table, self.tiles = b, table, tiles
        self.slots = b.gep(I8, table, slots)

    def word(self, offset: int) -> Operand:
        return self.b.load(I64, self.b.at(self.table, offset))

    def put(self, offset: int, value: Operand | int) -> None:
        value = value if isinstance(value, Operand) else constant(I64, value)
        self.b.store(value, self.b.at(self.table, offset))

    def keys(self, home: Operand) -> Operand:
        """Where the keys are that are looked at together."""
        return self.b.gep(I64, self.b.at(self.table, HEAD_BYTES), home)

    def first_equal(self, keys: Operand, wanted: Operand) -> tuple[Operand, Operand]:
        """(whether one of the keys is the wanted one, the number of the first that is)."""
        b = self.b
        bits = b.bitcast(b.icmp("eq", b.load(_KEYS, keys, align=8), wanted), integer(WINDOW))
        return b.icmp("ne", bits, 0), bits

    def number(self, bits: Operand) -> Operand:
        b = self.b
        return b.zext(b.intrinsic("cttz", bits, constant(I1, 1)), I64)

    def slot(self, home: Operand, nth: Operand) -> Operand:
        return self.b.gep(I32, self.slots, self.b.add(home, nth))

    def tile(self, number: Operand, nbytes: int) -> Operand:
        return self.b.gep(array(nbytes, I8), self.tiles, number)


def tile(
    host: HostCpu, bits: int, width: int, height: int, blocks: int, mode: str
) -> list[Function]:
    """The prepared tile, from the table or read now; outside the surface is zero.

    A tile for which the table has no place goes to the image, as does one that is not all inside.
    """
    shape = Tile(bits // 8, width, height, blocks)
    nbytes = 4 * width * height * blocks
    name = symbol("tile", bits, width, height, blocks, mode)
    b = define(name, PTR, [*SURFACE, *_TABLE], attributes=WIDE)
    table, tiles, capacity, key_bits, slots, group = b.arguments[-len(_TABLE):]
    s = Surface(b, shape)
    s.enter(s.image)
    t = _Table(b, table, tiles, slots)
    key = b.ptrtoint(s.near)
    home = b.lshr(b.mul(key, _MIXER), b.sub(constant(I64, 64), key_bits))
    found, which = t.first_equal(t.keys(home), b.broadcast(key, WINDOW))
    fits = b.and_(b.icmp("eq", t.word(PITCH), s.pitch), b.icmp("ne", s.near, 0))
    with b.branch(b.and_(found, fits), leaves=True):
        number = b.zext(b.load(I32, t.slot(home, t.number(which))), I64)
        t.put(FOUND, b.add(t.word(FOUND), 1))
        t.put(READ_NOW, 0)
        b.ret(t.tile(number, nbytes))
    t.put(READ_NOW, 1)
    place = b.call(f"{name}.place", PTR, [
        s.image, table, slots, tiles, capacity, key_bits, group, home, key, s.pitch])
    b.call(f"{name}.copy", VOID, [place, s.near, s.pitch])
    b.ret(place)
    s.read_clipped(f"{name}.copy", s.image)
    return [b.function, copy_function(f"{name}.copy", shape, mode),
            _place(f"{name}.place", nbytes)]


def _place(name: str, nbytes: int) -> Function:
    """Where a tile goes that is not in the table.

    A full table begins anew once per work-group, unless it gave each of its tiles back less than
    twice: then it is not used any more.
    """
    b = define(name, PTR, [
        ("image", PTR), ("table", PTR), ("slots", I64), ("tiles", PTR), ("capacity", I64),
        ("key_bits", I64), ("group", I64), ("home", I64), ("key", I64), ("pitch", I64)],
        attributes="nounwind noinline", internal=True)
    image, table, slots, tiles, capacity, key_bits, group, home, key, pitch = b.arguments
    t = _Table(b, table, tiles, slots)

    def give_up_if(condition: Operand) -> None:
        with b.branch(condition, leaves=True):
            b.ret(image)

    give_up_if(b.icmp("ne", t.word(OFF), 0))
    used = t.word(USED)
    anew = b.or_(b.icmp("uge", used, capacity), b.icmp("ne", t.word(PITCH), pitch))
    on, begin, take = b.block.label, b.label("begin"), b.label("take")
    b.cond_br(anew, begin, take)
    b.start(begin)
    give_up_if(b.icmp("eq", t.word(GROUP), group))
    with b.branch(b.icmp("ult", t.word(FOUND), b.shl(used, 1)), leaves=True):
        t.put(OFF, 1)
        b.ret(image)
    places = b.add(b.shl(constant(I64, 1), key_bits), WINDOW)
    b.fill(b.at(table, HEAD_BYTES), 0, b.shl(places, 3))
    for word, value in ((PITCH, pitch), (FOUND, 0), (GROUP, group)):
        t.put(word, value)
    cleared = b.block.label
    b.br(take)
    b.start(take)
    number = b.phi(I64, (used, on), (constant(I64, 0), cleared)).value
    keys = t.keys(home)
    free, which = t.first_equal(keys, b.zero(_KEYS))
    t.put(USED, number)
    give_up_if(b.not_(free))
    nth = t.number(which)
    b.store(key, b.gep(I64, keys, nth))
    b.store(b.trunc(number, I32), t.slot(home, nth))
    t.put(USED, b.add(number, 1))
    b.ret(t.tile(number, nbytes))
    return b.function
