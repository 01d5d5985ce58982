"""Where the elements of buffers in shared memory lie, and the messages that move them."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triton_xe.layout import parse_encoding
from triton_xe.plan.shared_view import buffer_bytes, messages, shared_view

LAYOUTS = [
    "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>",
    "#ttg.swizzled_shared<{vec = 4, perPhase = 2, maxPhase = 4, order = [1, 0]}>",
    "#ttg.swizzled_shared<{vec = 2, perPhase = 1, maxPhase = 8, order = [0, 1]}>",
    "#ttg.padded_shared<[16:+4, 64:+8] {order = [1, 0], shape = [32, 16]}>",
    "#ttg.padded_shared<[32:+2] {order = [0, 1], shape = [32, 16]}>",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>",
    "#ttg.shared_linear<{offset = [[0, 1], [0, 2], [0, 4], [1, 1], [2, 2], [0, 8], [4, 0], [8, 8], "
    "[16, 0]]}, alignment = 16>",
]
SHAPE = (32, 16)


def addresses(encoding, view):
    """Each element's offset with padding, by what the encoding says of each offset."""
    layout = encoding.linear_layout(SHAPE)
    found = np.full(SHAPE, -1)
    for offset in range(layout.in_dims["offset"]):
        at = layout.apply({"offset": offset, "block": 0} if "block" in layout.in_dims
                          else {"offset": offset})
        found[at["dim0"], at["dim1"]] = (
            encoding.padded_offset(offset) if hasattr(encoding, "padded_offset") else offset)
    return found


@pytest.mark.parametrize("text", LAYOUTS)
def test_elements_lie_where_the_layout_says(text):
    encoding = parse_encoding(text)
    view = shared_view(encoding, SHAPE)
    found = np.array([[view.padded(view.offset((y, x))) for x in range(16)] for y in range(32)])
    assert (found == addresses(encoding, view)).all()
    assert len(set(found.ravel())) == found.size
    assert (buffer_bytes(view, 2) > 2 * found.max())
    assert buffer_bytes(view, 2) <= 4 * found.size


@pytest.mark.parametrize("text", LAYOUTS)
def test_buffers_in_front_follow_each_other(text):
    encoding = parse_encoding(text)
    one, many = shared_view(encoding, SHAPE), shared_view(encoding, (3, *SHAPE))
    assert one.slice_elements == 0
    assert many.slice_elements == one.elements == 512
    for index, y, x in itertools.product(range(3), (0, 7, 31), (0, 5, 15)):
        start = many.padded(index * many.slice_elements)
        assert many.padded(many.offset((index, y, x))) == start + one.padded(one.offset((y, x)))


def test_partitions_lie_one_after_the_other():
    text = "#ttg.partitioned_shared<{numPartitions = 2, numGroups = 2, partitionDim = 0, "
    view = shared_view(parse_encoding(f"{text}partitionLayout = {LAYOUTS[0]}}}>"), SHAPE)
    rows, columns = SHAPE
    at = np.array([[view.offset((y, x)) for x in range(columns)] for y in range(rows)])
    assert sorted(at.ravel()) == list(range(rows * columns))
    piece = np.arange(rows) // (rows // 4) % 2
    assert np.array_equal(at // (rows * columns // 2), np.repeat(piece[:, None], columns, 1))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations([1, 2, 4, 8, 16, 32]), st.integers(0, 5), st.sampled_from([1, 2, 4, 8]),
       st.sampled_from([1 << 30, 2, 4]))
def test_messages_move_each_register_once_in_memory_order(bases, lanes, size, unpadded):
    moving, own = bases[:lanes], bases[lanes:]
    offsets = [0]
    for base in own:
        offsets += [base ^ at for at in offsets]
    groups = messages(offsets, moving, unpadded, size)
    assert sorted(r for group in groups for r in group) == list(range(len(offsets)))
    width = len(groups[0])
    assert width * size <= 16
    assert width <= min(8, unpadded)
    for group in groups:
        first = offsets[group[0]]
        assert first % width == 0
        assert [offsets[r] for r in group] == [*range(first, first + width)]
    free = 1
    while free in own and 2 * free * size <= 16 and 2 * free <= min(8, unpadded):
        free *= 2
    assert width == free


def test_a_message_does_not_reach_over_what_lanes_add():
    assert [len(g) for g in messages([0, 1, 2, 3], [6], 1 << 30, 2)] == [2, 2]
