"""Check that the list of adjusted modules names functions, and that the documentation has it."""

import importlib
import re
from pathlib import Path

from triton_xe.runtime.torch_xpu.adjustments import ADJUSTMENTS

DOCS = Path(__file__).parents[3] / "docs/torch.md"


def test_table_of_adjusted_modules_is_complete() -> None:
    text = DOCS.read_text().split("## What is changed in torch and Triton")[1].split("\n\n")[2]
    listed = re.findall(r"^\| `([\w.]+)` \|", text, re.M)
    assert sorted(listed) == sorted(ADJUSTMENTS)


def test_each_adjustment_is_a_function() -> None:
    for home, name in (each.split(".") for each in ADJUSTMENTS.values()):
        module = importlib.import_module(f"triton_xe.runtime.torch_xpu.{home}")
        assert callable(getattr(module, name))
