"""The reader of assembly listings, on a hand-written listing and on what the compiler writes."""

from __future__ import annotations

import pytest

from triton_xe.errors import DeviceError
from triton_xe.tools import intel, sample_kernel
from triton_xe.tools.listings import assembly

LISTING = """\
//.kernel "hand written"
//.platform XE2
//.thread_config numGRF=256, numAcc=8
//.spill size 128
_main:
        mov (16|M0)              r1.0<1>:f     0x0:f                                     // $1
_outer:
        send.gtwy (1|M0)         null     r2  null:0  0x0            0x02000004  {$1} // barrier
        sync.bar                 null                                            // $2
_inner:
        sync.nop                 null                             {Compacted,F@3}        // $3
        load_block2d.ugm.d16.a64 (1|M0)  r53:31  [r126:1]           {I@2,$9} // desc:0x3F00203
        load_block2d.ugm.d16.a64.ca.ca (1|M0)  null:0 [r16:1]      {I@1,$7} // desc:0x2080203
        load.ugm.d32.a64 (16|M0)  r8:1  [r6:2]  {$4} // ex_desc:0x0; desc:0x1
        load.slm.d32.a32 (16|M0)  r8:1  [r6:2]  {$4} // ex_desc:0x0; desc:0x1
        send.ugm (1|M0)   r36  r68  null:0  0x0  0x3F00203 {$3} // rd:31; load_block2d.ugm.d16.a64
(W)     load.ugm.d32x64t.a32 (1|M0) r7:4  ss[a0.2][r19:1]  {$2} //  fill from offset[17*64]
(W)     send.dc0 (16|M0)  null r0 r6:4 0x0  0x020F3022  {A@4,$4} //  scratch space spill: to
        dpas.8x8 (16|M0)         r11:f         r3:f              r37:hf            r61.0:hf  // $5
        dpas.8x8 (16|M0)         r19:f         r3:f              r37:hf            r65.0:hf  // $5
(W&f0.0) jmpi                                _inner                                        // $6
(f0.1)  goto (16|M0)             _done   _done                                             // $7
(W)     jmpi                                 _outer                                        // $8
_done:
(W)     send.gtwy (1|M0)         null     r112  null:0  0x0  0x02000010 {EOT}
"""


def test_hand_written_listing() -> None:
    figures = assembly.read(LISTING)
    assert (figures.kernel, figures.platform) == ("hand written", "XE2")
    assert (figures.grf_count, figures.spill_size, figures.loops) == (256, 128, 2)
    assert figures.hot_loop == assembly.LoopFigures(
        instructions=11, issued=10, dpas=2, block_loads=2, prefetches=1, gathers=1, slm=1,
        spills=1, fills=1, branches=1,
    )
    assert figures.hot_loop.other_per_dpas == 4.0
    assert figures.whole.barriers == 1
    assert figures.whole.moves == 1
    assert "2 dpas, 2 block loads, 1 prefetches" in figures.summary()


def test_the_common_path_sends_all_messages_and_takes_no_masks() -> None:
    load = "load.ugm.d32.a64 (16|M0)  r8:1  [r6:2]  {$4} // ex_desc:0x0\n"
    masks = "        cmp (16|M0) (lt)f0.0 null<1>:d r1.0<1;1,0>:d r2.0<0;1,0>:d // $1\n"
    path = assembly.common_path(f"""//.kernel "two versions"
_main:
{masks}
(W&f1.0) jmpi                                _leaves                                     // $0
(W&f0.0) jmpi                                _inside                                     // $1
{masks * 3}
(f0.0)  {load}
(W)     jmpi                                 _leaves                                     // $2
_inside:
        {load}
_leaves:
(W)     send.gtwy (1|M0)         null     r112  null:0  0x0  0x02000010 {{EOT}}
        mov (16|M0)              r1.0<1>:f     0x0:f
""")
    assert path is not None
    assert (path.issued, path.gathers, path.branches) == (5, 1, 2)
    assert assembly.common_path(LISTING) is None


