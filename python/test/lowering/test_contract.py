"""Which marked products become fused operations in the text of an LLVM module."""

import re

import pytest

from triton_xe.lowering.spirv.contract import contracted
from triton_xe.lowering.spirv.spirv_target import verified


def module(*lines, kind="float", more=""):
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f'target triple = "spirv64-unknown-unknown"\n{more}'
        f"define {kind} @f({kind} %a, {kind} %b, {kind} %c) {{\nentry:\n{body}\n}}\n"
    )


def fused(text):
    """The contracted module's arithmetic, which LLVM has accepted."""
    done = contracted(text)
    verified(done)
    assert "contract" not in done
    found = re.findall(r"^\s+\S+ = (?:call [^@]*@)?\"?(f\w+|llvm[\w.]+)\"?[ (]", done, re.MULTILINE)
    return found, done


PRODUCT = "%p = fmul contract float %a, %b"


@pytest.mark.parametrize(
    ("total", "wanted", "arguments"),
    [
        ("fadd contract float %p, %c", [], "%a, %b, %c"),
        ("fadd contract float %c, %p", [], "%a, %b, %c"),
        ("fadd contract float %p, 0x3FF0000000000000", [], "%a, %b, 0x3FF0000000000000"),
        ("fsub contract float %p, %c", ["fneg float %c"], '%a, %b, %"s.minus"'),
        ("fsub contract float %c, %p", ["fneg float %a"], '%"s.minus", %b, %c'),
        ("fadd nnan contract float %p, %c, !place !0", [], "%a, %b, %c"),
    ],
)
def test_a_product_with_one_use_is_fused(total, wanted, arguments):
    node = "!0 = !{i32 1}\n"
    names, done = fused(module(PRODUCT, f"%s = {total}", "ret float %s") + node)
    assert names == [*(w.split()[0] for w in wanted), "llvm.fma.f32"]
    assert all(w in done for w in wanted)
    called = re.search(r"call float @llvm.fma.f32\((.*)\)", done)[1]
    assert called.replace("float ", "") == arguments
    assert ("!place !0" in done) == ("!place" in total)


@pytest.mark.parametrize(
    "lines",
    [
        (PRODUCT, "%s = fadd float %p, %c", "ret float %s"),
        ("%p = fmul float %a, %b", "%s = fadd contract float %p, %c", "ret float %s"),
        (PRODUCT, "%s = fadd contract float %p, %p", "ret float %s"),
        (PRODUCT, "%s = fadd contract float %p, %c", "%t = fmul float %p, %s", "ret float %t"),
        (PRODUCT, "br label %next\nnext:", "%s = fadd contract float %p, %c", "ret float %s"),
    ],
    ids=["unmarked sum", "unmarked product", "twice in the sum", "two users", "another block"],
)
def test_others_stay_apart(lines):
    names, _ = fused(module(*lines))
    assert "llvm.fma.f32" not in names
    assert names[0] == "fmul"


def test_a_sum_of_two_products_takes_the_first():
    names, done = fused(module(
        PRODUCT, "%q = fmul contract float %b, %c", "%s = fadd contract float %p, %q",
        "ret float %s",
    ))
    assert names == ["fmul", "llvm.fma.f32"]
    assert "(float %a, float %b, float %q)" in done


@pytest.mark.parametrize("kind", ["half", "double", "<4 x half>", "<2 x float>"])
def test_every_type_has_its_function(kind):
    one = f"<{', '.join(['half 1.0'] * 4)}>" if kind == "<4 x half>" else "%c"
    names, done = fused(module(
        f"%p = fmul contract {kind} %a, {one}", f"%s = fadd contract {kind} %b, %p",
        f"ret {kind} %s", kind=kind,
    ))
    assert len(names) == 1
    assert done.count(f"declare {kind} @{names[0]}(") == 1


def test_a_function_that_is_there_is_not_declared_again():
    known = "declare float @llvm.fma.f32(float, float, float)\n"
    for text in (module(PRODUCT, "%s = fadd contract float %p, %c", "ret float %s", more=known),
                 module(PRODUCT, "%s = fadd contract float %p, %c", "ret float %s") + known):
        _, done = fused(text)
        assert done.count("declare") == 1


def test_names_belong_to_their_function():
    text = module(PRODUCT, "%s = fadd contract float %p, %c", "ret float %s")
    second = text.split("\n", 1)[1].replace("@f(", "@g(")
    names, _ = fused(text + second)
    assert names == ["llvm.fma.f32"] * 2


def test_text_without_marks_is_left_alone():
    text = module("%p = fmul float %a, %b", "%s = fadd float %p, %c", "ret float %s")
    assert contracted(text) is text
