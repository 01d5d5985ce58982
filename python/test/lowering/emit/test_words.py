"""Pairs of 16-bit elements stay in their words on the way to matrix instructions."""

import pytest

from benchmarks import loops
from python.test.filecheck import check_text


@pytest.mark.parametrize(("name", "by_words"), [("gemm 128x128x32 16 warps", True),
                                                ("gemm", False)])
def test_operands_that_went_through_shared_memory(name, by_words):
    """Not where accumulators fill the register file: Intel's compiler then spills more."""
    check_text(loops.compiled(name, "dg2").asm["llir"], """
        CHECK-COUNT-16: call {{.*}}GenISA.simdBlockRead.v4i64.p3
        """ if by_words else "CHECK-NOT: call {{.*}}GenISA.simdBlockRead.v4i64.p3")
    check_text(loops.compiled(name, "dg2").asm["llir"],
               f"CHECK{'-NOT' if by_words else ''}: insertelement <8 x half>")


def test_a_bf16_becomes_a_float_by_one_shift_or_mask():
    check_text(loops.compiled("cross entropy", "bmg").asm["llir"], """
        CHECK-NOT: {{trunc i32|zext i16}}
        CHECK: 4294901760
        CHECK-NOT: {{trunc i32|zext i16}}
        """)
