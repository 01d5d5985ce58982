"""Modules are built and spelled as llvmlite builds and spells them."""

import pytest
from llvmlite import ir
from triton.backends.compiler import GPUTarget

from benchmarks.compile_time import source_of, stage_times
from python.test.counting import watched
from triton_xe.lowering.emit.building.function import Function
from triton_xe.lowering.emit.building.quick_builder import QuickBuilder
from triton_xe.lowering.emit.building.text import module_text
from triton_xe.lowering.emit.source_locations import LocatedBuilder

I1, I8, I32, FLOAT = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.FloatType()
FOUR = ir.VectorType(I32, 4)
POINTER = ir.PointerType(addrspace=1)


def written(function_type, builder_type):
    """A module with every kind of instruction."""
    module = ir.Module("kernel")
    function = function_type(module, ir.FunctionType(ir.VoidType(), [POINTER, I32, FOUR, FLOAT]),
                             "f")
    callee = ir.Function(module, ir.FunctionType(I32, [I32]), 'other "name"')
    callee.calling_convention = "spir_func"
    node = module.add_metadata([I32(3)])
    b = builder_type(function.append_basic_block("entry"))
    pointer, number, vector, real = function.args
    loaded = b.load(pointer, typ=FOUR, align=16)
    b.store(b.load(pointer, typ=I32), pointer)
    address = b.gep(pointer, [I32(4), number], source_etype=I8)
    b.gep(pointer, [I32(4)], inbounds=True, source_etype=I8)
    total = b.add(loaded, ir.Constant(FOUR, [1, 2, 3, 4]))
    total = b.xor(b.mul(total, vector), ir.Constant(FOUR, ir.Undefined))
    total = b.sub(total, ir.Constant(FOUR, None))
    product = b.fmul(real, ir.Constant(FLOAT, 1.5), flags=("contract", "nnan"))
    b.fneg(b.fadd(product, real))
    b.sext(number, ir.IntType(64))
    b.zext(b.trunc(number, I8), I32)
    assert b.bitcast(number, I32) is number
    mask = ir.Constant(FOUR, [3, 2, 1, 0])
    b.shuffle_vector(total, vector, mask)
    element = b.extract_element(total, I32(1))
    b.insert_element(total, element, number)
    bits = b.icmp_signed("<", total, vector)
    equal = b.icmp_unsigned("==", number, element)
    b.fcmp_unordered("<=", real, product, flags=("nnan",))
    b.select(bits, total, vector)
    chosen = b.select(equal, I1(True), I1(False))
    called = b.call(callee, [number])
    b.asm(ir.FunctionType(I32, [I32]), "mov $0 $1", "=r,r", [called], True)
    b.call(callee, [called], fastmath=("fast",), tail=True)
    b.add(number, called, name="named")
    b.alloca(FOUR, 2)
    pair = b.insert_value(ir.Constant(ir.LiteralStructType([I32, I32]), ir.Undefined), number, 0)
    b.extract_value(pair, 0)
    for instruction in list(b.block.instructions):
        instruction.set_metadata("xe.at", node)
    before, after = b.block, function.append_basic_block("entry")
    b.cbranch(chosen, after, after)
    b.position_at_end(after)
    phi = b.phi(I32, flags=("fast",))
    phi.add_incoming(number, before)
    b.switch(phi, after).add_case(I32(1), before)
    assert address.type == POINTER
    return module


@pytest.mark.parametrize("builder", [ir.IRBuilder, QuickBuilder, LocatedBuilder])
def test_a_module_is_spelled_as_llvmlite_spells_it(builder):
    expected = str(written(ir.Function, ir.IRBuilder))
    module = written(Function if builder is not ir.IRBuilder else ir.Function, builder)
    if builder is LocatedBuilder:  # its zero extensions are masks
        expected = str(module)
    assert module_text(module) == expected
    assert str(module) == expected


def test_operands_of_different_types_are_refused_as_llvmlite_refuses_them():
    module = ir.Module()
    function = Function(module, ir.FunctionType(ir.VoidType(), [I32, I8, FOUR]), "f")
    b = QuickBuilder(function.append_basic_block())
    word, byte, vector = function.args
    with pytest.raises(ValueError, match="same type"):
        b.add(word, byte)
    with pytest.raises(TypeError):
        b.insert_element(vector, byte, I32(0))
    with pytest.raises(IndexError):
        b.shuffle(vector, vector, ir.Constant(FOUR, [0, 1, 2, 8]), 8)
    with pytest.raises(TypeError):
        b.call(ir.Function(module, ir.FunctionType(I32, [I32]), "g"), [byte])


@pytest.mark.parametrize("name", ["add", "gemm 64x64x32", "layer norm"])
def test_kernels_are_spelled_as_llvmlite_spells_them(name):
    with watched(module_text) as calls:
        stage_times(GPUTarget("xpu", "bmg", 16), "llir", *source_of(name))
    (call,) = calls
    assert call.result == str(call.arguments["module"])
