"""Hand-written kernels in the form the compiler emits, run on the simulated device."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_xe import hardware, intrinsics
from triton_xe.errors import DeviceError, LegalityError, SimulatorTrap, UnsupportedError
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator import pipeline
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.runtime.simulator.run import jit
from triton_xe.runtime.simulator.widen import function

Run = Callable[..., None]
Text = Callable[..., str]

LANE = "  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()\n"
GROUP = "  %g64 = call spir_func i64 @_Z12get_group_idj(i32 0)\n  %g = trunc i64 %g64 to i32\n"
P = "ptr addrspace(1)"


def random(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("size", [1, 15, 16, 1000, 1024])
def test_vector_add_with_masked_accesses(run: Run, kernel: Text, size: int) -> None:
    load = "llvm.genx.GenISA.PredicatedLoad.v2f32.p1.v2f32"
    store = "llvm.genx.GenISA.PredicatedStore.p1.v2f32"
    body = GROUP + f"""
  %l64 = call spir_func i64 @_Z12get_local_idj(i32 0)
  %l = trunc i64 %l64 to i32
  %start = mul i32 %g, 64
  %t = and i32 %l, 31
  %t2 = shl i32 %t, 1
  %i = add i32 %start, %t2
  %i1 = add i32 %i, 1
  %m = icmp slt i32 %i1, %n
  %pa = getelementptr float, {P} %a, i32 %i
  %pb = getelementptr float, {P} %b, i32 %i
  %x = call <2 x float> @{load}({P} %pa, i64 8, i1 %m, <2 x float> zeroinitializer)
  %y = call <2 x float> @{load}({P} %pb, i64 8, i1 %m, <2 x float> zeroinitializer)
  %s = fadd <2 x float> %x, %y
  %pc = getelementptr float, {P} %c, i32 %i
  call void @{store}({P} %pc, <2 x float> %s, i64 8, i1 %m)"""
    other = (f"declare <2 x float> @{load}({P}, i64, i1, <2 x float>)\n"
             f"declare void @{store}({P}, <2 x float>, i64, i1)")
    a, b, c = random(size), random(size), np.full(size + 64, -1, np.float32)
    text = kernel(f"{P} %a, {P} %b, {P} %c, i32 %n", body, warps=2, other=other)
    run(text, a, b, c, size, grid=(-(-size // 64), 1, 1))
    done = size - size % 2
    np.testing.assert_array_equal(c[:done], (a + b)[:done])
    assert (c[done:] == -1).all()


def messages_with_policy(
    size: int, count: int, kind: str, read: int, write: int
) -> tuple[str, str]:
    """(body, declarations) of a copy of each lane's words by messages with cache codes."""
    suffix = "v2i32" if count == 2 else kind
    load = f"llvm.genx.GenISA.LSCLoad.{suffix}.p1"
    store = f"llvm.genx.GenISA.LSCStore.p1.{suffix}"
    body = LANE + f"""
  %at = mul i32 %lane, 8
  %pa = getelementptr i8, {P} %a, i32 %at
  %pb = getelementptr i8, {P} %b, i32 %at
  %x = call {kind} @{load}({P} %pa, i32 0, i32 {size}, i32 {count}, i32 {read})
  call void @{store}({P} %pb, i32 0, {kind} %x, i32 {size}, i32 {count}, i32 {write})"""
    return body, (f"declare {kind} @{load}({P}, i32, i32, i32, i32)\n"
                  f"declare void @{store}({P}, i32, {kind}, i32, i32, i32)")


@pytest.mark.parametrize(
    ("size", "count", "kind", "moved"),
    [(3, 1, "i32", 4), (3, 2, "<2 x i32>", 8), (4, 1, "i64", 8), (5, 1, "i32", 1),
     (6, 1, "i32", 2)],
)
def test_messages_with_a_cache_policy_move_their_bytes(
    run: Run, kernel: Text, size: int, count: int, kind: str, moved: int
) -> None:
    body, other = messages_with_policy(size, count, kind, 2, 6)
    a, b = np.arange(1, 129, dtype=np.uint8), np.zeros(128, np.uint8)
    run(kernel(f"{P} %a, {P} %b", body, other=other), a, b)
    expected = a.reshape(16, 8).copy()
    expected[:, moved:] = 0
    np.testing.assert_array_equal(b.reshape(16, 8), expected)


