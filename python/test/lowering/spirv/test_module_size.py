"""Modules of small kernels, with their texts, are about as large as those of Intel's fork."""

import csv

import pytest

from benchmarks.ledger import FORK
from benchmarks.loops import compiled

MOST = 1.5


@pytest.mark.parametrize("name", ["add", "layer norm", "prefix sum", "prefix sum of columns",
                                  "prefix sum of rows", "recurrence", "row sum", "softmax fp16"])
def test_modules_are_small(name: str) -> None:
    with FORK.open(newline="") as file:
        theirs = {row["kernel"]: row["spirv"] for row in csv.DictReader(file)}
    assert len(compiled(name, "bmg").asm["spv"]) <= MOST * int(theirs[name])
