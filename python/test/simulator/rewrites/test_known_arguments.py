"""Host functions with a version for arguments that were seen."""

from __future__ import annotations

import pytest

from triton_xe.llvm import Function
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.rewrites.known_arguments import for_arguments
from triton_xe.runtime.simulator.run.kernel_module import canonical

HEAD = """define void @k(ptr %args, ptr %ctx, i32 %sg) {
entry:
  %at = getelementptr i8, ptr %args, i64 8
  %n = load i32, ptr %at, align 8
  %one = insertelement <4 x i32> poison, i32 %n, i32 0
  %all = shufflevector <4 x i32> %one, <4 x i32> poison, <4 x i32> zeroinitializer
"""
TAIL = """
  %x = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %ctx, <4 x i1> %m, <4 x float> undef)
  store <4 x float> %x, ptr %ctx
  ret void
}
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)
"""
NUMBERS = "<i32 0, i32 1, i32 2, i32 6>"


def versions(comparison: str, value: int) -> list[Function]:
    module = parse_module(canonical(HEAD + comparison + TAIL))
    (function,) = module.functions.values()
    return for_arguments(function, {"%n": value})


def chosen_by(functions: list[Function]) -> tuple[str, str]:
    """The predicate of the first version's test, and the number."""
    test = next(i for i in functions[0].instructions() if i.opcode == "icmp")
    return test.extra, test.operands[1].text


@pytest.mark.parametrize(("comparison", "value", "test"), [
    (f"%m = icmp slt <4 x i32> {NUMBERS}, %all", 9, ("sge", "7")),
    (f"%m = icmp slt <4 x i32> {NUMBERS}, %all", 7, ("sge", "7")),
    (f"%m = icmp slt <4 x i32> {NUMBERS}, %all", 6, ("eq", "6")),
    (f"%m = icmp sle <4 x i32> {NUMBERS}, %all", 6, ("sge", "6")),
    (f"%m = icmp sgt <4 x i32> %all, {NUMBERS}", 8, ("sge", "7")),
    (f"%m = icmp slt <4 x i32> %all, {NUMBERS}", -1, ("eq", "-1")),
    (f"%m = icmp eq <4 x i32> %all, {NUMBERS}", 2, ("eq", "2")),
])
def test_when_the_version_is_taken(comparison: str, value: int, test: tuple[str, str]) -> None:
    made = versions(comparison, value)
    assert [f.name for f in made] == ["k", "k_general", "k_special"]
    assert chosen_by(made) == test
    masks = [next(i for i in f.instructions() if i.opcode == "icmp") for f in made[1:]]
    assert "%all" in [x.text for x in masks[0].operands]
    assert "%all" not in [x.text for x in masks[1].operands]
    assert len(parse_module(print_module(made)).functions) == 3


@pytest.mark.parametrize("comparison", [
    "%m = icmp slt <4 x i32> %one, %all",
    f"%m = icmp slt <4 x i32> {NUMBERS}, %one",
    f"%two = insertelement <4 x i32> %all, i32 %sg, i32 1\n"
    f"%m = icmp slt <4 x i32> {NUMBERS}, %two",
    f"%m = icmp ult <4 x i32> {NUMBERS}, %all",
])
def test_what_is_no_comparison_of_numbers_with_the_argument(comparison: str) -> None:
    assert len(versions(comparison, 9)) == 1


def test_an_argument_by_way_of_other_vectors() -> None:
    made = versions(f"""%again = extractelement <4 x i32> %all, i32 3
  %pair = insertelement <2 x i32> poison, i32 %again, i32 1
  %both = shufflevector <2 x i32> %pair, <2 x i32> poison, <2 x i32> <i32 1, i32 1>
  %four = shufflevector <2 x i32> %both, <2 x i32> %both, <4 x i32> <i32 0, i32 2, i32 1, i32 3>
  %m = icmp slt <4 x i32> {NUMBERS}, %four""", 7)
    assert chosen_by(made) == ("sge", "7")


@pytest.mark.parametrize(("value", "test", "always", "open_"), [
    (15, ("sge", "15"), "1111", "0000"), (6, ("eq", "6"), "0000", "1110"),
    (10, ("eq", "10"), "1100", "0011"), (0, ("eq", "0"), "0000", "0000"),
])
def test_numbers_that_hang_on_the_subgroup(
    value: int, test: tuple[str, str], always: str, open_: str
) -> None:
    """Of three: 0 1 2 6, 4 5 6 10, 8 9 10 14.  Lanes that differ are compared anew."""
    module = parse_module(canonical(HEAD + f"""  %four = shl i32 %sg, 2
  %put = insertelement <4 x i32> poison, i32 %four, i32 0
  %first = shufflevector <4 x i32> %put, <4 x i32> poison, <4 x i32> zeroinitializer
  %own = add <4 x i32> %first, {NUMBERS}
  %m = icmp slt <4 x i32> %own, %all""" + TAIL))
    (function,) = module.functions.values()
    made = for_arguments(function, {"%n": value}, sg="%sg", sub_groups=3)
    assert chosen_by(made) == test
    written = {i.opcode: i for i in made[2].instructions() if i.opcode in ("icmp", "and", "or")}
    flags = {opcode: "".join(str(int(e.text == "true")) for e in i.operands[1].elements)
             for opcode, i in written.items() if opcode != "icmp"}
    same = open_ == "0000"
    assert set(written) == ({"and"} if same else {"icmp", "and", "or"})
    assert flags == ({"and": always} if same else {"and": open_, "or": always})
