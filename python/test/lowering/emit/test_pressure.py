"""The estimate of registers, and the register file that it leads to."""

from dataclasses import replace

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import loops
from python.test.lowering.emit.writing import begin, state_of
from triton_xe import llvm as ir
from triton_xe.hardware.register_file import (
    Need,
    RegisterFile,
    larger_file,
    needed_file,
    register_file,
)
from triton_xe.hardware.target import target
from triton_xe.lowering.emit.helpers import call_function
from triton_xe.lowering.emit.pressure import pressure
from triton_xe.lowering.emit.writer import Writer

FLOATS = ir.vector(8, ir.F32)


@pytest.mark.parametrize("count", [1, 5])
def test_values_live_from_where_they_are_written_to_their_last_use(count):
    made, b = begin(ir.PTR, ir.I32)
    pointer, shared = made.arguments
    loaded = [b.load(FLOATS, pointer) for _ in range(count)]
    for value in loaded:
        b.store(b.fadd(value, value), pointer)
    b.add(shared, shared)
    b.ret()
    # a sum takes the place of its last operand
    assert pressure(ir.Module(), made, 16) == count * 8 * 4 * 16


def test_what_a_loop_reads_lives_as_long_as_the_loop():
    made, b = begin(ir.PTR, ir.I1)
    pointer, again = made.arguments
    outside = b.load(FLOATS, pointer)
    before, loop = b.block, b.append_block("loop")
    b.branch(loop)
    b.at_end(loop)
    total = b.merged(FLOATS, (outside, before))
    first = b.fadd(total, outside)
    after = [b.load(FLOATS, pointer) for _ in range(3)]
    for value in after:
        first = b.fadd(first, value)
    b.join(total, first, loop)
    end = b.append_block("end")
    b.branch_if(again, loop, end)
    b.at_end(end)
    b.ret()
    assert pressure(ir.Module(), made, 16) == 5 * 8 * 4 * 16  # outside, the sum, three loads


def test_what_a_called_function_needs_counts_where_it_is_called():
    module = ir.Module()
    inner, b = begin(FLOATS, result=FLOATS, module=module, name="inner", is_kernel=False)
    (given,) = inner.arguments
    sums = [b.fadd(given, given) for _ in range(4)]
    for value in sums[1:]:
        sums[0] = b.fadd(sums[0], value)
    b.ret(sums[0])
    outer, b = begin(ir.PTR, module=module, name="outer")
    em = Writer(state_of(module), outer, outer.blocks[0])
    loaded = em.b.load(FLOATS, outer.arguments[0])
    em.b.store(em.b.fadd(call_function(em, "inner", FLOATS, [loaded]), loaded), outer.arguments[0])
    em.b.ret()
    assert pressure(module, outer, 16) == 5 * 8 * 4 * 16  # what is given, and four sums inside


def test_pairs_of_a_compare_and_swap_have_a_size():
    made, b = begin(ir.PTR, ir.I32)
    pointer, value = made.arguments
    pair = b.compare_and_swap(pointer, value, value, "device")
    b.add(b.extract_value(pair, 0), value)
    b.ret()
    assert 0 < pressure(ir.Module(), made, 16) <= 8


@pytest.mark.parametrize(("registers", "carried", "products", "straight", "need"), [
    (112, 63, False, False, Need.SMALL),
    (113, 63, False, False, Need.MEASURED),  # a loop by FMA
    (350, 64, False, False, Need.MEASURED),
    (350, 112, False, False, Need.MEASURED),
    (350, 113, False, False, Need.LARGE),  # no order of instructions fits them
    (112, 63, True, False, Need.SMALL),
    (113, 63, True, False, Need.LARGE),
    (None, 64, True, False, Need.LARGE),
    (112, 0, False, True, Need.SMALL),
    (256, 0, False, True, Need.BY_COMPILER),
    (257, 0, False, True, Need.LARGE),
])
def test_the_file_that_live_registers_need(registers, carried, products, straight, need):
    assert needed_file(registers, carried, products, straight, target("bmg")) is need


