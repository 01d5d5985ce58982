"""What stands before and behind the K loop of a product."""

from __future__ import annotations

import re

import pytest

from benchmarks.loops import compiled

TILES = 16
"""Products of one subgroup: 32x64 elements, 8x16 each."""
PRODUCT = "GenISA.sub.group.dpas"


def parts(name: str, device: str) -> tuple[str, str, str]:
    """The LLVM IR before the loop, in it, and behind it."""
    code = compiled(name, device).asm["llir"].split("\ndeclare ")[0]
    before, _, rest = code.partition("\nloop:")
    loop, _, after = rest.partition("\nafter:")
    return before, loop, after


@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize("name", ["gemm tf32 16", "gemm W8A16"])
def test_many_sums_begin_as_products_of_zeros(name, device):
    before, loop, _ = parts(name, device)
    assert before.count(f'call <8 x float> @"llvm.genx.{PRODUCT}') == TILES
    sums = re.findall(r"phi\s+<8 x float> \[(.*?), %", loop)
    assert len(sums) == TILES
    assert not any("0x0" in start for start in sums)