@pytest.mark.parametrize(
    ("size", "count", "read", "write", "message"),
    [(3, 1, 11, 6, "bmg has no read cache policy with code 11"),
     (3, 1, 2, 8, "bmg has no write cache policy with code 8"),
     (4, 1, 2, 6, "a message of 1 elements of data size 4 is no i32")],
)
def test_messages_that_the_device_lacks_are_trapped(
    run: Run, kernel: Text, size: int, count: int, read: int, write: int, message: str
) -> None:
    body, other = messages_with_policy(size, count, "i32", read, write)
    a = np.zeros(128, np.uint8)
    with pytest.raises(SimulatorTrap, match=message):
        run(kernel(f"{P} %a, {P} %b", body, other=other), a, a.copy())


def test_gather_and_scatter_of_bytes_and_words(run: Run, kernel: Text) -> None:
    body = LANE + f"""
  %px = getelementptr i32, {P} %index, i32 %lane
  %x = load i32, {P} %px, align 4
  %ps = getelementptr i8, {P} %source, i32 %x
  %v = load i8, {P} %ps, align 1
  %w = zext i8 %v to i16
  %pt = getelementptr i16, {P} %target, i32 %x
  store i16 %w, {P} %pt, align 2"""
    index = np.random.default_rng(1).permutation(16).astype(np.int32)
    source = np.arange(100, 116, dtype=np.uint8)
    target = np.zeros(16, np.uint16)
    run(kernel(f"{P} %index, {P} %source, {P} %target", body), index, source, target)
    np.testing.assert_array_equal(target, source)


def test_uniform_loop_with_carried_values(run: Run, kernel: Text) -> None:
    body = f"""
entry:
{LANE}
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i1, %loop]
  %p = phi {P} [%a, %entry], [%p1, %loop]
  %s = phi float [0.0, %entry], [%s1, %loop]
  %pl = getelementptr float, {P} %p, i32 %lane
  %x = load float, {P} %pl, align 4
  %s1 = fadd float %s, %x
  %p1 = getelementptr float, {P} %p, i32 16
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, %n
  br i1 %more, label %loop, label %done
done:
  %q = getelementptr float, {P} %b, i32 %lane
  store float %s1, {P} %q, align 4"""
    a, b = random(7, 16), np.zeros(16, np.float32)
    run(kernel(f"{P} %a, {P} %b, i32 %n", body), a, b, 7)
    want = np.zeros(16, np.float32)
    for row in a:
        want = want + row
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize("warps", [1, 4, 16])
def test_transpose_through_shared_memory(run: Run, kernel: Text, warps: int) -> None:
    """Every subgroup writes a row, waits, and reads a column; twice, with a loop of barriers."""
    size = 16 * warps
    body = f"""
entry:
{LANE}
  %g64 = call spir_func i64 @_Z12get_group_idj(i32 0)
  %gbase = mul i64 %g64, {size}
  %base = getelementptr i32, {P} %out, i64 %gbase
  %sg = call spir_func i32 @_Z16get_sub_group_idv()
  %row = mul i32 %sg, 16
  %mine = add i32 %row, %lane
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i1, %loop]
  %v = phi i32 [%mine, %entry], [%got, %loop]
  %w = getelementptr i32, ptr addrspace(3) @slm, i32 %mine
  store i32 %v, ptr addrspace(3) %w, align 4
  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)
  %col = mul i32 %lane, {warps}
  %at = add i32 %col, %sg
  %r = getelementptr i32, ptr addrspace(3) @slm, i32 %at
  %got = load i32, ptr addrspace(3) %r, align 4
  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, %n
  br i1 %more, label %loop, label %done
done:
  %q = getelementptr i32, {P} %base, i32 %mine
  store i32 %got, {P} %q, align 4"""
    slm = f"@slm = internal addrspace(3) global [{4 * size} x i8] undef, align 64"
    out = np.zeros((5, size), np.int32)
    text = kernel(f"{P} %out, i32 %n", body, warps=warps, other=slm)
    run(text, out, 3, grid=(5, 1, 1))
    want = np.arange(size)
    for _ in range(3):
        want = want.reshape(16, warps).T.reshape(-1)
    np.testing.assert_array_equal(out, np.broadcast_to(want, (5, size)))


