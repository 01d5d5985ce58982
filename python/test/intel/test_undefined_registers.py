"""Registers that machine code reads and nothing wrote, in programs in assembly.

What Intel's compiler did lose is in `test_gathered_operands.py`.
"""

from __future__ import annotations

import pytest

from python.test.emulator.assembled import code, program
from python.test.emulator.test_lsc import descriptor
from triton_xe.runtime.emulator import Program
from triton_xe.runtime.emulator.undefined_registers import (
    UndefinedRead,
    lost_value,
    undefined_reads,
)

pytestmark = pytest.mark.intel_compiler
INPUTS = (1 << 3 * 64) - 1
"""r0 to r2."""
READ_ANY = "mov (16|M0) r127.0<1>:d r[a0.0]<1,0>:d\n"
"""Read a register that is not known, so that no result is unused."""
USE = "add (16|M0) r8.0<1>:d r9.0<1;1,0>:d 0x7:w\n"


def reads(text: str) -> list[UndefinedRead]:
    return undefined_reads(program("bmg", f"{text}\n{READ_ANY}"), INPUTS)


def found(text: str) -> list[tuple[int, ...]]:
    return [read.registers for read in reads(text)]


def message(
    operation: str, size: str, payload: str, lanes: int = 16, extended: str = "0x0",
    added: int = 0, **more: int,
) -> str:
    """A message with its destination, addresses and data."""
    return (f"send.ugm ({lanes}|M0) {payload} {extended} "
            f"0x{descriptor(operation, size, **more) + added:08X}")


SPILL = message("store", "d32", "null r0 r25:1", 1, "a0.2", 2 << 29, address=2, vector=16,
                transposed=True)
ADD_FLOATS = 19 - 4
"""Bits that make the descriptor of a store one of an atomic."""


