"""Native loads of matrix tiles through a table of prepared tiles (see `tile_tables`)."""

from __future__ import annotations

from triton_xe.llvm import I8, I32, I64, PTR, Function, array, vector
from triton_xe.llvm.builder import Parameter, Routine
from triton_xe.llvm.values import Memory, Term, Value, Writer
from triton_xe.runtime.simulator import context
from triton_xe.runtime.simulator.library.blocks import SURFACE, Surface, Tile, copy_function
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

_MIXER = -7046029254386353131
_KEYS = vector(context.WINDOW, I64)
_TABLE_PARAMETERS: list[Parameter] = [
    ("table", PTR), ("tiles", PTR), ("capacity", I64), ("key_bits", I64), ("slots", I64),
    ("group", I64),
]
_PLACE_PARAMETERS: list[Parameter] = [
    ("image", PTR), *_TABLE_PARAMETERS, ("home", I64), ("key", I64), ("pitch", I64)]


class _Table:
    """The table of a thread: words at its start, then keys, then numbers of tiles."""

    def __init__(self, w: Writer, nbytes: int) -> None:
        self.w = w
        self.slots = Memory(w, w["table"] + w["slots"], I32)
        self.tiles = Memory(w, w["tiles"], array(nbytes, I8))
        self.all_keys = Memory(w, w["table"] + context.HEAD_BYTES)
        self.places = (w.term(1, I64) << w["key_bits"]) + context.WINDOW
        self.records = Memory(w, w["table"] + w["slots"] + (self.places << 2))

    def record(self, number: Value) -> Memory:
        """Record of a tile: its key (0 if empty), slot, and the last work-group that used it."""
        return self.records.row(number, context.TILE_WORDS)

    def use(self, number: Value) -> Value:
        """Mark a tile as used by this work-group, and return its address.

        The address is valid until the work-group ends.
        """
        self[context.FOUND] = self[context.FOUND] + 1
        self[context.GROUP] = self.w["group"]
        self.record(number)[context.TILE_GROUP] = self.w["group"]
        return self.tiles.address(number)

    def __getitem__(self, offset: int) -> Value:
        return self.w.load(I64, self.w["table"] + offset)

    def __setitem__(self, offset: int, value: Term) -> None:
        self.w.store(self.w.term(value, I64), self.w["table"] + offset)

    def first_equal(self, home: Value, wanted: Value) -> tuple[Value, Value]:
        """True if one of the keys that are compared at once is the wanted one, and its slot."""
        keys = self.w.load(_KEYS, self.all_keys.address(home), align=8)
        bits = (keys == wanted).bits
        return bits != 0, home + bits.lowest()


def tile(
    host: HostCpu, bits: int, width: int, height: int, blocks: int, base: int, pitch: int,
    mode: str,
) -> list[Function]:
    """The prepared tile, from the table or loaded; elements outside the surface are zero.

    A tile for which the table has no slot is loaded to the image, and so is a tile that is partly
    outside.
    """
    shape = Tile(bits // 8, width, height, blocks, base, pitch)
    nbytes = bits // 4 * width * height * blocks
    name = symbol("tile", bits, width, height, blocks, base, pitch, mode)
    w = Surface(Routine(name, PTR, (*SURFACE, *_TABLE_PARAMETERS)), shape)
    w.enter(w["image"])
    t = _Table(w, nbytes)
    key = w.near.integer()
    home = key * _MIXER >> (w.term(64, I64) - w["key_bits"])
    found, at = t.first_equal(home, key)
    with w.when(found & (t[context.PITCH] == w.pitch) & (w.near != 0)):
        t[context.READ_NOW] = 0
        w.ret(t.use(t.slots[at].to(I64)))
    t[context.READ_NOW] = 1
    place = Routine(f"{name}.place", PTR, tuple(_PLACE_PARAMETERS))
    given = (w[parameter] for parameter, *_ in _TABLE_PARAMETERS)
    to = w.call(place, w["image"], *given, home, key, w.pitch)
    w.call(f"{name}.copy", to, w.near, w.pitch)
    w.ret(to)
    w.read_clipped(f"{name}.copy", w["image"])
    return [w.function, copy_function(f"{name}.copy", shape, mode), _choose_place(place, nbytes)]


def _choose_place(routine: Routine, nbytes: int) -> Function:
    """Choose the memory for a tile that is not in the table.

    It replaces the oldest tile, unless the current work-group uses that one too, because products
    may still need it.  If the tiles were used less than twice on average when the first one is
    replaced, the table is switched off.  Then its tiles leave the host's caches.
    """
    w = Writer(routine, "nounwind noinline", internal=True)
    t = _Table(w, nbytes)

    def give_up_if(condition: Value) -> None:
        with w.when(condition):
            w.ret(w["image"])

    give_up_if(t[context.OFF] != 0)
    with w.when(t[context.PITCH] != w["pitch"]):
        give_up_if(t[context.GROUP] == w["group"])
        end = t.record(w["capacity"]).base
        w.fill(t.all_keys.base, 0, end.integer() - t.all_keys.base.integer())
        t[context.PITCH], t[context.USED], t[context.FOUND] = w["pitch"], 0, 0
    number = t[context.USED]
    following = number + 1
    t[context.USED] = w.select(following < w["capacity"], following, 0)
    record = t.record(number)
    free, at = t.first_equal(w["home"], w.term(0, I64))
    give_up_if(~free | (record[context.TILE_GROUP] == w["group"]))
    with w.when(record[context.TILE_KEY] != 0):
        with w.when(number == 0):
            found = t[context.FOUND]
            t[context.FOUND] = 0
            t[context.OFF] = (found < w["capacity"] << 1).to(I64)
            give_up_if(t[context.OFF] != 0)
        t.all_keys[record[context.TILE_PLACE]] = 0
    t.all_keys[at], t.slots[at] = w["key"], number
    t[context.GROUP] = w["group"]
    for word, value in ((context.TILE_KEY, w["key"]), (context.TILE_PLACE, at),
                        (context.TILE_GROUP, w["group"])):
        record[word] = value
    w.ret(t.tiles.address(number))
    return w.function
