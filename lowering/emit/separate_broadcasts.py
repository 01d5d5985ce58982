"""Broadcasts whose bytes are extracted, or whose words are multiplied, with a sum between the two.

IGC 2.40 reads a broadcast of a known lane at its use, as a region of the source's register.  Where
the use extracts a byte (`MatchUnpack4i8`, `MatchBinaryUnpack4i8`), the region of the byte replaces
the lane's, so that the byte is lane 0's:

    %b = sub_group_broadcast(%x, 5)          %y = add i32 %x, 1
    %s = shl i32 %b, 24                      %c = sub_group_broadcast(%y, 5)
    %r = ashr i32 %s, 24              ->     %b = sub i32 %c, 1
                                             ...

The sum is an instruction of its own, to which that pattern does not reach; no pass of LLVM moves it
over the broadcast.

On devices without 64-bit arithmetic, IGC also takes the lane for an offset into the parts of a
difference or product.  Addresses of rows were wrong there.  It divides by constants with these.
"""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import genisa, opencl
from triton_xe.lowering.emit.links import Links, calls_own_function, rewrite, row_of
from triton_xe.lowering.emit.types import I32, number
from triton_xe.lowering.emit.writer import ModuleState

_ROWS = (opencl.BROADCAST, genisa.WAVE_SHUFFLE_INDEX)
_LANE = 1
"""Operand index of the lane, after the value."""
_MOVES = frozenset((
    "extractelement", "insertelement", "shufflevector", "bitcast", "select", "phi", "trunc", "zext",
    "sext", "shl", "or"))
_WIDE = frozenset(("add", "sub", "mul", "sdiv", "srem", "udiv", "urem"))
_EXTENSIONS = frozenset(("zext", "sext", "sitofp", "uitofp"))


def separate_broadcasts(state: ModuleState) -> None:
    """Keep broadcasts of words from being one instruction with the extraction of their bytes."""
    rewrite(state, "lane", _is_of_known_lane, _separate)


def _is_of_known_lane(i: ir.Instruction) -> bool:
    """True for broadcasts of 32-bit integers from another lane than the first."""
    return i.type is I32 and row_of(i) in _ROWS and bool(i.operands[_LANE].integer_value())


def _is_misread(broadcast: ir.Instruction, links: Links, device: Target) -> bool:
    """True if IGC reads a broadcast wrongly: instructions shift it to the right or extend a byte.

    True for arithmetic of 64 bits too if the device has none, and for functions, which may do it.
    """
    taken = {8: _EXTENSIONS, 64: frozenset() if device.has_int64 else _WIDE}
    return any(
        user.opcode in ("lshr", "ashr")
        or user.opcode in taken.get(value.type.scalar.bits, ())
        or calls_own_function(user)
        for value, user in links.users_through(broadcast, _MOVES))


def _separate(state: ModuleState, broadcast: ir.Instruction, links: Links) -> None:
    """Broadcast `value + 1` and subtract 1, if IGC would read the broadcast wrongly."""
    if not _is_misread(broadcast, links, state.target):
        return
    value, *rest = broadcast.operands
    raised = ir.Instruction("add", I32, [value, number(1)])
    lowered = ir.Instruction("sub", I32, [broadcast.value, number(1)])
    broadcast.operands = [links.named(raised), *rest]
    links.named(lowered)
    links.put(broadcast, [raised, broadcast, lowered])
