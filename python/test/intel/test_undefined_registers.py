"""Registers that a listing reads and nothing wrote, in listings by hand.

What Intel's compiler did lose is in `test_gathered_operands.py`.
"""

from __future__ import annotations

import textwrap

import pytest

from triton_xe.errors import DeviceError
from triton_xe.tools.listings.undefined_registers import undefined_reads

HEAD = """\
//.declare r0 (268)  rf=r size=64 type=ud align=32 words (r0.0)
// | V0034    | :uq      |    0x8 | r1       | inline+0x0       |
// | V0042    | :d       |    0x4 | r2+0x14  | cti+0x34         |
"""


def listing(*blocks: str) -> str:
    """Blocks that follow one another."""
    heads = [f"// B{i:03}: Preds:{{}},  Succs:{{{f'B{i + 1:03}' * (i + 1 < len(blocks))}}}\n"
             for i in range(len(blocks))]
    return HEAD + "".join(h + textwrap.indent(b, "        ") + "\n"
                          for h, b in zip(heads, blocks, strict=True))


def found(*blocks: str) -> list[tuple[int, ...]]:
    return [read.registers for read in undefined_reads(listing(*blocks))]


@pytest.mark.parametrize("line", [
    "mov (16|M0)   r8.0<1>:f   r0.0<1;1,0>:f  {Compacted}  // $1",
    "mov (1|M0)    r8.0<1>:q   r1.0<0;1,0>:q",
    "mov (1|M0)    r8.0<1>:d   r2.5<0;1,0>:d",
    "add (16|M0)   acc0.0<1>:d   acc0.0<1;1,0>:d   0x7:w",
    "cmp (16|M0)   (lt)f0.0   null<1>:d   r0.0<1;1,0>:d   32:w",
    "cmp (16|M0)   (eq)f0.1   null<2>:w   r2.20<0;1,0>:uw   r2.20<0;1,0>:uw",
    "bfn.((s0|s1)^s2) (16|M0)  r8.0<1>:ud  0xF:uw  r0.0<1;0>:ud  r1.0<0>:ud",
    "csel (4|M0)   (eq)f0.0   r9.4<1>:f   r9.4<1;0>:f   r9.4<1;0>:f   r9.4<1>:f",
    "dpas.8x8 (16|M0)  r16:f  null:f  r16:hf  r16.0:hf  {Atomic}",
    "mov (8|M0)    null<1>:ud  r9.0<1;1,0>:ud  // memory fence commit",
    "(W&f0.0) jmpi   _0_019",
    "load.ugm.d32x8t.a32.ca.cc (1|M0)  r8:1  bti[255][r0:1]  {A@1,$0}",
    "store.ugm.d32.a64 (1|M0)  [r1:1]  r0:1",
    "store.ugm.d32x16t.a32 (1|M0)  ss[a0.2][r0:1-0x80] r25:1  //  spill to offset[6*64] of ?",
])
def test_what_was_written_or_came_with_the_thread_is_read(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize(("line", "registers"), [
    ("add (16|M0)   r8.0<1>:d   r9.0<1;1,0>:d   0x7:w", (9,)),
    ("add (1|M0)    r8.0<1>:d   r2.6<0;1,0>:d   0x7:w", (2,)),
    ("cmp (16|M0)   (eq)f0.1   null<1>:f   r9.0<0;1,0>:f   r9.0<0;1,0>:f", (9,)),
    ("cmp (16|M0)   (eq)f0.1   null<2>:w   r9.0<0;1,0>:uw   r9.1<0;1,0>:uw", (9,)),
    ("add (16|M0)   r8.0<1>:q   -r9.0<1;1,0>:q   r0.0<0;1,0>:q", (9, 10)),
    ("add (16|M0)   r8.0<1>:hf   (abs)r9.1<2;1,0>:hf   r0.0<0;1,0>:hf", (9,)),
    ("mad (16|M0)   r8.0<1>:f   r0.0<1;0>:f   r9.3<0;0>:f   r0.0<0>:f", (9,)),
    ("mad (16|M0)   r8.0<1>:f   r0.0<1;0>:f   r0.0<1;0>:f   r9.0<1>:f", (9,)),
    ("bfn.(s0&s1|s2) (16|M0)  r8.0<1>:ud  r9.0<1;0>:ud  r0.0<0;0>:ud  r0.0<0>:ud", (9,)),
    ("(f0.0) cmp (16|M0)   (lt)f1.0   null<1>:d   r9.0<1;1,0>:d   r0.0<0;1,0>:d", (9,)),
    ("madm (16|M0)  r8.nomme:df  r0.mme1:df  -r9.nomme:df  r0.mme0:df", (1, 9, 10)),
    ("dpas.8x4 (16|M0)  r16:f  null:f  r24:hf  r0.0:hf  {Atomic}", (1, *range(24, 32))),
    ("dpas.8x4 (16|M0)  r16:d  null:d  r24:u2  r30.0:s8", (*range(24, 26), 30, 31)),
    ("dpas.8x4 (16|M0)  r16:d  null:d  r24:s4  r0.0:u2", tuple(range(24, 32))),
    ("load_block2d.ugm.d16.a64 (1|M0)  r38:31 [r37:1]  {$1}", (37,)),
    ("store_block2d.ugm.d32.a64 (1|M0)  [r0:1+(0x0,0x10)] r52:8  {$30}", tuple(range(52, 60))),
    ("store.slm.d32x4.a32 (16|M0)  [r0:1]  r52:4  {A@1,$18}", (52, 53, 54, 55)),
    ("store.ugm.d8u32.a64 (16|M0)  [r52:2]  r0:1", (52, 53)),
    ("atomic_fadd.ugm.d32.a64 (16|M0)  null:0 [r52:2]  r54:1", (52, 53, 54)),
    ("send.slm (16|M0)  null  r6  r10:2  0x0  0x0  {$2} // wr:1+2, rd:0; store.slm.d32x2.a32",
     (6, 10, 11)),
])
def test_what_nothing_wrote_is_found(line: str, registers: tuple[int, ...]) -> None:
    (read,) = undefined_reads(listing(line))
    assert read.registers == registers
    assert str(read).endswith(" ".join(line.split("//")[0].split()))


def test_a_finding_names_the_source_line() -> None:
    use = "add (16|M0)   r8.0<1>:d   r9.0<1;1,0>:d   0x7:w"
    lined = f"// File: /kernels/one.py\n// Line 12:  y = x + 7\n{use}\n// Line 13\n{use}"
    reads = undefined_reads(listing(lined))
    assert [read.location for read in reads] == ["/kernels/one.py:12", "/kernels/one.py:13"]
    assert str(reads[0]).endswith("0x7:w (/kernels/one.py:12)")
    assert undefined_reads(listing(use))[0].location == ""


def test_results_of_divisions_in_double_are_results() -> None:
    assert found("mov (16|M0)   r8.0<1>:df   0x0:df",
                 "madm (16|M0)   r10.nomme:df   r8.mme7:df   r8.mme1:df   r8.mme0:df",
                 "mov (16|M0)   r12.0<1>:df   r10.0<1;1,0>:df",
                 "add (16|M0)   r12.0<1>:df   r12.0<1;1,0>:df   r8.0<1;1,0>:df") == []


def test_a_block_of_32_registers_is_called_31() -> None:
    use = "add (16|M0)   r8.0<1>:d   r{}.0<1;1,0>:d   0x7:w"
    load = "load_block2d.ugm.d16.a64 (1|M0)  r38:31 [r0:1]"
    raw = "send.ugm (1|M0)  r38  r0  null:0  0x0  0x0  // wr:1+0, rd:31; load_block2d.ugm.d16"
    for message in (load, raw):
        assert found(message, use.format(69)) == []
        assert found(message, use.format(70)) == [(70,)]


def test_a_copy_of_nothing_is_nothing() -> None:
    copy = "mov (16|M0)   r9.0<1>:f   r10.0<1;1,0>:f"
    use = "mul (16|M0)   r8.0<1>:f   r9.0<1;1,0>:f   0x0:f"
    assert found(copy) == []
    assert found(copy, use) == [(9,)]
    assert found("mov (1|M0)   r10.3<1>:f   0x0:f", copy, use) == []


def test_every_path_is_looked_at() -> None:
    use = "add (16|M0)   r8.0<1>:d   r9.0<1;1,0>:d   0x7:w"

    def loop(last: str) -> str:
        return f"""{HEAD}
// B000: Preds:{{}},  Succs:{{B001, B003}}
(W&f0.0) jmpi   _0_003
// B001: [inDivergent],  Preds:{{B000, B001}},  Succs:{{B001, B002}}
        {use}
        {last}
// B002: Preds:{{B001}},  Succs:{{B003}}
// B003: Preds:{{B002, B000}},  Succs:{{}}
        {use}
"""

    assert undefined_reads(loop("(f0.0)  mov (16|M0)   r9.0<1>:d   0x0:d")) == []
    assert len(undefined_reads(loop(""))) == 2


def test_other_texts_are_refused() -> None:
    with pytest.raises(DeviceError, match="not an assembly listing"):
        undefined_reads("int main() {}")
