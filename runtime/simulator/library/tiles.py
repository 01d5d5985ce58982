"""Native reads of matrix tiles through a table of those prepared before (see `tile_tables`)."""

from __future__ import annotations

from triton_xe.runtime.simulator import context
from triton_xe.runtime.simulator.ir import I8, I32, I64, PTR, Function, array, vector
from triton_xe.runtime.simulator.ir.builder import Parameter, Routine
from triton_xe.runtime.simulator.ir.values import Memory, Term, Value, Writer
from triton_xe.runtime.simulator.library.blocks import SURFACE, Surface, Tile, copy_function
from triton_xe.runtime.simulator.library.names import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

_MIXER = -7046029254386353131
_KEYS = vector(context.WINDOW, I64)
_TABLE: list[Parameter] = [
    ("table", PTR), ("tiles", PTR), ("capacity", I64), ("key_bits", I64), ("slots", I64),
    ("group", I64),
]
_PLACE: list[Parameter] = [
    ("image", PTR), *_TABLE, ("home", I64), ("key", I64), ("pitch", I64)]


class _Table:
    """The table of a thread: words at its start, then keys, then numbers of tiles."""

    def __init__(self, w: Writer, nbytes: int) -> None:
        self.w = w
        self.slots = Memory(w, w["table"] + w["slots"], I32)
        self.tiles = Memory(w, w["tiles"], array(nbytes, I8))
        self.all_keys = Memory(w, w["table"] + context.HEAD_BYTES)

    def __getitem__(self, offset: int) -> Value:
        return self.w.load(I64, self.w["table"] + offset)

    def __setitem__(self, offset: int, value: Term) -> None:
        self.w.store(self.w.term(value, I64), self.w["table"] + offset)

    def first_equal(self, home: Value, wanted: Value) -> tuple[Value, Value]:
        """Whether one of the keys that are looked at together is the wanted one, and its place."""
        keys = self.w.load(_KEYS, self.all_keys.address(home), align=8)
        bits = (keys == wanted).bits
        return bits != 0, home + bits.lowest()


def tile(
    host: HostCpu, bits: int, width: int, height: int, blocks: int, mode: str
) -> list[Function]:
    """The prepared tile, from the table or read now; outside the surface is zero.

    A tile for which the table has no place goes to the image, as does one that is not all inside.
    """
    shape = Tile(bits // 8, width, height, blocks)
    nbytes = bits // 4 * width * height * blocks
    name = symbol("tile", bits, width, height, blocks, mode)
    w = Surface(Routine(name, PTR, (*SURFACE, *_TABLE)), shape)
    w.enter(w["image"])
    t = _Table(w, nbytes)
    key = w.near.integer()
    home = key * _MIXER >> (w.term(64, I64) - w["key_bits"])
    found, at = t.first_equal(home, key)
    with w.when(found & (t[context.PITCH] == w.pitch) & (w.near != 0)):
        number = t.slots[at].to(I64)
        t[context.FOUND] = t[context.FOUND] + 1
        t[context.GROUP], t[context.READ_NOW] = w["group"], 0
        w.ret(t.tiles.address(number))
    t[context.READ_NOW] = 1
    place = Routine(f"{name}.place", PTR, tuple(_PLACE))
    given = (w[parameter] for parameter, *_ in _TABLE)
    to = w.call(place, w["image"], *given, home, key, w.pitch)
    w.call(f"{name}.copy", to, w.near, w.pitch)
    w.ret(to)
    w.read_clipped(f"{name}.copy", w["image"])
    return [w.function, copy_function(f"{name}.copy", shape, mode), _place(place, nbytes)]


def _place(routine: Routine, nbytes: int) -> Function:
    """Where a tile goes that is not in the table.

    A full table begins anew where the work-group has no tile of it yet, which products may be
    waiting for, unless it gave each of its tiles back less than twice: then it is emptied and not
    used any more, so that its tiles leave the host's caches.
    """
    w = Writer(routine, "nounwind noinline", internal=True)
    t = _Table(w, nbytes)

    def give_up_if(condition: Value) -> None:
        with w.when(condition):
            w.ret(w["image"])

    give_up_if(t[context.OFF] != 0)
    used = t[context.USED]
    number = w.variable(used)
    with w.when((used >= w["capacity"]) | (t[context.PITCH] != w["pitch"])):
        give_up_if(t[context.GROUP] == w["group"])
        places = (w.term(1, I64) << w["key_bits"]) + context.WINDOW
        w.fill(t.all_keys.base, 0, places << 3)
        with w.when(t[context.FOUND] < used << 1):
            t[context.OFF] = 1
            w.ret(w["image"])
        t[context.PITCH], t[context.FOUND] = w["pitch"], 0
        number.value = 0
    free, at = t.first_equal(w["home"], w.term(0, I64))
    t[context.USED] = number.value
    give_up_if(~free)
    t.all_keys[at] = w["key"]
    t.slots[at] = number.value.to(I32)
    t[context.USED], t[context.GROUP] = number.value + 1, w["group"]
    w.ret(t.tiles.address(number.value))
    return w.function
