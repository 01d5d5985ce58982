"""The examples in docstrings run, and print what the docstring says."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = {"triton_xe": "triton_xe", "backend": "triton_xe.backend", "lowering": "triton_xe.lowering",
         "runtime": "triton_xe.runtime", "benchmarks": "benchmarks"}


def modules_with_examples():
    return [module for room in ROOMS for module in modules_of(room)]


def modules_of(room):
    for path in sorted((ROOT / room).rglob("*.py")):
        if ">>> " in path.read_text():
            parts = path.relative_to(ROOT / room).with_suffix("").parts
            yield ".".join((ROOMS[room], *(part for part in parts if part != "__init__")))


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
