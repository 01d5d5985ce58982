"""What C++ of Inductor is compiled with on a simulated device; `inductor/test_cpp.py` runs it."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import target
from triton_xe.runtime.torch_xpu import compilation, cpp
from triton_xe.runtime.torch_xpu.inductor import BLOCKS, for_sort, sums_fit


def test_each_function_of_an_operator_is_declared_and_defined_once() -> None:
    files = cpp.WRAPPER.generated(compilation.installed_torch())
    declared = re.findall(r"(aoti_torch_xpu_\w+)\(.*?\);", files[cpp.SHIMS.format("xpu")], re.S)
    defined = re.findall(r"(aoti_torch_xpu_\w+)\([^;{]*\) \{", files["c_shim_xpu.inc"])
    assert declared == defined
    assert len(declared) == len(set(declared)) > 100
    assert {"aoti_torch_xpu_addmm_out", "aoti_torch_xpu_convolution"} <= set(declared)


def test_a_function_passes_all_its_arguments() -> None:
    files = cpp.WRAPPER.generated(compilation.installed_torch())
    body = files["c_shim_xpu.inc"].partition(" aoti_torch_xpu_topk(")[2].partition("}\n")[0]
    given = [each.split()[-1] for each in body.partition(")")[0].split(",")]
    assert f"slots[] = {{{', '.join(given)}}}" in body
    assert 'find("topk")' in body


@pytest.mark.parametrize("kind", ["f16", "i16"])
def test_numbers_of_16_bits_are_refused(kind: str) -> None:
    kernel = object.__new__(cpp.Kernel)
    kernel.name, kernel.types = "scaled", ("ptr", kind)
    with pytest.raises(UnsupportedError, match="'scaled' takes a number of 16 bits"):
        kernel.launch_addressed((1, 1, 1), [0, 0], 0)


@pytest.mark.parametrize(("row", "blocks", "chosen"), [
    (128, (1, 8, 32), (1, 1)), (16, (1, 8, 32), (8, 1)), (512, (1,), (1, 4)),
    (512, (8,), (8, 32)), (4, (1, 8), (8, 1)),
])
def test_a_sort_has_few_elements_in_a_lane(row, blocks, chosen) -> None:
    configs = [SimpleNamespace(kwargs={"XBLOCK": block}, num_warps=2) for block in blocks]
    found = for_sort(configs, row, 16)
    assert (found.kwargs["XBLOCK"], found.num_warps) == chosen


def test_products_whose_sums_fill_the_registers_are_known() -> None:
    xe2, xe = target("bmg"), target("dg2")
    assert sums_fit(128 * 128, 8, xe2)
    assert not sums_fit(128 * 128, 8, xe)
    assert not sums_fit(128 * 128, 4, xe2)


def test_products_are_tuned_with_blocks_of_onednn() -> None:
    heuristics = pytest.importorskip("torch._inductor.template_heuristics.triton")
    tried = {(each.block_m, each.block_n, each.block_k, each.num_warps)
             for each in heuristics.XPUMMTemplateConfigHeuristic().mm_configs}
    assert set(BLOCKS) < tried
    assert all(sums_fit(m * n, warps, target("bmg")) for m, n, _, warps in BLOCKS)
