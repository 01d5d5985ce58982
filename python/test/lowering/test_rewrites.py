"""Each rewrite of each pass on a small input of its own.

`filecheck/<pass>.mlir` names its passes and holds inputs with their expectations, with `// -----`
between them; what stands before a line `// ===` (layouts) belongs to all of them.  An input may
name other passes, and have layouts of its own instead.
"""

import re
from pathlib import Path

import pytest

from python.test.filecheck import file_check
from triton_xe.lowering.family import Family
from triton_xe.lowering.pipeline import pass_table
from triton_xe.lowering.universe import UNIVERSE
from triton_xe.tools.commands.opt import transformed

FOLDER = Path(__file__).parent / "filecheck"
ATTRIBUTES = (
    '"ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = {lanes} : i32, '
    'ttg.target = "xpu:{target}"'
)


def sections():
    for path in sorted(FOLDER.rglob("*.mlir")):
        text = path.read_text()
        shared, found, rest = text.partition("// ===\n")
        shared, rest = (shared, rest) if found else ("", text)
        first = passes_of(text)
        for number, part in enumerate(rest.split("// -----\n")):
            own = "".join(re.findall(r"^#.*\n(?: .*\n)*", part, re.MULTILINE))
            yield pytest.param(passes_of(part) or first, own or shared, part.replace(own, ""),
                               id=f"{path.stem}-{number}")


def passes_of(text):
    found = re.search(r"^// PASSES: (.*)$", text, re.MULTILINE)
    return found and found[1]


@pytest.mark.parametrize(("passes", "shared", "part"), list(sections()))
def test_rewrite(passes, shared, part, tmp_path):
    path = tmp_path / "input.mlir"
    path.write_text(part)
    file_check(path, transformed(wrapped(shared, part), passes))


def wrapped(shared, part):
    """The module of a section."""
    named = re.search(r"^// TARGET: (.*)$", part, re.MULTILINE)
    target = named[1] if named else "bmg"
    attributes = ATTRIBUTES.format(target=target, lanes=8 if target == "dg2" else 16)
    if "func.func" not in part:
        attributes += f', "ttg.num-warps" = {1 if "WARPS: 1" in part else 4} : i32'
    if "// GUARDS: launch" in part:
        attributes += ', xe.options = {guards = "launch"}'
    return f"{shared}\nmodule attributes {{{attributes}}} {{\n{part}}}\n"


def test_the_architecture_page_has_the_table_of_the_passes():
    page = Path(__file__).parents[3] / "docs" / "architecture.md"
    assert pass_table() in page.read_text()


def test_every_pass_and_rule_has_a_file_of_its_name():
    """A family's inputs are those of its rules."""
    passes = [load() for load in UNIVERSE.all_passes.values()]
    rules = [rule for made in passes if issubclass(made, Family) for rule in made.table]
    alone = [made for made in passes if not issubclass(made, Family)]
    named = {path.stem.replace("_", "-") for path in FOLDER.rglob("*.mlir")}
    assert named == {each.name for each in (*alone, *rules)}
    for made in passes:
        assert made.__module__.endswith("." + made.name.replace("-", "_"))
        assert made.__name__.lower() == made.name.replace("-", "") + "pass"
    for rule in rules:
        assert rule.rewrite.__module__.endswith("." + rule.rewrite.__name__)


def test_a_family_refuses_rules_that_it_does_not_have():
    with pytest.raises(ValueError, match="simplify-masks has no rule swap-pairs; it has split-in"):
        transformed(wrapped("", ""), "simplify-masks{rules=split-inside,swap-pairs}")
