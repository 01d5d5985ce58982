"""Which matrix accumulators share memory."""

from __future__ import annotations

from collections.abc import Callable

from python.test.simulator.widen.test_simulated_matmul import matmul_text
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis.coalesce import accumulator_slots
from triton_xe.runtime.simulator.run.kernel_module import canonical


def test_slots_are_numbered_in_the_order_of_the_kernel(kernel: Callable[..., str]) -> None:
    """Numbers from the order of a set would make other host code in every process."""
    module = parse_module(canonical(matmul_text(kernel, 12, late_store=False, warps=4)))
    (function,) = module.kernels()
    slots = accumulator_slots(Facts(function))
    assert len(slots) > 4
    assert list(slots) == [i.result for i in function.instructions() if i.result in slots]
    assert list(dict.fromkeys(slots.values())) == list(range(len(set(slots.values()))))
