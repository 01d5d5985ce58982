"""Elements that are taken out one by one are computed together, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.neighbours import whole_vectors

P = "ptr addrspace(1)"
LOAD = "llvm.genx.GenISA.PredicatedLoad.f32.p1.f32"
LANE = "  %lane = call i32 @_Z22get_sub_group_local_idv()\n"


def tree(operation: Callable[[str, str, str], str], count: int = 8) -> str:
    """A reduction of the elements of `%v`, pairs first."""
    lines = [f"  %e{k} = extractelement <{count} x float> %v, i32 {k}" for k in range(count)]
    names, level = [f"%e{k}" for k in range(count)], 0
    while len(names) > 1:
        made = [f"%s{level}.{k}" for k in range(len(names) // 2)]
        lines += [operation(m, a, b) for m, a, b in zip(made, names[::2], names[1::2], strict=True)]
        names, level = made, level + 1
    return "\n".join(lines) + f"\n  store float {names[0]}, {P} %pb\n"


SUM: Callable[[str, str, str], str] = "  {} = fadd float {}, {}".format
MAX: Callable[[str, str, str], str] = (
    "  {} = call float @llvm.maxnum.f32(float {}, float {})".format)
DIFFERENCE: Callable[[str, str, str], str] = "  {} = fsub float {}, {}".format
DECLARED = "declare float @llvm.maxnum.f32(float, float)"


def text_of(kernel: Callable[..., str], body: str) -> str:
    return kernel(f"{P} %a, {P} %b", LANE + f"""
  %i = mul i32 %lane, 8
  %pa = getelementptr float, {P} %a, i32 %i
  %v = load <8 x float>, {P} %pa
  %pb = getelementptr float, {P} %b, i32 %lane
{body}""", other=DECLARED if "maxnum" in body else "")


@pytest.mark.parametrize(("operation", "opcode"), [(SUM, "fadd"), (MAX, "call")],
                         ids=["sum", "maximum"])
def test_reductions_of_neighbours_are_vector_arithmetic(
    run: Callable[..., None], kernel: Callable[..., str],
    operation: Callable[[str, str, str], str], opcode: str,
) -> None:
    text = text_of(kernel, tree(operation))
    (function,) = parse_module(text).kernels()
    (block,) = whole_vectors(function).blocks
    lanes = [i.type.lanes for i in block.instructions
             if i.opcode == opcode and i.type.scalar.kind == "float"]
    assert lanes == [4, 2, 1]
    a = (np.random.default_rng(0).standard_normal((16, 8)) * 1e3).astype(np.float32)
    a[3, 2:4] = np.nan
    b = np.zeros(16, np.float32)
    run(text, a, b)
    expected = a
    while expected.shape[1] > 1:
        even, odd = expected[:, ::2], expected[:, 1::2]
        expected = even + odd if opcode == "fadd" else np.fmax(even, odd)
    np.testing.assert_array_equal(b, expected[:, 0])


@pytest.mark.parametrize("operation", [DIFFERENCE], ids=["difference"])
def test_what_is_no_reduction_stays(
    kernel: Callable[..., str], operation: Callable[[str, str, str], str]
) -> None:
    (function,) = parse_module(text_of(kernel, tree(operation))).kernels()
    (block,) = whole_vectors(function).blocks
    assert [i.opcode for i in block.instructions] == [
        i.opcode for i in function.blocks[0].instructions]


def test_elements_of_vectors_are_vectors_one_behind_the_other(
    run: Callable[..., None], kernel: Callable[..., str]
) -> None:
    body = ["  %h = getelementptr float, ptr addrspace(1) %pa, i32 4",
            f"  %x = load <4 x float>, {P} %pa", f"  %y = load <4 x float>, {P} %h"]
    last = "poison"
    for k in range(8):
        body.append(f"  %t{k} = extractelement <4 x float> %{'xy'[k // 4]}, i32 {k % 4}")
        body.append(f"  %w{k} = insertelement <8 x float> {last}, float %t{k}, i32 {k}")
        last = f"%w{k}"
    body += [f"  %d = fadd <8 x float> {last}, %v",
             f"  %q = getelementptr float, {P} %b, i32 %i", f"  store <8 x float> %d, {P} %q"]
    text = text_of(kernel, "\n".join(body))
    (function,) = parse_module(text).kernels()
    (block,) = whole_vectors(function).blocks
    (made,) = (i for i in block.instructions if i.result == "%w7")
    assert (made.opcode, made.indices) == ("shufflevector", tuple(range(8)))
    a = np.arange(128, dtype=np.float32)
    b = np.zeros_like(a)
    run(text, a, b)
    np.testing.assert_array_equal(b, 2 * a)


@pytest.mark.parametrize(("order", "stays"), [((0, 1, 2, 3), False), ((0, 1, 3, 2), True)],
                         ids=["in order", "in another order"])
def test_all_elements_of_a_vector_are_the_vector(
    run: Callable[..., None], kernel: Callable[..., str], order: tuple[int, ...], stays: bool
) -> None:
    body, last = [f"  %x = load <4 x float>, {P} %pa"], "poison"
    for k, at in enumerate(order):
        body += [f"  %t{k} = extractelement <4 x float> %x, i32 {at}",
                 f"  %w{k} = insertelement <4 x float> {last}, float %t{k}, i32 {k}"]
        last = f"%w{k}"
    text = text_of(kernel, "\n".join([*body, f"  store <4 x float> {last}, {P} %pb"]).replace(
        "float, ptr addrspace(1) %b", "<4 x float>, ptr addrspace(1) %b"))
    (function,) = parse_module(text).kernels()
    (store,) = (i for i in whole_vectors(function).instructions() if i.opcode == "store")
    assert (store.operands[0].text == "%w3") == stays
    a, b = np.arange(128, dtype=np.float32), np.zeros(19, np.float32)
    run(text, a, b)
    np.testing.assert_array_equal(b[15:], a[120:124][list(order)])


@pytest.mark.parametrize("n", [0, 3, 6, 8])
def test_masked_loads_that_are_the_same_in_all_lanes_are_vectors(
    run: Callable[..., None], kernel: Callable[..., str], n: int
) -> None:
    body, last = [LANE + f"  %one = insertelement <8 x i32> poison, i32 {n}, i32 0",
                  "  %n = shufflevector <8 x i32> %one, <8 x i32> poison, <8 x i32> "
                  "zeroinitializer"], "poison"
    places = ", ".join(f"i32 {k}" for k in range(8))
    body.append(f"  %m = icmp slt <8 x i32> <{places}>, %n")
    for at, of in enumerate("xy"):
        body.append(f"  %p{of} = getelementptr float, {P} %a, i32 {4 * at}")
        for k in range(4):
            body.append(f"  %m{of}{k} = extractelement <8 x i1> %m, i32 {4 * at + k}")
            body.append(f"  %q{of}{k} = getelementptr float, {P} %p{of}, i32 {k}")
            body.append(f"  %{of}{k} = call float @{LOAD}({P} %q{of}{k}, i64 4, i1 %m{of}{k}, "
                        "float 7.0)")
            body.append(f"  %w{4 * at + k} = insertelement <8 x float> {last}, float %{of}{k}, "
                        f"i32 {4 * at + k}")
            last = f"%w{4 * at + k}"
    body += [f"  %d = fadd <8 x float> {last}, {last}", "  %i = mul i32 %lane, 8",
             f"  %q = getelementptr float, {P} %b, i32 %i", f"  store <8 x float> %d, {P} %q"]
    text = kernel(f"{P} %a, {P} %b", "\n".join(body),
                  other=f"declare float @{LOAD}({P}, i64, i1, float)")
    a, b = np.arange(8, dtype=np.float32), np.zeros(128, np.float32)
    run(text, a, b)
    expected = np.where(np.arange(8) < n, 2 * a, 14)
    np.testing.assert_array_equal(b.reshape(16, 8), np.tile(expected, (16, 1)))


@pytest.mark.parametrize(("shifts", "opcode"), [
    ((0, 16, 0, 16), "bitcast"), ((16, 0, 16, 0), "insertelement"), ((0, 8, 0, 8), "insertelement"),
], ids=["halves", "turned", "other bits"])
def test_halves_of_words_are_a_cast(
    run: Callable[..., None], kernel: Callable[..., str], shifts: tuple[int, ...], opcode: str
) -> None:
    body, x = LANE + f"""
  %i = mul i32 %lane, 2
  %pa = getelementptr i32, {P} %a, i32 %i
  %v = load <2 x i32>, {P} %pa
  %pb = getelementptr i32, {P} %b, i32 %i
""", "poison"
    for k, shift in enumerate(shifts):
        body += f"  %e{k} = extractelement <2 x i32> %v, i32 {k // 2}\n"
        body += f"  %s{k} = lshr i32 %e{k}, {shift}\n" if shift else ""
        body += f"  %t{k} = trunc i32 %{'s' if shift else 'e'}{k} to i16\n"
        body += f"  %x{k} = insertelement <4 x i16> {x}, i16 %t{k}, i32 {k}\n"
        x = f"%x{k}"
    text = kernel(f"{P} %a, {P} %b", f"{body}  store <4 x i16> {x}, {P} %pb")
    (function,) = parse_module(text).kernels()
    made = {i.result: i.opcode for i in whole_vectors(function).instructions()}
    assert made[x] == opcode
    a = np.random.default_rng(1).integers(0, 1 << 32, 32, np.uint32)
    b = np.zeros(64, np.uint16)
    run(text, a, b)
    np.testing.assert_array_equal(
        b.reshape(-1, 4), np.stack([a.reshape(-1, 2)[:, k // 2] >> shift & 0xFFFF
                                    for k, shift in enumerate(shifts)], 1))
