"""Every block of the README and of the pages runs, and prints what the page says it prints."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import compatibility
from triton_xe import triton_versions

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("README.md", "docs/first-kernel.md", "docs/reading.md", "docs/debugging.md",
         "docs/recording.md", "docs/tuning.md", "docs/gluon.md", "docs/ahead-of-time.md",
         "docs/options.md", "docs/internals/first-pass.md", "docs/reports/findings.md")
MARK, END_OF_PAGE = "---- end of block ----", "---- end of page ----"
ONE_AFTER_ANOTHER = f"""
import runpy, sys
for number, script in enumerate(sys.argv[1:]):
    if number:
        print({END_OF_PAGE!r})
    runpy.run_path(script, run_name="__main__")
"""


def blocks_of(page):
    return BLOCK.findall((ROOT / page).read_text())


def commands(page):
    return [line for kind, text in blocks_of(page) if kind == "sh" for line in text.splitlines()]


def expected_after(page, kind):
    """(block, the text block that follows it or "") for each block of a kind."""
    blocks = blocks_of(page)
    following = [*blocks[1:], ("", "")]
    return [
        (text, after if after_kind == "text" else "")
        for (block_kind, text), (after_kind, after) in zip(blocks, following, strict=True)
        if block_kind == kind
    ]


def run(*arguments):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_XE_DEVICE"}
    environment["PYTHONPATH"] = str(ROOT)
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


def check_lines(actual, expected, page="README.md"):
    """Lines agree in order; a line `...` in `expected` stands for any lines."""
    rest = iter(actual)
    skipping = False
    for line in expected:
        if line == "...":
            skipping = True
            continue
        found = next((x for x in rest if agrees(x, line)), None) if skipping else next(rest, "")
        assert found is not None, f"{page}: missing: {line}"
        assert agrees(found, line), f"{page} says {line!r}, printed {found!r}"
        skipping = False


def test_the_programs(tmp_path):
    """All pages in one process, each with names of its own."""
    pages = {page: expected_after(page, "python") for page in PAGES}
    scripts = [tmp_path / str(number) / "page.py" for number in range(len(pages))]
    for script, blocks in zip(scripts, pages.values(), strict=True):
        script.parent.mkdir()
        script.write_text(f"\nprint('{MARK}')\n".join(text for text, _ in blocks))
    outputs = run("-c", ONE_AFTER_ANOTHER, *map(str, scripts)).split(END_OF_PAGE)
    for output, (page, blocks) in zip(outputs, pages.items(), strict=True):
        for found, (_, expected) in zip(output.split(MARK), blocks, strict=True):
            check_lines(normal(found), normal(expected), page)


def test_the_demo_prints_what_is_shown():
    shown = next(after for text, after in expected_after("README.md", "sh") if "demo" in text)
    numbers = r"(?<![\w+|])\d+(?:\.\d+)?(?= against| GFLOP|\)| ms| s )"
    output = run("-m", "examples.demo")
    check_lines(normal(output, numbers), normal(shown, numbers))


@pytest.mark.parametrize("target", ["quick", "test-hosts", "test-versions"])
def test_what_make_runs_exists(target: str) -> None:
    said = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    paths = re.findall(r"python/test/[\w/.]+", said.stdout)
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_make_targets_exist():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    used = [line.split()[1] for line in commands("README.md") if line.startswith("make ")]
    assert {"demo", "test", "bench"} <= set(used) <= set(targets)


@pytest.mark.parametrize(
    "line", [line for page in PAGES for line in commands(page) if line.startswith("triton-xe ")])
def test_commands_run(line):
    assert run("-m", "triton_xe.tools.cli", *shlex.split(line)[1:])


def test_no_other_commands():
    for page in PAGES:
        assert [c for c in commands(page) if not c.startswith(("make ", "triton-xe "))] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 80


def test_every_page_is_in_the_site_once():
    """Sphinx warns of missing pages, but not of those that are in two sections."""
    entries = []
    for page in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.M | re.S):
            names = [line for line in block.splitlines() if line and not line.startswith(":")]
            entries += [(page.parent / f"{name}.md").resolve() for name in names]
    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(entries) == sorted(pages - {(ROOT / "docs/index.md").resolve()})


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_troubleshooting_names_messages_that_there_are():
    """In our sources, torch, Triton and Python; text that a line break parts is joined."""
    import torch
    import triton

    def endless():
        endless()

    with pytest.raises(RecursionError) as python:
        endless()

    files = [path for room in ("triton_xe", "backend", "lowering", "runtime")
             for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".cpp")]
    files += [Path(torch.__file__).parent / "xpu/__init__.py",
              Path(triton.__file__).parent / "runtime/errors.py"]
    said = "".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text()) for path in files)
    said += str(python.value)
    rows = (ROOT / "docs/troubleshooting.md").read_text().splitlines()
    phrases = [phrase for row in rows if row.startswith("| `")
               for phrase in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert len(phrases) > 20
    assert [phrase for phrase in phrases if phrase not in said] == []


def test_the_table_of_versions_is_what_was_measured():
    text = (ROOT / "docs/install.md").read_text()
    assert compatibility.table() in text
    for row in compatibility.rows():
        assert triton_versions.find(row["triton"]) is not None
        assert row["kernels"] == "works"
        assert row["compiled"] in ("works", "fails")


def test_the_folders_exist():
    text = (ROOT / "docs/architecture.md").read_text()
    rows = text[text.index("| folder"):].split("\n\n")[0].splitlines()[2:]
    cells = [cell for row in rows for cell in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(cells) >= len(rows) > 4
    assert [cell for cell in cells if not (ROOT / cell).exists()] == []
