"""The width of global accesses: the registers of a group really are neighbours in every lane."""

import random

import pytest

from triton_xe.errors import LayoutError
from triton_xe.layout import BlockedEncoding, DpasEncoding, SliceEncoding, to_linear_layout
from triton_xe.plan.access_width import access_width


def is_run(layout, group, fast):
    """True when the group holds an aligned run along `fast` in each lane and warp."""
    name = list(layout.out_dims)[fast]
    for index in layout.sublayout(["lane", "warp"], layout.out_dims).domain():
        places = [layout.apply({**index, "register": r, "block": 0}) for r in group]
        start = places[0][name]
        expected = [{**places[0], name: start + i} for i in range(len(group))]
        if start % len(group) or places != expected:
            return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_runs_and_cover_all_elements(seed):
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(10):
        pick = lambda high: tuple(1 << rng.randint(0, high) for _ in range(2))  # noqa: E731
        encoding = BlockedEncoding(pick(2), pick(2), pick(1), rng.choice(((0, 1), (1, 0))))
        layout = to_linear_layout(encoding, tuple(1 << rng.randint(1, 5) for _ in range(2)))
        contiguity = rng.choice(((1, 32), (32, 1), (2, 4)))
        divisibility = rng.choice(((16, 16), (4, 8), (1, 1)))
        found = access_width(layout, contiguity, divisibility, rng.choice((8, 16, 32, 64)))
        fast = 1 if contiguity[1] >= contiguity[0] else 0
        assert all(is_run(layout, group, fast) for group in found.groups)
        held = {
            tuple(layout.apply({"register": r, "lane": 0, "warp": 0, "block": 0}).values())
            for group in found.groups
            for r in group
        }
        every = {
            tuple(layout.apply({"register": r, "lane": 0, "warp": 0, "block": 0}).values())
            for r in range(layout.in_dims["register"])
        }
        assert held == every
        wider = 2 * found.elements
        fits = wider <= min(contiguity[fast], divisibility[fast])
        if found.reason.startswith("of the registers") and fits:
            assert not is_run(layout, widened(layout, fast, wider), fast)


def widened(layout, fast, elements):
    """The registers of lane 0 that hold the first `elements` along `fast`, if it has them."""
    name = list(layout.out_dims)[fast]
    slot = {"lane": 0, "warp": 0, "block": 0}
    places = {
        tuple(layout.apply({**slot, "register": r}).items()): r
        for r in range(layout.in_dims["register"])
    }
    zero = dict.fromkeys(layout.out_dims, 0)
    return [places.get(tuple({**zero, name: i}.items()), 0) for i in range(elements)]


@pytest.mark.parametrize(
    ("encoding", "shape", "contiguity", "divisibility", "bits", "width", "reason"),
    [
        (BlockedEncoding((8,), (16,), (4,), (0,)), (1024,), (1024,), (16,), 16, 8, "16 bytes"),
        (BlockedEncoding((8,), (16,), (4,), (0,)), (1024,), (1024,), (4,), 16, 2, "multiples of 4"),
        (BlockedEncoding((2,), (16,), (4,), (0,)), (1024,), (1024,), (16,), 32, 2, "registers"),
        (BlockedEncoding((8,), (16,), (4,), (0,)), (1024,), (1,), (16,), 32, 1, "1 elements"),
        (DpasEncoding(8, 8, 16, 2, 16, (4, 1), (1, 1)), (32, 16), (1, 16), (1, 16), 16, 1,
         "registers"),
        (SliceEncoding(1, DpasEncoding(8, 8, 16, 2, 16, (4, 1), (1, 1))), (32,), (32,), (16,), 32,
         4, "16 bytes"),
    ],
)  # fmt: skip
def test_widths(encoding, shape, contiguity, divisibility, bits, width, reason):
    found = access_width(to_linear_layout(encoding, shape), contiguity, divisibility, bits)
    assert found.elements == width
    assert reason in found.reason


def test_one_fact_per_dim():
    layout = to_linear_layout(BlockedEncoding((8,), (16,), (4,), (0,)), (1024,))
    with pytest.raises(LayoutError, match="one value per dim"):
        access_width(layout, (1, 1), (1,), 32)
