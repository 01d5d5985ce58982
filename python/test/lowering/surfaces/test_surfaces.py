"""Which loads are 2D surface accesses, what is tested at run time for that, and what is refused."""

import random

import pytest

from python.test.lowering.module_text import module_of, named, operation, poly_text
from triton_xe.hardware.block_2d import Guard, Relation, check_surface
from triton_xe.lowering.facts.affine import Affine, Misalignment
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.module_facts import CompileOptions, set_options
from triton_xe.lowering.surfaces.surfaces import surface_access
from triton_xe.plan import Refusal

GOOD = "%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, "
PLANE = """
%r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #rows>
%q = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #columns>
%r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32, #rows> -> tensor<16x1xi32, #blocked>
%q2 = tt.expand_dims %q {axis = 0 : i32} : tensor<64xi32, #columns> -> tensor<1x64xi32, #blocked>
%rb = tt.broadcast %r2 : tensor<16x1xi32, #blocked> -> tensor<16x64xi32, #blocked>
%qb = tt.broadcast %q2 : tensor<1x64xi32, #blocked> -> tensor<16x64xi32, #blocked>
%pitch = tt.splat %n : i32 -> tensor<16x64xi32, #blocked>
%zero = arith.constant dense<0.0> : tensor<16x64xf16, #blocked>
%one = arith.constant dense<1.0> : tensor<16x64xf16, #blocked>
"""
LOAD = """
%row = arith.muli %rb, %pitch : tensor<16x64xi32, #blocked>
%at = arith.addi %row, %qb : tensor<16x64xi32, #blocked>
%pb = tt.splat %p : !tt.ptr<f16> -> tensor<16x64x!tt.ptr<f16>, #blocked>
%ptrs = tt.addptr %pb, %at : tensor<16x64x!tt.ptr<f16>, #blocked>, tensor<16x64xi32, #blocked>
"""
MASK = """
%mb = tt.splat %m : i32 -> tensor<16x64xi32, #blocked>
%mask = arith.cmpi {compare} : tensor<16x64xi32, #blocked>
%t = tt.load %ptrs, %mask, {other} : tensor<16x64x!tt.ptr<f16>, #blocked>
"""
UNMASKED = "%t = tt.load %ptrs : tensor<16x64x!tt.ptr<f16>, #blocked>\n"


def access(body, arguments=GOOD + "%n: i32, %m: i32"):
    module = module_of(body, arguments)
    return surface_access(operation(module, "tt.load"), Affine(), None)


def guard_texts(surface):
    out = []
    for guard in surface.guards:
        match guard:
            case Guard(amount, Relation.AT_LEAST, bound, what):
                out.append(f"{what}: {poly_text(amount - bound)} >= 0")
            case Guard(amount, Relation.MULTIPLE_OF, of, what):
                out.append(f"{what}: {poly_text(amount)} | {of}")
    return out


def test_a_row_major_block_without_mask():
    found = access(PLANE + LOAD + UNMASKED)
    assert (poly_text(found.pitch), poly_text(found.width)) == ("n", "n")
    assert found.height.as_constant == 2**24 - 1
    assert (poly_text(found.y), poly_text(found.x)) == ("0", "0")
    assert not found.transposed
    assert found.base_alignment == 16
    assert guard_texts(found) == [
        "the block ends inside a row: -64 + n >= 0",
        "the surface is at least 64 bytes wide: -64 + 2*n >= 0",
        "the pitch is below 2^24 bytes: -2*n + 16777152 >= 0",
        "the pitch is a multiple of 16 bytes: 2*n | 16",
        "the width is a multiple of 4 bytes: 2*n | 4",
        "a row fits into the pitch, counted from 64-byte alignment: -1*(p % 64) >= 0",
    ]


def test_stated_divisibility_makes_guards_unnecessary():
    arguments = GOOD + "%n: i32 {tt.divisibility = 16 : i32}, %m: i32"
    found = access(PLANE + LOAD + UNMASKED, arguments)
    assert not [g for g in found.guards if g.relation is Relation.MULTIPLE_OF]


def test_a_base_of_unknown_alignment_is_tested_for_4_bytes():
    found = access(PLANE + LOAD + UNMASKED, "%p: !tt.ptr<f16>, %n: i32, %m: i32")
    assert found.base_alignment == 4
    assert "the base address is a multiple of 4 bytes: p | 4" in guard_texts(found)


