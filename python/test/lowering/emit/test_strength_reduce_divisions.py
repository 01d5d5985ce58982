"""Quotients of small whole numbers by the reciprocal of the divisor."""

import random

import numpy as np
import pytest

from benchmarks import loops
from examples import matmul
from python.test.filecheck import check_text
from python.test.gemm.pairwise import settings
from triton_xe.lowering.facts.reciprocals import MOST_DIVIDED
from triton_xe.lowering.spirv.quotients import BELOW_ONE

F = np.float32


def quotient(a, b, off):
    """The formula in fp32, with a reciprocal that is off by some units in its last place."""
    x, y = F(a), F(b)
    inverse = F(1) / y
    for _ in range(abs(off)):
        inverse = np.nextafter(inverse, F(np.inf) * np.sign(off))
    low = np.trunc(x * inverse * F(BELOW_ONE))
    rest = (np.float64(x) - np.float64(low) * np.float64(y)).astype(F)
    fits = rest >= y
    return np.where(fits, low + F(1), low).astype(int), np.where(fits, rest - y, rest).astype(int)


@pytest.mark.parametrize("off", [-2, -1, 0, 1, 2])
def test_every_reciprocal_within_two_units_gives_the_quotient(off):
    rng = random.Random(off)
    last = MOST_DIVIDED - 1
    divisors = [1, 2, 3, 7, 255, 256, 1021, last - 1, last, last + 1, 2**24 + 1, 2**31 - 1]
    divisors += [rng.randint(1, 4000) for _ in range(300)]
    for b in divisors:
        exact = np.arange(0, min(last, 4000 * b) // b + 1, max(1, last // b // 4000)) * b
        a = np.concatenate([exact, exact - 1, exact + 1, [last, last - 1, 0],
                            np.array([rng.randint(0, last) for _ in range(50)])])
        a = a[(a >= 0) & (a <= last)]
        found = quotient(a.astype(F), b, off)
        np.testing.assert_array_equal(found[0], a // b)
        np.testing.assert_array_equal(found[1], a % b)


@pytest.mark.sample(2)
@pytest.mark.parametrize(*settings(
    shape=((520, 391, 72), (64, 2048, 64), (2048, 64, 64), (130, 1, 64)), group=(3, 1, 8),
    strength=1))
def test_tiles_in_groups(shape, group):
    a, b = matmul.operands(*shape)
    c = matmul.matmul(a, b, blocks=(64, 64, 32), num_warps=4, group_m=group)
    expected = a.cpu().double() @ b.cpu().double()
    bound = 2.0**-10 * expected.abs().numpy() + 2.0**-8
    assert (np.abs(c.cpu().double().numpy() - expected.numpy()) <= bound).all()


def test_the_prologue_has_no_division():
    kernel = loops.compiled("matmul example", "bmg")
    for number, how in ((4, "small"), (3, "unsigned")):
        check_text(kernel.asm["xetile"], f"""
            CHECK-COUNT-{number}: {{xe.quick = "{how}"}}
            CHECK-NOT: {{xe.quick = "{how}"}}
            """)
    check_text(kernel.asm["llir"], """
        CHECK-NOT: {{sdiv|srem}}
        CHECK-DAG: call spir_func i32 @xe.quotient.udiv
        CHECK-DAG: call spir_func i32 @xe.quotient.urem
        CHECK-NOT: {{sdiv|srem}}
        """)
    assert "there are few enough programs" in kernel.metadata.launch_conditions
