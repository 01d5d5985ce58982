"""What C++ of Inductor is compiled with on a simulated device; `inductor/test_cpp.py` runs it."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from triton_xe.runtime.torch_xpu import compilation, cpp


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
