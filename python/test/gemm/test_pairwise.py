"""The selection of test cases that tries every pair of settings."""

from itertools import combinations

from python.test.gemm.pairwise import covering_cases, every_case, settings

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


def test_only_a_selection_of_settings_is_quick():
    names, cases = settings(a=(1, 2, 3), b="xyz", c=(False, True))
    assert (names, len(cases)) == ("a,b,c", 18)
    assert sum(not case.marks for case in cases) == 9
    _, cases = settings(strength=1, a=(1, 2, 3), b="xyz", c=(False, True))
    quick = [case.values for case in cases if not case.marks]
    assert len(quick) == 3
    assert [set(values) for values in zip(*quick, strict=True)] == [{1, 2, 3}, set("xyz"), {0, 1}]


def test_a_selection_of_each_value_has_all_of_them_in_turns():
    cases = covering_cases({"a": range(6), "b": (0, 1)}, lambda case: True, 1, in_turns=True)
    assert [case["b"] for case in cases] == [0, 1] * 3
