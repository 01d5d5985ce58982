"""Reads of operands that only DPAS takes are of 64-bit elements, or of two operands at once."""

from collections.abc import Callable

import pytest

from python.test.filecheck import check_text
from python.test.lowering.emit.writing import begin
from triton_xe import llvm as ir
from triton_xe.hardware.target import target
from triton_xe.intrinsics import genisa, spirv
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit.tensors.wide_operands import widen_operands
from triton_xe.lowering.emit.types import I8, I16, I32, SLM_POINTER, number, vector_of
from triton_xe.lowering.emit.writer import ModuleState, Writer

EIGHT = vector_of(I32, 8)
CONSTANTS = list(map(number, (12, 12, 8, 8)))


def multiply(em: Writer, total: ir.Operand, a: ir.Operand, b: ir.Operand) -> ir.Operand:
    return em.call(genisa.DPAS, [total, a, b, *CONSTANTS, ir.FALSE])


def through_a_cast(em: Writer, a: ir.Operand, total: ir.Operand) -> None:
    again = em.b.bitcast(em.b.bitcast(a, vector_of(I16, 16)), EIGHT)
    multiply(em, total, again, a)


def also_as_numbers(em: Writer, a: ir.Operand, total: ir.Operand) -> None:
    multiply(em, total, a, a)
    em.b.add(a, a)


def also_as_the_sum(em: Writer, a: ir.Operand, total: ir.Operand) -> None:
    multiply(em, a, total, a)


def written_by(write: Callable[[Writer, ir.Function], None], device: str) -> str:
    module, machine = ir.Module(), target(device)
    state = ModuleState(module, machine, 1, machine.subgroup_size, None)  # type: ignore[arg-type]
    function, _ = begin(SLM_POINTER, EIGHT, I32, module=module)
    em = Writer(state, function, function.blocks[0])
    write(em, function)
    em.b.ret()
    widen_operands(state, function)
    return print_kernels(module).partition("define ")[2]


def read_by(use: Callable[[Writer, ir.Operand, ir.Operand], None], device: str) -> str:
    def write(em: Writer, function: ir.Function) -> None:
        pointer, total, _ = function.arguments
        use(em, em.call(genisa.SIMD_BLOCK_READ, [pointer], EIGHT), total)

    return written_by(write, device)


def test_operands_alone():
    check_text(read_by(through_a_cast, "dg2"), """
        CHECK-NOT: bitcast
        CHECK: call {{.*}}simdBlockRead.v4i64
        CHECK-NOT: bitcast
        CHECK: call {{.*}}dpas.v8i32.v8i32.v4i64.v4i64
        CHECK-NOT: bitcast
        """)


@pytest.mark.parametrize("use", [also_as_numbers, also_as_the_sum])
def test_other_uses(use):
    check_text(read_by(use, "dg2"), """
        CHECK-NOT: v4i64
        CHECK: call {{.*}}simdBlockRead.v8i32
        CHECK-NOT: v4i64
        """)


HALF = vector_of(I16, 8)
Between = Callable[[Writer, ir.Operand], None] | None


def read_two(em: Writer, function: ir.Function, step: int, between: Between = None) -> None:
    pointer, total, index = function.arguments
    for offset in (0, step):
        place = em.b.gep(I8, pointer, em.b.mul(em.b.add(index, offset), 2))
        a = em.call(genisa.SIMD_BLOCK_READ, [place], HALF)
        total = multiply(em, total, a, function.arguments[1])
        if between is not None:
            between(em, pointer)


def meet(em: Writer, pointer: ir.Operand) -> None:
    em.call(spirv.CONTROL_BARRIER, [number(2), number(2), number(272)])


def count(em: Writer, pointer: ir.Operand) -> None:
    em.b.atomic("add", pointer, number(1), "workgroup")


def test_two_operands_side_by_side():
    check_text(written_by(lambda em, f: read_two(em, f, 64), "dg2"), """
        CHECK: simdBlockRead.v4i64
        CHECK-NOT: simdBlockRead
        CHECK-COUNT-2: shufflevector <4 x i64>
        CHECK-NOT: {{simdBlockRead|shufflevector}}
        CHECK: dpas.v8i32.v8i32.v2i64.v8i32
        CHECK-NOT: {{simdBlockRead|shufflevector}}
        CHECK: dpas.v8i32.v8i32.v2i64.v8i32
        CHECK-NOT: {{simdBlockRead|shufflevector|dpas}}
        """)


@pytest.mark.parametrize(("step", "between", "device"), [
    (32, None, "dg2"), (128, None, "dg2"), (64, meet, "dg2"), (64, count, "dg2"),
    (128, None, "bmg")])
def test_two_operands_apart(step, between, device):
    """Elsewhere, with a barrier or an atomic between, or on a device with 2D messages."""
    check_text(written_by(lambda em, f: read_two(em, f, step, between), device), """
        CHECK-COUNT-2: simdBlockRead.v8i16
        CHECK-NOT: simdBlockRead
        """)