@pytest.mark.parametrize(("mode", "need", "warps", "device", "file", "larger"), [
    ("default", Need.SMALL, 8, "bmg", RegisterFile(), RegisterFile(256)),
    ("default", Need.MEASURED, 8, "bmg", RegisterFile(), RegisterFile(256)),
    ("default", Need.MEASURED, 8, "cri", RegisterFile(), RegisterFile(512)),
    ("default", Need.MEASURED, 64, "bmg", RegisterFile(), None),
    ("default", Need.LARGE, 8, "bmg", RegisterFile(256), None),
    ("default", Need.LARGE, 64, "bmg", RegisterFile(), None),
    ("default", Need.BY_COMPILER, 8, "bmg", RegisterFile(automatic=True), None),
    ("default", Need.BY_COMPILER, 8, "cri", RegisterFile(512), None),
    ("128", Need.LARGE, 8, "bmg", RegisterFile(128), None),
    ("256", Need.SMALL, 8, "bmg", RegisterFile(256), None),
    ("auto", Need.MEASURED, 8, "bmg", RegisterFile(automatic=True), None),
])
def test_the_file_of_a_mode_and_the_one_to_build_for_if_it_spills(
    mode, need, warps, device, file, larger
):
    """A register file that the option `grf_mode` names is the only one to build for."""
    machine = target(device)
    assert register_file(mode, need, warps, machine) == file
    assert larger_file(f"-g {file.flag}", warps, machine) == larger


@pytest.mark.parametrize(("name", "large"), [
    ("gemm 64x128x64", True), ("gemm 64x64x32", True), ("softmax fp32", False), ("add", False),
    ("layer norm", False), ("packed 16x128x64", False),
])
def test_the_register_file_of_common_kernels(name, large):
    flags = loops.compiled(name, "bmg").metadata.build_flags
    assert ("large-register-file" in flags) == large


@triton.jit
def norm_gradient(x_ptr, dy_ptr, w_ptr, dx_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    """All of a row is needed again behind its sums."""
    i = tl.arange(0, BLOCK)
    x, dy = (tl.load(x_ptr + i, i < n, 0.0).to(tl.float32), tl.load(dy_ptr + i, i < n, 0.0))
    dy = dy.to(tl.float32)
    wdy = tl.load(w_ptr + i, i < n, 0.0).to(tl.float32) * dy
    dx = wdy - x * (tl.sum(x * wdy, 0) / n) - tl.sum(wdy, 0) / n
    tl.store(dx_ptr + i, dx, i < n)
    tl.store(partial_ptr + i, dy * x, i < n)


@pytest.mark.parametrize(("device", "block", "warps", "file"), [
    ("bmg", 4096, 8, RegisterFile(automatic=True)), ("bmg", 4096, 16, RegisterFile()),
    ("bmg", 16384, 8, RegisterFile(256)), ("dg2", 4096, 8, RegisterFile(256)),
    ("cri", 4096, 8, RegisterFile(512)), ("nvl-p", 4096, 8, RegisterFile(automatic=True))])
def test_straight_code_gets_the_large_file_where_it_would_spill(device, block, warps, file):
    """Intel's compiler decides if the estimate is between the two files, except for Xe-HPG.

    On cri its choice ends at 256 registers, which leave no more threads than 512.
    """
    names = norm_gradient.arg_names
    types = {n: "*fp16" if n.endswith("_ptr") else "i32" for n in names} | {"BLOCK": "constexpr"}
    made = triton.compile(
        ASTSource(norm_gradient, types, {"BLOCK": block},
                  {(i,): [["tt.divisibility", 16]] for i in range(6)}),
        target=GPUTarget("xpu", device, 16), options={"num_warps": warps})
    assert RegisterFile.of_flags(made.metadata.build_flags) == file


@pytest.mark.parametrize(("block", "told"), [(8192, False), (16384, True)])
def test_straight_code_that_does_not_fit_is_told_with_the_remedy(block, told):
    names = norm_gradient.arg_names
    types = {n: "*fp16" if n.endswith("_ptr") else "i32" for n in names} | {"BLOCK": "constexpr"}
    made = triton.compile(
        ASTSource(norm_gradient, types, {"BLOCK": block},
                  {(i,): [["tt.divisibility", 16]] for i in range(6)}),
        target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 8})
    found = [r for r in made.metadata.remarks if "at once" in r and "more warps" in r]
    assert bool(found) == told


