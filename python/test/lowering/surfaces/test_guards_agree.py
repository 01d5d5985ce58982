"""A guard has one meaning: in integers of mathematics, before a launch, and inside a kernel."""

import random

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.rewriter import InsertPoint

from python.test.lowering.module_text import module_of, named, operation
from triton_xe.conditions import Table
from triton_xe.dialects.arith_ext import CmpiOp, ExtSIOp
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.lowering.facts.affine import Remainder
from triton_xe.lowering.facts.poly import Poly, at_least
from triton_xe.lowering.module_facts import (
    CompileOptions,
    launch_conditions_of,
    set_options,
)
from triton_xe.lowering.rewriting import Scalars
from triton_xe.lowering.specialize.launch_guards import assume

ARGUMENTS = {"p": 64, "a": 32, "b": 32, "c": 64}
BODY = "%k = arith.constant 0 : i32"
PARAMETERS = "%p: !tt.ptr<f32>, %a: i32, %b: i32, %c: i64"
SMALL = (0, 1, 2, 3, 7, 15, 16, 64, 100, 128, 1000)
LARGE = (-1, -16, -100, (1 << 31) - 1, -(1 << 31), 1 << 20, 1 << 30, 1 << 40, (1 << 62) + 3,
         (1 << 63) - 1, -(1 << 63))


def random_poly(choose, symbols, depth=1):
    poly = Poly.constant(choose.choice((0, 1, 5, -3, 32, -64, 1 << 24)))
    for _ in range(choose.randrange(1, 4)):
        term = Poly.constant(choose.choice((1, 1, 2, -1, 16, -3)))
        for _ in range(choose.randrange(1, 3)):
            term *= Poly.symbol(choose.choice(symbols))
        poly += term
    if depth and choose.random() < 0.3:
        inner = (random_poly(choose, symbols, 0), Poly.symbol(choose.choice(symbols)))
        poly += Poly.symbol(Remainder(*inner))
    return poly


def random_guard(choose, symbols):
    left, right = random_poly(choose, symbols), random_poly(choose, symbols)
    if choose.random() < 0.3:
        return Guard(left, Relation.MULTIPLE_OF, choose.choice((2, 4, 16, 64)), "a multiple")
    return at_least(left, right, "large enough")


def remainder(x, y):
    """The remainder of a quotient that is cut towards zero."""
    return abs(x) % abs(y) * (1 if x >= 0 else -1)


def exact(poly, numbers):
    """A polynomial in integers of mathematics; None where it is not defined."""
    total = 0
    for monomial, coefficient in poly.terms.items():
        for symbol in monomial:
            if isinstance(symbol, Remainder):
                value, modulus = exact(symbol.value, numbers), exact(symbol.modulus, numbers)
                if value is None or not modulus:
                    return None
                coefficient *= remainder(value, modulus)
            else:
                coefficient *= numbers[symbol.name_hint]
        total += coefficient
    return total


def holds(guard, numbers):
    amount = exact(guard.amount, numbers)
    if guard.relation is Relation.MULTIPLE_OF:
        return amount is not None and amount % guard.bound == 0
    bound = exact(guard.bound, numbers)
    return amount is not None and bound is not None and amount >= bound


def has_remainder(guards):
    """True if a launch may refuse a guard that holds: it takes remainders of positive numbers."""
    return any(isinstance(symbol, Remainder) for guard in guards
               for poly in (guard.amount, guard.bound) if isinstance(poly, Poly)
               for symbol in poly.symbols)


def signed(value, bits):
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


COMPUTED = {
    arith.AddiOp: lambda x, y: x + y, arith.SubiOp: lambda x, y: x - y,
    arith.MuliOp: lambda x, y: x * y, arith.AndIOp: lambda x, y: x & y,
    arith.RemSIOp: remainder,
}


def in_kernel(module, result, numbers):
    """The result of the operations before the last one; None after a division by zero."""
    found = {named(module, name): value for name, value in numbers.items()}
    for op in operation(module, "tt.func").regions[0].block.ops:
        if not op.results:
            break
        given = [found[v] for v in op.operands]
        bits = op.results[0].type.width.data
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            made = op.value.value.data
        elif isinstance(op, ExtSIOp):
            (made,) = given
        elif isinstance(op, CmpiOp):
            made = {"sge": given[0] >= given[1], "eq": given[0] == given[1]}[op.comparison]
            found[op.results[0]] = int(made)
            continue
        elif isinstance(op, arith.RemSIOp) and not given[1]:
            return None
        else:
            made = COMPUTED[type(op)](*given)
        found[op.results[0]] = made & 1 if bits == 1 else signed(made, bits)
    return bool(found[result])


def both(choose):
    """Guards, the table that a launch evaluates, and the test that a kernel computes."""
    seed = choose.random()
    made = []
    for place in ("launch", "kernel"):
        module = module_of(BODY, PARAMETERS)
        set_options(module, CompileOptions(guards=place))
        again = random.Random(seed)
        symbols = [named(module, name) for name in ("a", "b", "c")]
        guards = [random_guard(again, symbols) for _ in range(again.randrange(1, 4))]
        made.append((module, guards))
    (launched, guards), (module, tested) = made
    left = assume(guards, operation(launched, "arith.constant"))
    table = None if left else Table.read(launch_conditions_of(launched))
    last = operation(module, "tt.return")
    condition = Scalars(InsertPoint.before(last)).all_hold(tested)
    return guards, table, module, condition


@pytest.mark.rest
def test_a_test_that_passes_is_true_and_usual_numbers_pass_it():
    choose, passed, failed = random.Random(3), 0, 0
    for _ in range(300):
        guards, table, module, condition = both(choose)
        for _ in range(12):
            usual = choose.random() < 0.7
            values = [choose.choice(SMALL if usual else (*SMALL, *LARGE)) for _ in range(4)]
            numbers = {n: signed(v, bits)
                       for (n, bits), v in zip(ARGUMENTS.items(), values, strict=True)}
            true = all(holds(guard, numbers) for guard in guards)
            arguments = list(numbers.values())
            before = table is not None and not table.failing(arguments, (1, 1, 1))
            inside = in_kernel(module, condition, numbers)
            said = [str(g) for g in guards], numbers
            assert true or not before, said
            assert true or not inside, said
            if usual and true and table is not None and not has_remainder(guards):
                assert (before, inside) == (True, True), said
            passed += before
            failed += not true
    assert passed > 300
    assert failed > 300
