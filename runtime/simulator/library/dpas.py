"""Native DPAS: operands prepared to fp32 or i16, then rank-1 updates of register rows.

The readable definitions are in `intrinsics/definitions/dpas.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triton_xe.runtime.simulator.ir import (
    F16,
    F32,
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    Function,
    Operand,
    Type,
    constant,
    define,
    integer,
    vector,
    with_elements,
)
from triton_xe.runtime.simulator.library.names import DPAS_UNROLLED, ROWS_PER_PASS, symbol
from triton_xe.runtime.simulator.library.rounding import bf16_bits
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

WIDE = 'nounwind "prefer-vector-width"="512"'
_TWO_POINTERS = [("d", PTR, "noalias"), ("s", PTR, "noalias")]
_FLOATS = ("f16", "bf16", "tf32")


def to_float(b: Builder, words: Operand, kind: str) -> Operand:
    """16- or 32-bit patterns as fp32."""
    if kind == "f16":
        return b.fpext(b.bitcast(words, with_elements(words.type, F16)), F32)
    words = b.shl(b.zext(words, I32), 16) if kind == "bf16" else b.and_(words, -8192)
    return b.bitcast(words, with_elements(words.type, F32))


def prepare_a(host: HostCpu, kind: str, rows: int, k: int) -> list[Function]:
    """Row-major elements to row-major fp32, or i16 for integers."""
    b = define(symbol("prepare_a", kind, rows, k), VOID, _TWO_POINTERS, attributes=WIDE)
    target, source = b.arguments
    step = min(16, rows * k)
    bits = int(kind[1:]) if kind not in _FLOATS else 32 if kind == "tf32" else 16
    for first in range(0, rows * k, step):
        words = b.load(vector(step, integer(bits)), b.at(source, first * bits // 8), align=4)
        if kind in _FLOATS:
            b.store(to_float(b, words, kind), b.at(target, first * 4), align=64)
        else:
            wide = b.cast("sext" if kind[0] == "s" else "zext", words, I16)
            b.store(wide, b.at(target, first * 2), align=32)
    b.ret()
    return [b.function]


def prepare_b(host: HostCpu, kind: str, k: int, columns: int) -> list[Function]:
    """VNNI dwords to rows of fp32, or to rows of i16 pairs (k, k+1) for integers."""
    b = define(symbol("prepare_b", kind, k, columns), VOID, _TWO_POINTERS, attributes=WIDE)
    target, source = b.arguments
    row_bytes = 4 * columns
    per_dword = {"tf32": 1, "f16": 2, "bf16": 2}.get(kind) or 32 // int(kind[1:])
    made: list[Operand] = []
    for d in range(k // per_dword):
        x = b.load(vector(columns, I32), b.at(source, d * row_bytes), align=4)
        made += _float_rows(b, x, kind) if kind in _FLOATS else _pairs(b, x, kind)
    for row, value in enumerate(made):
        b.store(value, b.at(target, row * row_bytes), align=row_bytes)
    b.ret()
    return [b.function]


def _float_rows(b: Builder, x: Operand, kind: str) -> list[Operand]:
    if kind == "tf32":
        return [to_float(b, x, kind)]
    if kind == "bf16":
        return [b.bitcast(v, with_elements(x.type, F32))
                for v in (b.shl(x, 16), b.and_(x, -65536))]
    return [to_float(b, b.trunc(v, I16), kind) for v in (x, b.lshr(x, 16))]


def _pairs(b: Builder, x: Operand, kind: str) -> list[Operand]:
    """Neighbouring fields of integers, two in a dword."""
    bits, signed = int(kind[1:]), kind[0] == "s"
    fields = [_field(b, x, first, bits, signed) for first in range(0, 32, bits)]
    return [b.or_(b.and_(low, 65535), b.shl(high, 16))
            for low, high in zip(fields[::2], fields[1::2], strict=True)]


def _field(b: Builder, x: Operand, first: int, bits: int, signed: bool) -> Operand:
    up = 32 - first - bits
    if up:
        x = b.shl(x, up)
    return b.ashr(x, 32 - bits) if signed else b.lshr(x, 32 - bits)


@dataclass(frozen=True)
class _Group:
    """Accumulators one function updates, and the operands each needs in every step."""

    form: str
    steps: int
    ahead: bool

    @property
    def tiles(self) -> int:
        return 1 if self.form == "one" else 2

    def a(self, step: int, tile: int) -> str:
        return f"a{step}_{tile if self.form == 'tall' else 0}"

    def b(self, step: int, tile: int) -> str:
        return f"b{step}_{tile if self.form == 'wide' else 0}"

    @property
    def pointers(self) -> list[str]:
        """The accumulators, then for each step the operands A, then B."""
        names = [f"c{j}" for j in range(self.tiles)]
        for step in range(self.steps):
            for operand in (self.a, self.b):
                names += dict.fromkeys(operand(step, j) for j in range(self.tiles))
        return names

    def define(self, name: str, attributes: str, *, internal: bool = False) -> Builder:
        """A function of the pointers, and of where to read ahead."""
        kinds = {"c": "noalias", "a": "noalias readonly", "b": "noalias readonly"}
        parameters = [(name, PTR, kinds[name[0]]) for name in self.pointers]
        ahead = [("start", I64), ("pitch", I64)] if self.ahead else []
        return define(name, VOID, [*parameters, *ahead], attributes=attributes, internal=internal)


def dpas(
    host: HostCpu, kind: str, accumulator: str, rows: int, k: int, columns: int, form: str,
    steps: int, ahead: str = "",
) -> list[Function]:
    """`acc += A * B`, in place; K ascends, one fused multiply-add per product in fp32.

    `form` is one (accumulator), wide (two that share A) or tall (two that share B); each gets as
    many instructions, one after the other, as there are `steps`.  With `ahead` it also brings
    rows at `start`, `pitch` apart, of up to one cache line each, into the host's L2 cache.
    """
    group = _Group(form, steps, bool(ahead))
    name = symbol("dpas", kind, accumulator, rows, k, columns, form, steps,
                  *([ahead] if ahead else []))
    together = _rows_in_registers(host, rows, columns)
    units = k if kind == "f32" else k // 2
    shape = _Shape(together, units, columns, accumulator)
    multiply_add = _fused_product if kind == "f32" else _pair_products(host, columns)
    if together == rows:
        b = group.define(name, WIDE)
        _Accumulate(b, group, shape, multiply_add).write()
        return [b.function]
    part = group.define(f"{name}.rows", f"noinline {WIDE}", internal=True)
    _Accumulate(part, group, shape, multiply_add).write()
    return [part.function, _in_parts(name, group, shape, rows)]


def _rows_in_registers(host: HostCpu, rows: int, n: int) -> int:
    """How many rows go through all of K together: their sums take half of the registers."""
    fitting = max(1, host.vector_registers // 2 * host.vector_bytes // (4 * n))
    return max(r for r in range(1, min(rows, fitting) + 1) if rows % r == 0)


def _in_parts(name: str, group: _Group, shape: _Shape, rows: int) -> Function:
    """All rows, where `name`.rows does some of them.

    A function of its own: in one, LLVM would keep B from the first rows to the last.  Each part
    asks for what is read ahead; asking for a line again costs next to nothing.
    """
    widths = {"c": shape.n * shape.size, "a": 4 * shape.units, "b": 0}
    b = group.define(name, "nounwind")
    pointers, ahead = b.arguments[: len(group.pointers)], b.arguments[len(group.pointers):]
    for first in range(0, rows, shape.rows):
        given = [b.at(x, first * widths[name[0]])
                 for x, name in zip(pointers, group.pointers, strict=True)]
        b.call(f"{name}.rows", VOID, [*given, *ahead])
    b.ret()
    return b.function


_MultiplyAdd = Callable[[Builder, Operand, Operand, Operand], Operand]


@dataclass(frozen=True)
class _Shape:
    """Rows, K in units of 32 bits, N, and the type of an accumulator's element in memory."""

    rows: int
    units: int
    n: int
    accumulator: str

    @property
    def unrolled(self) -> int:
        return min(DPAS_UNROLLED, self.units)

    @property
    def size(self) -> int:
        """Bytes of an accumulator's element."""
        return 2 if self.accumulator in ("half", "bfloat", "i16") else 4

    @property
    def scalar(self) -> Type:
        """An accumulator's element in registers."""
        return I32 if self.accumulator == "i32" else F32

    @property
    def row(self) -> Type:
        return vector(self.n, self.scalar)

    @property
    def stored_row(self) -> Type:
        return vector(self.n, I16) if self.size == 2 else self.row