def test_shared_memory_starts_poisoned_in_every_group(run: Run, kernel: Text) -> None:
    body = LANE + GROUP + f"""
  %s = getelementptr i32, ptr addrspace(3) @slm, i32 %lane
  %v = load i32, ptr addrspace(3) %s, align 4
  store i32 7, ptr addrspace(3) %s, align 4
  %row = mul i32 %g, 16
  %i = add i32 %row, %lane
  %q = getelementptr i32, {P} %out, i32 %i
  store i32 %v, {P} %q, align 4"""
    slm = "@slm = internal addrspace(3) global [64 x i8] undef, align 64"
    out = np.zeros((40, 16), np.int32)
    run(kernel(f"{P} %out", body, other=slm), out, grid=(40, 1, 1))
    assert (out == -1).all()


def test_divergent_barrier_is_reported(run: Run, kernel: Text) -> None:
    body = """
entry:
  %sg = call spir_func i32 @_Z16get_sub_group_idv()
  %first = icmp eq i32 %sg, 1
  br i1 %first, label %wait, label %done
wait:
  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)
  br label %done
done:"""
    with pytest.raises(SimulatorTrap, match="divergent barrier in work-group 0: subgroup 0 has"):
        run(kernel("", body, warps=4))


def test_lane_helper_with_a_compare_and_swap_loop(run: Run, kernel: Text) -> None:
    helper = f"""
define internal float @__xe_lane_add({P} %p, float %v, i1 %m) {{
entry:
  br i1 %m, label %start, label %done
start:
  %first = load i32, {P} %p, align 4
  br label %loop
loop:
  %old = phi i32 [%first, %start], [%seen, %loop]
  %f = bitcast i32 %old to float
  %sum = fadd float %f, %v
  %new = bitcast float %sum to i32
  %pair = cmpxchg {P} %p, i32 %old, i32 %new syncscope("device") monotonic monotonic
  %seen = extractvalue {{ i32, i1 }} %pair, 0
  %ok = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %ok, label %done, label %loop
done:
  %r = phi float [0.0, %entry], [%f, %loop]
  ret float %r
}}"""
    body = LANE + f"""
  %v = uitofp i32 %lane to float
  %m = icmp ult i32 %lane, 10
  %old = call spir_func float @__xe_lane_add({P} %sum, float %v, i1 %m)
  %q = getelementptr float, {P} %out, i32 %lane
  store float %old, {P} %q, align 4"""
    total, out = np.zeros(1, np.float32), np.full(16, -1, np.float32)
    text = kernel(f"{P} %sum, {P} %out", body, other=helper)
    run(text, total, out, grid=(1, 1, 1))
    assert total[0] == 45
    np.testing.assert_array_equal(out[:11], [0, 0, 1, 3, 6, 10, 15, 21, 28, 36, 0])
    run(text, total, out, grid=(200, 1, 1))
    assert total[0] == 45 * 201


def test_atomic_add_counts_every_lane(run: Run, kernel: Text) -> None:
    body = f'  %x = atomicrmw add {P} %n, i32 1 syncscope("device") monotonic'
    count = np.zeros(1, np.int32)
    run(kernel(f"{P} %n", body, warps=4), count, grid=(100, 1, 1))
    assert count[0] == 6400


