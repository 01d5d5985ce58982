"""Formulas of indices, pointers and masks; what has none is refused with the reason."""


import pytest

from python.test.lowering.module_text import module_of, named, poly_text
from triton_xe.lowering.facts.affine import Affine, Index, Mask
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.facts.values import Unknown

RANGE = "%r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #rows>"
SPLATS = f"""{RANGE}
%vn = tt.splat %n : i32 -> tensor<16xi32, #rows>
%vm = tt.splat %m : i32 -> tensor<16xi32, #rows>
%c8 = arith.constant dense<8> : tensor<16xi32, #rows>
"""
PLANE = f"""{RANGE}
%q = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32, #columns>
%r2 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<16xi32, #rows> -> tensor<16x1xi32, #blocked>
%q2 = tt.expand_dims %q {{axis = 0 : i32}} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
%rb = tt.broadcast %r2 : tensor<16x1xi32, #blocked> -> tensor<16x32xi32, #blocked>
%qb = tt.broadcast %q2 : tensor<1x32xi32, #blocked> -> tensor<16x32xi32, #blocked>
%nb = tt.splat %n : i32 -> tensor<16x32xi32, #blocked>
%row = arith.muli %rb, %nb : tensor<16x32xi32, #blocked>
%at = arith.addi %row, %qb : tensor<16x32xi32, #blocked>
"""
ARGUMENTS = "%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32, %m: i32"


def text(formula):
    """start | strides | conditions, of an index."""
    assert isinstance(formula, Index)
    parts = [poly_text(formula.start), ", ".join(poly_text(s) for s in formula.strides)]
    parts += [f"{poly_text(c.amount)} >= {poly_text(c.bound)}" for c in formula.conditions]
    return " | ".join(parts)


def index(body, name="t"):
    try:
        return text(Affine().index(named(module_of(body, ARGUMENTS), name)))
    except Unknown as reason:
        return f"unknown: {reason}"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("arith.addi %r, %vn", "n | 1"),
        ("arith.subi %vn, %r", "n | -1"),
        ("arith.muli %vn, %r", "0 | n"),
        ("arith.addi %c8, %vn", "8 + n | 0"),
        ("arith.remsi %r, %vn", "(0 % n) | 1 | n >= (0 % n) + 16"),
        ("arith.muli %r, %r", "unknown: a product of two block positions is not affine"),
        ("arith.divsi %r, %c8", "unknown: arith.divsi has no affine form"),
        ("arith.remsi %vn, %r", "unknown: a remainder of more than one block position"),
    ],
)
def test_indices(operation, expected):
    assert index(f"{SPLATS}%t = {operation} : tensor<16xi32, #rows>") == expected


def test_a_remainder_of_a_strided_position_is_refused():
    body = f"""{SPLATS}%s = arith.muli %r, %c8 : tensor<16xi32, #rows>
    %t = arith.remsi %s, %vn : tensor<16xi32, #rows>"""
    assert index(body) == "unknown: a remainder of a strided position"


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        ("slt, %r, %vn", "0 | 1 | n >= 16"),
        ("sgt, %r, %vn", "unknown: a choice of positions by another comparison than x < bound"),
        ("slt, %vn, %r", "unknown: a choice between positions of which any may be taken"),
    ],
)
def test_a_clamped_position_is_itself_inside_the_bound(compare, expected):
    body = f"""{SPLATS}%below = arith.cmpi {compare} : tensor<16xi32, #rows>
    %t = arith.select %below, %r, %c8 : tensor<16xi1, #rows>, tensor<16xi32, #rows>"""
    assert index(body) == expected


def test_a_choice_is_exact_where_the_chosen_position_does_not_wrap_around():
    body = f"""{SPLATS}%far = arith.addi %r, %vm : tensor<16xi32, #rows>
    %below = arith.cmpi slt, %r, %vn : tensor<16xi32, #rows>
    %t = arith.select %below, %far, %c8 : tensor<16xi1, #rows>, tensor<16xi32, #rows>"""
    found = Affine().exact(named(module_of(body, ARGUMENTS), "t"))
    assert text(found) == "m | 1 | n >= 16 | 2147483647 >= 15 + m"


def test_dimensions_come_and_go():
    assert index(PLANE, "at") == "0 | n, 1"
    swapped = "%t = tt.trans %at {order = array<i32: 1, 0>} : " \
              "tensor<16x32xi32, #blocked> -> tensor<32x16xi32, #blocked>"
    assert index(PLANE + swapped) == "0 | 1, n"
    merged = "%t = tt.reshape %at : tensor<16x32xi32, #blocked> -> tensor<512xi32, #rows>"
    assert index(PLANE + merged) == "unknown: a reshape that splits or merges dimensions"


LOOP = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%step = tt.splat %m : i32 -> tensor<16xi32, #rows>
%out = scf.for %i = %c0 to %n step %c1 iter_args(%t = %r) -> (tensor<16xi32, #rows>) : i32 {{
  {grow}
  scf.yield %u : tensor<16xi32, #rows>
}}
"""


@pytest.mark.parametrize(
    ("grow", "expected"),
    [
        ("%u = arith.addi %t, %step : tensor<16xi32, #rows>", "iteration*m | 1"),
        ("%u = arith.muli %t, %step : tensor<16xi32, #rows>",
         "unknown: a loop-carried tensor is not advanced by additions alone"),
        ("%u = arith.addi %t, %r : tensor<16xi32, #rows>",
         "unknown: a loop-carried tensor is advanced by different steps"),
        ("%s = tt.splat %i : i32 -> tensor<16xi32, #rows>\n"
         "%u = arith.addi %t, %s : tensor<16xi32, #rows>",
         "unknown: the step of a loop-carried tensor changes in the loop"),
    ],
)
def test_loop_carried_tensors(grow, expected):
    assert index(RANGE + LOOP.format(grow=grow)) == expected


def test_loop_carried_scalars_and_the_loop_counter():
    body = """
