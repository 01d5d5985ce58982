"""Native 2D block reads and writes: straight row copies inside the surface, clipped otherwise.

The readable definitions are in `instructions/block_2d.py`.
"""

from __future__ import annotations

from triton_xe.hardware import block_2d
from triton_xe.runtime.simulator.library.dpas import _Lines, _to_float
from triton_xe.runtime.simulator.library.names import block_read_name, block_write_name
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

Text = tuple[str, tuple[str, ...]]

_SURFACE = ("ptr %r, i64 %base, i32 %w1, i32 %h1, i32 %p1, i32 %x, i32 %y, "
            "ptr noalias %err, i32 %line")
TRAP = "declare void @xe_trap(ptr, i64, i32, i64, i64, i64, i64, i64, i64)"
SURFACE_TRAP = 1


def enter(
    name: str, element: int, row_bytes: int, rows: int, *, more: str = "",
    result: tuple[str, str] = ("void", "void"),
) -> str:
    """Check the surface (`block_2d.surface_rules`); branch to %inside (tile within it) or %clip.

    `more` are further parameters, `result` the function's type and what it returns after a trap.
    """
    unit = max(block_2d.OFFSET_BYTES, element)
    return f"""
define {result[0]} @{name}({_SURFACE}{more}) nounwind "prefer-vector-width"="512" {{
entry:
  %low6 = and i64 %base, {block_2d.BASE_ALIGNMENT - 1}
  %w = add i32 %w1, 1
  %p = add i32 %p1, 1
  %w.odd = and i32 %w, {unit - 1}
  %p.odd = and i32 %p, {block_2d.PITCH_MULTIPLE - 1}
  %xb = mul i32 %x, {element}
  %x.odd = and i32 %xb, {block_2d.OFFSET_BYTES - 1}
  %odd1 = or i32 %w.odd, %p.odd
  %odd2 = or i32 %odd1, %x.odd
  %low32 = trunc i64 %low6 to i32
  %odd = or i32 %odd2, %low32
  %bad1 = icmp ne i32 %odd, 0
  %bad2 = icmp ult i32 %w1, {block_2d.MIN_SURFACE_BYTES - 1}
  %bad3 = icmp ult i32 %p1, %w1
  %bad4 = icmp ugt i32 %p1, {block_2d.MAX_SURFACE - 2}
  %bad5 = icmp ugt i32 %h1, {block_2d.MAX_SURFACE - 2}
  %or1 = or i1 %bad1, %bad2
  %or2 = or i1 %or1, %bad3
  %or3 = or i1 %or2, %bad4
  %bad = or i1 %or3, %bad5
  br i1 %bad, label %trap, label %legal
trap:
  %w64 = zext i32 %w1 to i64
  %h64 = zext i32 %h1 to i64
  %p64 = zext i32 %p1 to i64
  %x64 = sext i32 %x to i64
  %y64 = sext i32 %y to i64
  call void @xe_trap(ptr %err, i64 {SURFACE_TRAP}, i32 %line, i64 %base, i64 %w64,
    i64 %h64, i64 %p64, i64 %x64, i64 {element * 8})
  ret {result[1]}
legal:
  %pitch = zext i32 %p to i64
  %wide = zext i32 %w to i64
  %h.wide = zext i32 %h1 to i64
  %xe = sext i32 %x to i64
  %x0 = mul i64 %xe, {element}
  %y0 = sext i32 %y to i64
  %x.end = add i64 %x0, {row_bytes}
  %y.end = add i64 %y0, {rows - 1}
  %in1 = icmp sge i64 %x0, 0
  %in2 = icmp sle i64 %x.end, %wide
  %in3 = icmp sge i64 %y0, 0
  %in4 = icmp sle i64 %y.end, %h.wide
  %and1 = and i1 %in1, %in2
  %and2 = and i1 %in3, %in4
  %in = and i1 %and1, %and2
  %start = inttoptr i64 %base to ptr
  br i1 %in, label %inside, label %clip
inside:
  %row.offset = mul i64 %y0, %pitch
  %offset = add i64 %row.offset, %x0
  %near = getelementptr i8, ptr %start, i64 %offset
"""


