"""Native DPAS: operands prepared to fp32 or i16, then rank-1 updates of register rows.

The readable definitions are in `instructions/dpas.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triton_xe.runtime.simulator.library.names import DPAS_UNROLLED, ROWS_PER_PASS
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

Text = tuple[str, tuple[str, ...]]


class _Lines:
    """A straight-line function body."""

    def __init__(self, head: str) -> None:
        self.lines = [head, "entry:"]
        self.count = 0

    def emit(self, right: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {right}")
        return f"%v{self.count}"

    def do(self, line: str) -> None:
        self.lines.append("  " + line)

    def at(self, pointer: str, offset: int) -> str:
        return pointer if offset == 0 else self.emit(
            f"getelementptr i8, ptr {pointer}, i64 {offset}"
        )

    def load(self, t: str, pointer: str, offset: int, align: int) -> str:
        return self.emit(f"load {t}, ptr {self.at(pointer, offset)}, align {align}")

    def store(self, t: str, value: str, pointer: str, offset: int, align: int) -> None:
        self.do(f"store {t} {value}, ptr {self.at(pointer, offset)}, align {align}")

    def text(self) -> str:
        return "\n".join([*self.lines, "  ret void", "}"])


def _head(name: str) -> str:
    return (f"define void @{name}(ptr noalias %d, ptr noalias %s) nounwind "
            '"prefer-vector-width"="512" {')


def _to_float(f: _Lines, words: str, kind: str, count: int) -> str:
    """`count` 16- or 32-bit patterns as fp32."""
    single = f"<{count} x float>"
    if kind == "f16":
        half = f.emit(f"bitcast <{count} x i16> {words} to <{count} x half>")
        return f.emit(f"fpext <{count} x half> {half} to {single}")
    if kind == "bf16":
        wide = f.emit(f"zext <{count} x i16> {words} to <{count} x i32>")
        words = f.emit(f"shl <{count} x i32> {wide}, splat (i32 16)")
    else:
        words = f.emit(f"and <{count} x i32> {words}, splat (i32 -8192)")
    return f.emit(f"bitcast <{count} x i32> {words} to {single}")


def prepare_a(host: HostCpu, kind: str, rows: str, k: str, nbytes: str) -> Text:
    """Row-major elements to row-major fp32, or i16 for integers."""
    total = int(rows) * int(k)
    f = _Lines(_head(f"xe_prepare_a_{kind}_{rows}x{k}_{nbytes}"))
    step = min(16, total)
    for first in range(0, total, step):
        if kind in ("f16", "bf16", "tf32"):
            bits = 32 if kind == "tf32" else 16
            words = f.load(f"<{step} x i{bits}>", "%s", first * bits // 8, 4)
            f.store(f"<{step} x float>", _to_float(f, words, kind, step), "%d", first * 4, 64)
            continue
        extend = "sext" if kind[0] == "s" else "zext"
        narrow = f"<{step} x i{kind[1:]}>"
        held = f.load(narrow, "%s", first * int(kind[1:]) // 8, 4)
        wide = f.emit(f"{extend} {narrow} {held} to <{step} x i16>")
        f.store(f"<{step} x i16>", wide, "%d", first * 2, 32)
    return f.text(), ()


def prepare_b(host: HostCpu, kind: str, k: str, columns: str, nbytes: str) -> Text:
    """VNNI dwords to rows of fp32, or to rows of i16 pairs (k, k+1) for integers."""
    n = int(columns)
    f = _Lines(_head(f"xe_prepare_b_{kind}_{k}x{columns}_{nbytes}"))
    dword = f"<{n} x i32>"
    per_dword = {"tf32": 1, "f16": 2, "bf16": 2}.get(kind, 32 // int(kind[1:])
                                                      if kind[0] in "su" else 1)
    for d in range(int(k) // per_dword):
        x = f.load(dword, "%s", d * n * 4, 4)
        if kind in ("f16", "bf16", "tf32"):
            for sub, value in enumerate(_float_rows(f, x, kind, n)):
                f.store(f"<{n} x float>", value, "%d", (d * per_dword + sub) * n * 4, n * 4)
            continue
        bits, signed = int(kind[1:]), kind[0] == "s"
        for pair in range(per_dword // 2):
            low = _field(f, x, 2 * pair * bits, bits, signed, n)
            high = _field(f, x, (2 * pair + 1) * bits, bits, signed, n)
            low = f.emit(f"and {dword} {low}, splat (i32 65535)")
            high = f.emit(f"shl {dword} {high}, splat (i32 16)")
            both = f.emit(f"or {dword} {low}, {high}")
            f.store(dword, both, "%d", (d * per_dword // 2 + pair) * n * 4, n * 4)
    return f.text(), ()


def _float_rows(f: _Lines, x: str, kind: str, n: int) -> list[str]:
    dword, word, single = f"<{n} x i32>", f"<{n} x i16>", f"<{n} x float>"
    if kind == "tf32":
        return [_to_float(f, x, kind, n)]
    if kind == "bf16":
        low = f.emit(f"shl {dword} {x}, splat (i32 16)")
        high = f.emit(f"and {dword} {x}, splat (i32 -65536)")
        return [f.emit(f"bitcast {dword} {v} to {single}") for v in (low, high)]
    low = f.emit(f"trunc {dword} {x} to {word}")
    shifted = f.emit(f"lshr {dword} {x}, splat (i32 16)")
    high = f.emit(f"trunc {dword} {shifted} to {word}")
    return [_to_float(f, v, kind, n) for v in (low, high)]


def _field(f: _Lines, x: str, first: int, bits: int, signed: bool, n: int) -> str:
    dword = f"<{n} x i32>"
    up = 32 - first - bits
    if up:
        x = f.emit(f"shl {dword} {x}, splat (i32 {up})")
    return f.emit(f"{'ashr' if signed else 'lshr'} {dword} {x}, splat (i32 {32 - bits})")


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
        return f"%a{step}_{tile if self.form == 'tall' else 0}"

    def b(self, step: int, tile: int) -> str:
        return f"%b{step}_{tile if self.form == 'wide' else 0}"

    @property
    def pointers(self) -> list[str]:
        """The accumulators, then for each step the operands A, then B."""
        names = [f"%c{j}" for j in range(self.tiles)]
        for step in range(self.steps):
            for operand in (self.a, self.b):
                names += dict.fromkeys(operand(step, j) for j in range(self.tiles))
        return names

    @property
    def parameters(self) -> str:
        kinds = {"c": "ptr noalias", "a": "ptr noalias readonly", "b": "ptr noalias readonly"}
        names = [f"{kinds[name[1]]} {name}" for name in self.pointers]
        return ", ".join([*names, *(["i64 %start", "i64 %pitch"] if self.ahead else [])])


def dpas(
    host: HostCpu, kind: str, accumulator: str, rows: str, k: str, columns: str, form: str,
    steps: str, ahead: str | None,
) -> Text:
    """`acc += A * B`, in place; K ascends, one fused multiply-add per product in fp32.

    `form` is one (accumulator), wide (two that share A) or tall (two that share B); each gets as
    many instructions, one after the other, as there are `steps`.  With `ahead` it also brings
    rows at %start, %pitch apart, of up to one cache line each, into the host's L2 cache.
    """
    group = _Group(form, int(steps), ahead is not None)
    name = f"xe_dpas_{kind}_{accumulator}_{rows}x{k}x{columns}_{form}{steps}{ahead or ''}"
    m, n = int(rows), int(columns)
    together = _rows_in_registers(host, m, n)
    units = int(k) if kind == "f32" else int(k) // 2
    declaration, multiply_add = (_fused_products if kind == "f32" else _pair_products)(host, n)
    part = f"internal void @{name}_rows" if together < m else f"void @{name}"
    f = _Lines(f"define {part}({group.parameters}) nounwind "
               f'{"noinline " * (together < m)}"prefer-vector-width"="512" {{')
    _accumulate(f, group, accumulator, (together, units, n), multiply_add)
    text = f.text() + declaration + _PREFETCH
    return text + _in_parts(name, group, accumulator, (m, together, units, n)), ()


def _rows_in_registers(host: HostCpu, rows: int, n: int) -> int:
    """How many rows go through all of K together: their sums take half of the registers."""
    fitting = max(1, host.vector_registers // 2 * host.vector_bytes // (4 * n))
    return max(r for r in range(1, min(rows, fitting) + 1) if rows % r == 0)


def _in_parts(
    name: str, group: _Group, accumulator: str, shape: tuple[int, int, int, int]
) -> str:
    """All rows, where `name`_rows does some of them.

    A function of its own: in one, LLVM would keep B from the first rows to the last.  Each part
    asks for what is read ahead; asking for a line again costs next to nothing.
    """
    rows, together, units, n = shape
    if together == rows:
        return ""
    widths = {"c": n * _size(accumulator), "a": 4 * units, "b": 0}
    f = _Lines(f"\n\ndefine void @{name}({group.parameters}) nounwind {{")
    for first in range(0, rows, together):
        given = [f"ptr {f.at(x, first * widths[x[1]])}" for x in group.pointers]
        given += ["i64 %start", "i64 %pitch"] if group.ahead else []
        f.do(f"call void @{name}_rows({', '.join(given)})")
    return f.text()


def _size(accumulator: str) -> int:
    return 2 if accumulator in ("half", "bfloat", "i16") else 4


_PREFETCH = "\ndeclare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
_MultiplyAdd = Callable[["_Lines", str, str, str, int], str]


@dataclass(frozen=True)
class _Shape:
    """M, K in units of 32 bits, N, and the type of an accumulator's element in registers."""

    rows: int
    units: int
    n: int
    scalar: str

    @property
    def unrolled(self) -> int:
        return min(DPAS_UNROLLED, self.units)