%c0 = arith.constant 0 : i32
%c4 = arith.constant 4 : i32
%out = scf.for %i = %c0 to %n step %c4 iter_args(%s = %m) -> (i32) : i32 {
  %t = arith.addi %i, %s : i32
  %u = arith.addi %s, %m : i32
  scf.yield %u : i32
}
%j = arith.shli %m, %c4 : i32
"""
    module = module_of(body, ARGUMENTS)
    assert poly_text(Affine().index(named(module, "t")).start) == (
        "4*iteration + iteration*m + m")
    assert poly_text(Affine().index(named(module, "j")).start) == "16*m"
    assert poly_text(Affine().scalar(named(module, "j"))) == "j"  # it may wrap around


def test_a_loop_counter_begins_where_the_loop_does():
    body = """
%c4 = arith.constant 4 : i32
scf.for %i = %m to %n step %c4 : i32 {
  %t = arith.addi %i, %m : i32
}
"""
    assert poly_text(Affine().index(named(module_of(body, ARGUMENTS), "t")).start) == (
        "2*m + 4*iteration")


POINTERS = f"""{PLANE}
%pb = tt.splat %p : !tt.ptr<f16> -> tensor<16x32x!tt.ptr<f16>, #blocked>
%ptrs = tt.addptr %pb, %at : tensor<16x32x!tt.ptr<f16>, #blocked>, tensor<16x32xi32, #blocked>
"""


def test_pointers():
    module = module_of(POINTERS, ARGUMENTS)
    found = Affine().index(named(module, "ptrs"))
    assert found.base is named(module, "p")
    assert text(found) == "0 | n, 1 | n >= 0 | 2147483647 >= 15*n + 31"


def test_pointers_from_memory_have_no_formula():
    module = module_of(
        "%pp = tt.splat %q : !tt.ptr<!tt.ptr<f16>> -> tensor<16x!tt.ptr<!tt.ptr<f16>>, #rows>\n"
        "%t = tt.load %pp : tensor<16x!tt.ptr<!tt.ptr<f16>>, #rows>",
        "%q: !tt.ptr<!tt.ptr<f16>>",
    )
    with pytest.raises(Unknown, match=r"tt\.load has no affine form"):
        Affine().index(named(module, "t"))


def mask(compare):
    body = f"{PLANE}%mb = tt.splat %m : i32 -> tensor<16x32xi32, #blocked>\n{compare}"
    try:
        found = Affine().mask(named(module_of(body, ARGUMENTS), "t"))
    except Unknown as reason:
        return str(reason)
    assert isinstance(found, Mask)
    low = [f"{poly_text(p)} <= {d}" for d, p in found.low.items()]
    return ", ".join(low + [f"{d} < {poly_text(p)}" for d, p in found.high.items()])


TYPE = "tensor<16x32xi32, #blocked>"


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        (f"%t = arith.cmpi slt, %rb, %mb : {TYPE}", "0 < m"),
        (f"%t = arith.cmpi sle, %rb, %mb : {TYPE}", "0 < 1 + m"),
        (f"%t = arith.cmpi sgt, %mb, %qb : {TYPE}", "1 < m"),
        (f"%t = arith.cmpi sge, %qb, %mb : {TYPE}", "m <= 1"),
        (f"%t = arith.cmpi eq, %qb, %mb : {TYPE}", "the mask compares with eq"),
        (f"%t = arith.cmpi slt, %at, %mb : {TYPE}", "the mask does not bound one block position"),
    ],
)
def test_masks(compare, expected):
    assert mask(compare) == expected


def test_masks_of_two_dimensions_join():
    both = f"""%u = arith.cmpi slt, %rb, %mb : {TYPE}
    %v = arith.cmpi slt, %qb, %nb : {TYPE}
    %t = arith.andi %u, %v : tensor<16x32xi1, #blocked>"""
    assert mask(both) == "0 < m, 1 < n"
    twice = both.replace("%qb, %nb", "%rb, %nb")
    assert mask(twice) == "the mask bounds one dimension twice"
    assert mask(both.replace("arith.andi", "arith.ori")) == "the mask comes from arith.ori"


def test_polynomials_divide_term_by_term():
    x, y = Poly.symbol("x"), Poly.symbol("y")
    quotient, rest = (x * y * 6 + x * 4 + 3).divide(x * 2)
    assert quotient == y * 3 + 2
    assert rest == Poly.constant(3)
    assert (x + 1).divide(x + 1) == (Poly({}), x + 1)
    assert (x - x).as_constant == 0
    assert (x * y + 2).substitute({"x": y}) == y * y + 2


def test_products_keep_the_order_in_which_they_are_written():
    """The code of a kernel must not depend on where its values lie in Python's memory."""
    names = [object() for _ in range(20)]
    products = [Poly.symbol(a) * Poly.symbol(b) for a in names for b in names]
    assert [tuple(m) for p in products for m in p.terms] == [(a, b) for a in names for b in names]
    assert all(
        Poly.symbol(a) * Poly.symbol(b) == Poly.symbol(b) * Poly.symbol(a)
        for a in names for b in names
    )
