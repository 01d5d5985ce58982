"""Chunks whose registers all hold the same value."""

from python.test.lowering.emit.writing import writer
from triton_xe.lowering.emit.tensors.registers import Registers, mapped
from triton_xe.lowering.emit.types import I32

DEPTH = 400


def test_what_a_chunk_holds_is_found_and_written_once():
    """Each sum reads the one before it twice: its paths are 2 to the number of sums."""
    em = writer(I32)
    asked = []

    def single(index):
        asked.append(index)
        return lambda: em.function.arguments[0]

    held = Registers(8, I32, lambda i: None, single=single)
    for _ in range(DEPTH):
        held = mapped(em, I32, [held, held], em.b.add)
    assert held.single(0)().instruction is em.b.block.instructions[-1]
    assert len(em.b.block.instructions) == DEPTH
    assert len(asked) < 10
    assert not mapped(em, I32, [held, Registers(8, I32, lambda i: None)], em.b.add).single(0)
