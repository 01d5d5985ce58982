"""Figures of machine code, of programs in assembly and of what the compiler writes."""

from __future__ import annotations

import pytest

from python.test.emulator.assembled import END, program
from python.test.emulator.test_lsc import descriptor
from triton_xe.runtime.level_zero.zebin import KernelFacts
from triton_xe.tools import intel, native_figures, sample_kernel
from triton_xe.tools.native_figures import LoopFigures, common_path, hot_and_rest, pipe

pytestmark = pytest.mark.intel_compiler
FACTS = KernelFacts("assembled", grf_count=256, spill_size=128)
LOAD = f"send.ugm (16|M0) r8 r6 null:0 0x0 0x{descriptor('load', 'd32', addresses=2):08X}"
BLOCK = "send.ugm (1|M0) {} r126 null:0 0x0 0x{:08X}"
SCRATCH = f"0x{descriptor('load', 'd32', address=2, vector=64, transposed=True) | 2 << 29:08X}"
DPAS = "dpas.8x8 (16|M0) r{}:f r3:f r37:hf r61.0:hf\n"
PROGRAM = f"""\
mov (16|M0) r1.0<1>:f 0x0:f
outer:
(W) send.gtwy (1|M0) null r2 null:0 0x0 0x02000004 {{$1}}
sync.bar null
inner:
sync.nop null {{F@3}}
{BLOCK.format("r53", 0x03F00203)}
{BLOCK.format("null", 0x02080203)}
{LOAD}
{LOAD.replace("ugm", "slm")}
(W) send.ugm (1|M0) r7 r19 null:0 a0.2 {SCRATCH}
{DPAS.format(11)}{DPAS.format(19)}
(W&f0.0) jmpi inner
(f0.1) goto (16|M0) done done
(W) jmpi outer
done:
"""


def figures(text: str, device: str = "bmg") -> native_figures.KernelFigures:
    return native_figures.figures(program(device, text), FACTS)


def test_a_program_in_assembly() -> None:
    found = figures(PROGRAM)
    assert (found.grf_count, found.spill_size, found.loops) == (256, 128, 2)
    assert found.hot_loop == LoopFigures(
        instructions=9, issued=8, dpas=2, block_loads=1, prefetches=1, gathers=1, slm=1,
        fills=1, branches=1)
    assert found.hot_loop.other_per_dpas == 3.0
    assert (found.whole.barriers, found.whole.moves) == (1, 1)


def test_scratch_memory_before_xe2_has_messages_of_its_own() -> None:
    spill = "(W) send.dc0 (16|M0) null r0 r6:1 0x0 0x020F1022"
    assert figures(spill, "pvc").whole.spills == 1
    fill = "(W) send.dc0 (16|M0) r6 r0 null:0 0x0 0x021C1022"
    assert figures(fill, "pvc").whole.fills == 1


def test_the_common_path_sends_all_messages_and_takes_no_masks() -> None:
    mask = "cmp (16|M0) (lt)f0.0 null<1>:d r1.0<1;1,0>:d r2.0<0;1,0>:d\n"
    path = common_path(program("bmg", f"""
{mask}
(W&f1.0) jmpi leaves
(W&f0.0) jmpi inside
{mask * 3}
(f0.0) {LOAD}
(W) jmpi leaves
inside:
{LOAD}
leaves:
{END}
mov (16|M0) r1.0<1>:f 0x0:f
"""))
    assert path is not None
    assert (path.issued, path.gathers, path.branches) == (5, 1, 2)
    assert common_path(program("bmg", PROGRAM)) is None


def test_of_two_versions_the_short_one_runs_and_a_register_by_itself_is_no_product() -> None:
    slow = """
slow:
dpas.8x8 (8|M0) r9:f null:f r9:hf r9.0:hf {Atomic}
dpas.8x8 (8|M0) r9:f r9:f r37:hf r61.0:hf
dpas.8x8 (8|M0) r19:f null:f r37:hf r65.0:hf
""" + "mov (8|M0) r1.0<1>:f 0x0:f\n" * 20 + "(W&f0.0) jmpi slow\n"
    fast = PROGRAM.replace("(16|M0) r11", "(8|M0) r11").replace("(16|M0) r19", "(8|M0) r19")
    on_dg2 = "\n".join(line for line in fast.splitlines() if "send" not in line) + "\n"
    assert figures(on_dg2 + slow, "dg2").hot_loop == figures(on_dg2, "dg2").hot_loop
    assert figures(slow + on_dg2, "dg2").whole.dpas == 4


def test_without_dpas_the_deepest_loop_counts_and_without_loops_the_kernel() -> None:
    no_dpas = "\n".join(line for line in PROGRAM.splitlines() if "dpas" not in line)
    assert figures(no_dpas).hot_loop.instructions == 7
    assert figures(no_dpas).hot_loop.other_per_dpas is None
    no_branch = "\n".join(line for line in PROGRAM.splitlines() if "jmpi" not in line)
    found = figures(no_branch)
    assert found.loops == 0
    assert found.hot_loop == found.whole


def test_what_an_instruction_keeps_busy() -> None:
    hot, rest = hot_and_rest(program("bmg", PROGRAM))
    assert [pipe(each) for each in hot] == ["", *["messages"] * 5, "dpas", "dpas", "integer"]
    assert (pipe(rest[0]), rest[0].width) == ("fp", 16)
    text = "math.exp (16|M0) r1.0<1>:f r2.0<1;1,0>:f\nadd (32|M0) r4.0<1>:d r5:d r6:d\n"
    assert [pipe(each) for each in hot_and_rest(program("bmg", text))[1]] == [
        "maths", "integer", ""]


@pytest.mark.parametrize("device", ["pvc", "bmg", "lnl", "ptl"])
def test_loop_of_a_matrix_kernel(device: str, block_gemm: str) -> None:
    spirv = sample_kernel.to_spirv(block_gemm)
    found = intel.compile_spirv(spirv, device, "-ze-opt-large-register-file").figures
    loop = found.hot_loop
    assert found.grf_count == 256
    assert (found.spill_size, loop.spills, loop.fills) == (0, 0, 0)
    assert (loop.dpas, loop.block_loads, loop.prefetches) == (16, 2, 1)
    assert (loop.gathers, loop.slm, found.whole.block_stores) == (0, 0, 8)
    assert loop.other_per_dpas is not None
    assert 0.2 < loop.other_per_dpas < 1.5


def test_instructions_of_a_launch_are_those_of_the_native_code() -> None:
    """The K loop runs 128 times; what is outside of it runs once."""
    from benchmarks.loops import ROWS, compiled
    from triton_xe.tools.exact import exact_issue
    from triton_xe.tools.report.gathering import native_of, timed_kernel

    row, kernel = ROWS["gemm"], compiled("gemm", "bmg")
    native = native_of(kernel, "bmg")
    _, model = timed_kernel(kernel, "bmg")
    walk = model.sampled(row.arguments, row.grid)
    estimated = model.work_of(walk)[0].issue
    exact = exact_issue(native.program, model, walk, estimated)
    loop, whole = native.figures.hot_loop, native.figures.whole
    sends = loop.block_loads + loop.prefetches
    assert whole.dpas == loop.dpas
    assert exact.dpas == estimated.dpas == 128 * loop.dpas
    assert exact.messages == pytest.approx(128 * sends + whole.block_stores + 4, abs=6)
    others = 128 * (loop.issued - loop.dpas - sends) + whole.issued - loop.issued
    assert exact.fp + exact.integer == pytest.approx(others, rel=0.25)