def test_of_two_versions_the_short_one_runs_and_a_register_by_itself_is_no_product() -> None:
    slow = """
_slow:
        dpas.8x8 (8|M0)          r9:f     null:f            r9:hf            r9.0:hf   {Atomic}
        dpas.8x8 (8|M0)          r9:f     r9:f              r37:hf           r61.0:hf  // $8
        dpas.8x8 (8|M0)          r19:f    null:f            r37:hf           r65.0:hf  // $8
""" + "        mov (8|M0)   r1.0<1>:f     0x0:f     // $9\n" * 20 + """
(W&f0.0) jmpi                                _slow                                         // $9
"""
    assert assembly.read(LISTING + slow).hot_loop == assembly.read(LISTING).hot_loop
    assert assembly.read(slow.join(LISTING.split("_inner:", 1))).whole.dpas == 4


def test_without_dpas_the_deepest_loop_counts_and_without_loops_the_kernel() -> None:
    no_dpas = "\n".join(line for line in LISTING.splitlines() if "dpas" not in line)
    assert assembly.read(no_dpas).hot_loop.instructions == 9
    assert assembly.read(no_dpas).hot_loop.other_per_dpas is None
    no_branch = "\n".join(line for line in LISTING.splitlines() if "jmpi" not in line)
    figures = assembly.read(no_branch)
    assert figures.loops == 0
    assert figures.hot_loop == figures.whole


@pytest.mark.parametrize("text", ["", "hello\nworld\n", "//.kernel k\n"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="not an assembly listing"):
        assembly.read(text)


@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", ["pvc", "bmg", "lnl", "ptl"])
def test_loop_of_a_matrix_kernel(device: str, block_gemm: str) -> None:
    spirv = sample_kernel.to_spirv(block_gemm)
    built = intel.compile_spirv(spirv, device, "-ze-opt-large-register-file")
    figures = assembly.read(built.asm["gemm"])
    loop = figures.hot_loop
    assert figures.grf_count == 256
    assert (figures.spill_size, loop.spills, loop.fills) == (0, 0, 0)
    assert (loop.dpas, loop.block_loads, loop.prefetches) == (16, 2, 1)
    assert (loop.gathers, loop.slm, figures.whole.block_stores) == (0, 0, 8)
    assert loop.other_per_dpas is not None
    assert 0.2 < loop.other_per_dpas < 1.5


def test_what_an_instruction_keeps_busy() -> None:
    hot, rest = assembly.hot_and_rest(LISTING)
    assert [i.pipe for i in hot] == [
        "", *["messages"] * 7, "dpas", "dpas", "integer"]
    assert [(i.pipe, i.width) for i in rest[:1]] == [("fp", 16)]
    assert [i.repeats for i in hot if i.is_dpas] == [8, 8]
    lines = "math.exp (16|M0) r1.0<1>:f r2.0<1;1,0>:f\nadd (32|M0) r4.0<1>:d r5:f r6:d\n"
    assert [i.pipe for i in assembly.hot_and_rest(lines)[1]] == ["maths", "integer"]


@pytest.mark.intel_compiler
def test_instructions_of_a_launch_are_those_of_the_listing() -> None:
    """The K loop runs 128 times; what is outside of it runs once."""
    from benchmarks.loops import ROWS, compiled
    from triton_xe.runtime.estimate.launch_work import sampled, work_of
    from triton_xe.tools.exact import exact_issue
    from triton_xe.tools.report.gathering import described, listing_of

    row, kernel = ROWS["gemm"], compiled("gemm", "bmg")
    listing = listing_of(kernel, "bmg")
    figures = assembly.read(listing)
    _, model = described(kernel, "bmg")
    walk = sampled(model, row.arguments, row.grid)
    estimated = work_of(model, walk)[0].issue
    exact = exact_issue(listing, model, walk, estimated)
    loop, whole = figures.hot_loop, figures.whole
    sends = loop.block_loads + loop.prefetches
    assert exact.dpas == estimated.dpas == 128 * loop.dpas
    assert exact.messages == pytest.approx(128 * sends + whole.block_stores + 4, abs=6)
    others = 128 * (loop.issued - loop.dpas - sends) + whole.issued - loop.issued
    assert exact.fp + exact.integer == pytest.approx(others, rel=0.25)