def test_a_launch_tests_that_an_argument_is_aligned_whatever_room_rows_have():
    module = module_of(PLANE + LOAD + UNMASKED, GOOD + "%n: i32, %m: i32")
    set_options(module, CompileOptions(guards="launch"))
    found = surface_access(operation(module, "tt.load"), Affine(), None)
    assert found.base_alignment == 64
    assert guard_texts(found)[-1] == "the base address is a multiple of 64 bytes: p | 64"


def test_a_base_that_the_program_computes_may_lie_within_a_row():
    moved = "%p1 = tt.addptr %p, %m : !tt.ptr<f16>, i32\n" + LOAD.replace("%p :", "%p1 :")
    by = "%n: i32, %m: i32 {tt.divisibility = 16 : i32}"
    module = module_of(PLANE + moved + UNMASKED, GOOD + by)
    set_options(module, CompileOptions(guards="launch"))
    found = surface_access(operation(module, "tt.load"), Affine(), None)
    assert found.base_alignment == 16


def test_a_mask_of_columns_is_the_width():
    found = access(PLANE + LOAD + MASK.format(compare="slt, %qb, %mb", other="%zero"))
    assert poly_text(found.width) == "m"
    assert "a row is not longer than the pitch: -1*m + n >= 0" in guard_texts(found)


def test_a_mask_of_rows_is_the_height():
    found = access(PLANE + LOAD + MASK.format(compare="slt, %rb, %mb", other="%zero"))
    assert poly_text(found.height) == "m"
    assert "the surface has rows: -1 + m >= 0" in guard_texts(found)


def test_a_lower_bound_at_the_surface_edge_is_free_and_others_are_refused():
    zero = PLANE + "%z = arith.constant dense<0> : tensor<16x64xi32, #blocked>\n" + LOAD
    masked = zero + MASK.format(compare="sge, %qb, %z", other="%zero")
    assert not isinstance(access(masked), Refusal)
    inside = PLANE + LOAD + MASK.format(compare="sge, %qb, %mb", other="%zero")
    assert str(access(inside)) == "the mask has a lower bound inside the surface"


SWAPPED = LOAD.replace("muli %rb", "muli %qb").replace("addi %row, %qb", "addi %row, %rb")


def test_a_column_major_block_is_transposed():
    found = access(PLANE + SWAPPED + UNMASKED)
    assert found.transposed
    assert poly_text(found.pitch) == "n"


def test_two_unknown_strides_are_one_with_a_guard():
    second = "%s = tt.splat %m : i32 -> tensor<16x64xi32, #blocked>\n" \
             "%col = arith.muli %qb, %s : tensor<16x64xi32, #blocked>\n"
    found = access(PLANE + second + LOAD.replace("%row, %qb", "%row, %col") + UNMASKED)
    ones = [g for g in guard_texts(found) if g.startswith("the inner stride is 1")]
    assert ones == ["the inner stride is 1: -1 + m >= 0", "the inner stride is 1: -1*m + 1 >= 0"]


