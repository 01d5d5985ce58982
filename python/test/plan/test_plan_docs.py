"""The examples in the planner's docstrings."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "hardware.block_2d",
    "hardware.dpas",
    "plan",
    "plan.candidates",
    "plan.operand",
    "plan.prefetch",
    "plan.surface",
    "tools.tensor_arguments",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"triton_xe.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
