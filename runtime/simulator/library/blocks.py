"""Generate 2D block reads and writes: plain row copies inside the surface, otherwise clipped.

The readable definitions are in `intrinsics/definitions/block_2d.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triton_xe.hardware import block_2d
from triton_xe.llvm import (
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Function,
    array,
    integer,
    vector,
)
from triton_xe.llvm.builder import Parameter, Routine
from triton_xe.llvm.values import Value, Writer
from triton_xe.runtime.simulator.context import Code
from triton_xe.runtime.simulator.library.dpas import WIDE, prefetch
from triton_xe.runtime.simulator.library.names import TRAP
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

SURFACE: tuple[Parameter, ...] = (
    ("image", PTR), ("base", I64), ("w1", I32), ("h1", I32), ("p1", I32), ("x", I32), ("y", I32),
    ("error", PTR, "noalias"), ("line", I32),
)
ROWS_PER_PASS = 4


@dataclass(frozen=True)
class Tile:
    """A block of `blocks` x `height` rows of `width` elements of `element` bytes.

    Bases and pitches of its surface are multiples of `base` and `pitch` bytes.
    """

    element: int
    width: int
    height: int
    blocks: int
    base: int
    pitch: int

    @property
    def row_bytes(self) -> int:
        return self.element * self.width * self.blocks


class Surface(Writer):
    """Writes the function of a block message: `enter` checks the surface, and branches.

    One branch is for tiles that are inside the surface, the other (`clip`) for all others.
    """

    def __init__(self, routine: Routine, tile: Tile) -> None:
        super().__init__(routine, WIDE)
        self.tile = tile
        self.clip = self.b.label("clip")

    def enter(self) -> None:
        """Trap if the surface is illegal; continue in the branch for a tile that is inside."""
        tile, sizes = self.tile, [self[n].to(I64) for n in ("w1", "h1", "p1")]
        with self.when(self.is_illegal()):
            self.call(TRAP, self["error"], Code.SURFACE, self["line"], self["base"], *sizes,
                      self["x"].signed(I64), tile.element * 8)
            self.ret()
        within = self.b.label("inside")
        self.b.cond_br(self.is_inside().operand, within, self.clip)
        self.b.start(within)
        self.near = self.start + (self.y0 * self.pitch + self.x0)

    def is_inside(self) -> Value:
        """Compute the tile's bounds; true if all of it is inside the surface."""
        tile = self.tile
        x, y = self["x"].signed(I64), self["y"].signed(I64)
        self.last = self["h1"].to(I64)
        self.width, self.pitch = ((self[n] + 1).to(I64) for n in ("w1", "p1"))
        self.x0, self.y0 = x * tile.element, y
        self.x_end = self.x0 + tile.row_bytes
        self.start = self["base"].pointer()
        return (self.x0.compare("sge", 0) & self.x_end.compare("sle", self.width)
                & y.compare("sge", 0) & (y + (tile.height - 1)).compare("sle", self.last))

    def is_illegal(self) -> Value:
        """True if the surface breaks one of `block_2d.surface_rules`."""
        w1, h1, p1, unit = self["w1"], self["h1"], self["p1"], self.tile.element
        odd = (w1 + 1 & max(block_2d.OFFSET_BYTES, unit) - 1
               | p1 + 1 & self.tile.pitch - 1
               | self["x"] * unit & block_2d.OFFSET_BYTES - 1
               | (self["base"] & self.tile.base - 1).to(I32))
        return ((odd != 0) | (w1 < block_2d.MIN_SURFACE_BYTES - 1) | (p1 < w1)
                | (p1 > block_2d.MAX_SURFACE - 2) | (h1 > block_2d.MAX_SURFACE - 2))

    def clipped(self, memory: Value, *, read: bool) -> None:
        """Copy the part of each row that is inside, between the surface and `memory`."""
        tile = self.tile
        first = self.intrinsic("smax", self.x0, 0)
        count = self.intrinsic("smin", self.x_end, self.width) - first
        skipped = first - self.x0
        with self.when(count.compare("sgt", 0)), self.range(0, tile.height) as row:
            y = self.y0 + row
            with self.when(y.compare("sge", 0) & y.compare("sle", self.last)):
                far = self.start + (y * self.pitch + first)
                near = memory + (row * tile.row_bytes + skipped)
                self.copy(*((near, far) if read else (far, near)), count)


