"""The walk against a plain count of what a kernel does, and its footprints against addresses."""

import numpy as np
import pytest

from triton_xe.hardware.target import target
from triton_xe.model.traffic import waves
from triton_xe.runtime.simulator.estimate.footprints import MANY, SPAN, count_different
from triton_xe.runtime.simulator.estimate.launch_work import TimedKernel
from triton_xe.runtime.simulator.estimate.numbers import terms_of
from triton_xe.runtime.simulator.estimate.program import Program
from triton_xe.runtime.simulator.estimate.walk import Walk
from triton_xe.runtime.simulator.run.kernel_source import KernelSource

HEAD = """
declare spir_func i64 @_Z12get_group_idj(i32)
declare spir_func i32 @_Z22get_sub_group_local_idv()
declare spir_func i32 @_Z16get_sub_group_idv()
define spir_kernel void @k(ptr addrspace(1) %a, i32 %n, i32 %m) {
entry:
  %gid = call spir_func i64 @_Z12get_group_idj(i32 0)
  %g = trunc i64 %gid to i32
"""
LOOPS = HEAD + """
  %rows = mul i32 %g, %n
  br label %outer
outer:
  %i = phi i32 [ 0, %entry ], [ %i1, %latch ]
  br label %inner
inner:
  %j = phi i32 [ %i, %outer ], [ %j1, %inner ]
  %j1 = add i32 %j, 3
  %more = icmp slt i32 %j1, %m
  br i1 %more, label %inner, label %latch
latch:
  %i1 = add i32 %i, 1
  %again = icmp ult i32 %i1, %rows
  br i1 %again, label %outer, label %exit
exit:
  ret void
}
"""


def counted(group, n, m):
    """How often the blocks of LOOPS run."""
    inner = outer = 0
    i = 0
    while True:
        outer += 1
        j = i
        while True:
            inner += 1
            j += 3
            if j >= m:
                break
        i += 1
        if i >= group * n:
            break
    return outer, inner


def program(text):
    return Program(KernelSource(text, "k", target("bmg")).parsed.module.functions["k"])


@pytest.mark.parametrize(("n", "m"), [(1, 5), (3, 40), (7, 100), (20, 3)])
def test_rounds_of_loops_are_counted(n, m):
    groups = np.array([0, 1, 2, 5])
    walk = Walk(program(LOOPS), [0, n, m], (6, 1, 1), groups, 2, 16).run()
    assert not walk.guessed
    for row, group in enumerate(groups):
        outer, inner = counted(int(group), n, m)
        assert (walk.counts["%outer"][row] == outer).all()
        assert walk.counts["%inner"][row] == pytest.approx([inner] * 2, rel=0.06)


ACCESS = HEAD + """
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %sg = call spir_func i32 @_Z16get_sub_group_idv()
  %s = shl i32 %sg, 4
  %t = add i32 %lane, %s
  %base = mul i32 %g, 4096
  %first = add i32 %t, %base
  br label %body
body:
  %i = phi i32 [ %first, %entry ], [ %i1, %body ]
  %w = sext i32 %i to i64
  %p = getelementptr float, ptr addrspace(1) %a, i64 %w
  %v = load float, ptr addrspace(1) %p
  store float %v, ptr addrspace(1) %p
  %i1 = add i32 %i, 64
  %end = add i32 %base, %n
  %more = icmp slt i32 %i1, %end
  br i1 %more, label %body, label %exit
exit:
  ret void
}
"""


def test_bytes_and_places_of_accesses():
    work, known = TimedKernel(program(ACCESS), 4, 16, 128, 0).launch_work(
        [1 << 40, 4096, 0], (100, 1, 1))
    assert known
    assert work.l1_bytes == 2 * 4096 * 4
    (reads,), (writes,) = work.reads, work.writes
    assert reads.union() == writes.union() == 100 * 4096 * 4
    assert reads.density == 1.0


UNKNOWN = HEAD + """
  br label %body
body:
  %v = load i32, ptr addrspace(1) %a
  %more = icmp slt i32 %v, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}
"""


def test_an_end_that_depends_on_memory_is_a_guess():
    walk = Walk(program(UNKNOWN), [0, 1, 1], (1, 1, 1), np.array([0]), 1, 16).run()
    assert walk.guessed
    assert 1 <= walk.counts["%body"][0, 0] <= 64


HIGH = HEAD + """
  %half = call spir_func i32 @_Z6mul_hiii(i32 %n, i32 %g)
  %first = shl i32 %half, 6
  %w = sext i32 %first to i64
  %p = getelementptr i8, ptr addrspace(1) %a, i64 %w
  %v = load i32, ptr addrspace(1) %p
  ret void
}
declare spir_func i32 @_Z6mul_hiii(i32, i32)
"""


