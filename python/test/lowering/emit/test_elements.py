"""Elements are taken from where they come from, and what is then unused is not written."""

from python.test.lowering.emit.writing import begin, state_of, writer
from triton_xe.llvm import PTR, VOID, Module
from triton_xe.lowering.emit.helpers import call_function
from triton_xe.lowering.emit.tensors.registers import Splat, from_scalars, mapped
from triton_xe.lowering.emit.types import I1, I32, number, vector_of
from triton_xe.lowering.emit.unused import drop_unused_functions, drop_unused_values
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.spirv.visa import function as visa_function

PAIR = vector_of(I32, 2)


def test_elements_and_parts_of_a_concatenation_are_those_of_its_vectors():
    function, b = begin(PAIR, PAIR)
    first, second = function.arguments
    whole = b.shuffle(first, second, (0, 1, 2, 3))
    assert b.extract(whole, 2).instruction.operands == [second, number(0)]
    assert b.shuffle(whole, whole, (2, 3)) is second
    crossed = b.shuffle(whole, whole, (1, 2)).instruction
    assert (crossed.opcode, crossed.operands[0]) == ("shufflevector", whole)
    assert b.shuffle(whole, whole, (1, 0)).instruction.operands[0] is whole


def test_an_element_that_was_inserted_is_the_scalar():
    function, b = begin(I32, PAIR)
    scalar, other = function.arguments
    assert b.extract(b.broadcast(scalar, 4), 3) is scalar
    inserted = b.insert(other, scalar, 1)
    assert b.extract(inserted, 1) is scalar
    assert b.extract(inserted, 0).instruction.operands == [inserted, number(0)]


def test_sums_with_zero_and_products_with_one_are_no_instructions():
    function, b = begin(I32)
    (x,) = function.arguments
    assert b.add(x, 0) is x
    assert b.mul(x, number(1)) is x
    assert not b.block.instructions
    assert b.mul(x, 0) is not x


def test_a_concatenation_of_which_only_elements_are_used_is_not_written():
    module = Module()
    function, b = begin(PAIR, PAIR, PTR, module=module)
    first, second, pointer = function.arguments
    whole = b.shuffle(first, second, (0, 1, 2, 3))
    b.store(b.extract(whole, 3), pointer)
    b.store(b.shuffle(first, second, (0, 2)), pointer)
    drop_unused_values(state_of(module))
    assert [i.opcode for i in b.block.instructions] == [
        "extractelement", "store", "shufflevector", "store"]


def test_functions_that_no_kernel_calls_are_not_written():
    module = Module()
    calls = {"f": "called", "called": "inner", "inner": None, "unused": "only by unused",
             "only by unused": None}
    for name in calls:
        begin(module=module, name=name, is_kernel=name == "f")
    for name, callee in calls.items():
        if callee is not None:
            function = module.functions[name]
            em = Writer(state_of(module), function, function.blocks[0])
            call_function(em, callee, VOID, [])
    drop_unused_functions(state_of(module))
    assert list(module.functions) == ["f", "called", "inner"]


def test_a_register_alone_takes_no_vector():
    em = writer(I32, I32, I32)
    one, other, limit = em.function.arguments
    pair = from_scalars(em, I32, (one, other))
    below = mapped(em, I1, [pair, Splat(2, limit)], lambda a, b: em.b.icmp("slt", a, b))
    assert below.alone(em, 1) is below.alone(em, 1)
    (test,) = em.b.block.instructions
    assert test.operands == [other, limit]


def test_a_part_of_scalars_is_packed_of_its_own_ones():
    em = writer(*[I32] * 8)
    from_scalars(em, I32, em.function.arguments).slice(em, 4, 2)
    assert [i.operands[1] for i in em.b.block.instructions] == em.function.arguments[4:6]


def test_assembly_declares_the_variables_that_it_names():
    body = (".decl F v_type=G type=F num_elts=64 alias=<$0,0>\n"
            ".decl U v_type=G type=UD num_elts=64 alias=<$0,0>\n"
            ".decl T v_type=G type=UW num_elts=64 align=GRF\n"
            ".decl H v_type=G type=HF num_elts=64 alias=<T,0>\n"
            "mov (M1_NM, 32) F(0,0)<1> H(0,0)<1;1,0>\n")
    text = visa_function("f", "<4 x float>", (), body)
    assert [name for name in "FUTH" if f".decl {name} " in text] == ["F", "T", "H"]