_Sums = dict[tuple[int, int], Operand]


class _Accumulate:
    """Writes the sums of all rows of every accumulator.

    The first and the last pass stand outside the loops: accumulators are loaded just before
    their first product and stored just after their last one, so that the host can begin a call
    while the one before it ends.
    """

    def __init__(
        self, b: Builder, group: _Group, shape: _Shape, multiply_add: _MultiplyAdd
    ) -> None:
        self.b, self.group, self.s, self.multiply_add = b, group, shape, multiply_add
        self.pointers = dict(zip(group.pointers, b.arguments, strict=False))
        if group.ahead:
            start, self.pitch = b.arguments[-2:]
            self.ahead = b.inttoptr(start)

    def write(self) -> None:
        sums: _Sums = {}
        s, steps = self.s, self.group.steps
        for step in range(steps):
            first, end = 0, s.units
            if step == 0:
                whole = steps == 1 and s.units == s.unrolled
                self._pass(step, constant(I64, 0), sums, loads=True, stores=whole)
                first = s.unrolled
            last = step == steps - 1 and first < s.units
            if last:
                end -= s.unrolled
            if first < end:
                with self.b.loop(end, start=first, step=s.unrolled) as each:
                    carried = {at: each.carry(x) for at, x in sums.items()}
                    inner = dict(carried)
                    self._pass(step, each.index, inner)
                    for at, x in carried.items():
                        each.update(x, inner[at])
                sums = inner
            if last:
                self._pass(step, constant(I64, end), sums, stores=True)
        self.b.ret()

    def _address(self, tile: int, row: int) -> Operand:
        return self.b.at(self.pointers[f"c{tile}"], row * self.s.n * self.s.size)

    def _load(self, tile: int, row: int) -> Operand:
        s = self.s
        x = self.b.load(s.stored_row, self._address(tile, row), align=s.n * s.size)
        kind = "f16" if s.accumulator == "half" else "bf16"
        return x if s.size == 4 else to_float(self.b, x, kind)

    def _store(self, tile: int, row: int, x: Operand) -> None:
        s = self.s
        x = x if s.size == 4 else _rounded(self.b, x, s.accumulator)
        self.b.store(x, self._address(tile, row), align=s.n * s.size)

    def _pass(
        self, step: int, index: Operand, sums: _Sums, *, loads: bool = False, stores: bool = False
    ) -> None:
        """Some units of K from `index` on every accumulator, which it may load and store."""
        b, s, group = self.b, self.s, self.group
        tiles = range(group.tiles)
        a_at = {x: b.gep(s.scalar, self.pointers[x], index)
                for x in dict.fromkeys(group.a(step, j) for j in tiles)}
        b_at = {x: b.gep(s.row, self.pointers[x], index)
                for x in dict.fromkeys(group.b(step, j) for j in tiles)}
        if group.ahead:
            self._read_ahead(index, step * (s.units // DPAS_UNROLLED))
        for k in range(s.unrolled):
            right = {name: b.load(s.row, b.at(at, k * s.n * 4), align=s.n * 4)
                     for name, at in b_at.items()}
            for row in range(s.rows):
                offset = (row * s.units + k) * 4
                left = {name: b.broadcast(b.load(s.scalar, b.at(at, offset), align=4), s.n)
                        for name, at in a_at.items()}
                for j in tiles:
                    if loads and k == 0:
                        sums[j, row] = self._load(j, row)
                    sums[j, row] = self.multiply_add(
                        b, left[group.a(step, j)], right[group.b(step, j)], sums[j, row])
                    if stores and k == s.unrolled - 1:
                        self._store(j, row, sums[j, row])

    def _read_ahead(self, index: Operand, passes: int) -> None:
        """The rows of one pass; `passes` went before this loop."""
        b = self.b
        done = b.add(b.lshr(index, DPAS_UNROLLED.bit_length() - 1), passes)
        at = b.gep(I8, self.ahead, b.mul(b.mul(done, ROWS_PER_PASS), self.pitch))
        for _ in range(ROWS_PER_PASS):
            prefetch(b, at)
            at = b.gep(I8, at, self.pitch)


def prefetch(b: Builder, address: Operand, *, write: bool = False) -> None:
    """Ask for a cache line."""
    numbers = [constant(I32, n) for n in (int(write), 3, 1)]
    b.call("llvm.prefetch.p0", VOID, [address, *numbers])


def _fused_product(b: Builder, x: Operand, y: Operand, z: Operand) -> Operand:
    """A product added to fp32, rounded once."""
    return b.intrinsic("fma", x, y, z)


def _rounded(b: Builder, x: Operand, accumulator: str) -> Operand:
    """fp32 to the bits of half or bf16, nearest even, NaN kept."""
    if accumulator == "half":
        return b.bitcast(b.fptrunc(x, F16), with_elements(x.type, I16))
    return bf16_bits(b, x)


def _pair_products(host: HostCpu, n: int) -> _MultiplyAdd:
    """Pairs of i16 products added to i32, which wraps around."""
    lanes = next((m for m, (_, feature) in _PAIR_PRODUCTS.items()
                  if n % m == 0 and host.has(feature)), 0)
    if not lanes:
        return _pair_product
    native, part, words = _PAIR_PRODUCTS[lanes][0], vector(lanes, I32), vector(2 * lanes, I16)

    def multiply_add(b: Builder, x: Operand, y: Operand, z: Operand) -> Operand:
        sums = []
        for first in range(0, n, lanes):
            chosen = range(first, first + lanes)
            parts = [v if n == lanes else b.shuffle(v, None, chosen) for v in (x, y, z)]
            product = b.call(native, part, [b.bitcast(v, words) for v in parts[:2]])
            sums.append(b.add(parts[2], product))
        return sums[0] if len(sums) == 1 else b.shuffle(sums[0], sums[1], range(2 * lanes))

    return multiply_add


_PAIR_PRODUCTS = {16: ("llvm.x86.avx512.pmaddw.d.512", "avx512bw"),
                  8: ("llvm.x86.avx2.pmadd.wd", "avx2")}


def _pair_product(b: Builder, x: Operand, y: Operand, z: Operand) -> Operand:
    for first in (0, 16):
        fields = [_field(b, v, first, 16, True) for v in (x, y)]
        z = b.add(z, b.mul(*fields))
    return z