def _clip_loop(rows: int, row_bytes: int, read: bool) -> str:
    """Copy the part of each row that is inside, between the surface and %tmp."""
    move = "ptr %t.at, ptr %s.at" if read else "ptr %s.at, ptr %t.at"
    return f"""
  %c0 = call i64 @llvm.smax.i64(i64 %x0, i64 0)
  %c1 = call i64 @llvm.smin.i64(i64 %x.end, i64 %wide)
  %n = sub i64 %c1, %c0
  %any = icmp sgt i64 %n, 0
  %skip = sub i64 %c0, %x0
  br i1 %any, label %rows, label %clipped
rows:
  %j = phi i64 [0, %clip], [%j1, %row.next]
  %yy = add i64 %y0, %j
  %y.low = icmp sge i64 %yy, 0
  %y.high = icmp sle i64 %yy, %h.wide
  %y.in = and i1 %y.low, %y.high
  br i1 %y.in, label %row.copy, label %row.next
row.copy:
  %s.row = mul i64 %yy, %pitch
  %s.off = add i64 %s.row, %c0
  %s.at = getelementptr i8, ptr %start, i64 %s.off
  %t.row = mul i64 %j, {row_bytes}
  %t.off = add i64 %t.row, %skip
  %t.at = getelementptr i8, ptr %tmp, i64 %t.off
  call void @llvm.memcpy.p0.p0.i64({move}, i64 %n, i1 false)
  br label %row.next
row.next:
  %j1 = add i64 %j, 1
  %j.more = icmp ult i64 %j1, {rows}
  br i1 %j.more, label %rows, label %clipped
"""


DECLARATIONS = """
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def block_read(
    host: HostCpu, bits: str, width: str, height: str, blocks: str, mode: str
) -> Text:
    """Read a tile into the register image at %r; outside the surface is zero.

    Mode `rows_<kind>` writes fp32 rows, block after block: prepared operands (see `direct`).
    """
    e, w, h, v = int(bits) // 8, int(width), int(height), int(blocks)
    name = block_read_name(e * 8, w, h, v, mode)
    text = enter(name, e, e * w * v, h) + f"""
  call void @{name}_copy(ptr %r, ptr %near, i64 %pitch)
  ret void
""" + clipped_read(name, e * w * v, h, "void") + copy_function(name, e, w, h, v, mode)
    return text + TRAP + DECLARATIONS, ("xe_trap",)


def clipped_read(name: str, row_bytes: int, rows: int, result: str) -> str:
    """The read of a tile that is not all inside, after `enter`."""
    return f"""
clip:
  %tmp = alloca [{row_bytes * rows} x i8], align 64
  call void @llvm.memset.p0.i64(ptr %tmp, i8 0, i64 {row_bytes * rows}, i1 false)
