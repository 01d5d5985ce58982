"""Native DPAS: operands prepared to fp32 or i16, then rank-1 updates of register rows.

The readable definitions are in `intrinsics/definitions/dpas.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triton_xe.hardware.dpas import MAX_REPEAT_COUNT
from triton_xe.llvm import (
    F16,
    F32,
    F64,
    I8,
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
from triton_xe.llvm.builder import Parameter, Routine
from triton_xe.llvm.values import Value, Writer
from triton_xe.runtime.simulator.library.names import DPAS_UNROLLED
from triton_xe.runtime.simulator.library.rounding import bf16_bits
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

WIDE = 'nounwind "prefer-vector-width"="512"'
_TWO_POINTERS: tuple[Parameter, ...] = (("d", PTR, "noalias"), ("s", PTR, "noalias"))
_FLOAT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "bf8": 8, "hf8": 8,
               "e2m1": 4}


def to_float(words: Value, kind: str) -> Value:
    """Convert 4-, 8-, 16- or 32-bit patterns to fp32."""
    if kind == "f16":
        return words.as_bits(F16).to(F32)
    if kind == "bf8":
        return (words.to(I16) << 8).as_bits(F16).to(F32)
    if kind == "hf8":
        return _from_e4m3(words.to(I16))
    if kind == "e2m1":
        words = words.to(I16)
        return ((words & 8) << 12 | (words & 7) << 9).as_bits(F16).to(F32) * 2.0**14
    return (words.to(I32) << 16 if kind == "bf16" else words & -8192).as_bits(F32)


def _from_e4m3(words: Value) -> Value:
    """fp32 of e4m3fn: the exponent is that of fp16 eight lower; all ones are NaN."""
    bits = (words & 128) << 8 | (words & 127) << 7
    numbers = bits.as_bits(F16).to(F32) * 256
    nan = words.w.select((words & 127) == 127, 0x7FC00000, 0, I32)
    return (numbers.as_bits(I32) | nan).as_bits(F32)


def prepare_a(host: HostCpu, kind: str, rows: int, k: int) -> list[Function]:
    """Convert row-major elements to row-major fp32, or i16 for integers."""
    w = Writer(Routine(symbol("prepare_a", kind, rows, k), VOID, _TWO_POINTERS), WIDE)
    step = min(16, rows * k)
    bits = _FLOAT_BITS.get(kind) or int(kind[1:])
    for first in range(0, rows * k, step):
        words = w.load(vector(step, integer(bits)), w["s"] + first * bits // 8, align=4)
        if kind in _FLOAT_BITS:
            w.store(to_float(words, kind), w["d"] + first * 4, align=64)
        else:
            wide = words.signed(I16) if kind[0] == "s" else words.to(I16)
            w.store(wide, w["d"] + first * 2, align=32)
    return w.finish()


def prepare_b(host: HostCpu, kind: str, k: int, columns: int) -> list[Function]:
    """Convert VNNI dwords to rows of fp32, or to rows of i16 pairs (k, k+1) for integers."""
    w = Writer(Routine(symbol("prepare_b", kind, k, columns), VOID, _TWO_POINTERS), WIDE)
    row_bytes = 4 * columns
    per_dword = 32 // (_FLOAT_BITS.get(kind) or int(kind[1:]))
    made: list[Value] = []
    for d in range(k // per_dword):
        x = w.load(vector(columns, I32), w["s"] + d * row_bytes, align=4)
        made += _float_rows(x, kind) if kind in _FLOAT_BITS else _pairs(x, kind)
    for row, value in enumerate(made):
        w.store(value, w["d"] + row * row_bytes, align=row_bytes)
    return w.finish()


def _float_rows(x: Value, kind: str) -> list[Value]:
    """Rows of fp32 from dwords with several elements of a column."""
    if kind == "tf32":
        return [to_float(x, kind)]
    if kind == "bf16":
        return [(x << 16).as_bits(F32), (x & -65536).as_bits(F32)]
    bits = _FLOAT_BITS[kind]
    return [to_float((x >> first).to(integer(bits)), kind) for first in range(0, 32, bits)]


def _pairs(x: Value, kind: str) -> list[Value]:
    """Neighbouring integer fields, two in a dword."""
    bits, signed = int(kind[1:]), kind[0] == "s"
    fields = [_field(x, first, bits, signed) for first in range(0, 32, bits)]
    return [low & 65535 | high << 16 for low, high in zip(fields[::2], fields[1::2], strict=True)]


def _field(x: Value, first: int, bits: int, signed: bool) -> Value:
    """The integer of some bits of each dword."""
    up = 32 - first - bits
    if up:
        x = x << up
    return x.ashr(32 - bits) if signed else x >> 32 - bits


@dataclass(frozen=True)
class _Steps:
    """Instructions on one accumulator, with operands of their own."""

    count: int
    ahead: int
    """Rows to prefetch in each pass."""

    @property
    def pointers(self) -> list[str]:
        """The accumulator, then A and B of each step."""
        return ["c", *(f"{x}{step}" for step in range(self.count) for x in "ab")]

    def routine(self, name: str) -> Routine:
        """A function of the pointers, and of the rows to prefetch."""
        kinds = {"c": "noalias", "a": "noalias readonly", "b": "noalias readonly"}
        ahead = [("start", I64), ("pitch", I64)] if self.ahead else []
        return Routine(name, VOID, (*((n, PTR, kinds[n[0]]) for n in self.pointers), *ahead))


def dpas(
    host: HostCpu, kind: str, accumulator: str, rows: int, k: int, columns: int, count: int,
    ahead: int = 0,
) -> list[Function]:
    """`acc += A * B`, in place; K ascends, one fused multiply-add per product in fp32.

    The accumulator gets `count` instructions in sequence.  Each pass also prefetches `ahead` rows
    from `start` on into the host's L1 cache.  Rows are `pitch` bytes from each other, and have up
    to one cache line.
    """
    steps = _Steps(count, ahead)
    name = symbol("dpas", kind, accumulator, rows, k, columns, count, *([ahead] if ahead else []))
    together = _rows_in_registers(host, rows, columns)
    units = k if kind == "f32" else k // 2
    shape = _Shape(together, units, columns, accumulator)
    held = _units_in_registers(host, shape)
    multiply_add = _fused_product if kind == "f32" else _pair_products(host, columns)
    spread = Routine(f"{name}.spread", shape.row, (("from", PTR), ("offset", I64)))
    if together == rows:
        whole = Writer(steps.routine(name), WIDE)
        return [_spread(spread, shape),
                _AccumulationWriter(whole, steps, shape, held, multiply_add, spread).write()]
    part = Writer(steps.routine(f"{name}.rows"), f"noinline {WIDE}", internal=True)
    return [_spread(spread, shape),
            _AccumulationWriter(part, steps, shape, held, multiply_add, spread).write(),
            _in_parts(name, steps, shape, rows)]


def _rows_in_registers(host: HostCpu, rows: int, n: int) -> int:
    """Number of rows that go through all of K at once: their sums take half of the registers."""
    fitting = max(1, host.vector_registers // 2 * host.vector_bytes // (4 * n))
    return max(r for r in range(1, min(rows, fitting) + 1) if rows % r == 0)


def _units_in_registers(host: HostCpu, shape: _Shape) -> int:
    """Units of K per pass whose B fits next to sums, broadcast A, and conversions of sums."""
    per_row = max(1, 4 * shape.n // host.vector_bytes)
    others = shape.rows + (1 if shape.size == 4 else 3)
    fitting = host.vector_registers // per_row - others
    return max((k for k in range(1, shape.unrolled + 1)
                if shape.unrolled % k == 0 and k <= fitting), default=1)


def _spread(routine: Routine, shape: _Shape) -> Function:
    """Write a function, to be inlined, that broadcasts one element of A.

    A call is a third of the text of its instructions, of which a module has up to 512.
    """
    w = Writer(routine, "nounwind alwaysinline", internal=True)
    x = w.load(shape.scalar, w["from"] + w["offset"], align=4)
    w.ret(w.spread(x, shape.n))
    return w.function


def _in_parts(name: str, steps: _Steps, shape: _Shape, rows: int) -> Function:
    """Write a function for all rows, which calls `name`.rows for parts of them.

    In a single function, LLVM would keep B live from the first rows to the last.  Each part
    prefetches the same rows; prefetching a line again costs next to nothing.
    """
    widths = {"c": shape.n * shape.size, "a": 4 * shape.units, "b": 0}
    w = Writer(steps.routine(name))
    ahead = (w["start"], w["pitch"]) if steps.ahead else ()
    for first in range(0, rows, shape.rows):
        given = (w[pointer] + first * widths[pointer[0]] for pointer in steps.pointers)
        w.call(f"{name}.rows", *given, *ahead)
    w.ret()
    return w.function


def scaled_dpas(
    host: HostCpu, accumulator: str, k: int, columns: int, scales: int
) -> list[Function]:
    """`d = c + A * B` with scales of rows and columns, in double: each product is exact there.

    A and B are prepared; `left` and `right` are the register images of the scales.
    """
    names = ("d", "c", "a", "b", "left", "right")
    name = symbol("scaled_dpas", accumulator, k, columns, scales)
    w = Writer(Routine(name, VOID, tuple((n, PTR, "noalias") for n in names)), WIDE)
    shape = _Shape(MAX_REPEAT_COUNT, k, columns, accumulator)
    row_bytes = columns * shape.size
    with w.range(0, MAX_REPEAT_COUNT) as row:
        total = w.load(shape.stored_row, w["c"] + row * row_bytes, align=row_bytes)
        if shape.size == 2:
            total = to_float(total, "f16" if accumulator == "half" else "bf16")
        for group in range(scales):
            left = _power_of_2(w.load(I8, w["left"] + (row + group * columns)))
            right = _power_of_2(w.load(vector(columns, I8), w["right"] + group * columns, align=8))
            factor = w.spread(left, columns) * right
            for at in range(group * k // scales, (group + 1) * k // scales):
                x = w.load(F32, w["a"] + (row * k + at) * 4, align=4).to(F64)
                y = w.load(vector(columns, F32), w["b"] + at * columns * 4, align=64).to(F64)
                total = _add_once(w.spread(x, columns) * y * factor, total.to(F64))
        rounded = total if shape.size == 4 else _rounded(total, accumulator)
        w.store(rounded, w["d"] + row * row_bytes, align=row_bytes)
    return w.finish()


def _power_of_2(byte: Value) -> Value:
    """The number of an E8M0 byte, NaN for 255."""
    powers = (byte.to(I64) + (1023 - 127)) << 52
    return byte.w.select(byte == 255, 0x7FF8 << 48, powers).as_bits(F64)


def _add_once(x: Value, y: Value) -> Value:
    """x + y in fp32, rounded once: the double sum is rounded to odd first."""
    total = x + y
    t = total - x
    error = (x - (total - t)) + (y - t)
    bits = total.as_bits(I64)
    is_finite = (bits & 0x7FF << 52) != 0x7FF << 52
    inexact = is_finite & error.compare("une", 0.0) & ((bits & 1) == 0)
    away = (error > 0.0) == (total > 0.0)
    odd = x.w.select(inexact, bits + x.w.select(away, 1, -1), bits)
    return odd.as_bits(F64).to(F32)


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


_INTERLEAVED = 4
"""Rows whose products are interleaved, because a product waits for the previous one of its row."""


class _AccumulationWriter:
    """Writes the multiply-adds of all rows of the accumulator.

    Rows are loaded just before their first product and stored just after their last one.  Therefore
    the host can begin a call while the previous one ends.  Some rows go through all units of K
    whose B is in registers before the next ones do.  Otherwise stores of neighbouring rows would
    follow each other directly, which costs a Xeon a tenth of its speed.

    An Intel core that runs another thread at the same time issues three instructions per cycle for
    each.  A product that takes A from memory is one instruction.  So A comes from memory, at
    addresses without an index, which would need an instruction.  Therefore there is no loop.
    """

    def __init__(
        self, w: Writer, steps: _Steps, shape: _Shape, held: int, multiply_add: _MultiplyAdd,
        spread: Routine,
    ) -> None:
        self.w, self.steps, self.s, self.multiply_add = w, steps, shape, multiply_add
        self.held, self.spread = held, spread
        self.sums: dict[int, Value] = {}
        """The sums of each row."""
        if steps.ahead:
            self.ahead = w["start"].pointer()

    def write(self) -> Function:
        s = self.s
        for step in range(self.steps.count):
            for first in range(0, s.units, self.held):
                if first % s.unrolled == 0 and self.steps.ahead:
                    self._read_ahead()
                self._products(step, range(first, first + self.held))
        self.w.ret()
        return self.w.function

    def _address(self, row: int) -> Value:
        return self.w["c"] + row * self.s.n * self.s.size

    def _load(self, row: int) -> Value:
        """Load a row of the accumulator as fp32 or i32."""
        s = self.s
        x = self.w.load(s.stored_row, self._address(row), align=s.n * s.size)
        kind = "f16" if s.accumulator == "half" else "bf16"
        return x if s.size == 4 else to_float(x, kind)

    def _store(self, row: int, x: Value) -> None:
        """Store a row of the accumulator, rounded to its type."""
        s = self.s
        x = x if s.size == 4 else _rounded(x, s.accumulator)
        self.w.store(x, self._address(row), align=s.n * s.size)

    def _products(self, step: int, units: range) -> None:
        """Write the products of some units of K and all rows."""
        w, s, a = self.w, self.s, self.w[f"a{step}"]
        begins = step == 0 and units.start == 0
        ends = step == self.steps.count - 1 and units.stop == s.units
        b = {k: w.load(s.row, w[f"b{step}"] + k * s.n * 4, align=s.n * 4) for k in units}
        for first in range(0, s.rows, _INTERLEAVED):
            for k in units:
                for row in range(first, min(first + _INTERLEAVED, s.rows)):
                    x = w.call(self.spread, a, (row * s.units + k) * 4)
                    total = self._load(row) if begins and k == 0 else self.sums[row]
                    total = self.sums[row] = self.multiply_add(x, b[k], total)
                    if ends and k == s.units - 1:
                        self._store(row, total)

    def _read_ahead(self) -> None:
        """Prefetch the rows of one pass."""
        ahead, pitch = self.steps.ahead, self.w["pitch"]
        for row in range(ahead):
            prefetch(self.ahead + pitch * row)
        self.ahead = self.ahead + pitch * ahead


def prefetch(address: Value, *, write: bool = False) -> None:
    """Prefetch a cache line."""
    w = address.w
    w.call("llvm.prefetch.p0", address, *(w.term(n, I32) for n in (int(write), 3, 1)))


def _fused_product(x: Value, y: Value, z: Value) -> Value:
    """Add a product to fp32, rounded once."""
    return x.w.intrinsic("fma", x, y, z)


def _rounded(x: Value, accumulator: str) -> Value:
    """Round fp32 to the bits of fp16 or bf16, nearest even; NaN stays NaN."""
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
    """Add two products of i16 to i32, without an instruction for pairs."""
    for first in (0, 16):
        z = z + _field(x, first, 16, True) * _field(y, first, 16, True)
    return z