def _accumulate(
    f: _Lines, group: _Group, accumulator: str, shape: tuple[int, int, int],
    multiply_add: _MultiplyAdd,
) -> None:
    """Register rows of every accumulator; `shape` is M, K in units of 32 bits, N.

    The first and the last pass stand outside the loops: accumulators are loaded just before
    their first product and stored just after their last one, so that the host can begin a call
    while the one before it ends.
    """
    s = _Shape(*shape, "i32" if accumulator == "i32" else "float")
    size = _size(accumulator)
    raw = f"<{s.n} x {'i16' if size == 2 else accumulator}>"
    if group.ahead:
        f.do("%ahead = inttoptr i64 %start to ptr")

    def load(tile: int, row: int) -> str:
        x = f.load(raw, f"%c{tile}", row * s.n * size, s.n * size)
        return x if size == 4 else _to_float(f, x, _narrow(accumulator), s.n)

    def store(tile: int, row: int, x: str) -> None:
        x = x if size == 4 else _rounded(f, x, accumulator, s.n)
        f.store(raw, x, f"%c{tile}", row * s.n * size, s.n * size)

    sums: dict[tuple[int, int], str] = {}
    previous = "entry"
    for step in range(group.steps):
        first, end = 0, s.units
        if step == 0:
            _pass(f, group, step, "0", s, sums, multiply_add, load=load,
                  store=store if group.steps == 1 and s.units == s.unrolled else None)
            first = s.unrolled
        last = step == group.steps - 1 and first < s.units
        if last:
            end -= s.unrolled
        if first < end:
            previous = _loop(f, group, step, previous, range(first, end), s, sums, multiply_add)
        if last:
            _pass(f, group, step, str(end), s, sums, multiply_add, store=store)


