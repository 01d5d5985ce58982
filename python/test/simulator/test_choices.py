"""How a launch runs, decided from what it asks for, for every combination."""

from __future__ import annotations

import pytest

from triton_xe.runtime.simulator.host_kernel import Part, Purpose
from triton_xe.runtime.simulator.kernel import Asked, choose

EVERY = [(own, Asked(bits)) for own in (Part.COMMON, Part.WHOLE)
         for bits in range(2 ** len(Asked))]


@pytest.mark.parametrize("what", [Purpose.CHECK, Purpose.TRACE, Purpose.RUN])
def test_checks_come_before_traces_and_traces_before_plain_runs(what: Purpose) -> None:
    found = [(own, asked) for own, asked in EVERY if choose(own, asked).what is what]
    assert found == [(own, asked) for own, asked in EVERY if what is (
        Purpose.CHECK if Asked.CHECKS in asked else
        Purpose.TRACE if Asked.TRACE in asked else Purpose.RUN)]


def test_code_is_left_out_only_where_its_absence_is_noticed() -> None:
    """In other orders and of some programs no subgroup can run again, so all code is there."""
    for own, asked in EVERY:
        choice = choose(own, asked)
        if choice.what is Purpose.RUN:
            whole = {Asked.SHUFFLED, Asked.SOME, Asked.WHOLE} & set(asked)
            assert choice.part is (Part.WHOLE if whole else own)
        else:
            whole = own is Part.WHOLE or Asked.SOME in asked
            assert choice.part is (Part.WHOLE if whole else Part.KNOWN)


def test_traces_keep_the_usual_order() -> None:
    for own, asked in EVERY:
        choice = choose(own, asked)
        assert choice.is_shuffled is (Asked.SHUFFLED in asked and choice.what is not Purpose.TRACE)
