"""Elements are taken from where they come from, and what is then unused is not written."""

from types import SimpleNamespace

from llvmlite import ir

from triton_xe.hardware.target import target
from triton_xe.lowering.emit.building.quick_builder import QuickBuilder
from triton_xe.lowering.emit.tensors.registers import Shifted, Splat, from_scalars, mapped
from triton_xe.lowering.emit.types import I1, I32, number, numbers, vector_of
from triton_xe.lowering.emit.unused import drop_unused_functions, drop_unused_moves
from triton_xe.lowering.emit.writer import ModuleState, Writer
from triton_xe.lowering.spirv.visa import function as visa_function

PAIR = vector_of(I32, 2)


def begun(*kinds, kind=ir.VoidType):
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(kind(), kinds), "f")
    function.calling_convention = "spir_kernel"
    return module, function, QuickBuilder(function.append_basic_block())


def test_elements_and_parts_of_a_concatenation_are_those_of_its_vectors():
    _, function, b = begun(PAIR, PAIR)
    first, second = function.args
    whole = b.shuffle(first, second, numbers((0, 1, 2, 3)), 3)
    element = b.extract_element(whole, number(2))
    assert (element.operands[0], element.operands[1].constant) == (second, 0)
    assert b.shuffle(whole, whole, numbers((2, 3)), 3) is second
    crossed = b.shuffle(whole, whole, numbers((1, 2)), 2)
    assert (crossed.opname, crossed.operands[0]) == ("shufflevector", whole)
    swapped = b.shuffle(whole, whole, numbers((1, 0)), 1)
    assert swapped.operands[0] is whole


def test_sums_with_zero_and_products_with_one_are_no_instructions():
    _, function, b = begun(I32)
    (x,) = function.args
    assert b.add(x, number(0)) is x
    assert b.mul(x, number(1)) is x
    assert not b.block.instructions
    assert b.mul(x, number(0)) is not x


def test_a_concatenation_of_which_only_elements_are_used_is_not_written():
    module, function, b = begun(PAIR, PAIR, ir.PointerType())
    first, second, pointer = function.args
    whole = b.shuffle(first, second, numbers((0, 1, 2, 3)), 3)
    b.store(b.extract_element(whole, number(3)), pointer)
    kept = b.shuffle(first, second, numbers((0, 2)), 2)
    b.store(kept, pointer)
    drop_unused_moves(ModuleState(module, target("bmg"), 1, 16, module))
    assert [i.opname for i in b.block.instructions] == [
        "extractelement", "store", "shufflevector", "store"]


def test_functions_that_no_kernel_calls_are_not_written():
    module, _, b = begun()
    names = ("called", "inner", "unused", "only by unused")
    called, inner, unused, last = (
        ir.Function(module, ir.FunctionType(ir.VoidType(), []), name) for name in names)
    b.call(called, [])
    QuickBuilder(called.append_basic_block()).call(inner, [])
    QuickBuilder(unused.append_basic_block()).call(last, [])
    drop_unused_functions(ModuleState(module, target("bmg"), 1, 16, module))
    assert [f.name for f in module.functions] == ["f", "called", "inner"]


def test_a_register_alone_takes_no_vector():
    function = ir.Function(ir.Module(), ir.FunctionType(I32, [I32, I32]), "f")
    em = Writer(SimpleNamespace(target=None, locates_all=False), function.append_basic_block())
    places = Shifted(em, function.args[0], range(8))
    below = mapped(em, I1, [places, Splat(8, function.args[1])],
                   lambda a, b: em.b.icmp_signed("<", a, b))
    assert below.alone(em, 5) is below.alone(em, 5)
    total, test = em.b.block.instructions
    assert (total.opname, total.operands[1].constant, test.opname) == ("add", 5, "icmp")
    assert test.operands[0] is total


def test_a_part_of_scalars_is_packed_of_its_own_ones():
    function = ir.Function(ir.Module(), ir.FunctionType(I32, [I32] * 8), "f")
    em = Writer(SimpleNamespace(target=None, locates_all=False), function.append_basic_block())
    from_scalars(em, I32, function.args).slice(em, 4, 2)
    assert [i.operands[1] for i in em.b.block.instructions] == list(function.args[4:6])


def test_assembly_declares_the_variables_that_it_names():
    body = (".decl F v_type=G type=F num_elts=64 alias=<$0,0>\n"
            ".decl U v_type=G type=UD num_elts=64 alias=<$0,0>\n"
            ".decl T v_type=G type=UW num_elts=64 align=GRF\n"
            ".decl H v_type=G type=HF num_elts=64 alias=<T,0>\n"
            "mov (M1_NM, 32) F(0,0)<1> H(0,0)<1;1,0>\n")
    text = visa_function("f", "<4 x float>", (), body)
    assert [name for name in "FUTH" if f".decl {name} " in text] == ["F", "T", "H"]