def test_functions_take_and_return_wide_values(run: Run, kernel: Text) -> None:
    other = """
define internal { float, i32 } @both(float %x, i32 %u) {
  %y = fmul float %x, 2.0
  %a = insertvalue { float, i32 } poison, float %y, 0
  %b = insertvalue { float, i32 } %a, i32 %u, 1
  ret { float, i32 } %b
}"""
    body = LANE + f"""
  %v = uitofp i32 %lane to float
  %r = call spir_func {{ float, i32 }} @both(float %v, i32 %u)
  %x = extractvalue {{ float, i32 }} %r, 0
  %i = extractvalue {{ float, i32 }} %r, 1
  %f = sitofp i32 %i to float
  %s = fadd float %x, %f
  %q = getelementptr float, {P} %out, i32 %lane
  store float %s, {P} %q, align 4"""
    out = np.zeros(16, np.float32)
    run(kernel(f"{P} %out, i32 %u", body, other=other), out, 5)
    np.testing.assert_array_equal(out, 2 * np.arange(16) + 5)


def test_private_array_reinterprets_the_bytes_of_each_lane(run: Run, kernel: Text) -> None:
    body = LANE + f"""
  %t = alloca <4 x i32>, align 16
  %v0 = insertelement <4 x i32> poison, i32 %lane, i32 0
  %v1 = insertelement <4 x i32> %v0, i32 65537, i32 1
  %v2 = insertelement <4 x i32> %v1, i32 %lane, i32 2
  %v3 = insertelement <4 x i32> %v2, i32 -2, i32 3
  store <4 x i32> %v3, ptr %t, align 16
  %p = getelementptr i8, ptr %t, i64 4
  %h = load <4 x i16>, ptr %p, align 4
  %q = getelementptr i16, {P} %out, i32 %lane
  %q4 = mul i32 %lane, 4
  %o = getelementptr i16, {P} %out, i32 %q4
  store <4 x i16> %h, {P} %o, align 8"""
    out = np.zeros((16, 4), np.int16)
    run(kernel(f"{P} %out", body), out)
    want = np.array([[1, 1, lane, 0] for lane in range(16)])
    np.testing.assert_array_equal(out, want)


def test_bitcasts_between_element_widths(run: Run, kernel: Text) -> None:
    backwards = f"<{', '.join(f'i32 {k}' for k in reversed(range(8)))}>"
    body = LANE + f"""
  %i = mul i32 %lane, 2
  %p = getelementptr i32, {P} %in, i32 %i
  %x = load <2 x i32>, {P} %p, align 8
  %h = bitcast <2 x i32> %x to <8 x i8>
  %r = shufflevector <8 x i8> %h, <8 x i8> poison, <8 x i32> {backwards}
  %w = bitcast <8 x i8> %r to i64
  %q = getelementptr i64, {P} %out, i32 %lane
  store i64 %w, {P} %q, align 8"""
    data, out = np.arange(32, dtype=np.int32) * 12345, np.zeros(16, np.int64)
    run(kernel(f"{P} %in, {P} %out", body), data, out)
    np.testing.assert_array_equal(out, data.view(np.int64).byteswap())


def test_grid_has_three_dimensions(run: Run, kernel: Text) -> None:
    body = "\n".join(
        f"  %x{d} = call spir_func i64 @_Z12get_group_idj(i32 {d})\n"
        f"  %n{d} = call spir_func i64 @_Z14get_num_groupsj(i32 {d})" for d in range(3)
    ) + f"""
  %a = mul i64 %x2, %n1
  %b = add i64 %a, %x1
  %c = mul i64 %b, %n0
  %i = add i64 %c, %x0
  %p = getelementptr i64, {P} %out, i64 %i
  store i64 %i, {P} %p, align 8"""
    out = np.zeros(60, np.int64)
    run(kernel(f"{P} %out", body), out, grid=(3, 4, 5))
    np.testing.assert_array_equal(out, np.arange(60))


# --- refusals -------------------------------------------------------------------------------------


