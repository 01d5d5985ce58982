"""Which marked products become fused operations in a module."""

import pytest

from python.test.filecheck import check_text
from python.test.lowering.emit.writing import begin, state_of
from triton_xe.llvm import F16, F32, F64, Module, vector
from triton_xe.llvm.parser import canonical
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit.fusion import MARK, fuse_products
from triton_xe.lowering.spirv.emit_spirv import write_spirv
from triton_xe.tools.canonical import canonical_spirv

FLAGS = (MARK,)


def fused(*writers, kind=F32):
    """(instructions, text) of a module with functions that the writers wrote, after the pass."""
    module = Module()
    for place, write in enumerate(writers):
        function, b = begin(kind, kind, kind, result=kind, module=module, name=f"f{place}",
                            is_kernel=False)
        b.ret(write(b, *function.arguments))
    fuse_products(state_of(module))
    text = print_kernels(module)
    canonical(text)
    check_text(text, f"CHECK-NOT: {MARK}")
    return [i for f in module.functions.values() for i in f.instructions()
            if i.opcode not in ("ret", "br")], text


def names(instructions):
    return [i.callee or i.opcode for i in instructions]


def product(b, x, y):
    return b.binary("fmul", x, y, FLAGS)


def total(b, x, y, flags=FLAGS):
    return b.binary("fadd", x, y, flags)


def difference(b, x, y):
    return b.binary("fsub", x, y, FLAGS)


A, B, C = (f"%a{k}" for k in range(3))


@pytest.mark.parametrize(
    ("write", "wanted"),
    [
        (lambda b, p, c: total(b, p, c), (A, B, C)),
        (lambda b, p, c: total(b, c, p), (A, B, C)),
        (lambda b, p, c: total(b, p, c, ("nnan", MARK)), (A, B, C)),
        (lambda b, p, c: difference(b, p, c), (A, B, "minus")),
        (lambda b, p, c: difference(b, c, p), ("minus", B, C)),
    ],
)
def test_a_product_with_one_use_is_fused(write, wanted):
    (*before, call), _ = fused(lambda b, x, y, z: write(b, product(b, x, y), z))
    assert call.callee == "llvm.fma.f32"
    assert names(before) == ["fneg"] * ("minus" in wanted)
    minus = before[0].result if before else ""
    assert tuple("minus" if o.text == minus else o.text for o in call.operands) == wanted
    if before:
        assert before[0].operands[0].text == (C if wanted[2] == "minus" else A)


def next_block(b):
    block = b.append_block("next")
    b.branch(block)
    b.at_end(block)


def with_two_users(b, x, y, z):
    p = product(b, x, y)
    return b.fmul(p, total(b, p, z))


def twice_in_the_sum(b, x, y, z):
    p = product(b, x, y)
    return total(b, p, p)


def in_another_block(b, x, y, z):
    p = product(b, x, y)
    next_block(b)
    return total(b, p, z)


@pytest.mark.parametrize("write", [
    lambda b, x, y, z: b.fadd(product(b, x, y), z),
    lambda b, x, y, z: total(b, b.fmul(x, y), z),
    twice_in_the_sum, with_two_users, in_another_block,
])
def test_others_stay_apart(write):
    instructions, _ = fused(write)
    assert names(instructions)[:2] == ["fmul", "fadd"]


def test_a_sum_of_two_products_takes_the_first():
    (second, call), _ = fused(
        lambda b, x, y, z: total(b, product(b, x, y), product(b, y, z)))
    assert names([second, call]) == ["fmul", "llvm.fma.f32"]
    assert [o.text for o in call.operands] == [A, B, second.result]


def test_users_of_the_sum_see_the_fused_operation():
    (call, user), _ = fused(lambda b, x, y, z: b.fdiv(total(b, product(b, x, y), z), z))
    assert user.operands[0] == call.value


@pytest.mark.parametrize("kind", [F16, F64, vector(4, F16), vector(2, F32)], ids=str)
def test_every_type_has_its_function(kind):
    instructions, text = fused(lambda b, x, y, z: total(b, z, product(b, x, y)), kind=kind)
    (name,) = names(instructions)
    check_text(text, f"""
        CHECK: declare {kind} @{name}(
        CHECK-NOT: declare {kind} @{name}(
        """)


def test_functions_of_a_module_share_the_declaration():
    write = lambda b, x, y, z: total(b, product(b, x, y), z)  # noqa: E731
    instructions, text = fused(write, write)
    assert names(instructions) == ["llvm.fma.f32"] * 2
    check_text(text, """
        CHECK: declare
        CHECK-NOT: declare
        """)


MARKED = """\
target triple = "spirv64-unknown-unknown"
define spir_kernel void @f(ptr addrspace(1) %q, float %a, float %b) {
  %p = fmul contract float %a, %b
  %s = fadd contract float %p, %a
  store float %s, ptr addrspace(1) %q
  ret void
}
"""


def test_marks_in_text_that_was_edited_mean_nothing():
    plain = MARKED.replace(" contract", "")
    modules = [canonical_spirv(write_spirv(text)) for text in (MARKED, plain)]
    assert modules[0] == modules[1]
