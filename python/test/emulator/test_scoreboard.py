"""The check of waits: each fault that is planted is found.

`test_kernels` shows that Intel's compiler makes none.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from python.test.emulator import rows
from python.test.emulator.assembled import program
from triton_xe.runtime.emulator import Fault, Program, iga
from triton_xe.runtime.emulator.footprints import footprint

pytestmark = pytest.mark.intel_compiler
LOAD = "send.ugm (16|M0) r20 r4 null:0 0x0 0x04100580 {%s}"
STORE = "send.ugm (16|M0) null r4 r8:1 0x0 0x04000584 {%s}"
DPAS = "dpas.8x8 (16|M0) r40:f null:f r60:hf r80.0:hf {%s}"
FLOATS = "add (16|M0) r%d.0<1>:f r%d.0<1;1,0>:f r13.0<1;1,0>:f {%s}"
INTEGERS = "add (16|M0) r%d.0<1>:d r%d.0<1;1,0>:d r13.0<1;1,0>:d {%s}"
DOUBLES = "add (8|M0) r%d.0<1>:df r%d.0<1;1,0>:df r13.0<1;1,0>:df {%s}"


def lines(*texts):
    return "\n".join(texts).replace(" {}", "")


KINDS = {
    "float to float": (lines(FLOATS % (20, 10, ""), FLOATS % (22, 20, "F@1")), "F@1",
                       "reads r20, which add at 0x0 writes"),
    "integer to integer": (lines(INTEGERS % (20, 10, ""), INTEGERS % (30, 12, ""),
                                 INTEGERS % (22, 20, "I@2")), "I@2", "reads r20"),
    "long to long": (lines(DOUBLES % (20, 10, ""), DOUBLES % (22, 20, "L@1")), "L@1", "reads r20"),
    "math to float": (lines("math.inv (16|M0) r20.0<1>:f r10.0<1;1,0>:f", FLOATS % (22, 20, "M@1")),
                      "M@1", "math.inv at 0x0 writes"),
    "integer to float": (lines(INTEGERS % (20, 10, ""), FLOATS % (22, 20, "I@1")), "I@1",
                         "reads r20"),
    "two pipes": (lines(INTEGERS % (20, 10, ""), FLOATS % (24, 11, ""),
                        FLOATS % (24, 20, "A@1")), "A@1", "reads r20"),
    "write after write": (lines(INTEGERS % (20, 10, ""), FLOATS % (20, 11, "I@1")), "I@1",
                          "writes r20, which add at 0x0 writes"),
    "write after read": (lines(INTEGERS % (20, 10, ""), FLOATS % (10, 11, "I@1")), "I@1",
                         "writes r10, which add at 0x0 reads"),
    "to a message's payload": (lines(INTEGERS % (8, 10, ""), STORE % "I@1,$0"), "I@1,",
                               "send.ugm at 0x10: reads r8"),
    "result of a message": (lines(LOAD % "$0", FLOATS % (22, 20, "$0.dst")), "$0.dst",
                            r"reads r20, which send.ugm at 0x0 writes, .*\(\$0.dst\)"),
    "payload of a message": (lines(STORE % "$3", FLOATS % (8, 11, "$3.src")), "$3.src",
                             r"writes r8, which send.ugm at 0x0 reads, .*\(\$3.src\)"),
    "write over a result": (lines(LOAD % "$1", INTEGERS % (20, 11, "$1.dst")), "$1.dst",
                            "writes r20, which send.ugm at 0x0 writes"),
    "sync before": (lines(LOAD % "$1", "sync.nop null {$1.dst}", INTEGERS % (22, 20, "")),
                    "{$1.dst}", "reads r20"),
    "sync of all": (lines(LOAD % "$1", STORE % "$2", "sync.allwr null",
                          INTEGERS % (22, 20, "")), "sync.allwr null", "reads r20"),
    "sync of one other": (lines(LOAD % "$1", "sync.allwr 0x2:ud", INTEGERS % (22, 20, "")),
                          "sync.allwr 0x2:ud", "reads r20"),
    "dpas": (lines(DPAS % "$2", FLOATS % (22, 47, "$2.dst")), "$2.dst",
             "reads r47, which dpas.8x8 at 0x0 writes"),
    "factor of dpas": (lines(DPAS % "$2", FLOATS % (67, 11, "$2.src")), "$2.src",
                       "writes r67, which dpas.8x8 at 0x0 reads"),
    "to dpas": (lines(LOAD.replace("r20", "r80") % "$1", DPAS % "$1.dst"), "$1.dst",
                "dpas.8x8 at 0x10: reads r80"),
    "accumulator to another pipe": (
        lines("mul (16|M0) acc0.0<1>:d r10.0<1;1,0>:d r11.0<0;1,0>:uw",
              "mov (16|M0) r20.0<1>:f acc0.0<1;1,0>:f {I@1}"), "I@1",
        "reads acc0, which mul at 0x0 writes"),
    "carry to another pipe": (
        lines("addc (16|M0) r20.0<1>:ud r10.0<1;1,0>:ud r11.0<1;1,0>:ud",
              "mov (16|M0) r22.0<1>:f acc0.0<1;1,0>:f {I@1}"), "I@1", "reads acc0, which addc"),
    "chain of dpas": (lines(DPAS.replace("r40:f", "r30:f") % "Atomic", DPAS % "$2",
                            FLOATS % (22, 30, "$2.dst")), "$2.dst", "reads r30"),
}


def followed(text, device="bmg"):
    """The findings of a program whose instructions run one after another."""
    made = Program(device, program(device, text).code) if isinstance(text, str) else text
    states = np.zeros(1, np.int64)
    made.scoreboard.advance(states, np.ones(1, bool), 0, len(made.instructions))
    return made.missing_waits


@pytest.mark.parametrize("kind", list(KINDS))
def test_planted_faults_are_found(kind):
    text, wait, sentence = KINDS[kind]
    assert followed(text) == ()
    found = followed(text.replace(wait, "sync.nop null" if wait.startswith("sync") else "").replace(
        " {}", ""))
    assert found
    assert re.search(sentence, found[0]), found


def test_a_distance_that_is_too_long():
    good = lines(FLOATS % (20, 10, ""), FLOATS % (30, 12, ""), FLOATS % (22, 20, "F@2"))
    assert followed(good) == ()
    (found,) = followed(good.replace("F@2", "F@3"))
    assert "kernel kernel, add at 0x20: reads r20" in found
    assert "(F@2)" in found


@pytest.mark.parametrize("count", [10, 11])
def test_old_instructions_are_complete(count):
    text = lines(INTEGERS % (20, 10, ""), *[INTEGERS % (30, 12, "")] * (count - 1),
                 FLOATS % (22, 20, ""))
    assert bool(followed(text)) == (count == 10)


def test_accumulators_and_flags_need_no_wait_within_a_pipe():
    """Nor flags and address registers between pipes."""
    assert followed(lines(
        "mul (16|M0) acc0.0<1>:d r10.0<1;1,0>:d r11.0<0;1,0>:uw",
        "macl (16|M0) r20.0<1>:d r10.0<1;1,0>:d r11.0<1;1,0>:d",
        "cmp (16|M0) (gt)f0.0 null<1>:d r10.0<1;1,0>:d 1:w",
        "(f0.0) sel (16|M0) r22.0<1>:f r10.0<1;1,0>:f r11.0<1;1,0>:f",
        "(W) mov (1|M0) a0.2<1>:ud 0x40:ud",
        "(W) send.ugm (1|M0) r30 r4 null:0 a0.2 0x4210D500 {$0}")) == ()


OTHER_DPAS = DPAS.replace("r40", "r30").replace("r60", "r100").replace("r80", "r150")


@pytest.mark.parametrize(("token", "finds"), [("$3", True), ("$2", False)])
@pytest.mark.parametrize("register", [67, 47])
def test_a_token_that_is_set_again_waits_for_what_set_it_before(token, finds, register):
    text = lines(DPAS % "$2", OTHER_DPAS % token, FLOATS % (register, 11, ""))
    assert bool(followed(text)) == finds


def test_the_first_dpas_of_a_chain_waits_for_no_token_that_its_last_sets():
    text = lines(DPAS % "$2", OTHER_DPAS % "Atomic", FLOATS % (67, 11, ""), OTHER_DPAS % "$2")
    assert followed(text)


def test_other_bytes_of_a_register_need_no_wait():
    assert followed("(W) mov (1|M0) r20.0<1>:d 1:w\n"
                    "(W) mov (1|M0) r21.0<1>:d r20.1<0;1,0>:d") == ()


MATH = "math.exp (8|M0) r%d.0<1>:f r%d.0<1;1,0>:f {%s}"


@pytest.mark.parametrize(("wait", "between", "finds"), [
    ("$5", (), True), ("$1.src", (), False),
    ("$2.src", (MATH % (24, 12, "$2"),), False), ("$3.src", (MATH % (24, 12, "$2"),), True),
    ("$2.dst", (MATH % (10, 12, "$2"),), False)])
@pytest.mark.parametrize("last", [FLOATS % (10, 11, "%s"), LOAD.replace("r20", "r10")])
def test_math_of_xe_hpg_reads_in_order(wait, between, finds, last):
    text = lines(MATH % (22, 10, "$1"), *between, last.replace("16", "8") % wait)
    assert bool(followed(text, "dg2")) == finds


def test_a_launch_with_a_missing_wait_is_refused():
    made = Program("bmg", program("bmg", KINDS["integer to float"][0].replace("I@1", "")
                                  .replace(" {}", "")).code)
    made.lines = {16: "kernel.py:7"}
    made.refuse_missing_waits()
    followed(made)
    with pytest.raises(Fault, match=r"kernel kernel, add at 0x10 \(kernel.py:7\): reads r20, which "
                       r"add at 0x0 writes, without a wait for it \(I@1\).*1 such waits"):
        made.refuse_missing_waits()


def test_footprints():
    def of(text, device="bmg"):
        made = program(device, text)
        return footprint(made.instructions[0], made.target)

    found = of("mov (4|M0) r20.1<2>:w r10.0<4;2,1>:d")
    assert found.writes == sum(3 << 2 + 4 * n << 20 * 64 * 1 for n in range(4))
    assert found.reads == ((1 << 8) - 1 | ((1 << 8) - 1) << 16) << 640
    found = of("dpas.8x4 (16|M0) r40:f r40:f r60:bf r80.0:bf")
    assert [x.bit_count() for x in (found.writes, found.reads)] == [256, 256 + 512 + 128]
    assert of(LOAD % "$0").writes == ((1 << 64) - 1) << 1280


def test_waits_taken_out_of_a_kernel_are_found():
    """All waits of a GEMM, one at a time.  The rest are implied by others, or follow a loop's end,
    or are about dpas, control registers and moves without destination.
    """
    kernel = rows.compiled("gemm 64x64x32", "bmg")
    text = iga.disassemble("bmg", kernel.program.code).splitlines()
    waits = re.compile(r"(?:[AFILM]@\d|\$\d+\.(?:src|dst)),?")
    planted = [(n, each) for n, line in enumerate(text) for each in waits.findall(
        line.partition("//")[0]) if "cr0" not in line]
    noticed = 0
    for n, each in planted:
        changed = [*text[:n], text[n].replace(each, "").replace(",}", "}"), *text[n + 1 :]]
        noticed += bool(followed(Program("bmg", iga.assemble("bmg", "\n".join(changed)))))
    assert len(planted) > 30
    assert noticed >= 0.7 * len(planted), (noticed, len(planted))
