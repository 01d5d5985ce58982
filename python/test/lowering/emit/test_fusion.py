"""Which marked products become fused operations in a module."""

import pytest
from llvmlite import ir

from python.test.filecheck import check_text
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import canonical
from triton_xe.lowering.emit.fusion import MARK, fuse_products
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.lowering.spirv.emit_spirv import write_spirv
from triton_xe.tools.canonical import canonical_spirv

FLAGS = (MARK,)
F32 = ir.FloatType()


def fused(*writers, kind=F32):
    """(instructions, text) of a module with functions that the writers wrote, after the pass."""
    module = ir.Module()
    module.triple = "spirv64-unknown-unknown"
    for number, write in enumerate(writers):
        function = ir.Function(module, ir.FunctionType(kind, [kind] * 3), f"f{number}")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        builder.ret(write(builder, *function.args))
    fuse_products(ModuleState(module, target("bmg"), 1, 16, module))
    text = str(module)
    canonical(text)
    check_text(text, f"CHECK-NOT: {MARK}")
    return [i for f in module.functions for block in f.blocks for i in block.instructions
            if i.opname not in ("ret", "br")], text


def names(instructions):
    return [i.callee.name if i.opname == "call" else i.opname for i in instructions]


def product(b, x, y):
    return b.fmul(x, y, flags=FLAGS)


@pytest.mark.parametrize(
    ("total", "wanted"),
    [
        (lambda b, p, c: b.fadd(p, c, flags=FLAGS), lambda a, b, c, minus: (a, b, c)),
        (lambda b, p, c: b.fadd(c, p, flags=FLAGS), lambda a, b, c, minus: (a, b, c)),
        (lambda b, p, c: b.fadd(p, c, flags=("nnan", MARK)), lambda a, b, c, minus: (a, b, c)),
        (lambda b, p, c: b.fsub(p, c, flags=FLAGS), lambda a, b, c, minus: (a, b, minus)),
        (lambda b, p, c: b.fsub(c, p, flags=FLAGS), lambda a, b, c, minus: (minus, b, c)),
    ],
)
def test_a_product_with_one_use_is_fused(total, wanted):
    (*before, call), _ = fused(lambda b, x, y, z: total(b, product(b, x, y), z))
    assert call.callee.name == "llvm.fma.f32"
    a, b, c = call.function.args
    assert tuple(call.args) == wanted(a, b, c, before[0] if before else None)
    assert names(before) == ["fneg"] * len(before)
    if before:
        assert before[0].operands[0] is (c if call.args[2] is before[0] else a)


def next_block(b):
    block = b.append_basic_block("next")
    b.branch(block)
    b.position_at_end(block)


def with_two_users(b, x, y, z):
    p = product(b, x, y)
    return b.fmul(p, b.fadd(p, z, flags=FLAGS))


def twice_in_the_sum(b, x, y, z):
    p = product(b, x, y)
    return b.fadd(p, p, flags=FLAGS)


def in_another_block(b, x, y, z):
    p = product(b, x, y)
    next_block(b)
    return b.fadd(p, z, flags=FLAGS)


@pytest.mark.parametrize("write", [
    lambda b, x, y, z: b.fadd(product(b, x, y), z),
    lambda b, x, y, z: b.fadd(b.fmul(x, y), z, flags=FLAGS),
    twice_in_the_sum, with_two_users, in_another_block,
])
def test_others_stay_apart(write):
    instructions, _ = fused(write)
    assert names(instructions)[:2] == ["fmul", "fadd"]


def test_a_sum_of_two_products_takes_the_first():
    (second, call), _ = fused(lambda b, x, y, z: b.fadd(
        product(b, x, y), product(b, y, z), flags=FLAGS))
    assert names([second, call]) == ["fmul", "llvm.fma.f32"]
    assert tuple(call.args) == (*call.function.args[:2], second)


def test_users_of_the_sum_see_the_fused_operation():
    (call, user), _ = fused(lambda b, x, y, z: b.fdiv(
        b.fadd(product(b, x, y), z, flags=FLAGS), z))
    assert user.operands[0] is call


@pytest.mark.parametrize("kind", [
    ir.HalfType(), ir.DoubleType(), ir.VectorType(ir.HalfType(), 4), ir.VectorType(F32, 2),
], ids=str)
def test_every_type_has_its_function(kind):
    instructions, text = fused(
        lambda b, x, y, z: b.fadd(z, product(b, x, y), flags=FLAGS), kind=kind)
    (name,) = names(instructions)
    check_text(text, f"""
        CHECK: declare {kind} @"{name}"(
        CHECK-NOT: declare {kind} @"{name}"(
        """)


def test_functions_of_a_module_share_the_declaration():
    write = lambda b, x, y, z: b.fadd(product(b, x, y), z, flags=FLAGS)  # noqa: E731
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
