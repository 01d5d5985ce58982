"""What C++ of Inductor is compiled with on a simulated device; `inductor/test_cpp.py` runs it."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import target
from triton_xe.runtime.torch_xpu import compilation, cpp
from triton_xe.runtime.torch_xpu.inductor import for_sort, one_distance, sums_fit


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


def test_what_the_clock_cannot_tell_apart_is_tried_once() -> None:
    made = [SimpleNamespace(block_m=m, num_stages=stages, num_warps=warps)
            for m, stages, warps in [(64, 4, 4), (64, 2, 4), (64, 1, 4), (64, 3, 8), (32, 5, 4)]]
    assert one_distance(made) == made[1:]


def test_inductor_tries_scaled_products_at_one_distance(xpu: None) -> None:
    heuristics = pytest.importorskip("torch._inductor.template_heuristics.triton")
    if not hasattr(tuner := heuristics.XPUConfigHeuristic(), "should_scale_configs"):
        pytest.skip("this torch always asks the graph for sizes")
    tuner.should_scale_configs = False
    given = tuner.scaled_mm_configs
    found = tuner._scale_mm_configs(512, 512, 512, given, 1, False, lambda *_: False)
    tiles = {(c.block_m, c.block_n, c.block_k, c.num_warps): c.num_stages for c in found}
    assert len(tiles) == len(found) < len(given)
    assert all(stages == min(c.num_stages for c in given if (
        c.block_m, c.block_n, c.block_k, c.num_warps) == tile) for tile, stages in tiles.items())


@pytest.mark.parametrize("name", ["fwd", "bwd"])
def test_inductor_tries_flex_attention_at_one_distance(
    xpu: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    heuristics = pytest.importorskip("torch._inductor.template_heuristics.triton")
    tuner = heuristics.XPUConfigHeuristic()
    make = getattr(tuner, f"get_flex_attn_{name}_configs", None)
    if make is None:
        pytest.skip("this torch has no configurations of flex attention for xpu")
    import torch

    listed = f"flex_attn_{name}_autotune_configs"  # fewer where `CI` is set
    monkeypatch.setattr(tuner, listed, [
        replace(each, num_stages=stages) for each in getattr(tuner, listed)
        for stages in (1, 2, 3, 5)])
    with torch._inductor.config.patch(max_autotune=True):
        found = make(64, torch.float16)
    alike = [{**vars(each), "num_stages": min(2, each.num_stages)} for each in found]
    assert {each["num_stages"] for each in alike} == {1, 2}
    assert all(alike.count(each) == 1 for each in alike)