def test_a_function_of_integers_keeps_their_width():
    """The upper half of a product of 32 bits, of one number for all and one for each group."""
    walk = Walk(program(HIGH), [0, 1 << 31, 0], (6, 1, 1), np.array([0, 1, 5]), 1, 16).run()
    assert walk.messages[0].arguments[0].ravel().tolist() == [0, -64, -192]


PAYLOAD = """
define spir_kernel void @k(ptr addrspace(1) %a, i32 %n) {
entry:
  %base = ptrtoint ptr addrspace(1) %a to i64
  %p = call ptr @CREATE(i64 %base, i32 8191, i32 63, i32 8191, i32 0, i32 0, i32 32, i32 8, i32 1)
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  call void @PREFETCH(ptr %p, i32 0, i32 0, i32 16, i32 32, i32 8, i32 1, i1 false, i1 false, i32 4)
  call void @SET(ptr %p, i32 5, i32 32, i1 1)
  %i1 = add i32 %i, 32
  %more = icmp slt i32 %i1, %n
  br i1 %more, label %loop, label %exit
exit:
  call void @PREFETCH(ptr %p, i32 0, i32 0, i32 16, i32 32, i32 8, i32 1, i1 false, i1 false, i32 4)
  ret void
}
declare ptr @CREATE(i64, i32, i32, i32, i32, i32, i32, i32, i32)
declare void @PREFETCH(ptr, i32, i32, i32, i32, i32, i32, i1, i1, i32)
declare void @SET(ptr, i32, i32, i1)
"""
NAMES = {"CREATE": "CreateAddrPayload.p0i32", "PREFETCH": "PrefetchAddrPayload.p0i32",
         "SET": "SetAddrPayloadField.p0i32.i32"}


@pytest.mark.parametrize("rounds", [1, 3, 100])
def test_a_payload_moves_in_rounds_that_are_not_walked(rounds):
    text = PAYLOAD
    for short, name in NAMES.items():
        text = text.replace(f"@{short}(", f"@llvm.genx.GenISA.LSC2DBlock{name}(")
    walk = Walk(program(text), [0, 32 * rounds], (1, 1, 1), np.array([0]), 1, 16).run()
    assert walk.counts["%loop"].item() == rounds
    assert walk.messages[-1].payload["x"].item() == 32 * rounds
    assert walk.messages[0].payload["x"].item() == 0


def text_of(body, parameters="ptr addrspace(1) %a, ptr addrspace(1) %b, i32 %n"):
    """A kernel with the group's number %g and the lane's %lane."""
    head = HEAD.replace("ptr addrspace(1) %a, i32 %n, i32 %m", parameters)
    return f"{head}  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()\n{body}\n}}\n"


def work_of(body, arguments, grid, subgroups=1):
    kernel = TimedKernel(program(text_of(body)), subgroups, 16, 128, 0)
    return kernel.launch_work(arguments, grid)


COPY = """
  %across = {across}
  %down = {down}
  %skipped = mul i32 %down, %n
  %place = add i32 %skipped, %across
  %first = shl i32 %place, 4
  %i = add i32 %first, %lane
  %w = sext i32 %i to i64
  %p = getelementptr i32, ptr addrspace(1) %a, i64 %w
  %q = getelementptr i32, ptr addrspace(1) %b, i64 %w
  %v = load i32, ptr addrspace(1) %p
  store i32 %v, ptr addrspace(1) %q
  ret void
"""
A, B = 1 << 40, 2 << 40
ORDERS = {"rows": ("urem i32 %g, %n", "udiv i32 %g, %n"),
          "columns": ("udiv i32 %g, 61", "urem i32 %g, 61"),
          "jumps": ("urem i32 %g, 1", "mul i32 %g, 33")}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("columns", [1, 64, 67])
def test_each_byte_of_a_copy_is_moved_once_whatever_the_order(order, columns):
    """Work-groups between the sampled ones may lie anywhere."""
    across, down = ORDERS[order]
    groups = 61 * columns
    work, known = work_of(COPY.format(across=across, down=down), [A, B, columns], (groups, 1, 1))
    assert known
    assert work.read(0, groups) == work.written(0, groups) == groups * 64
    assert sum(n * w.read for n, w in waves(work, 200, 18e6)) == pytest.approx(groups * 64, rel=0.1)


def test_a_large_grid_is_looked_at_near_its_sampled_waves():
    across, down = ORDERS["rows"]
    columns, groups = 1000, 1_000_000
    work, _ = work_of(COPY.format(across=across, down=down), [A, B, columns], (groups, 1, 1))
    assert len(work.numbers) < 50_000
    assert sum(n * w.read for n, w in waves(work, 1024, 18e6)) == pytest.approx(
        groups * 64, rel=0.01)


