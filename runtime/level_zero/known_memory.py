"""Allocations that kernels of one device may use: a pointer into one of them is not asked about.

The driver is asked about an allocation once, not at every launch.  What may be remembered follows
from what can happen when it is freed, which this runtime does not see unless the memory is its own:

- Memory of this runtime is remembered from its allocation until just before it is freed.
- Device memory at or above `HOST_END` is remembered for good: Linux maps plain memory of a process
  below that address unless a program names a higher one, so nothing that a kernel must not use can
  come to lie there.  Discrete GPUs have all device memory there.
- Anything else below `HOST_END` (host and shared memory of others, and an integrated GPU's device
  memory, which the driver maps like plain memory) is asked about at each launch: once freed, its
  address may be that of plain memory.

Tensors of torch's XPU device need none of this: torch knows where a tensor is, and keeps its memory
as long as the tensor lives.

The table is sorted and has no overlaps.  All of its code runs with Python's lock held and calls no
Python, so it is one step for every other thread, and for a finalizer too.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from triton_xe.runtime.level_zero.machine_code import compile_text

HOST_END = 1 << 47
"""Where a process's own memory ends (Documentation/arch/x86/x86_64/5level-paging.rst of Linux)."""
CAPACITY = 1024
"""Allocations of a table; one that finds no room is asked about at each launch."""
WORDS = 1 + 2 * CAPACITY
"""A table in 64-bit words: how many allocations, then begin and end of each."""
_PAIR = """
  %{0}.words = shl i64 %{0}, 1
  %{0}.at = getelementptr i64, ptr %pairs, i64 %{0}.words
  %{0}.end.at = getelementptr i64, ptr %{0}.at, i64 1"""
_TEXT = f"""
define internal i64 @begins(ptr %table, i64 %address) {{
entry:
  %count = load i64, ptr %table
  %pairs = getelementptr i64, ptr %table, i64 1
  br label %search
search:
  %low = phi i64 [0, %entry], [%next.low, %halve]
  %left = phi i64 [%count, %entry], [%next.left, %halve]
  %found = icmp eq i64 %left, 0
  br i1 %found, label %done, label %halve
halve:
  %half = lshr i64 %left, 1
  %middle = add i64 %low, %half{_PAIR.format("middle")}
  %begin = load i64, ptr %middle.at
  %is.before = icmp ule i64 %begin, %address
  %above = add i64 %middle, 1
  %rest = sub i64 %left, %half
  %less = sub i64 %rest, 1
  %next.low = select i1 %is.before, i64 %above, i64 %low
  %next.left = select i1 %is.before, i64 %less, i64 %half
  br label %search
done:
  ret i64 %low
}}
define i64 @xe_is_known(ptr %table, i64 %address) {{
  %before = call i64 @begins(ptr %table, i64 %address)
  %none = icmp eq i64 %before, 0
  br i1 %none, label %unknown, label %look
look:
  %pairs = getelementptr i64, ptr %table, i64 1
  %last = sub i64 %before, 1{_PAIR.format("last")}
  %end = load i64, ptr %last.end.at
  %is.inside = icmp ult i64 %address, %end
  %answer = zext i1 %is.inside to i64
  ret i64 %answer
unknown:
  ret i64 0
}}
define void @xe_forget(ptr %table, i64 %begin, i64 %end) {{
entry:
  %count = load i64, ptr %table
  %pairs = getelementptr i64, ptr %table, i64 1
  br label %next
next:
  %from = phi i64 [0, %entry], [%from.next, %move]
  %to = phi i64 [0, %entry], [%to.next, %move]
  %is.end = icmp eq i64 %from, %count
  br i1 %is.end, label %done, label %move
move:{_PAIR.format("from")}{_PAIR.format("to")}
  %its.begin = load i64, ptr %from.at
  %its.end = load i64, ptr %from.end.at
  store i64 %its.begin, ptr %to.at
  store i64 %its.end, ptr %to.end.at
  %starts.after = icmp uge i64 %its.begin, %end
  %ends.before = icmp ule i64 %its.end, %begin
  %is.kept = or i1 %starts.after, %ends.before
  %step = zext i1 %is.kept to i64
  %to.next = add i64 %to, %step
  %from.next = add i64 %from, 1
  br label %next
done:
  store i64 %to, ptr %table
  ret void
}}
define void @xe_remember(ptr %table, i64 %begin, i64 %end) {{
entry:
  call void @xe_forget(ptr %table, i64 %begin, i64 %end)
  %pairs = getelementptr i64, ptr %table, i64 1
  %place = call i64 @begins(ptr %table, i64 %begin)
  %count = load i64, ptr %table
  %is.full = icmp uge i64 %count, {CAPACITY}
  br i1 %is.full, label %done, label %next
next:
  %free = phi i64 [%count, %entry], [%lower, %move]{_PAIR.format("free")}
  %is.place = icmp eq i64 %free, %place
  br i1 %is.place, label %write, label %move
move:
  %lower = sub i64 %free, 1{_PAIR.format("lower")}
  %its.begin = load i64, ptr %lower.at
  %its.end = load i64, ptr %lower.end.at
  store i64 %its.begin, ptr %free.at
  store i64 %its.end, ptr %free.end.at
  br label %next
write:
  store i64 %begin, ptr %free.at
  store i64 %end, ptr %free.end.at
  %more = add i64 %count, 1
  store i64 %more, ptr %table
  br label %done
done:
  ret void
}}
"""


def remember(table: int, begin: int, end: int) -> None:
    """Kernels may use memory from `begin` up to `end`; what was known to overlap it is forgotten.

    `table`: the address of WORDS words, all 0 for an empty one.
    """
    _call("xe_remember", None)(table, begin, end)


def forget(table: int, begin: int, end: int) -> None:
    """Ask about every allocation again that overlaps the memory from `begin` up to `end`."""
    _call("xe_forget", None)(table, begin, end)


def is_known(table: int, address: int) -> bool:
    return bool(_call("xe_is_known", ctypes.c_int64)(table, address))


def address_of(step: str) -> int:
    """Where the machine code of a function of the table is."""
    return int(_engine().get_function_address(step))


@functools.cache
def _engine() -> Any:
    return compile_text(_TEXT)


@functools.cache
def _call(step: str, result: Any) -> Any:
    arguments = [ctypes.c_uint64] * (2 if step == "xe_is_known" else 3)
    return ctypes.PYFUNCTYPE(result, *arguments)(address_of(step))
