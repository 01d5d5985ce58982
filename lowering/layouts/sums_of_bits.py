"""Constants of a tensor, recomputed in another layout by index arithmetic.

    reshape (broadcast [0, 16, 4, 20, 8, 24, 12, 28])  ->  (i & 1) * 16 + (i >> 1 & 3) * 4

Each bit of an index adds a number of its own, so no data moves between lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.layouts import layout_attr
from triton_xe.dialects.tt.ops import BroadcastOp, ExpandDimsOp, MakeRangeOp
from triton_xe.layout import SliceEncoding
from triton_xe.lowering.facts.known_elements import known_elements
from triton_xe.lowering.rewriting import put

if TYPE_CHECKING:
    import numpy as np

Runs = list[tuple[int, int, int]]
"""(first bit, number of bits, addend of the first): each bit adds twice as much as the previous
one.
"""


def sums_of_bits(value: SSAValue) -> list[Runs]:
    """The addends of the bits of both indices in a constant tensor; empty if it is no such sum."""
    kind = value.type
    if not isinstance(kind, TensorType) or kind.element_type != i32 or len(kind.get_shape()) != 2:
        return []
    numbers = known_elements(value)
    return [] if numbers is None else decomposed(numbers)


def decomposed(numbers: np.ndarray[Any, Any]) -> list[Runs]:
    """Runs of bits of rows and of columns whose sums are the numbers; empty if there are none.

    >>> import numpy as np
    >>> decomposed(np.array([[0, 4, 1, 5]]))
    [[], [(0, 1, 4), (1, 1, 1)]]
    """
    import numpy as np

    found, total = [], np.zeros(numbers.shape, np.int64)
    for axis, size in enumerate(numbers.shape):
        weights = [int(numbers.take(1 << b, axis).flat[0]) for b in range(size.bit_length() - 1)]
        index = np.arange(size)
        sums = sum(((index >> b & 1) * w for b, w in enumerate(weights)), np.zeros(size, np.int64))
        total = total + (sums[:, None] if axis == 0 else sums)
        found.append(_runs(weights))
    return found if np.array_equal(total, numbers) else []


def _runs(weights: list[int]) -> Runs:
    """Runs of bits whose weights double: first bit, count, and least weight."""
    runs: Runs = []
    for bit, weight in enumerate(weights):
        if runs and bit == sum(runs[-1][:2]) and weight == 2 * weights[bit - 1]:
            first, count, least = runs[-1]
            runs[-1] = first, count + 1, least
        elif weight:
            runs.append((bit, 1, weight))
    return runs


def summed(value: SSAValue, encoding: Attribute, at: InsertPoint) -> SSAValue:
    """The constants of a tensor, computed in a layout."""
    assert isinstance(value.type, TensorType)
    shape = tuple(value.type.get_shape())
    parts = [_addend_along(axis, runs, shape, encoding, at)
             for axis, runs in enumerate(sums_of_bits(value)) if runs]
    total = parts[0] if parts else put(_filled(TensorType(i32, shape, encoding), 0), at)
    for part in parts[1:]:
        total = put(arith.AddiOp(total, part), at)
    return total


def _addend_along(
    axis: int, runs: Runs, shape: tuple[int, ...], encoding: Attribute, at: InsertPoint
) -> SSAValue:
    """Addend of the index along one dimension."""
    inner = layout_attr(SliceEncoding(1 - axis, encoding.encoding))  # type: ignore[attr-defined]
    kind = TensorType(i32, [shape[axis]], inner)
    index = put(MakeRangeOp(start=0, end=shape[axis], result_type=kind), at)
    parts = [_run(index, run, at) for run in runs]
    total = parts[0]
    for part in parts[1:]:
        total = put(arith.AddiOp(total, part), at)
    wide = [1, shape[1]] if axis == 1 else [shape[0], 1]
    column = ExpandDimsOp(operands=[total], result_types=[TensorType(i32, wide, encoding)],
                          properties={"axis": IntegerAttr(1 - axis, i32)})
    whole = TensorType(i32, shape, encoding)
    return put(BroadcastOp(operands=[put(column, at)], result_types=[whole]), at)


def _run(index: SSAValue, run: tuple[int, int, int], at: InsertPoint) -> SSAValue:
    """Write `weight` times a run of bits of an index."""
    first, count, weight = run
    numbers = [put(_filled(index.type, n), at) for n in (1 << first, (1 << count) - 1, weight)]
    moved = put(arith.DivUIOp(index, numbers[0]), at)
    return put(arith.MuliOp(put(arith.AndIOp(moved, numbers[1]), at), numbers[2]), at)


def _filled(kind: Any, number: int) -> arith.ConstantOp:
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, [number]), kind)
