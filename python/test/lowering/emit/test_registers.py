"""Chunks whose registers all hold the same value."""

from types import SimpleNamespace

from llvmlite import ir

from triton_xe.lowering.emit.tensors.registers import Registers, mapped
from triton_xe.lowering.emit.types import I32
from triton_xe.lowering.emit.writer import Writer

DEPTH = 400


def test_what_a_chunk_holds_is_found_and_written_once():
    """Each sum reads the one before it twice: its paths are 2 to the number of sums."""
    function = ir.Function(ir.Module(), ir.FunctionType(I32, [I32]), "f")
    em = Writer(SimpleNamespace(target=None, locates_all=False), function.append_basic_block())
    asked = []

    def single(index):
        asked.append(index)
        return lambda: function.args[0]

    held = Registers(8, I32, lambda i: None, single=single)
    for _ in range(DEPTH):
        held = mapped(em, I32, [held, held], em.b.add)
    assert held.single(0)() is em.b.block.instructions[-1]
    assert len(em.b.block.instructions) == DEPTH
    assert len(asked) < 10
    assert not mapped(em, I32, [held, Registers(8, I32, lambda i: None)], em.b.add).single(0)
