"""Native reads of matrix tiles through a table of those prepared before (see `tile_tables`)."""

from __future__ import annotations

from triton_xe.runtime.simulator.analysis.tile_tables import (
    FOUND,
    GROUP,
    HEAD_BYTES,
    OFF,
    PITCH,
    READ_NOW,
    USED,
    WINDOW,
)
from triton_xe.runtime.simulator.library.blocks import (
    DECLARATIONS,
    TRAP,
    clipped_read,
    copy_function,
    enter,
)
from triton_xe.runtime.simulator.library.names import tile_name
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

Text = tuple[str, tuple[str, ...]]


def tile(
    host: HostCpu, bits: str, width: str, height: str, blocks: str, mode: str
) -> Text:
    """The prepared tile, from the table at %table or read now; outside the surface is zero.

    A tile for which the table has no place goes to %r, as does one that is not all inside.
    """
    e, w, h, v = int(bits) // 8, int(width), int(height), int(blocks)
    name = tile_name(e * 8, w, h, v, mode)
    text = enter(
        name, e, e * w * v, h, result=("ptr", "ptr %r"),
        more=", ptr %table, ptr %tiles, i64 %capacity, i64 %key.bits, i64 %slots.at, i64 %group",
    ) + _look_up(name, 4 * w * h * v) + clipped_read(name, e * w * v, h, "ptr %r")
    text += copy_function(name, e, w, h, v, mode) + _place_function(name, 4 * w * h * v)
    return text + TRAP + DECLARATIONS + _WINDOW_DECLARATIONS, ("xe_trap",)


_WINDOW_DECLARATIONS = """
declare i8 @llvm.cttz.i8(i8, i1)
"""


def _look_up(name: str, tile_bytes: int) -> str:
    flat = f"<{WINDOW} x i64>"
    return f"""
  %key = ptrtoint ptr %near to i64
  %mixed = mul i64 %key, -7046029254386353131
  %shift = sub i64 64, %key.bits
  %home = lshr i64 %mixed, %shift
  %keys = getelementptr i8, ptr %table, i64 {HEAD_BYTES}
  %home.at = getelementptr i64, ptr %keys, i64 %home
  %held = load {flat}, ptr %home.at, align 8
  %key1 = insertelement {flat} poison, i64 %key, i32 0
  %wanted = shufflevector {flat} %key1, {flat} poison, <{WINDOW} x i32> zeroinitializer
  %equal = icmp eq {flat} %held, %wanted
  %bits = bitcast <{WINDOW} x i1> %equal to i{WINDOW}
  %some = icmp ne i{WINDOW} %bits, 0
  %own.pitch = load i64, ptr %table
  %same.pitch = icmp eq i64 %own.pitch, %pitch
  %real = icmp ne ptr %near, null
  %fits = and i1 %same.pitch, %real
  %hit = and i1 %some, %fits
  %now.at = getelementptr i8, ptr %table, i64 {READ_NOW}
  %slots = getelementptr i8, ptr %table, i64 %slots.at
  br i1 %hit, label %found, label %missing
found:
  %nth = call i8 @llvm.cttz.i8(i8 %bits, i1 true)
  %nth64 = zext i8 %nth to i64
  %index = add i64 %home, %nth64
  %slot.at = getelementptr i32, ptr %slots, i64 %index
  %slot = load i32, ptr %slot.at
  %slot64 = zext i32 %slot to i64
  %found.at = getelementptr i8, ptr %table, i64 {FOUND}
  %found.before = load i64, ptr %found.at
  %found.now = add i64 %found.before, 1
  store i64 %found.now, ptr %found.at
  store i64 0, ptr %now.at
  %old = getelementptr [{tile_bytes} x i8], ptr %tiles, i64 %slot64
  ret ptr %old
missing:
  store i64 1, ptr %now.at
  %place = call ptr @{name}_place(ptr %r, ptr %table, ptr %slots, ptr %tiles, i64 %capacity,
    i64 %key.bits, i64 %group, i64 %home, i64 %key, i64 %pitch)
  call void @{name}_copy(ptr %place, ptr %near, i64 %pitch)
  ret ptr %place
"""


def _place_function(name: str, tile_bytes: int) -> str:
    """Where a tile goes that is not in the table.

    A full table begins anew once per work-group, unless it gave each of
    its tiles back less than twice: then it is not used any more.
    """
    flat = f"<{WINDOW} x i64>"
    at = "\n".join(f"  %{n}.at = getelementptr i8, ptr %table, i64 {offset}" for n, offset in (
        ("pitch", PITCH), ("used", USED), ("group", GROUP), ("found", FOUND), ("off", OFF)))
    return f"""
define internal ptr @{name}_place(ptr %r, ptr %table, ptr %slots, ptr %tiles, i64 %capacity,
    i64 %key.bits, i64 %group, i64 %home, i64 %key, i64 %pitch) nounwind noinline {{
entry:
{at}
  %off = load i64, ptr %off.at
  %is.off = icmp ne i64 %off, 0
  br i1 %is.off, label %none, label %on
on:
  %used = load i64, ptr %used.at
  %own.pitch = load i64, ptr %pitch.at
  %full = icmp uge i64 %used, %capacity
  %other = icmp ne i64 %own.pitch, %pitch
  %anew = or i1 %full, %other
  br i1 %anew, label %begin, label %take
begin:
  %since = load i64, ptr %group.at
  %same = icmp eq i64 %since, %group
  br i1 %same, label %none, label %judge
judge:
  %found = load i64, ptr %found.at
  %least = shl i64 %used, 1
  %poor = icmp ult i64 %found, %least
  br i1 %poor, label %stop, label %clear
stop:
  store i64 1, ptr %off.at
  br label %none
clear:
  %keys = getelementptr i8, ptr %table, i64 {HEAD_BYTES}
  %places = shl i64 1, %key.bits
  %all = add i64 %places, {WINDOW}
  %all.bytes = shl i64 %all, 3
  call void @llvm.memset.p0.i64(ptr %keys, i8 0, i64 %all.bytes, i1 false)
  store i64 %pitch, ptr %pitch.at
  store i64 0, ptr %found.at
  store i64 %group, ptr %group.at
  br label %take
take:
  %n = phi i64 [%used, %on], [0, %clear]
  %home.key = getelementptr i8, ptr %table, i64 {HEAD_BYTES}
  %home.at = getelementptr i64, ptr %home.key, i64 %home
  %held = load {flat}, ptr %home.at, align 8
  %free = icmp eq {flat} %held, zeroinitializer
  %bits = bitcast <{WINDOW} x i1> %free to i{WINDOW}
  %some = icmp ne i{WINDOW} %bits, 0
  store i64 %n, ptr %used.at
  br i1 %some, label %enter, label %none
enter:
  %nth = call i8 @llvm.cttz.i8(i8 %bits, i1 true)
  %nth64 = zext i8 %nth to i64
  %key.at = getelementptr i64, ptr %home.at, i64 %nth64
  store i64 %key, ptr %key.at
  %index = add i64 %home, %nth64
  %slot.at = getelementptr i32, ptr %slots, i64 %index
  %slot = trunc i64 %n to i32
  store i32 %slot, ptr %slot.at
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %used.at
  %new = getelementptr [{tile_bytes} x i8], ptr %tiles, i64 %n
  ret ptr %new
none:
  ret ptr %r
}}
"""
