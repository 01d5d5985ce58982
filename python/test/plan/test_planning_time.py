"""Planning one operand is cheap, the first plan of a process too: about 2 ms for 4,000 calls."""

import pytest

from python.test.counting import calls_of
from triton_xe.hardware import block_2d
from triton_xe.hardware.target import target
from triton_xe.layout import BlockedEncoding, DotOperandEncoding, DpasEncoding, to_linear_layout
from triton_xe.plan import SurfaceFacts, candidates, fragment_of, plan_load, plan_store

FIRST_CALLS, LATER_CALLS = 6000, 2500
"""Most calls of functions for a plan: without, and with what earlier plans have cached."""
SURFACE = SurfaceFacts(contiguous_dim=1, base_alignment=64)
TRANSPOSED = SurfaceFacts(contiguous_dim=0, base_alignment=64)
OPS_PER_CHANNEL = {8: 4, 16: 2, 32: 1}


def operand(bits, op_idx):
    dpas = DpasEncoding(8, 8, 16, OPS_PER_CHANNEL[bits], 16, (8, 4), (4, 2))
    k_width = OPS_PER_CHANNEL[bits] if op_idx else max(1, OPS_PER_CHANNEL[bits] // 2)
    shape = (32, 256) if op_idx else (256, 32)
    return DotOperandEncoding(op_idx, dpas, k_width), shape


def forget():
    candidates.candidates.cache_clear()
    candidates.element_coordinates.cache_clear()
    block_2d.message_tables.cache_clear()


@pytest.mark.parametrize("bits", OPS_PER_CHANNEL)
@pytest.mark.parametrize("op_idx", [0, 1])
@pytest.mark.parametrize("surface", [SURFACE, TRANSPOSED], ids=["plain", "transposed"])
@pytest.mark.parametrize("name", ["pvc", "bmg", "ptl"])
def test_operands(bits, op_idx, surface, name):
    encoding, shape = operand(bits, op_idx)
    layout, fragment = to_linear_layout(encoding, shape), fragment_of(encoding, bits)

    def plan():
        plan_load(layout, surface, bits, target(name), fragment=fragment)

    forget()
    assert calls_of(plan) < FIRST_CALLS
    assert calls_of(plan) < LATER_CALLS


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_stores_of_rows(bits):
    layout = to_linear_layout(BlockedEncoding((8, 1), (1, 16), (4, 1), (1, 0)), (64, 64))
    forget()
    assert calls_of(lambda: plan_store(layout, SURFACE, bits, target("bmg"))) < FIRST_CALLS