def _pass(
    f: _Lines, group: _Group, step: int, index: str, s: _Shape,
    sums: dict[tuple[int, int], str], multiply_add: _MultiplyAdd, *,
    load: Callable[[int, int], str] | None = None,
    store: Callable[[int, int, str], None] | None = None,
) -> None:
    """Some units of K from `index` on every accumulator, which it may load and store."""
    names_a = dict.fromkeys(group.a(step, j) for j in range(group.tiles))
    names_b = dict.fromkeys(group.b(step, j) for j in range(group.tiles))
    flat = f"<{s.n} x {s.scalar}>"
    a_at = {x: f.emit(f"getelementptr {s.scalar}, ptr {x}, i64 {index}") for x in names_a}
    b_at = {x: f.emit(f"getelementptr {flat}, ptr {x}, i64 {index}") for x in names_b}
    if group.ahead:
        _read_ahead(f, index, step * (s.units // DPAS_UNROLLED))
    for k in range(s.unrolled):
        b = {name: f.load(flat, at, k * s.n * 4, s.n * 4) for name, at in b_at.items()}
        for row in range(s.rows):
            a = {name: _broadcast(f, at, (row * s.units + k) * 4, s.scalar, s.n)
                 for name, at in a_at.items()}
            for j in range(group.tiles):
                place = j, row
                if load is not None and k == 0:
                    sums[place] = load(*place)
                sums[place] = multiply_add(
                    f, a[group.a(step, j)], b[group.b(step, j)], sums[place], s.n
                )
                if store is not None and k == s.unrolled - 1:
                    store(*place, sums[place])


def _narrow(accumulator: str) -> str:
    return "f16" if accumulator == "half" else "bf16"


def _loop(
    f: _Lines, group: _Group, step: int, previous: str, units: range, s: _Shape,
    sums: dict[tuple[int, int], str], multiply_add: _MultiplyAdd,
) -> str:
    """Passes over a range of K; returns the label of the block that follows."""
    flat, label = f"<{s.n} x {s.scalar}>", f"loop{step}"
    f.do(f"br label %{label}")
    f.lines.append(f"{label}:")
    phis = len(f.lines)
    first = dict(sums)
    index, following = f"%k{step}", f"%next{step}"
    names = {place: f"%sum{step}_{k}" for k, place in enumerate(first)}
    sums.update(names)
    _pass(f, group, step, index, s, sums, multiply_add)
    f.do(f"{following} = add i64 {index}, {s.unrolled}")
    f.do(f"%more{step} = icmp ult i64 {following}, {units.stop}")
    f.do(f"br i1 %more{step}, label %{label}, label %done{step}")
    f.lines.append(f"done{step}:")
    f.lines[phis:phis] = [
        f"  {index} = phi i64 [{units.start}, %{previous}], [{following}, %{label}]",
        *(f"  {names[p]} = phi {flat} [{first[p]}, %{previous}], [{sums[p]}, %{label}]"
          for p in names),
    ]
    return f"done{step}"


def _read_ahead(f: _Lines, index: str, passes: int) -> None:
    """The rows of one pass; `passes` went before this loop."""
    done = f.emit(f"lshr i64 {index}, {DPAS_UNROLLED.bit_length() - 1}")
    done = f.emit(f"add i64 {done}, {passes}")
    row = f.emit(f"mul i64 {done}, {ROWS_PER_PASS}")
    at = f.emit(f"getelementptr i8, ptr %ahead, i64 {f.emit(f'mul i64 {row}, %pitch')}")
    for _ in range(ROWS_PER_PASS):
        f.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")
        at = f.emit(f"getelementptr i8, ptr {at}, i64 %pitch")


def _broadcast(f: _Lines, pointer: str, offset: int, scalar: str, n: int) -> str:
    flat = f"<{n} x {scalar}>"
    x = f.load(scalar, pointer, offset, 4)
    one = f.emit(f"insertelement {flat} poison, {scalar} {x}, i32 0")
    return f.emit(f"shufflevector {flat} {one}, {flat} poison, <{n} x i32> zeroinitializer")


def _fused_products(host: HostCpu, n: int) -> tuple[str, _MultiplyAdd]:
    """Products added to fp32, rounded once; and what that declares."""
    single = f"<{n} x float>"

    def multiply_add(f: _Lines, a: str, b: str, c: str, n: int) -> str:
        return f.emit(f"call {single} @llvm.fma.v{n}f32({single} {a}, {single} {b}, {single} {c})")

    return f"\ndeclare {single} @llvm.fma.v{n}f32({single}, {single}, {single})", multiply_add


def _rounded(f: _Lines, x: str, accumulator: str, n: int) -> str:
    """fp32 to the bits of half or bf16, nearest even, NaN kept."""
    single, dword = f"<{n} x float>", f"<{n} x i32>"
    if accumulator == "half":
        half = f.emit(f"fptrunc {single} {x} to <{n} x half>")
        return f.emit(f"bitcast <{n} x half> {half} to <{n} x i16>")
    bits = f.emit(f"bitcast {single} {x} to {dword}")
    shifted = f.emit(f"lshr {dword} {bits}, splat (i32 16)")
    odd = f.emit(f"and {dword} {shifted}, splat (i32 1)")
    bias = f.emit(f"add {dword} {odd}, splat (i32 32767)")
    rounded = f.emit(f"add {dword} {bits}, {bias}")
    quiet = f.emit(f"or {dword} {bits}, splat (i32 4194304)")
    nan = f.emit(f"fcmp uno {single} {x}, {x}")
    chosen = f.emit(f"select <{n} x i1> {nan}, {dword} {quiet}, {dword} {rounded}")
    high = f.emit(f"lshr {dword} {chosen}, splat (i32 16)")
    return f.emit(f"trunc {dword} {high} to <{n} x i16>")


def _pair_products(host: HostCpu, n: int) -> tuple[str, _MultiplyAdd]:
    """Pairs of i16 products added to i32, which wraps around; and what that declares."""
    lanes = next((m for m, (_, feature) in _PAIR_PRODUCTS.items()
                  if n % m == 0 and host.has(feature)), 0)
    if not lanes:
        return "", _pair_product
    native = _PAIR_PRODUCTS[lanes][0]
    dword, word = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"

    def multiply_add(f: _Lines, a: str, b: str, c: str, n: int) -> str:
        sums = []
        for first in range(0, n, lanes):
            x, y, z = (_part(f, v, first, lanes, n) for v in (a, b, c))
            x, y = (f.emit(f"bitcast {dword} {v} to {word}") for v in (x, y))
            product = f.emit(f"call {dword} @{native}({word} {x}, {word} {y})")
            sums.append(f.emit(f"add {dword} {z}, {product}"))
        return _joined(f, sums, lanes)

    return f"\ndeclare {dword} @{native}({word}, {word})", multiply_add


_PAIR_PRODUCTS = {16: ("llvm.x86.avx512.pmaddw.d.512", "avx512bw"),
                  8: ("llvm.x86.avx2.pmadd.wd", "avx2")}


def _part(f: _Lines, x: str, first: int, count: int, n: int) -> str:
    """`count` of the `n` dwords of `x`, from `first` on."""
    if count == n:
        return x
    chosen = ", ".join(f"i32 {first + k}" for k in range(count))
    return f.emit(f"shufflevector <{n} x i32> {x}, <{n} x i32> poison, <{count} x i32> <{chosen}>")


def _joined(f: _Lines, parts: list[str], count: int) -> str:
    """One or two vectors of `count` dwords as one."""
    if len(parts) == 1:
        return parts[0]
    flat, order = f"<{count} x i32>", ", ".join(f"i32 {k}" for k in range(2 * count))
    return f.emit(
        f"shufflevector {flat} {parts[0]}, {flat} {parts[1]}, <{2 * count} x i32> <{order}>"
    )


def _pair_product(f: _Lines, a: str, b: str, c: str, n: int) -> str:
    dword = f"<{n} x i32>"
    for first in (0, 16):
        x, y = (_field(f, v, first, 16, True, n) for v in (a, b))
        product = f.emit(f"mul {dword} {x}, {y}")
        c = f.emit(f"add {dword} {c}, {product}")
    return c