def test_divergent_branch_is_refused(run: Run, kernel: Text) -> None:
    body = LANE + "  %m = icmp ult i32 %lane, %n\n  br i1 %m, label %a, label %b\na:\n" \
        "  br label %b\nb:"
    with pytest.raises(UnsupportedError, match="a branch on a condition that differs"):
        run(kernel("i32 %n", body), 4)


def test_unknown_function_is_named(run: Run, kernel: Text) -> None:
    with pytest.raises(UnsupportedError, match="unknown function _Z7mystery"):
        run(kernel("", "  call void @_Z7mystery()", other="declare void @_Z7mystery()"))


def test_invalid_module_is_refused(run: Run) -> None:
    with pytest.raises(DeviceError, match="not valid"):
        run("define spir_kernel void @k( {")


def test_limits_of_the_device(device: SimulatedDevice, kernel: Text) -> None:
    with pytest.raises(LegalityError, match="work-group of 2048 work-items is over the limit"):
        device.load(kernel("", "", warps=128).encode(), "k")
    with pytest.raises(LegalityError, match="bmg has no subgroups of 8 lanes"):
        device.load(kernel("", "", lanes=8).encode(), "k")
    big = f"@slm = internal addrspace(3) global [{129 << 10} x i8] undef, align 64"
    with pytest.raises(LegalityError, match="132096 bytes of shared local memory"):
        device.load(kernel("", "", other=big).encode(), "k")
    with pytest.raises(DeviceError, match="no kernel 'other' in this module; it has: k"):
        device.load(kernel("", "").encode(), "other")


def test_wrong_number_of_arguments(device: SimulatedDevice, kernel: Text) -> None:
    loaded = device.load(kernel("i32 %n", "").encode(), "k")
    with pytest.raises(DeviceError, match="takes 1 arguments, 2 were given"):
        device.launch(loaded, (1, 1, 1), [1, 2])
    loaded.close()
    with pytest.raises(DeviceError, match="was closed"):
        device.launch(loaded, (1, 1, 1), [1])


def test_time_strictly_increases(device: SimulatedDevice) -> None:
    times = [device.record_event() for _ in range(1000)]
    assert all(a < b for a, b in itertools.pairwise(times))


def test_damaged_cache_files_are_rebuilt(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, run: Run, kernel: Text
) -> None:
    jit.source_hash()  # keeps a file of its own
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path))
    body = LANE + f"""
  %q = getelementptr i32, {P} %out, i32 %lane
  store i32 %lane, {P} %q, align 4"""
    for damage in (None, b"", b"short", b"x" * 500):
        for file in tmp_path.rglob("*.*"):
            if damage is not None:
                file.write_bytes(damage)
        out = np.zeros(16, np.int32)
        run(kernel(f"{P} %out", body), out)
        np.testing.assert_array_equal(out, np.arange(16))
    assert {f.suffix for f in tmp_path.rglob("*") if f.is_file()} == {".host", ".o"}


@pytest.mark.parametrize("table", [hardware, intrinsics])
def test_cached_files_are_those_of_one_table(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, table: Any
) -> None:
    before = jit.source_hash.__wrapped__()
    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr(table.__spec__, "origin", str(tmp_path / "__init__.py"))
    assert jit.source_hash.__wrapped__() != before


def test_messages_name_the_source_line_where_it_is_known(run: Run, kernel: Text) -> None:
    other = """declare void @_Z7mystery()
!llvm.dbg.cu = !{!10}
!llvm.module.flags = !{!14}
!10 = distinct !DICompileUnit(language: DW_LANG_C, file: !11, emissionKind: LineTablesOnly)
!11 = !DIFile(filename: "k.py", directory: "/")
!12 = distinct !DISubprogram(name: "k", file: !11, line: 3, unit: !10, type: !15)
!13 = !DILocation(line: 42, column: 7, scope: !12)
!14 = !{i32 2, !"Debug Info Version", i32 3}
!15 = !DISubroutineType(types: !16)
!16 = !{null}"""
    text = kernel("", "  call void @_Z7mystery(), !dbg !13", other=other)
    text = text.replace("!reqd_work_group_size !1 {", "!reqd_work_group_size !1 !dbg !12 {")
    with pytest.raises(UnsupportedError, match="kernel k, source line 42: unknown function"):
        run(text.replace("  ret void\n", "  ret void, !dbg !13\n"))