""" + _clip_loop(rows, row_bytes, True) + f"""
clipped:
  call void @{name}_copy(ptr %r, ptr %tmp, i64 {row_bytes})
  ret {result}
}}
"""


def copy_function(name: str, e: int, w: int, h: int, v: int, mode: str) -> str:
    """The function that brings the rows of a tile into the form `mode` asks for."""
    return (f"define internal void @{name}_copy(ptr noalias %to, ptr noalias %s, i64 %pitch) "
            'nounwind noinline "prefer-vector-width"="512" {\n' + _copy_text(e, w, h, v, mode))


ROWS_PER_PASS = 4


def _copy_text(e: int, w: int, h: int, v: int, mode: str) -> str:
    """Rows at %s, %pitch apart, to the image at %to; a loop unless rows are transposed."""
    f = _Lines("")
    f.lines = ["entry:"]
    unit = 4 if mode.startswith("rows_") else e
    stride = w * h * 4 if unit != e else -(-e * w * h // 64) * 64
    for b in range(v if stride != unit * w * h else 0):  # padding is zero
        size = stride - e * w * h
        f.store(f"<{size} x i8>", "zeroinitializer", "%to", b * stride + e * w * h, 1)
    looped = mode != "transpose" and h > ROWS_PER_PASS and h % ROWS_PER_PASS == 0
    pass_rows = ROWS_PER_PASS if looped else h
    f.do("br label %rows")
    f.lines.append("rows:")
    if looped:
        f.do("%y = phi i64 [0, %entry], [%next, %rows]")
        f.do("%from = phi ptr [%s, %entry], [%following, %rows]")
        f.do(f"%d = getelementptr [{w * unit} x i8], ptr %to, i64 %y")
    else:
        f.do("%from = getelementptr i8, ptr %s, i64 0")
        f.do("%d = getelementptr i8, ptr %to, i64 0")
    rows = ["%from"]
    for _ in range(1, pass_rows):
        rows.append(f.emit(f"getelementptr i8, ptr {rows[-1]}, i64 %pitch"))
    for b in range(v):
        if unit != e:
            _widened(f, rows, mode.removeprefix("rows_"), w, b * w * e, b * stride)
        else:
            _COPIES[mode](f, rows, e, w, b * w * e, b * stride)
    if looped:
        f.do(f"%following = getelementptr i8, ptr {rows[-1]}, i64 %pitch")
        f.do(f"%next = add i64 %y, {pass_rows}")
        f.do(f"%more = icmp ult i64 %next, {h}")
        f.do("br i1 %more, label %rows, label %done")
        f.lines.append("done:")
    return f.text() + "\n"


def _widened(f: _Lines, rows: list[str], kind: str, w: int, source: int, target: int) -> None:
    for y, row in enumerate(rows):
        value = _to_float(f, f.load(f"<{w} x i16>", row, source, 1), kind, w)
        f.store(f"<{w} x float>", value, "%d", target + y * w * 4, 64)


def _plain(f: _Lines, rows: list[str], e: int, w: int, source: int, target: int) -> None:
    for y, row in enumerate(rows):
        data = f.load(f"<{w} x i{8 * e}>", row, source, 1)
        f.store(f"<{w} x i{8 * e}>", data, "%d", target + y * w * e, 1)


def _mask(order: list[int]) -> str:
    return f"<{len(order)} x i32> <{', '.join(f'i32 {k}' for k in order)}>"


def _interleave(f: _Lines, a: str, b: str, count: int, t: str) -> str:
    order = [k // 2 + (k % 2) * count for k in range(2 * count)]
    flat = f"<{count} x {t}>"
    return f.emit(f"shufflevector {flat} {a}, {flat} {b}, {_mask(order)}")


def _vnni(f: _Lines, rows: list[str], e: int, w: int, source: int, target: int) -> None:
    n, t = 4 // e, f"i{8 * e}"
    for y in range(0, len(rows), n):
        data = [f.load(f"<{w} x {t}>", rows[y + k], source, 1) for k in range(n)]
        count = w
        while len(data) > 1:
            half = len(data) // 2
            data = [_interleave(f, data[k], data[k + half], count, t) for k in range(half)]
            count *= 2
        f.store(f"<{count} x {t}>", data[0], "%d", target + y * w * e, 1)


def _transpose(f: _Lines, rows: list[str], e: int, w: int, source: int, target: int) -> None:
    """Perfect shuffles of rows h/2 apart; vectors are kept at 64 bytes or less."""
    t, widest = f"i{8 * e}", 64 // e
    data = [[f.load(f"<{w} x {t}>", row, source, 1)] for row in rows]
    count = w
    while len(data) > 1:
        half = len(data) // 2
        merged = []
        for k in range(half):
            chunks: list[str] = []
            for a, b in zip(data[k], data[k + half], strict=True):
                chunks += _merge(f, a, b, count, t, widest)
            merged.append(chunks)
        data, count = merged, min(2 * count, widest)
    for k, chunk in enumerate(data[0]):
        f.store(f"<{count} x {t}>", chunk, "%d", target + k * count * e, 1)


def _merge(f: _Lines, a: str, b: str, count: int, t: str, widest: int) -> list[str]:
    if 2 * count <= widest:
        return [_interleave(f, a, b, count, t)]
    flat = f"<{count} x {t}>"
    found = []
    for first in (0, count // 2):
        order = [first + k // 2 + (k % 2) * count for k in range(count)]
        found.append(f.emit(f"shufflevector {flat} {a}, {flat} {b}, {_mask(order)}"))
    return found


_COPIES = {"plain": _plain, "vnni": _vnni, "transpose": _transpose}


def block_write(host: HostCpu, bits: str, width: str, height: str) -> Text:
    """Write the register image at %r to a tile; outside the surface is dropped.

    The rows below are often written next: the host is told to get hold of them.
    """
    e, w, h = int(bits) // 8, int(width), int(height)
    name = block_write_name(e * 8, w, h)
    row_bytes = e * w
    f = _Lines("")
    f.lines = [f"  %height = mul i64 %pitch, {h}"]
    for y in range(h):
        data = f.load(f"<{row_bytes} x i8>", "%r", y * row_bytes, 1)
        row = f.emit(f"mul i64 %pitch, {y}")
        at = f.emit(f"getelementptr i8, ptr %near, i64 {row}")
        f.do(f"store <{row_bytes} x i8> {data}, ptr {at}, align 1")
        below = f.emit(f"getelementptr i8, ptr {at}, i64 %height")
        f.do(f"call void @llvm.prefetch.p0(ptr {below}, i32 1, i32 3, i32 1)")
    text = enter(name, e, row_bytes, h) + "\n".join(f.lines) + """
  ret void
clip:
  %tmp = getelementptr i8, ptr %r, i64 0
""" + _clip_loop(h, row_bytes, False) + "clipped:\n  ret void\n}\n" + TRAP + DECLARATIONS
    return text, ("xe_trap",)
