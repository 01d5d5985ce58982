"""Every function that compiled kernels call is in the table, as declared, and on the device."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from triton_xe.errors import XeError  # noqa: E402
from triton_xe.hardware.target import target  # noqa: E402
from triton_xe.intrinsics import find  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "lowering"))
import ttgir_kernels  # noqa: E402

DEVICES = ("bmg", "dg2", "pvc", "lnl", "ptl")
CASES = list(zip(ttgir_kernels.CASES, itertools.cycle(DEVICES), strict=False))
DECLARATION = re.compile(r'^declare (?:spir_func )?(.+?) @"?([^"(]+)"?\((.*)\)', re.MULTILINE)
PARAMETER = re.compile(r'(<[^>]*>|ptr(?: addrspace\(\d+\))?|\w+)[^,]*(?:, |$)')


def compiled(case: ttgir_kernels.Case, device: str) -> Any:
    attributes = {(k,): [["tt.divisibility", 16]] for k in case.aligned}
    source = ASTSource(case.fn, case.signature, case.constants, attributes)
    lanes = target(device).subgroup_size
    return triton.compile(source, target=GPUTarget("xpu", device, lanes), options=case.options)


@pytest.mark.sample(10)
@pytest.mark.parametrize(("case", "device"), CASES, ids=[f"{c.name}-{d}" for c, d in CASES])
def test_names_of_compiled_kernels(case: ttgir_kernels.Case, device: str) -> None:
    try:
        text = compiled(case, device).asm["llir"]
    except XeError as refusal:
        pytest.skip(str(refusal))
    for result, symbol, arguments in DECLARATION.findall(text):
        row, types = find(symbol), PARAMETER.findall(arguments)
        assert row.known, symbol
        row.check(result, types)
        assert symbol in (row.symbol(result, types), row.symbol(result, types, unsigned=True))
        assert row.available(target(device)), f"{device} has no {symbol}"