def block_read(
    host: HostCpu, bits: int, width: int, height: int, blocks: int, base: int, pitch: int,
    mode: str,
) -> list[Function]:
    """Read a tile into the register image; elements outside the surface are zero."""
    tile = Tile(bits // 8, width, height, blocks, base, pitch)
    name = symbol("block_read", bits, width, height, blocks, base, pitch, mode)
    s = Surface(Routine(name, VOID, SURFACE), tile)
    s.enter()
    s.call(f"{name}.copy", s["image"], s.near, s.pitch)
    s.ret()
    s.b.start(s.clip)
    nbytes = tile.row_bytes * height
    memory = s.space(array(nbytes, I8), align=64)
    s.fill(memory, 0, nbytes)
    s.clipped(memory, read=True)
    s.call(f"{name}.copy", s["image"], memory, tile.row_bytes)
    s.ret()
    return [s.function, copy_function(f"{name}.copy", tile, mode)]


def block_write(
    host: HostCpu, bits: int, width: int, height: int, base: int, pitch: int
) -> list[Function]:
    """Write the register image to a tile; elements outside the surface are dropped.

    The rows below are often written next, so that they are prefetched.
    """
    tile = Tile(bits // 8, width, height, 1, base, pitch)
    name = symbol("block_write", bits, width, height, base, pitch)
    s = Surface(Routine(name, VOID, SURFACE), tile)
    s.enter()
    row, below = vector(tile.row_bytes, I8), s.pitch * height
    for y in range(height):
        at = s.near + s.pitch * y
        s.store(s.load(row, s["image"] + y * tile.row_bytes, align=1), at, align=1)
        prefetch(at + below, write=True)
    s.ret()
    s.b.start(s.clip)
    s.clipped(s["image"], read=False)
    return s.finish()


def copy_function(name: str, tile: Tile, mode: str) -> Function:
    """The function that copies the rows of a tile to the form of `mode`.

    `pitch` is the distance of rows in bytes.  Rows that are not transposed are copied in a loop.
    """
    parameters = (("to", PTR, "noalias"), ("from", PTR, "noalias"), ("pitch", I64))
    w = Writer(Routine(name, VOID, parameters), f"noinline {WIDE}", internal=True)
    target, source, pitch = w.arguments.values()
    size = tile.element * tile.width * tile.height
    stride, copy = -(-size // 64) * 64, _COPIES[mode]
    if stride != size:  # padding is zero
        for block in range(tile.blocks):
            padding = w.term(0, vector(stride - size, I8))
            w.store(padding, target + (block * stride + size), align=1)

    def some(count: int, first: Value, to: Value) -> Value:
        """Copy rows from `first` on; returns the address of the last one."""
        rows = [first]
        for _ in range(1, count):
            rows.append(rows[-1] + pitch)
        for block in range(tile.blocks):
            at = [row + block * tile.width * tile.element for row in rows]
            copy(at, tile, to + block * stride)
        return rows[-1]

    if mode == "transpose" or tile.height <= ROWS_PER_PASS or tile.height % ROWS_PER_PASS:
        some(tile.height, source, target)
    else:
        row = w.variable(source)
        with w.range(0, tile.height // ROWS_PER_PASS) as k:
            to = target + k * (ROWS_PER_PASS * tile.width * tile.element)
            row.value = some(ROWS_PER_PASS, row.value, to) + pitch
    w.ret()
    return w.function


_Copy = Callable[[list[Value], Tile, Value], None]


def _row(tile: Tile, address: Value) -> Value:
    return address.w.load(vector(tile.width, integer(8 * tile.element)), address, align=1)


def _plain(rows: list[Value], tile: Tile, to: Value) -> None:
    for y, row in enumerate(rows):
        row.w.store(_row(tile, row), to + y * tile.width * tile.element, align=1)


def _interleaved(x: Value, y: Value, first: int = 0, count: int = 0) -> Value:
    """Interleave elements of x and y: `count` in total (default all), from element `first` on."""
    n = x.type.count
    return x.shuffled(y, [first + k // 2 + (k % 2) * n for k in range(count or 2 * n)])


def _vnni(rows: list[Value], tile: Tile, to: Value) -> None:
    """Write rows in VNNI form: 2 or 4 rows interleaved, with one column in each dword."""
    n = 4 // tile.element
    for y in range(0, len(rows), n):
        data = [_row(tile, rows[y + k]) for k in range(n)]
        while len(data) > 1:
            half = len(data) // 2
            data = [_interleaved(data[k], data[k + half]) for k in range(half)]
        to.w.store(data[0], to + y * tile.width * tile.element, align=1)


def _transpose(rows: list[Value], tile: Tile, to: Value) -> None:
    for k, part in enumerate(_transposed(rows, tile)):
        to.w.store(part, to + k * part.type.count * tile.element, align=1)


def _transposed(rows: list[Value], tile: Tile) -> list[Value]:
    """Transpose rows to columns: perfect shuffles of rows k and k + h/2, in 64 bytes or less."""
    widest = 64 // tile.element
    data = [[_row(tile, row)] for row in rows]
    while len(data) > 1:
        half = len(data) // 2
        data = [
            [part for x, y in zip(data[k], data[k + half], strict=True)
             for part in _merged(x, y, widest)]
            for k in range(half)
        ]
    return data[0]


def _merged(x: Value, y: Value, widest: int) -> list[Value]:
    n = x.type.count
    if 2 * n <= widest:
        return [_interleaved(x, y)]
    return [_interleaved(x, y, first, n) for first in (0, n // 2)]


_COPIES: dict[str, _Copy] = {"plain": _plain, "vnni": _vnni, "transpose": _transpose}
