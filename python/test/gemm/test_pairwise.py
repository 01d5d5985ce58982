"""The selection of test cases that tries every pair of settings."""

from itertools import combinations

from python.test.gemm.pairwise import covering_cases, every_case

FACTORS = {"a": (1, 2, 3), "b": "xyz", "c": (False, True), "d": (0, 1)}


def allowed(case):
    return not (case["a"] == 1 and case["b"] == "z")


def pairs(cases):
    return {pair for case in cases for pair in combinations(case.items(), 2)}


def test_every_case_is_the_product_less_what_is_not_allowed():
    assert len(every_case(FACTORS, allowed)) == 36 - 4


def test_every_pair_that_can_meet_meets_in_few_cases():
    few = covering_cases(FACTORS, allowed)
    assert pairs(few) == pairs(every_case(FACTORS, allowed))
    assert len(few) <= 13
    assert covering_cases(FACTORS, allowed) == few