def test_a_condition_that_all_lanes_share_chooses_between_vectors() -> None:
    """Found by a kernel of torch.compile: the condition was spread over the lanes twice."""
    text = """
target triple = "spirv64-unknown-unknown"
define spir_kernel void @choose(ptr addrspace(1) %p, i32 %n) !intel_reqd_sub_group_size !0
    !reqd_work_group_size !1 {
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %c = icmp slt i32 %n, 5
  %one = insertelement <4 x i1> undef, i1 %c, i32 0
  %all = shufflevector <4 x i1> %one, <4 x i1> %one, <4 x i32> zeroinitializer
  %wide = sext i32 %lane to i64
  %at = getelementptr float, ptr addrspace(1) %p, i64 %wide
  %x = load float, ptr addrspace(1) %at, align 4
  %v = insertelement <4 x float> undef, float %x, i32 1
  %s = select <4 x i1> %all, <4 x float> %v, <4 x float> zeroinitializer
  %e = extractelement <4 x float> %s, i32 1
  store float %e, ptr addrspace(1) %at, align 4
  ret void
}
declare spir_func i32 @_Z22get_sub_group_local_idv()
!0 = !{i32 16}
!1 = !{i32 16, i32 1, i32 1}
"""
    device = SimulatedDevice("bmg")
    kernel = device.load(text.replace("\n    !req", " !req").encode(), "choose")
    for n, expected in ((3, np.arange(16)), (9, np.zeros(16))):
        data = np.arange(16, dtype=np.float32)
        device.launch(kernel, (1, 1, 1), [data.ctypes.data, n])
        device.synchronize()
        np.testing.assert_array_equal(data, expected)


BARRIER = "  call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)\n"
NAMES = ("mul", "xor")


@pytest.mark.parametrize("barrier", ["", BARRIER])
def test_a_long_block_is_cut_and_computes_the_same(run: Run, kernel: Text, barrier: str) -> None:
    steps = 3 * function.LONG_BLOCK
    lines = [f"  %v{k + 1} = {NAMES[k % 2]} i32 %v{k}, {2 * k + 1}\n" for k in range(steps)]
    body = (LANE + "  %v0 = add i32 %lane, 1\n" + "".join(lines) + barrier
            + f"  %p = getelementptr i32, {P} %out, i32 %lane\n"
            + f"  store i32 %v{steps}, {P} %p, align 4")
    text = kernel(f"{P} %out", body)
    out = np.zeros(16, np.uint32)
    run(text, out)
    expected = np.arange(1, 17, dtype=np.uint32)
    for k in range(steps):
        expected = (expected ^ (2 * k + 1) if k % 2 else expected * (2 * k + 1)).astype(np.uint32)
    assert out.tolist() == expected.tolist()
    made = pipeline.translate(parse_module(text), "k", target("bmg")).text
    longest = max(len(part.splitlines()) for part in re.split(r"^\S+:$", made, flags=re.MULTILINE))
    assert longest < 1.1 * function.LONG_BLOCK


def test_inline_assembly_is_refused_with_a_reason(run: Run, kernel: Text) -> None:
    body = LANE + f"""
  %x = call i32 asm sideeffect "mov (M1, 16) $0(0, 0)<1> $1(0, 0)<1;1,0>", "=rw,rw"(i32 %lane)
  store i32 %x, {P} %out, align 4"""
    with pytest.raises(UnsupportedError, match=r"kernel k.*inline vISA assembly cannot run on the "
                       r"simulator; run this kernel on a GPU"):
        run(kernel(f"{P} %out", body), np.zeros(16, np.int32))
