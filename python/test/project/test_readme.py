"""Every block of the README runs, and prints what the README says it prints."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall((ROOT / "README.md").read_text())
MARK = "---- end of block ----"


def commands():
    return [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]


def expected_after(kind):
    """(block, the text block that follows it or "") for each block of a kind."""
    following = [*BLOCKS[1:], ("", "")]
    return [
        (text, after if after_kind == "text" else "")
        for (block_kind, text), (after_kind, after) in zip(BLOCKS, following, strict=True)
        if block_kind == kind
    ]


def run(*arguments):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_XE_DEVICE"}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True,
                          check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def normal(text, *patterns):
    """Lines without what may differ: names of SSA values, and what `patterns` match."""
    for pattern in (r'%[\w."]+', *patterns):
        text = re.sub(pattern, "#", text)
    return [line.rstrip() for line in text.strip().splitlines()]


def agrees(actual, expected):
    """Equal lines; ` ...` at the end of `expected` stands for the rest of the line."""
    if expected.endswith(" ..."):
        return actual.startswith(expected.removesuffix(" ..."))
    return actual == expected


def check_lines(actual, expected):
    """Lines agree in order; a line `...` in `expected` stands for any lines."""
    rest = iter(actual)
    skipping = False
    for line in expected:
        if line == "...":
            skipping = True
            continue
        found = next((x for x in rest if agrees(x, line)), None) if skipping else next(rest, "")
        assert found is not None, f"missing: {line}"
        assert agrees(found, line), f"printed {found!r}, the README says {line!r}"
        skipping = False


def test_the_tour(tmp_path):
    blocks = expected_after("python")
    script = tmp_path / "tour.py"
    script.write_text(f"\nprint('{MARK}')\n".join(text for text, _ in blocks))
    outputs = run(str(script)).split(MARK)
    for output, (_, expected) in zip(outputs, blocks, strict=True):
        check_lines(normal(output), normal(expected))


def test_the_demo_prints_what_is_shown():
    shown = next(after for text, after in expected_after("sh") if text == "make demo\n")
    numbers = r"(?<![\w+|])\d+(?:\.\d+)?(?= against| GFLOP|\)| ms| s )"
    output = run("-m", "examples.demo")
    check_lines(normal(output, numbers), normal(shown, numbers))


def test_make_targets_exist():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    used = [line.split()[1] for line in commands() if line.startswith("make ")]
    assert {"demo", "test", "bench"} <= set(used) <= set(targets)


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("triton-xe ")])
def test_commands_run(line):
    assert run("-m", "triton_xe.tools.cli", *shlex.split(line)[1:])


def test_no_other_commands():
    assert [c for c in commands() if not c.startswith(("make ", "triton-xe "))] == []


def test_the_folders_exist():
    text = (ROOT / "README.md").read_text()
    rows = text[text.index("| folder"):].split("\n\n")[0].splitlines()[2:]
    cells = [cell for row in rows for cell in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(cells) >= len(rows) > 4
    assert [cell for cell in cells if not (ROOT / cell).exists()] == []