@pytest.mark.parametrize("text", [
    "mov (16|M0) r8.0<1>:f r0.0<1;1,0>:f",
    "mov (1|M0) r8.0<1>:d r2.5<0;1,0>:d",
    "add (16|M0) acc0.0<1>:d acc0.0<1;1,0>:d 0x7:w",
    "cmp (16|M0) (lt)f0.0 null<1>:d r0.0<1;1,0>:d 32:w",
    "cmp (16|M0) (eq)f0.1 null<2>:w r9.20<0;1,0>:uw r9.20<0;1,0>:uw",
    "bfn.0x78 (16|M0) r8.0<1>:ud 0xF:uw r0.0<1;0>:ud r1.0<0>:ud",
    "csel (4|M0) (eq)f0.0 r9.4<1>:f r9.4<1;0>:f r9.4<1;0>:f r9.4<1>:f",
    "dpas.8x8 (16|M0) r16:f null:f r16:hf r16.0:hf {Atomic}",
    "mov (8|M0) null<1>:ud r9.0<1;1,0>:ud",
    message("load", "d32", "r8 r0 null:0", 1),
    message("store", "d32", "null r1 r0:1", 1),
    SPILL,
    "send.gtwy (1|M0) null r9 null:0 0x0 0x02000004",
])
def test_what_was_written_or_came_with_the_thread_is_read(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(("text", "registers"), [
    (USE, (9,)),
    ("add (1|M0) r8.0<1>:d r3.6<0;1,0>:d 0x7:w", (3,)),
    ("cmp (16|M0) (eq)f0.1 null<1>:f r9.0<0;1,0>:f r9.0<0;1,0>:f", (9,)),
    ("cmp (16|M0) (eq)f0.1 null<2>:w r9.0<0;1,0>:uw r9.1<0;1,0>:uw", (9,)),
    ("add (16|M0) r8.0<1>:q -r9.0<1;1,0>:q r0.0<0;1,0>:q", (9, 10)),
    ("add (16|M0) r8.0<1>:hf (abs)r9.1<2;1,0>:hf r0.0<0;1,0>:hf", (9,)),
    ("mad (16|M0) r8.0<1>:f r0.0<1;0>:f r9.3<0;0>:f r0.0<0>:f", (9,)),
    ("mad (16|M0) r8.0<1>:f r0.0<1;0>:f r0.0<1;0>:f r9.0<1>:f", (9,)),
    ("(f0.0) cmp (16|M0) (lt)f0.0 null<1>:d r9.0<1;1,0>:d r0.0<0;1,0>:d", (9,)),
    ("dpas.8x4 (16|M0) r16:f null:f r24:hf r0.0:hf {Atomic}", tuple(range(24, 32))),
    ("dpas.8x4 (16|M0) r16:d null:d r24:u2 r30.0:s8", (24, 25, 30, 31)),
    ("dpas.8x4 (16|M0) r16:d null:d r24:s4 r0.0:u2", tuple(range(24, 32))),
    ("send.ugm (1|M0) r38 r37 null:0 0x0 0x03F00203", (37,)),
    ("send.ugm (1|M0) null r0 r52:8 0x0 0x02000407", tuple(range(52, 60))),
    (message("store", "d32", "null r0 r52:4", vector=4, addresses=2), (52, 53, 54, 55)),
    (message("store", "d8u32", "null r52 r0:1", addresses=2), (52, 53)),
    (message("store", "d32", "null r52 r54:1", added=ADD_FLOATS, addresses=2), (52, 53, 54)),
])
def test_what_nothing_wrote_is_found(text: str, registers: tuple[int, ...]) -> None:
    (read,) = reads(text)
    assert read.registers == registers
    assert str(read).endswith(f"which nothing wrote: {read.instruction.name} at 0x0")


def test_a_message_sends_the_bytes_of_its_channels() -> None:
    """d8u32 is the lowest byte of each dword."""
    write = "mov (16|M0) r52.0<4>:ub 0x0:uw\n"
    for size, missing in (("d8u32", []), ("d32", [(52,)])):
        assert found(write + message("store", size, "null r0 r52:1", addresses=2)) == missing


def test_a_finding_names_the_source_line() -> None:
    made = program("bmg", USE + USE.replace("r8", "r10") + READ_ANY)
    made.lines = {16: "/kernels/one.py:12"}
    first, second = undefined_reads(made, INPUTS)
    assert (first.location, second.location) == ("", "/kernels/one.py:12")
    assert str(second) == "reads r9, which nothing wrote: add at 0x10 (/kernels/one.py:12)"


def test_results_of_divisions_in_double_are_results() -> None:
    assert found("""
mov (16|M0) r8.0<1>:df r0.0<0;1,0>:df
madm (16|M0) r10.nomme:df r8.mme7:df r8.mme1:df r8.mme0:df
mov (16|M0) r12.0<1>:df r10.0<1;1,0>:df
add (16|M0) r12.0<1>:df r12.0<1;1,0>:df r8.0<1;1,0>:df
""") == []


def test_a_division_of_one_channel_is_one_result() -> None:
    """Intel's compiler divides numbers of a whole subgroup by macros of 16 channels."""
    divided = """
mov (1|M0) r9.0<1>:f r0.0<0;1,0>:f
math.invm (16|M0) (eo)f0.0 r10.mme0:f r9.nomme<1;1,0>:f r9.nomme<1;1,0>:f
(W&~f0.0) madm (16|M0) r11.nomme:f r10.mme0:f -r9.nomme:f r10.mme0:f
mov (1|M0) r12.0<1>:f 0x0:f
"""
    assert found(divided + "add (1|M0) r12.0<1>:f r11.0<0;1,0>:f r12.0<0;1,0>:f") == []
    assert found(divided + "add (1|M0) r12.0<1>:f r11.1<0;1,0>:f r12.0<0;1,0>:f") == [(11,)]
    assert found(divided + "add (1|M0) r12.0<1>:f r10.1<0;1,0>:f r12.0<0;1,0>:f") == [(10,)]


def test_a_stored_block_may_fill_its_last_register_in_part() -> None:
    def store(registers: int) -> str:
        return f"send.ugm (1|M0) null r0 r52:{registers} 0x0 0x02000407\n"

    half = "mov (16|M0) r53.0<1>:hf 0x0:hf\n"
    whole = "mov (16|M0) r52.0<1>:f 0x0:f\n"
    assert found(whole + half + store(2)) == []
    assert found(whole + store(2)) == [(53,)]
    assert found(half + store(2)) == [(52,)]
    assert found(whole + half + store(3)) == [(53, 54)]
    gathered = "send.ugm (1|M0) null r[s0.0] 0x0 0x02000407\n"
    assert undefined_reads(program("ptl", gathered), INPUTS) == []


def test_a_jump_through_a_register_leads_anywhere() -> None:
    """nGEN jumps into tables, whose entries no branch names."""
    table = "jmpi over\nentry:\n{}over:\nmov (16|M0) r9.0<1>:d 0x0:d\njmpi r0.9\n"
    assert found(table.format(USE)) == []
    assert found(table.format(USE.replace("r9", "r19"))) == [(19,)]


def test_a_block_of_32_registers_is_called_31() -> None:
    load = "send.ugm (1|M0) r38 r0 null:0 0x0 0x03F00203\n"
    assert found(load + USE.replace("r9", "r69")) == []
    assert found(load + USE.replace("r9", "r70")) == [(70,)]


def test_a_copy_of_nothing_is_nothing() -> None:
    copy = "mov (16|M0) r9.0<1>:f r10.0<1;1,0>:f\n"
    use = "mul (16|M0) r8.0<1>:f r9.0<1;1,0>:f 0x0:f\n"
    assert found(copy) == []
    assert found(copy + use) == [(9,)]
    assert found("mov (1|M0) r10.3<1>:f 0x0:f\n" + copy + use) == []


def test_what_nothing_uses_may_be_computed_of_nothing() -> None:
    """Intel's compiler leaves additions whose results nothing reads (pvc, `exchange`)."""
    again, more = USE.replace("r8", "r10"), "add (16|M0) r11.0<1>:d r8.0<1;1,0>:d 0x7:w\n"

    def kept(text: str) -> int:
        return len(undefined_reads(program("bmg", text), INPUTS))

    store = message("store", "d32", "null r0 r8:1", 1)
    over = "mov (16|M0) r8.0<1>:d 0x0:d\n"
    assert [kept(text) for text in (USE, USE + more, USE + over + store)] == [0, 0, 0]
    assert kept(USE + store) == kept(USE + "(f0.0) " + over + store) == 1
    assert kept(USE + more + message("store", "d32", "null r0 r11:1", 1)) == 1
    assert kept(f"(W&f0.0) jmpi skip\n{over}skip:\n{store}") == 0
    assert kept(f"{USE}(W&f0.0) jmpi skip\n{over}skip:\n{store}") == 1
    assert kept(f"{again}\ncmp (16|M0) (lt)f0.0 null<1>:d r10.0<1;1,0>:d 0x7:w") == 1


def test_every_path_is_looked_at() -> None:
    def loop(last: str) -> str:
        return f"""
(W&f0.0) jmpi after
again:
{USE}
{last}
(W&f0.1) jmpi again
after:
{USE.replace("r8", "r10")}
"""

    assert found(loop("(f0.0) mov (16|M0) r9.0<1>:d 0x0:d")) == []
    assert found(loop("")) == [(9,), (9,)]


def test_a_store_without_the_registers_that_it_names():
    """Intel's compiler 2.40 writes such a store if the addresses begin in r510."""
    raw = bytearray(code("cri", "sendgx.ugm (16|M0) null r509:2 r27:1 0xA804"))
    assert lost_value(Program("cri", bytes(raw)), INPUTS) == ""
    raw[9], raw[12] = 0xFE, raw[12] & 7
    made = Program("cri", bytes(raw))
    assert made.instructions[0].sources[0].number == 510
    assert "stores r27 without its number of registers: sendgx.ugm at 0x0" in lost_value(
        made, INPUTS)