@triton.jit
def sums_of_rows(dy_ptr, x_ptr, dw_ptr, db_ptr, dx_ptr, w_ptr, rows, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    w = tl.load(w_ptr + i, i < n, 0.0)
    dw, db = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * n + i, i < n, 0.0)
        dy = tl.load(dy_ptr + row * n + i, i < n, 0.0)
        tl.store(dx_ptr + row * n + i, w * dy - x * tl.sum(w * dy * x, 0), i < n)
        dw += dy * x
        db += dy
    tl.store(dw_ptr + i, dw, i < n)
    tl.store(db_ptr + i, db, i < n)


@pytest.mark.parametrize(("warps", "told"), [(16, False), (8, True)])
def test_rows_beside_sums_that_a_loop_carries_are_counted(warps, told):
    """As in Liger's gradients of norms: 128 registers are carried where it does not fit."""
    names = sums_of_rows.arg_names
    types = {n: "*fp32" if n.endswith("_ptr") else "i32" for n in names} | {"BLOCK": "constexpr"}
    made = triton.compile(
        ASTSource(sums_of_rows, types, {"BLOCK": 8192},
                  {(i,): [["tt.divisibility", 16]] for i in (0, 1, 2, 3, 4, 5, 7)}),
        target=GPUTarget("xpu", "bmg", 16), options={"num_warps": warps})
    found = [r for r in made.metadata.remarks if "at once" in r and "more warps" in r]
    assert bool(found) == told


@pytest.mark.parametrize(("depth", "warps", "told"), [(64, 8, False), (32, 4, True)])
def test_products_that_meet_in_a_loop_are_counted_together(depth, warps, told):
    row = loops.ROWS["attention backward"]
    source = replace(row, constants=row.constants | {"DEPTH": depth}).source()
    kernel = triton.compile(
        source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": warps})
    found = [r for r in kernel.metadata.remarks if "at once" in r and "it may spill" in r]
    assert bool(found) == told


def test_a_loop_that_cannot_fit_is_told_with_the_remedy():
    remarks = loops.compiled("gemm", "bmg", num_warps=16).metadata.remarks
    assert [r for r in remarks if "carries 256 registers of at most 256" in r and "more warps" in r]
    assert not any("carries" in r for r in loops.compiled("gemm", "bmg").metadata.remarks)


def test_a_work_group_of_64_warps_needs_the_threads_of_the_small_file():
    assert "large-register-file" not in loops.compiled(
        "gemm", "bmg", num_warps=64).metadata.build_flags


def test_remarks_tell_the_registers_that_the_file_is_chosen_by():
    built = loops.compiled("gemm", "bmg").metadata.remarks
    assert "a loop keeps 128 registers: built for 256" in built
    (small,) = [r for r in loops.compiled("layer norm", "bmg").metadata.remarks
                if "at once" in r]
    assert int(small.split()[1]) <= 128
    assert small.endswith("registers are needed at once: built for 128")


@pytest.mark.parametrize(("keys", "told"), [(64, False), (128, True)])
def test_a_loop_whose_product_hardly_fits_beside_its_sums_is_named(keys, told):
    row = loops.ROWS["attention 64"]
    source = replace(row, constants=row.constants | {"BLOCK_N": keys}).source()
    kernel = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 8})
    found = [text for text in kernel.metadata.remarks if "it may spill" in text]
    assert bool(found) == told
    assert all("160 at once" in text and "more warps" in text for text in found)


@pytest.mark.covering
@pytest.mark.parametrize("name", [
    "gemm tf32 32", "block-scaled fp8e4nv", "scaled e4m3", "MoE 64x128x32", "grouped"])
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_nothing_is_said_of_kernels_that_fit(name, device):
    """What is read or made piece by piece, and addresses, do not count."""
    remarks = loops.compiled(name, device).metadata.remarks
    assert not [text for text in remarks if "may spill" in text]


def test_the_addresses_that_the_file_is_chosen_by_are_told():
    """So that nobody wonders why few registers need the large one."""
    row = loops.ROWS["MoE"]
    source = replace(row, constants=row.constants | {"BLOCK_M": 16, "BLOCK_K": 64}).source()
    made = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 4})
    assert "a loop keeps 16 registers and 128 of addresses: built for 256" in made.metadata.remarks


@pytest.mark.parametrize(("name", "told"), [
    ("packed 64x128x64", True), ("attention window", True), ("gemm 64x128x64", False),
    ("MoE", False)])
def test_addresses_count_where_each_access_has_its_own(name, told):
    remarks = loops.compiled(name, "dg2").metadata.remarks
    assert any("may spill" in text for text in remarks) == told
