"""Cells of the sanitizer that tell of accesses of several programs, as lists of records.

A cell has room for one access.  Readers of several programs since the last write, and stores of
several programs to different bytes of a dword, are a list of cells instead; the cell has its index
where others have epoch and phase.  Dwords that the same programs access share their lists.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.sanitizer.records import FIELDS, Records
from triton_xe.runtime.simulator.sanitizer.state import (
    ATOMIC,
    EPOCH,
    FULL,
    GROUP,
    I32,
    I64,
    JOIN,
    SEVERAL,
    SEVERAL_GROUPS,
    SUBGROUP,
    Text,
    Word,
    Writer,
)


class Reader(IntEnum):
    """One element of a list of accesses of one dword: its cell, as two words."""

    LOW = 0
    HIGH = 1
    NEXT = 2


class Joined(IntEnum):
    """64-bit words of a cell that was made of two, to be used for the next such pair."""

    OLD = 0
    NEW = 1
    MADE = 2
    WRITES = 3
    WORDS = 4


JOINED_KEPT = 256


def list_of(cell: Any, b: ir.IRBuilder) -> Any:
    """The list of accesses that a cell of several programs has; 0 is none."""
    index = b.and_(b.lshr(cell, I64(EPOCH)), I64((1 << SUBGROUP - EPOCH) - 1))
    several = b.icmp_unsigned("==", b.lshr(cell, I64(GROUP)), I64(SEVERAL_GROUPS))
    return b.trunc(b.select(several, index, I64(0)), I32)


def reader_of(w: Writer, state: Any, reader: Any) -> tuple[Any, Any]:
    """The cell of an element of a list of accesses, and the next element."""
    b = w.b
    offset = b.mul(b.zext(reader, I64), I64(4 * FIELDS))
    at = b.gep(w.pointer(state, Word.RECORDS), [offset], source_etype=ir.IntType(8))
    low, high, following = (w.word(at, field, I32) for field in Reader)
    return b.or_(b.zext(low, I64), b.shl(b.zext(high, I64), I64(32))), following


def joined_in_group(b: ir.IRBuilder, old: Any, new: Any) -> Any:
    """The cell of two readers of one work-group: bytes of both, atomic if both are, as of now."""
    other_warp = b.icmp_unsigned(
        "!=", b.and_(b.xor(old, new), I64(SEVERAL << SUBGROUP)), I64(0))
    several = b.select(other_warp, I64(SEVERAL << SUBGROUP), I64(0))
    plain = b.or_(b.and_(new, I64(~(1 << ATOMIC))), b.and_(old, I64(15)))
    both = b.and_(b.and_(old, new), I64(1 << ATOMIC))
    return b.or_(b.or_(plain, both), several)


def make_join() -> Text:
    """The cell of an access and those before it, of which one at least is of another program.

    Stores (`writes`) are told by subgroup.
    """
    w = Records(JOIN)
    b = w.b
    old, new = w["old"], w["new"]
    mixed = b.mul(b.xor(b.mul(old, I64(0x9E3779B97F4A7C15)), new), I64(0x9E3779B97F4A7C15))
    slot = b.lshr(mixed, I64(56))
    kept = b.gep(w.pointer(w.state_, Word.JOINED), [b.mul(slot, I64(8 * Joined.WORDS))],
                 source_etype=ir.IntType(8))
    writes = b.zext(w["writes"], I64)
    same = b.and_(b.icmp_unsigned("==", w.word(kept, Joined.OLD), old),
                  b.icmp_unsigned("==", w.word(kept, Joined.NEW), new))
    same = b.and_(same, b.icmp_unsigned("==", w.word(kept, Joined.WRITES), writes))
    with b.if_then(same):
        b.ret(w.word(kept, Joined.MADE))

    def element(cell: Any, following: Any) -> Any:
        return w.new({
            Reader.LOW: b.trunc(cell, I32), Reader.HIGH: b.trunc(b.lshr(cell, I64(32)), I32),
            Reader.NEXT: following})

    listed = w.variable(list_of(old, b))
    with b.if_then(b.not_(w.some(w.get(listed)))):
        b.store(element(old, I32(0)), listed)
    first, following = reader_of(w, w.state_, w.get(listed))
    owner = b.select(w["writes"], I64(SUBGROUP), I64(GROUP))
    again = b.icmp_unsigned("==", b.lshr(first, owner), b.lshr(new, owner))
    cell = b.select(again, joined_in_group(b, first, new), new)
    made = element(cell, b.select(again, following, w.get(listed)))
    bytes_read = b.and_(b.or_(old, new), I64(15))
    owner = I64((SEVERAL << SUBGROUP) | -1 << GROUP)
    index = b.shl(b.zext(made, I64), I64(EPOCH))
    result = b.or_(b.or_(owner, index), bytes_read)
    for word, value in ((Joined.OLD, old), (Joined.NEW, new), (Joined.MADE, result),
                        (Joined.WRITES, writes)):
        w.set_word(kept, word, value)
    b.ret(result)
    return w.text(), (FULL,)
