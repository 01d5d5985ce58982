"""Register and lane of each element of a 2D block load, as a linear layout."""

from __future__ import annotations

from triton_xe.errors import LayoutError
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import BlockShape
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.candidates import ELEMENT_BITS, split, tensor_vectors


def result_layout(
    shape: BlockShape,
    subgroup_size: int = block_2d.SUBGROUP_SIZE,
    register_bits: int = 32,
    tensor_bits: int | None = None,
) -> LinearLayout:
    """(register, lane) -> (y, x) of a load's result, a vector of `register_bits` wide elements.

    A vector element may have several tensor elements (VNNI, or elements wider than the tensor's).
    Their number inside it is the low bits of "register".  x counts elements of `tensor_bits`
    (default: the shape's).  A base of zero is padding, whose content is undefined.

    >>> layout = result_layout(BlockShape(16, 16, 16, vnni=True))
    >>> layout.apply({"register": 3, "lane": 5})
    {'y': 3, 'x': 5}
    """
    bits = shape.element_bits if tensor_bits is None else tensor_bits
    if register_bits not in ELEMENT_BITS or register_bits < bits:
        raise LayoutError(f"{bits}-bit elements do not fit vector elements of {register_bits} bits")
    vectors = tensor_vectors(shape, bits)
    lane_bits = subgroup_size.bit_length() - 1
    sub_bits = (register_bits // bits).bit_length() - 1
    vectors += (0,) * (sub_bits + lane_bits - len(vectors))
    bases = [(y, x) for x, y in map(split, vectors)]
    return LinearLayout(
        {
            "register": bases[:sub_bits] + bases[sub_bits + lane_bits :],
            "lane": bases[sub_bits : sub_bits + lane_bits],
        },
        {"y": shape.height, "x": shape.width * shape.blocks * shape.element_bits // bits},
        require_surjective=True,
    )
