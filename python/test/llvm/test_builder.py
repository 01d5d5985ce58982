"""What the builder makes is valid LLVM IR that says what was asked for."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from python.test.filecheck import check_text
from triton_xe import llvm as ir
from triton_xe.llvm import F32, I1, I8, I32, I64, PTR, VOID, Builder, define, vector
from triton_xe.llvm.printer import print_module


def verified(b: Builder) -> str:
    """The module as LLVM prints it."""
    module = llvm.parse_assembly(print_module([b.function]))
    module.verify()
    return str(module)


def test_the_example_of_the_docstring() -> None:
    b = define("add_row", VOID, [("to", PTR), ("from", PTR, "readonly")], attributes="nounwind")
    to, source = b.arguments
    row = vector(16, F32)
    b.store(b.fadd(b.load(row, to), b.load(row, source, align=64)), to, align=64)
    b.ret()
    check_text(verified(b), """
        CHECK: readonly %from
        CHECK: load <16 x float>, ptr %from, align 64
        """)


def test_numbers_stand_for_constants_of_the_other_operand() -> None:
    b = define("f", vector(4, I32), [("x", vector(4, I32)), ("f", F32)])
    x, f = b.arguments
    b.fmul(f, 0.1)
    b.ret(b.select(b.icmp("slt", x, 3), b.add(x, 1), b.not_(x)))
    check_text(verified(b), """
        CHECK: fmul float %f, 0x3FB99999A0000000
        CHECK: %[[LESS:.*]] = icmp slt <4 x i32> %x, splat (i32 3)
        CHECK: %[[MORE:.*]] = add <4 x i32> %x, splat (i32 1)
        CHECK: %[[NOT:.*]] = xor <4 x i32> %x, splat (i32 -1)
        CHECK: select <4 x i1> %[[LESS]], <4 x i32> %[[MORE]], <4 x i32> %[[NOT]]
        """)


def test_memory_and_atomics() -> None:
    b = define("f", VOID, [("p", PTR), ("n", I64)])
    p, n = b.arguments
    b.copy(b.at(p, 8), p, n, align=8)
    b.fill(p, -1, 16)
    old = b.atomicrmw("add", p, n, "monotonic", align=8)
    pair = b.cmpxchg(p, old, n)
    b.store(b.extract_value(pair, 0), p, align=8)
    b.store(b.load(I32, p, ordering="seq_cst", align=4), p, ordering="release", align=4)
    b.fence()
    b.load(I64, p, volatile=True)
    b.ret()
    check_text(verified(b), """
        CHECK: call void @llvm.memcpy{{.*}}(ptr align 8
        CHECK: call void @llvm.memset
        CHECK: %[[OLD:.*]] = atomicrmw add ptr %p, i64 %n monotonic, align 8
        CHECK: cmpxchg ptr %p, i64 %[[OLD]], i64 %n
        CHECK: %[[LOADED:.*]] = load atomic i32, ptr %p seq_cst, align 4
        CHECK: store atomic i32 %[[LOADED]], ptr %p release, align 4
        CHECK: fence
        CHECK: load volatile i64
        """)


def test_calls_declare_what_they_call() -> None:
    b = define("f", vector(8, F32), [("x", vector(8, F32)), ("g", PTR)], internal=True)
    x, g = b.arguments
    b.call("xe other", VOID, [g, ir.constant(I32, 3)])
    b.call(g, VOID, [x], attributes="")
    b.ret(b.intrinsic("maxnum", x, b.call("xe_exp", x.type, [x])))
    check_text(verified(b), """
        CHECK-DAG: declare void @"xe other"(ptr, i32)
        CHECK-DAG: declare <8 x float> @llvm.maxnum.v8f32(
        CHECK: call <8 x float> @llvm.maxnum.v8f32(
        """)


def test_vectors_and_structs() -> None:
    pair = ir.struct((I32, vector(2, I8)))
    b = define("f", pair, [("x", vector(4, I32)), ("p", vector(4, PTR))])
    x, p = b.arguments
    moved = b.gep(I8, p, 4)
    assert moved.type is vector(4, PTR)
    low = b.shuffle(x, None, (0, 1))
    assert low.type is vector(2, I32)
    assert b.trunc(low, I8).type is vector(2, I8)
    assert b.broadcast(ir.constant(I32, 5), 4).text == "splat (i32 5)"
    s = b.insert_value(ir.poison(pair), b.extract(b.broadcast(b.extract(x, 1), 4), 0), 0)
    b.ret(b.insert_value(s, b.pack(vector(2, I8), [ir.constant(I8, 1)] * 2), 1))
    verified(b)


def test_the_shuffle_of_a_constant_is_a_constant() -> None:
    """LLVM aborts for a store of one whose elements are interleaved."""
    b = define("f", VOID, [("to", PTR)])
    numbers = ir.integers(I8, range(32))
    turned = b.shuffle(numbers, None, [k % 4 * 8 + k // 4 for k in range(32)])
    b.store(turned, b.arguments[0])
    b.ret()
    assert [i.opcode for i in b.function.instructions()] == ["store", "ret"]
    assert [int(str(x)) for x in turned.elements[:5]] == [0, 8, 16, 24, 1]


def test_phis_are_filled_later() -> None:
    b = define("f", I32, [("c", I1), ("x", I32)])
    c, x = b.arguments
    then, end, entry = b.label("then"), b.label("end"), b.block.label
    b.cond_br(c, then, end)
    b.start(then)
    y = b.add(x, 1)
    b.br(end)
    b.start(end)
    phi = b.phi(I32, (x, entry))
    b.add_incoming(phi, y, then)
    b.switch(phi.value, then := b.label("other"), [(0, then)])
    b.start(then)
    b.ret(phi.value)
    check_text(verified(b), "CHECK: phi i32 [ %x, %entry ], [ %v")


@pytest.mark.parametrize(("value", "spelled"), [
    (ir.constant(I1, 1), "true"), (ir.constant(ir.F16, 1.0), "0xH3C00"),
    (ir.constant(F32, float("inf")), "0x7FF0000000000000"),
    (ir.constant(F32, -0.0), "0x8000000000000000"), (ir.constant(F32, 0.0), "0x0000000000000000"),
    (ir.integers(I8, [1, 1]), "splat (i8 1)"), (ir.integers(I8, [1, 2]), "<i8 1, i8 2>"),
])
def test_constants(value: ir.Operand, spelled: str) -> None:
    assert value.text == spelled


def test_types_are_one_object_each() -> None:
    assert vector(4, ir.integer(32)) is vector(4, I32)
    assert ir.struct((I32, PTR)) is ir.struct((I32, ir.pointer()))
    assert vector(4, ir.pointer(1)).mangled == "v4p0"
