"""`triton-xe check` runs any program under the checks, and sums up what they found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from triton_xe.tools.commands import check

PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def add(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i), i < n)

@triton.jit
def collide(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i % 64, i)

def test_it():
    whole = torch.ones(2000, device="xpu")
    out = torch.zeros(1000, device="xpu")
    for _ in range(3):
        add[(4,)](whole[:1000], out, 1000, 256)
    collide[(1,)](torch.zeros(64, dtype=torch.int32, device="xpu"), 1024)
    assert out.sum() == 1000

if __name__ == "__main__":
    test_it()
    raise SystemExit(STATUS)
"""


@pytest.fixture
def program(tmp_path: Path) -> Any:
    def written(status: int = 0) -> list[str]:
        file = tmp_path / "test_program.py"
        file.write_text(PROGRAM.replace("STATUS", str(status)))
        return [sys.executable, str(file)]

    return written


def keys(pairs: Any) -> list[str]:
    return sorted({finding.key for finding, _ in pairs})


FOUND = ["collision collide test_program.py:12", "out-of-bounds add test_program.py:7",
         "race collide test_program.py:12"]


def test_program_goes_on_and_each_finding_is_kept(program: Any) -> None:
    result = check.run_checked(program(), ["1"], [])
    assert keys(result.new) == FOUND
    assert [launch.kernel for launch in result.launches] == ["add"] * 3 + ["collide"]
    assert result.launches[0].accesses >= 1024 // 4 + 1000 // 4
    assert (result.status, result.exit_status) == (0, 1)
    lines = check.page(result)
    assert any(line.startswith("  in 3 launches") for line in lines)
    assert lines[-1] == "3 findings: 1 collision, 1 out-of-bounds, 1 race"
    (first, *_) = [f for f, _ in result.new if f.kind == "out-of-bounds"]
    assert (first.argument, first.element) == ("x", "element (1000,), which it does not have")
    assert "view of 4000 bytes" in first.text


@pytest.mark.rest
def test_known_findings_and_storage(program: Any, tmp_path: Path) -> None:
    allowed = tmp_path / "known.txt"
    allowed.write_text("# of the old kernel\nout-of-bounds add *\n* test_program.py:12\n")
    result = check.run_checked(program(), ["1"], check.read_allowed(allowed))
    assert (keys(result.new), keys(result.known), result.exit_status) == ([], FOUND, 0)
    result = check.run_checked(program(3), ["1", "storage"], [])
    assert keys(result.new) == [FOUND[0], FOUND[2]]
    assert result.exit_status == 3


def test_pytest_under_the_command(
    program: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from triton_xe.tools.cli import main

    file, out = program()[1], tmp_path / "found.json"
    status = main(["check", "--json", str(out), "--", sys.executable, "-m", "pytest", "-q",
                   "-p", "no:cacheprovider", file])
    told = json.loads(out.read_text())
    assert status == told["exit_status"] == 1
    assert [f["key"] for f in told["findings"][:1]] == FOUND[1:2]
    assert "test_it" in told["findings"][0]["test"]
    assert "3 findings: 1 collision, 1 out-of-bounds, 1 race" in capfd.readouterr().out


def test_seeds_reach_the_program() -> None:
    code = "import os; assert os.environ['TRITON_XE_SHUFFLE'] == '7'"
    assert check.run_checked([sys.executable, "-c", code], ["1"], [], 7).status == 0
