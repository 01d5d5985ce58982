"""Check that the documentation lists every module of torch and Triton that is adjusted."""

import re
from pathlib import Path

from triton_xe.runtime.torch_xpu import inductor

DOCS = Path(__file__).parents[3] / "docs/torch.md"


def test_table_of_adjusted_modules_is_complete() -> None:
    text = DOCS.read_text().split("## What is changed in torch and Triton")[1].split("\n\n")[2]
    listed = re.findall(r"^\| `([\w.]+)` \|", text, re.M)
    assert sorted(listed) == sorted(inductor.ADJUSTMENTS)