REFUSED = {
    "masked elements are filled with something else than zero":
        PLANE + LOAD + MASK.format(compare="slt, %qb, %mb", other="%one"),
    "no dimension is contiguous":
        PLANE + "%two = arith.constant dense<2> : tensor<16x64xi32, #blocked>\n"
        "%col = arith.muli %qb, %two : tensor<16x64xi32, #blocked>\n"
        + LOAD.replace("%row, %qb", "%row, %col") + UNMASKED,
    "the pitch is a multiple of 16 bytes: not so here (200)":
        PLANE.replace("tt.splat %n : i32 ->", "arith.constant dense<100> :") + LOAD + UNMASKED,
    "it is never so that the block ends inside a row":
        PLANE.replace("tt.splat %n : i32 ->", "arith.constant dense<48> :") + LOAD + UNMASKED,
    "the pitch changes in the loop or is not positive":
        PLANE.replace("tt.splat %n : i32 ->", "arith.constant dense<-64> :") + LOAD + UNMASKED,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals_say_why(reason):
    assert str(access(REFUSED[reason])) == reason


def test_other_ranks_are_refused():
    body = """%r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #rows>
    %pb = tt.splat %p : !tt.ptr<f16> -> tensor<16x!tt.ptr<f16>, #rows>
    %ptrs = tt.addptr %pb, %r : tensor<16x!tt.ptr<f16>, #rows>, tensor<16xi32, #rows>
    %t = tt.load %ptrs : tensor<16x!tt.ptr<f16>, #rows>"""
    assert str(access(body)) == "only accesses of rank 2 can be 2D blocks"


LOOP = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%step = arith.constant dense<STEP> : tensor<16x64xi32, #blocked>
%out = scf.for %i = %c0 to %m step %c1 iter_args(%at_ptrs = %ptrs)
    -> (tensor<16x64x!tt.ptr<f16>, #blocked>) : i32 {
  %t = tt.load %at_ptrs : tensor<16x64x!tt.ptr<f16>, #blocked>
  %u = tt.addptr %at_ptrs, %step
      : tensor<16x64x!tt.ptr<f16>, #blocked>, tensor<16x64xi32, #blocked>
  scf.yield %u : tensor<16x64x!tt.ptr<f16>, #blocked>
}
"""


def loop_access(step):
    module = module_of(PLANE + LOAD + LOOP.replace("STEP", str(step)), GOOD + "%n: i32, %m: i32")
    load = operation(module, "tt.load")
    return surface_access(load, Affine(), operation(module, "scf.for")), module


def test_what_moves_is_tested_for_the_last_iteration():
    found, _ = loop_access(64)
    assert poly_text(found.x) == "64*iteration"
    assert "the block ends inside a row: -64 + -64*last + n >= 0" in guard_texts(found)
    assert not any("iteration" in text for text in guard_texts(found))


def test_x_must_move_by_whole_dwords():
    found, _ = loop_access(1)
    assert found == Refusal("x moves by less than 4 bytes")


def test_facts_about_signs_and_multiples():
    module = module_of(
        "%c16 = arith.constant 16 : i32\n%pid = tt.get_program_id x : i32\n"
        "%t = arith.muli %pid, %c16 : i32\n%d = arith.divsi %pid, %c16 : i32\n"
        "%s = arith.subi %pid, %d : i32",
        "%n: i32 {tt.divisibility = 16 : i32}",
    )
    affine = Affine()
    scalar = {name: affine.scalar(named(module, name)) for name in ("t", "d", "s", "n")}
    assert affine.multiple_of(scalar["t"]) == 16
    assert affine.multiple_of(scalar["n"] * 3 + 8) == 8
    assert affine.nonnegative(scalar["d"])
    assert not affine.nonnegative(scalar["t"])  # a product of 32 bits may wrap around
    assert not affine.nonnegative(scalar["s"])
    assert not affine.nonnegative(scalar["n"])


def held(amount, values):
    """The number that the amount of a guard is, for one set of arguments."""
    def number(symbol):
        if isinstance(symbol, Misalignment):
            return Poly.constant(values[symbol.base.name_hint] % 64)
        return Poly.constant(values[symbol.name_hint])

    return amount.substitute({s: number(s) for s in amount.symbols}).as_constant


@pytest.mark.covering
@pytest.mark.parametrize("compare", [None, "slt, %qb, %mb", "slt, %rb, %mb"])
@pytest.mark.parametrize("pointer", [GOOD, "%p: !tt.ptr<f16>, "])
def test_guards_imply_the_rules_of_surfaces(compare, pointer):
    """Where all guards hold, the surface that begins at a multiple of 64 bytes is legal."""
    load = MASK.format(compare=compare, other="%zero") if compare else UNMASKED
    found = access(PLANE + LOAD + load, pointer + "%n: i32, %m: i32")
    draw = random.Random(3)
    legal = 0
    for _ in range(4000):
        values = {
            "p": draw.choice((64, 80, 84, 16, 18)),
            "n": draw.choice((32, 40, 64, 72, 100, 2**22 + 8, 2**23 - 32, 2**23, 2**24)),
            "m": draw.choice((0, 1, 16, 30, 32, 33, 64, 2**23 - 32, 2**24 - 1, 2**24)),
        }
        rules = [
            held(g.amount, values) >= held(g.bound, values) if g.relation is Relation.AT_LEAST
            else held(g.amount, values) % g.bound == 0 for g in found.guards
        ]
        if not all(rules) or (values["p"] % 16 and pointer is GOOD):
            continue
        legal += 1
        low = values["p"] % 64
        assert check_surface(
            base=values["p"] - low, width_bytes=2 * held(found.width, values) + low,
            pitch_bytes=2 * held(found.pitch, values), height=held(found.height, values),
            element_bits=16, x=low // 2,
        ) is None, values
    assert legal > 50
