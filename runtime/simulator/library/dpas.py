"""Native DPAS: operands prepared to fp32 or i16, then rank-1 updates of register rows.

The readable definitions are in `intrinsics/definitions/dpas.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triton_xe.runtime.simulator.ir import (
    F16,
    F32,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Function,
    Type,
    integer,
    vector,
)
from triton_xe.runtime.simulator.ir.builder import Parameter, Routine
from triton_xe.runtime.simulator.ir.values import Value, Variable, Writer
from triton_xe.runtime.simulator.library.names import DPAS_UNROLLED, symbol
from triton_xe.runtime.simulator.library.rounding import bf16_bits
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

WIDE = 'nounwind "prefer-vector-width"="512"'
_TWO_POINTERS: tuple[Parameter, ...] = (("d", PTR, "noalias"), ("s", PTR, "noalias"))
_FLOATS = ("f16", "bf16", "tf32")


def to_float(words: Value, kind: str) -> Value:
    """16- or 32-bit patterns as fp32."""
    if kind == "f16":
        return words.as_bits(F16).to(F32)
    return (words.to(I32) << 16 if kind == "bf16" else words & -8192).as_bits(F32)


def prepare_a(host: HostCpu, kind: str, rows: int, k: int) -> list[Function]:
    """Row-major elements to row-major fp32, or i16 for integers."""
    w = Writer(Routine(symbol("prepare_a", kind, rows, k), VOID, _TWO_POINTERS), WIDE)
    step = min(16, rows * k)
    bits = int(kind[1:]) if kind not in _FLOATS else 32 if kind == "tf32" else 16
    for first in range(0, rows * k, step):
        words = w.load(vector(step, integer(bits)), w["s"] + first * bits // 8, align=4)
        if kind in _FLOATS:
            w.store(to_float(words, kind), w["d"] + first * 4, align=64)
        else:
            wide = words.signed(I16) if kind[0] == "s" else words.to(I16)
            w.store(wide, w["d"] + first * 2, align=32)
    return w.finish()


def prepare_b(host: HostCpu, kind: str, k: int, columns: int) -> list[Function]:
    """VNNI dwords to rows of fp32, or to rows of i16 pairs (k, k+1) for integers."""
    w = Writer(Routine(symbol("prepare_b", kind, k, columns), VOID, _TWO_POINTERS), WIDE)
    row_bytes = 4 * columns
    per_dword = {"tf32": 1, "f16": 2, "bf16": 2}.get(kind) or 32 // int(kind[1:])
    made: list[Value] = []
    for d in range(k // per_dword):
        x = w.load(vector(columns, I32), w["s"] + d * row_bytes, align=4)
        made += _float_rows(x, kind) if kind in _FLOATS else _pairs(x, kind)
    for row, value in enumerate(made):
        w.store(value, w["d"] + row * row_bytes, align=row_bytes)
    return w.finish()


def _float_rows(x: Value, kind: str) -> list[Value]:
    if kind == "tf32":
        return [to_float(x, kind)]
    if kind == "bf16":
        return [(x << 16).as_bits(F32), (x & -65536).as_bits(F32)]
    return [to_float(v.to(I16), kind) for v in (x, x >> 16)]


def _pairs(x: Value, kind: str) -> list[Value]:
    """Neighbouring fields of integers, two in a dword."""
    bits, signed = int(kind[1:]), kind[0] == "s"
    fields = [_field(x, first, bits, signed) for first in range(0, 32, bits)]
    return [low & 65535 | high << 16 for low, high in zip(fields[::2], fields[1::2], strict=True)]


def _field(x: Value, first: int, bits: int, signed: bool) -> Value:
    up = 32 - first - bits
    if up:
        x = x << up
    return x.ashr(32 - bits) if signed else x >> 32 - bits


@dataclass(frozen=True)
class _Group:
    """Accumulators one function updates, and the operands each needs in every step."""

    form: str
    steps: int
    ahead: int
    """Rows to read ahead in each pass."""

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

    def routine(self, name: str) -> Routine:
        """A function of the pointers, and of where to read ahead."""
        kinds = {"c": "noalias", "a": "noalias readonly", "b": "noalias readonly"}
        ahead = [("start", I64), ("pitch", I64)] if self.ahead else []
        return Routine(name, VOID, (*((n, PTR, kinds[n[0]]) for n in self.pointers), *ahead))


def dpas(
    host: HostCpu, kind: str, accumulator: str, rows: int, k: int, columns: int, form: str,
    steps: int, ahead: int = 0,
) -> list[Function]:
    """`acc += A * B`, in place; K ascends, one fused multiply-add per product in fp32.

    `form` is one (accumulator), wide (two that share A) or tall (two that share B); each gets as
    many instructions, one after the other, as there are `steps`.  It also brings rows
    at `start`, `pitch` apart, of up to one cache line each, into the host's L1 cache: `ahead` in
    each pass.
    """
    group = _Group(form, steps, ahead)
    name = symbol("dpas", kind, accumulator, rows, k, columns, form, steps,
                  *([ahead] if ahead else []))
    together = _rows_in_registers(host, rows, columns)
    units = k if kind == "f32" else k // 2
    shape = _Shape(together, units, columns, accumulator)
    held = _units_in_registers(host, group, shape)
    multiply_add = _fused_product if kind == "f32" else _pair_products(host, columns)
    if together == rows:
        return [_Accumulate(
            Writer(group.routine(name), WIDE), group, shape, held, multiply_add).write()]
    part = Writer(group.routine(f"{name}.rows"), f"noinline {WIDE}", internal=True)
    return [_Accumulate(part, group, shape, held, multiply_add).write(),
            _in_parts(name, group, shape, rows)]


def _rows_in_registers(host: HostCpu, rows: int, n: int) -> int:
    """How many rows go through all of K together: their sums take half of the registers."""
    fitting = max(1, host.vector_registers // 2 * host.vector_bytes // (4 * n))
    return max(r for r in range(1, min(rows, fitting) + 1) if rows % r == 0)


def _units_in_registers(host: HostCpu, group: _Group, shape: _Shape) -> int:
    """Units of K of a pass whose B fits beside the sums, A spread, and conversions of sums."""
    per_row = max(1, 4 * shape.n // host.vector_bytes)
    others = group.tiles * shape.rows + (1 if shape.size == 4 else 3)
    b = 2 if group.form == "wide" else 1
    fitting = (host.vector_registers // per_row - others) // b
    return max((k for k in range(1, shape.unrolled + 1)
                if shape.unrolled % k == 0 and k <= fitting), default=1)


def _in_parts(name: str, group: _Group, shape: _Shape, rows: int) -> Function:
    """All rows, where `name`.rows does some of them.

    A function of its own: in one, LLVM would keep B from the first rows to the last.  Each part
    asks for what is read ahead; asking for a line again costs next to nothing.
    """
    widths = {"c": shape.n * shape.size, "a": 4 * shape.units, "b": 0}
    w = Writer(group.routine(name))
    ahead = (w["start"], w["pitch"]) if group.ahead else ()
    for first in range(0, rows, shape.rows):
        given = (w[pointer] + first * widths[pointer[0]] for pointer in group.pointers)
        w.call(f"{name}.rows", *given, *ahead)
    w.ret()
    return w.function


_MultiplyAdd = Callable[[Value, Value, Value], Value]


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


_Sums = dict[tuple[int, int], Value]


class _Accumulate:
    """Writes the sums of all rows of every accumulator.

    The first and the last pass stand outside the loops: accumulators are loaded just before
    their first product and stored just after their last one, so that the host can begin a call
    while the one before it ends.  A row goes through all units of K whose B is held in registers
    before the next row does: stores of neighbouring rows that come one after the other, with
    nothing between, cost a Xeon a tenth of its speed.
    """

    def __init__(
        self, w: Writer, group: _Group, shape: _Shape, held: int, multiply_add: _MultiplyAdd
    ) -> None:
        self.w, self.group, self.s, self.multiply_add = w, group, shape, multiply_add
        self.held = held
        if group.ahead:
            self.ahead = w["start"].pointer()

    def write(self) -> Function:
        sums: _Sums = {}
        w, s, steps = self.w, self.s, self.group.steps
        for step in range(steps):
            first, end = 0, s.units
            if step == 0:
                whole = steps == 1 and s.units == s.unrolled
                self._pass(step, w.term(0, I64), sums, loads=True, stores=whole)
                first = s.unrolled
            last = step == steps - 1 and first < s.units
            if last:
                end -= s.unrolled
            if first < end:
                carried = {at: w.variable(x) for at, x in sums.items()}
                with w.range(first, end, s.unrolled) as index:
                    sums = _values(carried)
                    self._pass(step, index, sums)
                    for at, x in sums.items():
                        carried[at].value = x
                sums = _values(carried)
            if last:
                self._pass(step, w.term(end, I64), sums, stores=True)
        w.ret()
        return w.function

    def _address(self, tile: int, row: int) -> Value:
        return self.w[f"c{tile}"] + row * self.s.n * self.s.size

    def _load(self, tile: int, row: int) -> Value:
        s = self.s
        x = self.w.load(s.stored_row, self._address(tile, row), align=s.n * s.size)
        kind = "f16" if s.accumulator == "half" else "bf16"
        return x if s.size == 4 else to_float(x, kind)

    def _store(self, tile: int, row: int, x: Value) -> None:
        s = self.s
        x = x if s.size == 4 else _rounded(x, s.accumulator)
        self.w.store(x, self._address(tile, row), align=s.n * s.size)

    def _pass(
        self, step: int, index: Value, sums: _Sums, *, loads: bool = False, stores: bool = False
    ) -> None:
        """Some units of K from `index` on every accumulator, which it may load and store."""
        w, s, group = self.w, self.s, self.group
        tiles = range(group.tiles)
        a_at = {x: w[x] + index * 4 for x in dict.fromkeys(group.a(step, j) for j in tiles)}
        b_at = {x: w[x] + index * (4 * s.n)
                for x in dict.fromkeys(group.b(step, j) for j in tiles)}
        if group.ahead:
            self._read_ahead(index, step * (s.units // DPAS_UNROLLED))
        for first in range(0, s.unrolled, self.held):
            units = range(first, first + self.held)
            right = [{name: w.load(s.row, at + k * s.n * 4, align=s.n * 4)
                      for name, at in b_at.items()} for k in units]
            for row in range(s.rows):
                for k, b in zip(units, right, strict=True):
                    offset = (row * s.units + k) * 4
                    left = {name: w.spread(w.load(s.scalar, at + offset, align=4), s.n)
                            for name, at in a_at.items()}
                    for j in tiles:
                        if loads and k == 0:
                            sums[j, row] = self._load(j, row)
                        sums[j, row] = self.multiply_add(
                            left[group.a(step, j)], b[group.b(step, j)], sums[j, row])
                        if stores and k == s.unrolled - 1:
                            self._store(j, row, sums[j, row])

    def _read_ahead(self, index: Value, passes: int) -> None:
        """The rows of one pass; `passes` went before this loop."""
        done, pitch = (index >> DPAS_UNROLLED.bit_length() - 1) + passes, self.w["pitch"]
        at = self.ahead + done * self.group.ahead * pitch
        for _ in range(self.group.ahead):
            prefetch(at)
            at = at + pitch


def _values(carried: dict[tuple[int, int], Variable]) -> _Sums:
    return {at: x.value for at, x in carried.items()}


def prefetch(address: Value, *, write: bool = False) -> None:
    """Ask for a cache line."""
    w = address.w
    w.call("llvm.prefetch.p0", address, *(w.term(n, I32) for n in (int(write), 3, 1)))


def _fused_product(x: Value, y: Value, z: Value) -> Value:
    """A product added to fp32, rounded once."""
    return x.w.intrinsic("fma", x, y, z)


def _rounded(x: Value, accumulator: str) -> Value:
    """fp32 to the bits of half or bf16, nearest even, NaN kept."""
    return x.to(F16).as_bits(I16) if accumulator == "half" else bf16_bits(x)


def _pair_products(host: HostCpu, n: int) -> _MultiplyAdd:
    """Pairs of i16 products added to i32, which wraps around."""
    lanes = next((m for m, (_, feature) in _PAIR_PRODUCTS.items()
                  if n % m == 0 and host.has(feature)), 0)
    if not lanes:
        return _pair_product
    native, part, words = _PAIR_PRODUCTS[lanes][0], vector(lanes, I32), vector(2 * lanes, I16)

    def multiply_add(x: Value, y: Value, z: Value) -> Value:
        sums = []
        for first in range(0, n, lanes):
            chosen = range(first, first + lanes)
            a, b, c = (v if n == lanes else v.shuffled(None, chosen) for v in (x, y, z))
            pairs = (Value(v.w, v.w.b.bitcast(v.operand, words)) for v in (a, b))
            sums.append(c + x.w.call(native, *pairs, result=part))
        return sums[0] if len(sums) == 1 else sums[0].shuffled(sums[1], range(2 * lanes))

    return multiply_add


_PAIR_PRODUCTS = {16: ("llvm.x86.avx512.pmaddw.d.512", "avx512bw"),
                  8: ("llvm.x86.avx2.pmadd.wd", "avx2")}


def _pair_product(x: Value, y: Value, z: Value) -> Value:
    for first in (0, 16):
        z = z + _field(x, first, 16, True) * _field(y, first, 16, True)
    return z
