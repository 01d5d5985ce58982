"""The text of a kernel's module: LLVM verifies it, and it means what SPIR-V is written from."""

from __future__ import annotations

import pytest

from benchmarks import loops
from python.test.lowering.emit.writing import begin, state_of
from triton_xe.llvm import (
    ASSEMBLY,
    F32,
    I1,
    I8,
    I32,
    I64,
    TRUE,
    Instruction,
    Module,
    struct,
    vector,
)
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.llvm.printer import print_kernels
from triton_xe.llvm.records import escaped, undef, zero
from triton_xe.lowering.emit.helpers import call_function
from triton_xe.lowering.emit.types import POINTER, SLM_POINTER
from triton_xe.lowering.emit.writer import BUILTIN, Writer
from triton_xe.lowering.spirv.emit_spirv import for_compiler
from triton_xe.lowering.spirv.function_writer import write_module
from triton_xe.spirv import OP_MODULE_PROCESSED, SOURCE_NODE, instructions

FOUR = vector(4, I32)


def every_kind() -> Module:
    """A module with every kind of instruction, and every mark."""
    module = Module()
    inner, b = begin(I32, result=I32, module=module, name="inner one", is_kernel=False)
    b.ret(inner.arguments[0])
    function, b = begin(POINTER, SLM_POINTER, I32, FOUR, F32, module=module)
    em = Writer(state_of(module), function, function.blocks[0])
    b = em.b
    b.location = module.add_metadata(f'!{{!"{escaped(chr(92))}a.py", i32 3, i32 4}}')
    pointer, shared, word, words, real = function.arguments
    loaded = b.load(FOUR, pointer, align=16)
    b.begin_store()
    b.store(b.load(I32, pointer, align=4, volatile=True), shared, align=4)
    b.store(real, b.gep(I8, pointer, word), align=4)
    total = b.xor(b.mul(b.add(loaded, 3), words), undef(FOUR))
    total = b.sub(total, b.shl(zero(FOUR), words))
    product = b.binary("fmul", real, 1.5, ("nnan",))
    b.fneg(b.fdiv(b.fadd(product, real), -0.0))
    b.trunc(b.sext(word, I64), I8)
    b.zext(b.icmp("slt", word, 7), I32)
    element = b.extract(b.shuffle(total, words, (3, 2, 1, 7)), word)
    b.insert(total, element, word)
    test = b.icmp("eq", word, element)
    b.mark_fitting(test)
    b.fcmp("ule", real, product)
    b.select(b.icmp("ult", total, words), total, words)
    b.atomic("add", shared, word, "workgroup")
    swapped = b.compare_and_swap(pointer, word, element, "device")
    b.extract_value(b.insert_value(undef(struct((I32, I1))), b.extract_value(swapped, 0), 0), 0)
    with b.added(True):
        called = call_function(em, "inner one", I32, [word])
    assembly = f'sideeffect "{escaped("mov $0 $1" + chr(10))}" , "=rw,rw"'
    b.emit(Instruction("call", I32, [called], callee=ASSEMBLY, extra=assembly))
    before, loop, after = b.block, b.append_block("loop"), b.append_block("loop")
    b.branch_if(test, loop, after).fallback = after.label
    b.at_end(loop)
    phi = b.merged(I32, (word, before))
    b.join(phi, b.add(phi, 1), loop)
    b.branch_if(TRUE, loop, after)
    b.at_end(after)
    b.ret()
    return module


def test_every_kind_is_verified_and_read_again() -> None:
    text = print_kernels(every_kind())
    canonical(text)
    again = print_kernels(parse_module(text))  # which does not keep calling conventions
    assert again.replace(f"call {BUILTIN} ", "call ") == text.replace(f"call {BUILTIN} ", "call ")
    assert f"!{SOURCE_NODE} " in text


def test_operands_of_other_types_are_refused() -> None:
    function, b = begin(I32, I8, FOUR)
    word, byte, four = function.arguments
    for write in (lambda: b.add(word, byte), lambda: b.icmp("eq", word, byte),
                  lambda: b.insert(four, byte, 0), lambda: b.shuffle(four, word, (0, 1)),
                  lambda: b.select(TRUE, word, byte), lambda: b.join(b.merged(I32), byte, b.block)):
        with pytest.raises(TypeError, match="an operand of type"):
            write()
    with pytest.raises(TypeError, match="an element of i32"):
        b.extract(word, 0)


@pytest.mark.parametrize(
    "name", ["add", "gemm 64x64x32", "layer norm", "attention causal", "prefix sum of rows"])
@pytest.mark.parametrize("device", ["bmg", "dg2"])
def test_kernels_are_read_as_what_is_written_to_spirv(name: str, device: str) -> None:
    made = loops.compiled(name, device)
    canonical(made.asm["llir"])
    read = write_module(for_compiler(parse_module(made.asm["llir"])))
    assert without_texts(read) == without_texts(made.asm["spv"])


def without_texts(module: bytes) -> list[bytes]:
    """The instructions of a module but the attached texts."""
    return [module[at : at + size] for opcode, at, size in instructions(module)
            if opcode != OP_MODULE_PROCESSED]
