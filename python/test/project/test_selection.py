"""The cases of a test that `make test` runs: its marks select them."""

from itertools import product
from types import SimpleNamespace

import pytest

from python.test.selection import left_out, selected


class Item:
    """A case of a test, as pytest collects it."""

    def __init__(self, marks, params, name="test"):
        self.nodeid = f"{name}[{'-'.join(map(str, params.values()))}]"
        self.callspec = SimpleNamespace(params=params)
        self._marks = [*marks, *(pytest.mark.parametrize(name, [None]).mark for name in params)]

    def iter_markers(self, name):
        return (mark for mark in self._marks if mark.name == name)

    def get_closest_marker(self, name):
        return next(self.iter_markers(name), None)


def cases(mark, **factors):
    return [Item([mark.mark], dict(zip(factors, values, strict=True)))
            for values in product(*factors.values())]


def test_a_product_of_two_keeps_each_value():
    items = cases(pytest.mark.covering, a=(1, 2, 3), b=("x", "y"))
    kept = [items[k].callspec.params for k in selected(items)]
    assert len(kept) == 3
    assert {p["a"] for p in kept} == {1, 2, 3}
    assert {p["b"] for p in kept} == {"x", "y"}


def test_a_product_of_three_keeps_each_pair():
    items = cases(pytest.mark.covering, a=(1, 2, 3), b=("x", "y"), c=([], {}))
    kept = [items[k] for k in selected(items)]
    assert len(kept) < len(items)
    assert {(p["a"], p["b"]) for p in (item.callspec.params for item in kept)} == set(
        product((1, 2, 3), "xy"))
    assert {(p["b"], type(p["c"])) for p in (item.callspec.params for item in kept)} == set(
        product("xy", (list, dict)))


@pytest.mark.parametrize(("count", "places"), [(1, {0}), (2, {0, 2}), (5, {0, 1, 2, 3, 4}), (9, {
    0, 1, 2, 3, 4})])
def test_a_sample_is_spread_evenly(count, places):
    assert set(selected(cases(pytest.mark.sample(count), a=range(5)))) == places


def test_a_test_without_these_marks_keeps_all_and_one_case_alone_is_kept():
    assert list(left_out(cases(pytest.mark.usefixtures("x"), a=range(5)))) == []
    assert list(left_out(cases(pytest.mark.sample(2), a=range(5))[3:4])) == []
    assert len(list(left_out(cases(pytest.mark.sample(2), a=range(5))))) == 3
