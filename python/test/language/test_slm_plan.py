"""Barriers of exchanges: one each where exchanges follow one another, more only where needed."""

import random
from math import inf

import torch
import triton
import triton.language as tl

from python.test.operations import instructions
from triton_xe.lowering.allocate_slm import Barrier, SlmPlan, Touch


def exchange(plan, block, barriers, nbytes=64):
    barrier = object()
    barriers.append(barrier)
    region = plan.region(nbytes)
    plan.note(block, Touch(region, barrier))
    plan.note(block, Barrier())
    plan.note(block, Touch(region))


def test_exchanges_in_a_row_take_turns():
    plan, barriers = SlmPlan(), []
    for _ in range(5):
        exchange(plan, "a", barriers)
    assert plan.assign_offsets() == 128
    assert plan.removable_barriers("a", {"a": []}) == barriers


def test_a_loop_with_one_exchange_waits_for_its_readers():
    plan, barriers = SlmPlan(), []
    exchange(plan, "loop", barriers)
    plan.assign_offsets()
    flow = {"entry": ["loop"], "loop": ["loop", "end"], "end": []}
    assert plan.removable_barriers("entry", flow) == []


def test_a_loop_with_two_exchanges_does_not():
    plan, barriers = SlmPlan(), []
    exchange(plan, "loop", barriers)
    exchange(plan, "loop", barriers)
    plan.assign_offsets()
    flow = {"entry": ["loop"], "loop": ["loop", "end"], "end": []}
    assert plan.removable_barriers("entry", flow) == barriers


def test_large_exchanges_share_memory_and_wait():
    plan, barriers = SlmPlan(), []
    for _ in range(3):
        exchange(plan, "a", barriers, nbytes=48 * 1024)
    assert plan.assign_offsets() == 48 * 1024
    assert plan.removable_barriers("a", {"a": []}) == barriers[:1]


def test_a_branch_that_exchanges_counts():
    plan, barriers = SlmPlan(), []
    exchange(plan, "then", barriers)
    plan.region(64)
    exchange(plan, "after", barriers)
    plan.assign_offsets()
    flow = {"entry": ["then", "after"], "then": ["after"], "after": []}
    assert plan.removable_barriers("entry", flow) == barriers[:1]


def test_what_is_still_to_be_read_is_not_overwritten():
    plan, barriers = SlmPlan(), []
    exchange(plan, "a", barriers, nbytes=48 * 1024)
    exchange(plan, "a", barriers, nbytes=40 * 1024)
    first, second = plan.regions
    assert plan.assign_offsets() == 48 * 1024
    plan.note("a", Touch(first, reads=True))
    assert plan.assign_offsets() == 88 * 1024
    assert not second.overlaps(first)
    assert plan.removable_barriers("a", {"a": []}) == barriers


def test_regions_apart_take_less_than_twice_their_sum():
    draw, limit = random.Random(1), 64 * 1024
    for _ in range(200):
        plan, waiting, together = SlmPlan(), [], []
        for _ in range(12):
            nbytes = 64 * draw.randrange(1, limit // 64)
            while waiting and sum(r.nbytes for r in waiting) + nbytes > limit:
                plan.note("a", Touch(waiting.pop(draw.randrange(len(waiting))), reads=True))
            region = plan.region(nbytes)
            plan.note("a", Touch(region))
            together += [(region, other) for other in waiting]
            waiting.append(region)
        for region in waiting:
            plan.note("a", Touch(region, reads=True))
        assert plan.assign_offsets() < 2 * limit
        assert not any(region.overlaps(other) for region, other in together)


def test_open_regions_of_a_block_do_not_share_memory():
    plan = SlmPlan()
    for _ in range(3):
        region = plan.region(64, "loop")
        plan.note("loop", Touch(region))
        region.open_until = inf
    last = plan.region(64, "after")
    plan.assign_offsets()
    assert [region.offset for region in plan.regions[:3]] == [0, 64, 128]
    assert last.offset == 64


def test_a_late_read_is_waited_for():
    plan, barriers = SlmPlan(), []
    for _ in range(3):
        exchange(plan, "a", barriers)
    plan.assign_offsets()
    assert plan.removable_barriers("a", {"a": []}) == barriers
    plan, barriers = SlmPlan(), []
    exchange(plan, "a", barriers)
    exchange(plan, "a", barriers)
    plan.note("a", Touch(plan.regions[0], reads=True))
    plan.note("a", Touch(plan.regions[0], reads=True))
    exchange(plan, "a", barriers)
    plan.assign_offsets()
    assert plan.removable_barriers("a", {"a": []}) == barriers[:2]


def test_a_reduction_over_subgroups_needs_one_barrier():
    @triton.jit
    def kernel(x, out, size: tl.constexpr):
        v = tl.load(x + tl.arange(0, size))
        tl.store(out, tl.sum(v, 0) + tl.max(v, 0))

    x = torch.randn(256)
    out = torch.empty(1, device="xpu")
    compiled = kernel[(1,)](x.to("xpu"), out, 256, num_warps=4)
    assert instructions(compiled.asm["llir"]).count("__spirv_ControlBarrier") == 2
    torch.testing.assert_close(out.cpu(), (x.sum() + x.max())[None])


def lazily_read(plan, block, meets, nbytes=64):
    """Add an exchange whose reads follow later; return its region."""
    region = plan.region(nbytes)
    plan.note(block, Touch(region, object()))
    plan.note(block, Touch(region, ends=True))
    meets.append(object())
    plan.note(block, Barrier(meets[-1]))
    return region


def test_exchanges_that_are_read_together_meet_once():
    plan, meets = SlmPlan(), []
    regions = [lazily_read(plan, "loop", meets) for _ in range(2)]
    for region in regions:
        plan.note("loop", Touch(region, reads=True))
    plan.assign_offsets()
    flow = {"entry": ["loop"], "loop": ["loop", "end"], "end": []}
    removed = plan.removable_barriers("entry", flow)
    assert meets[0] in removed
    assert meets[1] not in removed
    assert len(removed) == 2  # and one wait for the readers of the pass before stays


def test_exchanges_that_are_read_in_turn_meet_each():
    plan, meets = SlmPlan(), []
    for _ in range(2):
        region = lazily_read(plan, "a", meets)
        plan.note("a", Touch(region, reads=True))
    plan.assign_offsets()
    assert not set(meets) & set(plan.removable_barriers("a", {"a": []}))


def test_a_write_that_is_not_read_is_over_before_the_next():
    plan, meets = SlmPlan(), []
    lazily_read(plan, "loop", meets)
    plan.assign_offsets()
    flow = {"entry": ["loop"], "loop": ["loop", "end"], "end": []}
    assert len(plan.removable_barriers("entry", flow)) == 1
