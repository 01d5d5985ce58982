"""How a launch runs, decided from what it asks for, for every combination."""

from __future__ import annotations

import itertools

import pytest

from triton_xe.runtime.simulator.host_kernel import Part, Purpose
from triton_xe.runtime.simulator.kernel import choose

ASKED = ("checks", "traces", "shuffles", "some", "prefers_whole")
EVERY = [(own, dict(zip(ASKED, asked, strict=True)))
         for own in (Part.COMMON, Part.WHOLE)
         for asked in itertools.product((False, True), repeat=len(ASKED))]


@pytest.mark.parametrize("what", [Purpose.CHECK, Purpose.TRACE, Purpose.RUN])
def test_checks_come_before_traces_and_traces_before_plain_runs(what: Purpose) -> None:
    found = {own_asked for own_asked, (own, asked) in enumerate(EVERY)
             if choose(own, **asked).what is what}
    assert found == {k for k, (_, asked) in enumerate(EVERY) if what is (
        Purpose.CHECK if asked["checks"] else Purpose.TRACE if asked["traces"] else Purpose.RUN)}


def test_code_is_left_out_only_where_its_absence_is_noticed() -> None:
    """In other orders and of some programs no subgroup can run again, so all code is there."""
    for own, asked in EVERY:
        choice = choose(own, **asked)
        if choice.what is Purpose.RUN:
            whole = asked["shuffles"] or asked["some"] or asked["prefers_whole"]
            assert choice.part is (Part.WHOLE if whole else own)
        else:
            whole = own is Part.WHOLE or asked["some"]
            assert choice.part is (Part.WHOLE if whole else Part.KNOWN)


def test_traces_keep_the_usual_order() -> None:
    for own, asked in EVERY:
        choice = choose(own, **asked)
        assert choice.is_shuffled is (asked["shuffles"] and choice.what is not Purpose.TRACE)
