"""The driver of families sees what each rule changes, and erases what it leaves unused."""

from contextlib import suppress

import pytest
from triton.backends.compiler import GPUTarget

from benchmarks.compile_time import lowered
from benchmarks.loops import ROWS
from python.test.lowering.test_rewrites import sections, wrapped
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.family import Family, Scope, code_of
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.module_facts import CompileOptions, set_options, set_target
from triton_xe.lowering.pipeline import PIPELINE
from triton_xe.lowering.rewriting import erase_dead, functions

FAMILIES = [made for _, passes in PIPELINE for made in passes if issubclass(made, Family)]


def check_all_rules(module):
    """Apply the rules of all families, one by one."""
    target = set_target(module, "bmg")
    erase_dead(module)
    for rule in (rule for family in FAMILIES for rule in family.table):
        for function in functions(module):
            code = code_of(function)
            after = rule.apply(Scope(module, function, target, False, code))
            assert after == code_of(function), rule.name
            text = str(function)
            erase_dead(function)
            assert str(function) == text, rule.name


@pytest.mark.parametrize("device", ["bmg", "dg2"])
@pytest.mark.parametrize("name", list(ROWS)[::5])
def test_rules_leave_nothing_unused_in_kernels(name, device):
    row = ROWS[name]
    ttgir, _ = lowered(row.source(), GPUTarget("xpu", device, 16), {"num_warps": row.num_warps},
                       "ttgir")
    module = import_ttgir(str(ttgir))
    set_options(module, CompileOptions(guards="launch"))
    check_all_rules(module)


@pytest.mark.parametrize(("passes", "shared", "part"), list(sections()))
def test_rules_leave_nothing_unused_in_inputs_of_rewrites(passes, shared, part):
    if "func.func" not in part:
        with suppress(UnsupportedError):
            check_all_rules(import_ttgir(wrapped(shared, part)))
