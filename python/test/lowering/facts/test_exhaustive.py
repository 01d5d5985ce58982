"""Each claim of the analysis holds for every input of random programs over small integers."""

import numpy as np
import pytest
from xdsl.ir import SSAValue

from python.test.lowering.facts.small_integers import Runs, Sample, program, signed
from triton_xe.dialects.arith_ext import CmpiOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.lowering.facts import rules
from triton_xe.lowering.facts.affine import Affine, Index, Iteration, Remainder
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.fact import Fact
from triton_xe.lowering.facts.values import Unknown, bits_of, shape_of
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.rewriting import all_of

PROGRAMS, BATCHES, QUICK = 2000, 8, 2
"""Each planted fault shows in the first 400: QUICK batches have 500, the others run with --rest."""
LONG = 100_000


def runs_along(numbers, axis, length):
    """The numbers with their last axis along aligned runs of a dimension."""
    moved = np.moveaxis(numbers, axis, -1)
    return moved.reshape(*moved.shape[:-1], -1, length)


def broken(fact: Fact, numbers, shape):
    """Which claim of a fact the numbers, with a row for each input, do not keep to; or nothing."""
    if not numbers.size:
        return ""
    if numbers.min() < fact.low or numbers.max() > fact.high:
        return f"range {fact.range}, but {numbers.min()} and {numbers.max()}"
    for dim in range(max(len(shape), 1)):
        rows = numbers if shape else numbers[:, None]
        size = rows.shape[dim + 1]
        contiguous = runs_along(rows, dim + 1, min(fact.contiguity[dim], size))
        constant = runs_along(rows, dim + 1, min(fact.constancy[dim], size))
        if (np.diff(contiguous) != 1).any():
            return f"contiguity {fact.contiguity} along {dim}"
        if (np.diff(constant) != 0).any():
            return f"constancy {fact.constancy} along {dim}"
        if (contiguous[..., 0] % fact.divisibility[dim]).any():
            return f"divisibility {fact.divisibility} along {dim}"
    return ""


def broken_fact(found: Runs, facts: Facts):
    """The first claim about a value that does not hold."""
    for value, samples in found.samples.items():
        fact = facts.of(value)
        for sample in samples:
            kept = sample.numbers[sample.active & found.defined]
            wrong = broken(fact, kept, shape_of(value))
            if wrong:
                return f"{value.name_hint} ({value.owner}): {wrong}"
    return ""


class Formula:
    """Evaluates polynomials for all inputs, at the time of a sample."""

    def __init__(self, found: Runs, sample: Sample):
        self.found, self.sample = found, sample

    def symbol(self, symbol):
        if isinstance(symbol, Iteration):
            return np.full(self.found.count, self.sample.passed[symbol.loop])
        if isinstance(symbol, Remainder):
            by = self(symbol.modulus)
            return np.fmod(self(symbol.value), np.where(by == 0, 1, by))
        assert isinstance(symbol, SSAValue)
        passed = self.sample.passed
        return next(s.numbers for s in reversed(self.found.samples[symbol])
                    if all(passed.get(loop) == n for loop, n in s.passed.items()))

    def __call__(self, poly):
        total = np.zeros(self.found.count, np.int64)
        for monomial, coefficient in poly.terms.items():
            term = np.full(self.found.count, coefficient)
            for symbol in monomial:
                term = term * self.symbol(symbol)
            total = total + term
        return total

    def holds(self, conditions):
        kept = self.found.defined & self.sample.active
        for guard in conditions:
            kept = kept & (self(guard.amount) >= self(guard.bound))
        return kept

    def elements(self, index: Index, shape):
        total = self(index.start).reshape(-1, *(1,) * len(shape))
        for dim, stride in enumerate(index.strides):
            positions = np.arange(shape[dim]).reshape(
                *(shape[dim] if d == dim else 1 for d in range(len(shape))))
            total = total + self(stride).reshape(-1, *(1,) * len(shape)) * positions
        return np.broadcast_to(total, (self.found.count, *shape))


def broken_formula(found: Runs, affine: Affine):
    """The first formula that is not right where its conditions hold."""
    for value, samples in found.samples.items():
        bits, shape = bits_of(value), shape_of(value)
        for find, is_exact in ((affine.index, False), (affine.exact, True)):
            try:
                index = find(value)
            except Unknown:
                continue
            for sample in samples:
                formula = Formula(found, sample)
                kept = formula.holds(index.conditions)
                made, numbers = formula.elements(index, shape)[kept], sample.numbers[kept]
                if not is_exact:
                    made = signed(made, bits)
                if (made != numbers).any():
                    return f"{value.name_hint} ({value.owner}): {index}"
    return ""


def broken_mask(found: Runs, affine: Affine):
    for value, samples in found.samples.items():
        if not isinstance(value.owner, CmpiOp) or not shape_of(value):
            continue
        try:
            mask = affine.mask(value)
        except Unknown:
            continue
        for sample in samples:
            formula = Formula(found, sample)
            kept, shape = formula.holds(mask.conditions), shape_of(value)
            inside = np.ones((found.count, *shape), bool)
            for dim in range(len(shape)):
                at = np.arange(shape[dim]).reshape(
                    *(shape[dim] if d == dim else 1 for d in range(len(shape))))
                for bounds, keep in ((mask.low, np.greater_equal), (mask.high, np.less)):
                    if dim in bounds:
                        bound = formula(bounds[dim]).reshape(-1, *(1,) * len(shape))
                        inside = inside & keep(at, bound)
            if ((sample.numbers != 0) != inside)[kept].any():
                return f"{value.name_hint} ({value.owner}): {mask}"
    return ""


def fault(seed):
    """What is claimed wrongly of a program; nothing if all claims hold."""
    module = import_ttgir(program(seed))
    (function,) = all_of(module, FuncOp)
    found = Runs(function)
    affine = Affine()
    return (broken_fact(found, Facts()) or broken_formula(found, affine)
            or broken_mask(found, affine))


def first_fault(seeds):
    return next((f"program {seed}: {wrong}\n{program(seed)}" for seed in seeds
                 if (wrong := fault(seed))), "")


@pytest.mark.parametrize("batch", [
    pytest.param(batch, marks=() if batch < QUICK else pytest.mark.rest)
    for batch in range(BATCHES)])
def test_all_claims_hold_for_all_inputs(batch):
    assert first_fault(range(batch, PROGRAMS, BATCHES)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_all_claims_hold_in_many_programs(batch):
    assert first_fault(range(PROGRAMS + batch, LONG, BATCHES)) == ""


def with_range(rule, change):
    """A rule whose result is changed."""
    return lambda to, given: change(rule(to, given))


PLANTED = {
    "a quotient of negative numbers is rounded down": (
        "_rounds_down", lambda: lambda to, a: True),
    "sums do not wrap around": (
        "fitting", lambda: lambda found, bits: found),
    "what divides the first element of a run divides all": (
        "Fact.every", lambda: lambda self, dim: self.divisibility[dim]),
    "runs go on where numbers wrap around": (
        "Fact.aligned", lambda: lambda self, bits: self),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_broken_rule_is_found(name, monkeypatch):
    where, make = PLANTED[name]
    owner = Fact if "." in where else rules
    monkeypatch.setattr(owner, where.rpartition(".")[2], make())
    assert first_fault(range(400)) != ""
