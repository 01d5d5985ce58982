"""Pairs of 16-bit elements stay in their words on the way to matrix instructions."""

import pytest

from benchmarks import loops


@pytest.mark.parametrize(("name", "by_words"), [("gemm 128x128x32 16 warps", True),
                                                ("gemm", False)])
def test_operands_that_went_through_shared_memory(name, by_words):
    """Not where accumulators fill the register file: Intel's compiler then spills more."""
    llir = loops.compiled(name, "dg2").asm["llir"]
    assert (llir.count("GenISA.simdBlockRead.v4i64.p3") >= 16) is by_words
    assert ("insertelement <8 x half>" not in llir) is by_words


def test_a_bf16_becomes_a_float_by_one_shift_or_mask():
    llir = loops.compiled("cross entropy", "bmg").asm["llir"]
    assert "trunc i32" not in llir
    assert "zext i16" not in llir
    assert llir.count("4294901760") >= 2
