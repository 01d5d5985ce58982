"""Passes of libtriton that are left out, because a kernel has nothing for them, change nothing."""

import re
from collections import Counter

import pytest

from python.test.lowering.ttgir_helper import make_ttgir
from python.test.lowering.ttgir_kernels import CASES
from python.test.operations import operations
from triton_xe.backend import front_passes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_passes_without_work_change_nothing(case, monkeypatch):
    def made():
        text = make_ttgir(case.fn, case.signature, case.constants, aligned=case.aligned,
                          **case.options)
        return re.sub(r" loc\(.*\)$|^#loc.*\n", "", text, flags=re.MULTILINE)

    ours = made()
    count = front_passes.count_operations
    monkeypatch.setattr(front_passes, "count_operations",
                        lambda module: count(module) + Counter(["tt.gather"]))
    monkeypatch.setattr(front_passes, "add_fast_cse",
                        lambda pm, has: front_passes.passes.ttir.add_loop_aware_cse(pm))
    assert made() == ours


def test_cse_of_loops_is_for_loops(monkeypatch):
    asked = []
    monkeypatch.setattr(front_passes.passes.ttir, "add_loop_aware_cse",
                        lambda pm, add=front_passes.passes.ttir.add_loop_aware_cse:
                        asked.append(1) or add(pm))
    for case in CASES:
        asked.clear()
        text = make_ttgir(case.fn, case.signature, case.constants, aligned=case.aligned,
                          **case.options)
        assert len(asked) == 2 * ("scf.for" in operations(text))
