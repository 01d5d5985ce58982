"""Each rewrite of each pass on a small input of its own.

A file of `rewrites/` names its passes and holds inputs with their expectations, with `// -----`
between them; what stands before a line `// ===` (layouts) belongs to all of them.
"""

import re
import sys
from pathlib import Path

import pytest

from triton_xe.dialects import PASSES
from triton_xe.tools.commands.opt import transformed

sys.path.insert(0, str(Path(__file__).parent))

from module_text import file_check

FOLDER = Path(__file__).parent / "rewrites"
ATTRIBUTES = (
    '"ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = {lanes} : i32, '
    'ttg.target = "xpu:{target}"'
)


def sections():
    for path in sorted(FOLDER.glob("*.mlir")):
        text = path.read_text()
        shared, found, rest = text.partition("// ===\n")
        shared, rest = (shared, rest) if found else ("", text)
        passes = text.split("\n", 1)[0].removeprefix("// PASSES: ")
        for number, part in enumerate(rest.split("// -----\n")):
            yield pytest.param(passes, shared, part, id=f"{path.stem}-{number}")


@pytest.mark.parametrize(("passes", "shared", "part"), list(sections()))
def test_rewrite(passes, shared, part, tmp_path):
    target = "dg2" if "// TARGET: dg2" in part else "bmg"
    attributes = ATTRIBUTES.format(target=target, lanes=8 if target == "dg2" else 16)
    if "func.func" not in part:
        attributes += f', "ttg.num-warps" = {1 if "WARPS: 1" in part else 4} : i32'
    path = tmp_path / "input.mlir"
    path.write_text(part)
    module = f"{shared}\nmodule attributes {{{attributes}}} {{\n{part}}}\n"
    file_check(path, transformed(module, passes))


def test_the_architecture_page_lists_the_passes_in_order():
    page = Path(__file__).parents[3] / "docs" / "architecture.md"
    assert re.findall(r"^\|[^|]*\| `([a-z-]+)` \|", page.read_text(), re.MULTILINE) == list(PASSES)


def test_every_pass_has_inputs():
    last = {path.read_text().split("\n", 1)[0].split(",")[-1].split()[-1].split("{")[0]
            for path in FOLDER.glob("*.mlir")}
    assert last == set(PASSES)
