"""Native 2D block reads and writes: straight row copies inside the surface, clipped otherwise.

The readable definitions are in `intrinsics/definitions/block_2d.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_xe.hardware import block_2d
from triton_xe.runtime.simulator.ir import (
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    Function,
    Operand,
    Parameter,
    Type,
    array,
    constant,
    define,
    integer,
    vector,
    zero,
)
from triton_xe.runtime.simulator.library.dpas import WIDE, prefetch, to_float
from triton_xe.runtime.simulator.library.names import TRAP, symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

SURFACE_TRAP = 1
SURFACE: list[Parameter] = [
    ("image", PTR), ("base", I64), ("w1", I32), ("h1", I32), ("p1", I32), ("x", I32), ("y", I32),
    ("error", PTR, "noalias"), ("line", I32),
]
ROWS_PER_PASS = 4


@dataclass(frozen=True)
class Tile:
    """A block of `blocks` x `height` rows of `width` elements of `element` bytes."""

    element: int
    width: int
    height: int
    blocks: int = 1

    @property
    def row_bytes(self) -> int:
        return self.element * self.width * self.blocks


class Surface:
    """A block message that is being built: `enter` checks it, then it is inside or clipped."""

    def __init__(self, b: Builder, tile: Tile) -> None:
        self.b, self.tile = b, tile
        (self.image, self.base, self.w1, self.h1, self.p1, self.x, self.y, self.error,
         self.line) = b.arguments[:9]
        self.clip = b.label("clip")

    def enter(self, after_trap: Operand | None = None) -> None:
        """Trap unless `block_2d.surface_rules` hold; go on where the tile is inside."""
        b, tile = self.b, self.tile
        width, pitch = b.add(self.w1, 1), b.add(self.p1, 1)
        with b.branch(self._is_illegal(width, pitch), leaves=True):
            wide = [b.zext(v, I64) for v in (self.w1, self.h1, self.p1)]
            b.invoke(TRAP, self.error, SURFACE_TRAP, self.line, self.base, *wide,
                     b.sext(self.x, I64), tile.element * 8)
            b.ret(after_trap)
        self.pitch, self.wide = b.zext(pitch, I64), b.zext(width, I64)
        self.last = b.zext(self.h1, I64)
        self.x0 = b.mul(b.sext(self.x, I64), tile.element)
        self.y0 = b.sext(self.y, I64)
        self.x_end = b.add(self.x0, tile.row_bytes)
        inside = _all(b, [
            b.icmp("sge", self.x0, 0), b.icmp("sle", self.x_end, self.wide),
            b.icmp("sge", self.y0, 0),
            b.icmp("sle", b.add(self.y0, tile.height - 1), self.last)])
        self.start = b.inttoptr(self.base)
        within = b.label("inside")
        b.cond_br(inside, within, self.clip)
        b.start(within)
        self.near = b.gep(I8, self.start, b.add(b.mul(self.y0, self.pitch), self.x0))

    def _is_illegal(self, width: Operand, pitch: Operand) -> Operand:
        b, unit = self.b, max(block_2d.OFFSET_BYTES, self.tile.element)
        odd = b.and_(width, unit - 1)
        for value in (
            b.and_(pitch, block_2d.PITCH_MULTIPLE - 1),
            b.and_(b.mul(self.x, self.tile.element), block_2d.OFFSET_BYTES - 1),
            b.trunc(b.and_(self.base, block_2d.BASE_ALIGNMENT - 1), I32),
        ):
            odd = b.or_(odd, value)
        wrong = b.icmp("ne", odd, 0)
        for rule in (
            b.icmp("ult", self.w1, block_2d.MIN_SURFACE_BYTES - 1),
            b.icmp("ult", self.p1, self.w1),
            b.icmp("ugt", self.p1, block_2d.MAX_SURFACE - 2),
            b.icmp("ugt", self.h1, block_2d.MAX_SURFACE - 2),
        ):
            wrong = b.or_(wrong, rule)
        return wrong

    def clipped(self, memory: Operand, *, read: bool) -> None:
        """Copy the part of each row that is inside, between the surface and `memory`."""
        b, tile = self.b, self.tile
        first = b.intrinsic("smax", self.x0, constant(I64, 0))
        count = b.sub(b.intrinsic("smin", self.x_end, self.wide), first)
        skipped = b.sub(first, self.x0)
        with b.branch(b.icmp("sgt", count, 0)), b.loop(tile.height) as row:
            y = b.add(self.y0, row.index)
            inside = b.and_(b.icmp("sge", y, 0), b.icmp("sle", y, self.last))
            with b.branch(inside):
                far = b.gep(I8, self.start, b.add(b.mul(y, self.pitch), first))
                near = b.gep(I8, memory, b.add(b.mul(row.index, tile.row_bytes), skipped))
                b.copy(*((near, far) if read else (far, near)), count)

    def read_clipped(self, copy: str, result: Operand | None) -> None:
        """The read of a tile that is not all inside, through memory of its own."""
        b, nbytes = self.b, self.tile.row_bytes * self.tile.height
        b.start(self.clip)
        memory = b.alloca(array(nbytes, I8), align=64)
        b.fill(memory, 0, nbytes)
        self.clipped(memory, read=True)
        b.call(copy, VOID, [self.image, memory, constant(I64, self.tile.row_bytes)])
        b.ret(result)


def _all(b: Builder, conditions: Sequence[Operand]) -> Operand:
    first, *rest = conditions
    for condition in rest:
        first = b.and_(first, condition)
    return first


def block_read(
    host: HostCpu, bits: int, width: int, height: int, blocks: int, mode: str
) -> list[Function]:
    """Read a tile into the register image; outside the surface is zero.

    Mode `rows_<kind>` writes fp32 rows, block after block: prepared operands (see `direct`).
    """
    tile = Tile(bits // 8, width, height, blocks)
    name = symbol("block_read", bits, width, height, blocks, mode)
    b = define(name, VOID, SURFACE, attributes=WIDE)
    s = Surface(b, tile)
    s.enter()
    b.call(f"{name}.copy", VOID, [s.image, s.near, s.pitch])
    b.ret()
    s.read_clipped(f"{name}.copy", None)
    return [b.function, copy_function(f"{name}.copy", tile, mode)]


def block_write(host: HostCpu, bits: int, width: int, height: int) -> list[Function]:
    """Write the register image to a tile; outside the surface is dropped.

    The rows below are often written next: the host is told to get hold of them.
    """
    tile = Tile(bits // 8, width, height)
    b = define(symbol("block_write", bits, width, height), VOID, SURFACE, attributes=WIDE)
    s = Surface(b, tile)
    s.enter()
    row, below = vector(tile.row_bytes, I8), b.mul(s.pitch, height)
    for y in range(height):
        data = b.load(row, b.at(s.image, y * tile.row_bytes), align=1)
        at = b.gep(I8, s.near, b.mul(s.pitch, y))
        b.store(data, at, align=1)
        prefetch(b, b.gep(I8, at, below), write=True)
    b.ret()
    b.start(s.clip)
    s.clipped(s.image, read=False)
    b.ret()
    return [b.function]


def copy_function(name: str, tile: Tile, mode: str) -> Function:
    """The function that brings the rows of a tile into the form `mode` asks for.

    Rows are `pitch` apart; a loop unless they are transposed.
    """
    b = define(name, VOID, [("to", PTR, "noalias"), ("from", PTR, "noalias"), ("pitch", I64)],
               attributes=f"noinline {WIDE}", internal=True)
    target, source, pitch = b.arguments
    widened = mode.startswith("rows_")
    unit = 4 if widened else tile.element
    size = tile.element * tile.width * tile.height
    stride = tile.width * tile.height * 4 if widened else -(-size // 64) * 64
    if not widened and stride != size:  # padding is zero
        for block in range(tile.blocks):
            b.store(zero(vector(stride - size, I8)), b.at(target, block * stride + size), align=1)
    copy = _widened(mode.removeprefix("rows_")) if widened else _COPIES[mode]

    def some(count: int, first: Operand, to: Operand) -> Operand:
        """Copy rows from `first` on; returns the address of the last one."""
        rows = [first]
        for _ in range(1, count):
            rows.append(b.gep(I8, rows[-1], pitch))
        for block in range(tile.blocks):
            at = [b.at(row, block * tile.width * tile.element) for row in rows]
            copy(b, at, tile, b.at(to, block * stride))
        return rows[-1]

    if mode == "transpose" or tile.height <= ROWS_PER_PASS or tile.height % ROWS_PER_PASS:
        some(tile.height, source, target)
    else:
        with b.loop(tile.height, step=ROWS_PER_PASS) as each:
            row = each.carry(source)
            last = some(ROWS_PER_PASS, row, b.gep(array(tile.width * unit, I8), target, each.index))
            each.update(row, b.gep(I8, last, pitch))
    b.ret()
    return b.function


_Copy = Callable[[Builder, list[Operand], Tile, Operand], None]


def _widened(kind: str) -> _Copy:
    def copy(b: Builder, rows: list[Operand], tile: Tile, to: Operand) -> None:
        for y, row in enumerate(rows):
            value = to_float(b, b.load(vector(tile.width, I16), row, align=1), kind)
            b.store(value, b.at(to, y * tile.width * 4), align=64)

    return copy


def _row(tile: Tile) -> Type:
    return vector(tile.width, integer(8 * tile.element))


def _plain(b: Builder, rows: list[Operand], tile: Tile, to: Operand) -> None:
    for y, row in enumerate(rows):
        b.store(b.load(_row(tile), row, align=1),
                b.at(to, y * tile.width * tile.element), align=1)


def _interleaved(b: Builder, x: Operand, y: Operand, first: int = 0, count: int = 0) -> Operand:
    """Elements of x and y in turn, `count` of them (all) from element `first` of each on."""
    n = x.type.count
    return b.shuffle(x, y, [first + k // 2 + (k % 2) * n for k in range(count or 2 * n)])


def _vnni(b: Builder, rows: list[Operand], tile: Tile, to: Operand) -> None:
    n = 4 // tile.element
    for y in range(0, len(rows), n):
        data = [b.load(_row(tile), rows[y + k], align=1) for k in range(n)]
        while len(data) > 1:
            half = len(data) // 2
            data = [_interleaved(b, data[k], data[k + half]) for k in range(half)]
        b.store(data[0], b.at(to, y * tile.width * tile.element), align=1)


def _transpose(b: Builder, rows: list[Operand], tile: Tile, to: Operand) -> None:
    """Perfect shuffles of rows h/2 apart; vectors are kept at 64 bytes or less."""
    widest = 64 // tile.element
    data = [[b.load(_row(tile), row, align=1)] for row in rows]
    while len(data) > 1:
        half = len(data) // 2
        data = [
            [part for x, y in zip(data[k], data[k + half], strict=True)
             for part in _merged(b, x, y, widest)]
            for k in range(half)
        ]
    for k, part in enumerate(data[0]):
        b.store(part, b.at(to, k * part.type.count * tile.element), align=1)


def _merged(b: Builder, x: Operand, y: Operand, widest: int) -> list[Operand]:
    n = x.type.count
    if 2 * n <= widest:
        return [_interleaved(b, x, y)]
    return [_interleaved(b, x, y, first, n) for first in (0, n // 2)]


_COPIES: dict[str, _Copy] = {"plain": _plain, "vnni": _vnni, "transpose": _transpose}