PERSISTENT = """
  %count = call spir_func i64 @_Z14get_num_groupsj(i32 0)
  %step = trunc i64 %count to i32
  br label %body
body:
  %t = phi i32 [ %g, %entry ], [ %next, %body ]
  %first = shl i32 %t, 4
  %i = add i32 %first, %lane
  %w = sext i32 %i to i64
  %p = getelementptr i32, ptr addrspace(1) %a, i64 %w
  %v = load i32, ptr addrspace(1) %p
  %next = add i32 %t, %step
  %more = icmp slt i32 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}
declare spir_func i64 @_Z14get_num_groupsj(i32)
define void @unused() {
  ret void
"""


def test_work_groups_whose_tiles_interleave_read_all_of_them():
    work, _ = work_of(PERSISTENT, [A, B, 160 * 100], (160, 1, 1))
    assert work.read(0, 160) == pytest.approx(160 * 100 * 64, rel=0.01)


LANES = """
  %spread = mul i32 %lane, %n
  %base = mul i32 %g, 65536
  %i = add i32 %base, %spread
  %w = sext i32 %i to i64
  %p = getelementptr i8, ptr addrspace(1) %a, i64 %w
  %v = load i32, ptr addrspace(1) %p
  ret void
"""


@pytest.mark.parametrize(("stride", "lines"), [(4, 1), (8, 2), (64, 16), (4096, 16)])
def test_lanes_far_apart_bring_whole_lines(stride, lines):
    work, _ = work_of(LANES, [A, B, stride], (1000, 1, 1))
    assert work.l2_bytes == pytest.approx(lines * 64, rel=0.01)
    assert work.l1_bytes == max(64, (lines - 1) * 64)


GATHER = """
  %from = urem i32 %g, %n
  %f = sext i32 %from to i64
  %p = getelementptr i32, ptr addrspace(1) %a, i64 %f
  %row = load i32, ptr addrspace(1) %p
  %start = shl i32 %row, 4
  %i = add i32 %start, %lane
  %w = sext i32 %i to i64
  %q = getelementptr i32, ptr addrspace(1) %b, i64 %w
  %v = load i32, ptr addrspace(1) %q
  ret void
"""


@pytest.mark.parametrize("rows", [1, 50, 1000])
def test_what_the_same_index_gathers_is_read_once(rows):
    work, known = work_of(GATHER, [A, B, rows], (1000, 1, 1))
    assert not known
    gathered = work.read(0, 1000) - 4 * rows
    assert gathered == pytest.approx(64 * rows, rel=0.1, abs=64)


MASKED = """
  %inside = icmp slt i32 %lane, %n
  %first = shl i32 %g, 4
  %i = add i32 %first, %lane
  %w = sext i32 %i to i64
  %p = getelementptr i32, ptr addrspace(1) %a, i64 %w
  %v = call i32 @LOAD(ptr addrspace(1) %p, i64 4, i1 %inside, i32 0)
  ret void
}
declare i32 @LOAD(ptr addrspace(1), i64, i1, i32)
define void @unused() {
  ret void
"""


@pytest.mark.parametrize("lanes", [0, 4, 16])
def test_lanes_that_a_mask_leaves_out_move_nothing(lanes):
    body = MASKED.replace("LOAD", "llvm.genx.GenISA.PredicatedLoad.i32.p1.i32")
    work, _ = work_of(body, [A, B, lanes], (1000, 1, 1))
    assert work.l1_bytes == 4 * lanes
    assert work.read(0, 1000) == (64000 if lanes else 0)


@pytest.mark.parametrize("items", [0, 4, 20, 32])
def test_ids_of_work_items_are_those_of_lanes_in_subgroups(items):
    body = MASKED.replace("LOAD", "llvm.genx.GenISA.PredicatedLoad.i32.p1.i32").replace(
        "%lane, %n", "%item, %n").replace("add i32 %first, %lane", "add i32 %first, %item").replace(
        "shl i32 %g, 4", "shl i32 %g, 5")
    head = "  %l = call spir_func i64 @_Z12get_local_idj(i32 0)\n  %item = trunc i64 %l to i32\n"
    declared = "\n}\ndeclare spir_func i64 @_Z12get_local_idj(i32)\n"
    body = head + body.replace("\n}\n", declared, 1)
    work, _ = work_of(body, [A, B, items], (1000, 1, 1), subgroups=2)
    assert work.l1_bytes == 4 * items
    assert work.read(0, 1000) == 64 * -(-items // 16) * 1000


ATOMIC = """
  %first = shl i32 %g, 4
  %i = add i32 %first, %lane
  %w = sext i32 %i to i64
  %p = getelementptr float, ptr addrspace(1) %a, i64 %w
  %at = ptrtoint ptr addrspace(1) %p to i64
  %v = call spir_func float @__xe_lane_atomic_fadd_float_gpu(i64 %at, float 1.0, i1 true)
  ret void
}
declare spir_func float @__xe_lane_atomic_fadd_float_gpu(i64, float, i1)
define void @unused() {
  ret void
"""


def test_an_atomic_reads_and_writes():
    work, _ = work_of(ATOMIC, [A, B, 0], (1000, 1, 1))
    assert work.issue.messages == 1
    assert work.read(0, 1000) == work.written(0, 1000) == 64000


COUNTING = """
  %at = getelementptr i32, ptr addrspace(3) @held, i32 %lane
  call spir_func void @__xe_lane_count(ptr addrspace(3) %at, i1 true)
  ret void
}
@held = internal addrspace(3) global [16 x i32] undef
declare spir_func void @__xe_lane_count(ptr addrspace(3), i1)
define void @unused() {
  ret void
"""


def test_functions_of_the_module_that_get_no_address_bring_nothing():
    work, known = work_of(COUNTING, [A, B, 0], (1000, 1, 1))
    assert known
    assert work.issue.messages == 1
    assert work.l2_bytes == 0


UNROLLED = """
  %base = ptrtoint ptr addrspace(1) %a to i64
  %rows = mul i32 %g, 65536
  %own = mul i32 %lane, 4
  %part = add i32 %rows, %own
  %wide = sext i32 %part to i64
  %start = add i64 %base, %wide
  %one = insertelement <{n} x i64> undef, i64 %start, i32 0
  %splat = shufflevector <{n} x i64> %one, <{n} x i64> undef, <{n} x i32> zeroinitializer
  %first = add <{n} x i64> %splat, <{numbers}>
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %i1, %body ]
  %at = phi <{n} x i64> [ %first, %entry ], [ %next, %body ]
{loads}
  %next = add <{n} x i64> %at, splat (i64 16384)
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
"""
EACH = """  %e{k} = extractelement <{n} x i64> %at, i32 {k}
  %p{k} = inttoptr i64 %e{k} to ptr addrspace(1)
  %v{k} = load i32, ptr addrspace(1) %p{k}"""


def unrolled(n):
    """A loop with `n` loads, each of a cache line of its own."""
    loads = "\n".join(EACH.format(n=n, k=k) for k in range(n))
    numbers = ", ".join(f"i64 {64 * k}" for k in range(n))
    body = UNROLLED.format(n=n, numbers=numbers, loads=loads)
    return TimedKernel(program(text_of(body)), 8, 16, 128, 0)


def walked(kernel, rounds, leads=False):
    """The walk of 512 work-groups, and how many steps it took."""
    walk = Walk(kernel.program, [A, B, rounds], (512, 1, 1), np.arange(512), 8, 16, leads)
    steps = []
    walk.acts = {name: lambda *given, act=act: (steps.append(1), act(*given))
                  for name, act in walk.acts.items()}
    return walk.run(), len(steps)


@pytest.mark.parametrize("leads", [False, True])
@pytest.mark.parametrize("n", [4, 128])
def test_a_walk_does_not_grow_with_rounds(n, leads):
    """What predicting a new configuration costs is the number of steps and of numbers."""
    _, few = walked(unrolled(n), 5, leads)
    for rounds in (100, 10_000):
        walk, steps = walked(unrolled(n), rounds, leads)
        assert steps == few < 60 + 10 * n
        assert (walk.counts["%body"] == rounds).all()
        held = [t for m in walk.messages for t in terms_of(m.arguments[0])]
        assert sum(t.size for t in held) <= len(walk.messages) * (512 + 16 + n)


@pytest.mark.parametrize("n", [1, 4, 128])
def test_messages_to_elements_of_a_vector_move_what_each_would(n):
    work, known = unrolled(n).launch_work([A, B, 3], (100, 1, 1))
    assert known
    assert work.l1_bytes == 8 * 3 * n * 64
    assert work.read(0, 100) == pytest.approx(100 * 3 * n * 64, rel=0.01)


@pytest.mark.parametrize("reach", [3, 300, SPAN, 1 << 40])
@pytest.mark.parametrize("count", [1, 2, 7, MANY, 3 * MANY])
def test_different_numbers_are_counted(count, reach):
    numbers = np.random.default_rng(count)
    rows = numbers.integers(-1, reach, (3, 2, count)) + numbers.integers(0, reach, (3, 1, 1))
    rows[numbers.random(rows.shape) < 0.3] = -1
    rows[0, 0] = -1
    wanted = [[len({*row.tolist()} - {-1}) for row in pair] for pair in rows]
    np.testing.assert_array_equal(count_different(rows), wanted)
