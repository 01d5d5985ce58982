"""`triton-xe bench`: tables of `perf_report` functions for several devices, without running."""

import re
from pathlib import Path

import pytest

from triton_xe.tools import cli

ROOT = Path(__file__).parents[3]
FILE = """
import sys, torch, triton
sys.path.insert(0, {root!r})
from benchmarks.loop_kernels import add

def axis(name, **more):
    return triton.testing.Benchmark(x_names=["n"], x_vals=[1 << 18, 1 << 22], line_arg="block",
        line_vals=[256, 1024], line_names=["256", "1024"], ylabel="GB/s", plot_name=name, **more)

counts = torch.zeros(1, device="xpu")

@triton.testing.perf_report(axis("ran", args={{"extra": 0}}))
def ran(n, block, extra):
    x = torch.ones(n + extra, device="xpu"); y = torch.zeros_like(x)
    ms = triton.testing.do_bench(
        lambda: add[(triton.cdiv(n, block),)](x, x, y, n, BLOCK=block), warmup=1, rep=1)
    assert not y.any(), "kernels are only timed"
    return 2 * 4 * n / ms / 1e6

@triton.testing.perf_report([axis("left", args={{}}, x_log=True)])
def left(n, block):
    if block == 256:
        raise RuntimeError("not with 256")
    return n, n, n

if __name__ == "__main__":
    assert ran.run(print_data=True, show_plots=True) is None
"""


@pytest.mark.rest
def test_devices_stand_side_by_side_and_figures_are_predicted(tmp_path, capsys):
    pytest.importorskip("torch")
    file, out = tmp_path / "bench.py", tmp_path / "page.html"
    file.write_text(FILE.format(root=str(ROOT)))
    assert cli.main(["bench", str(file), "--devices", "bmg,lnl", "-o", str(out)]) == 0
    text = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert re.fullmatch(r"ran \(GB/s, predicted, expected error \d+%\)", text[0])
    assert [w.strip() for w in re.split("  +", text[1].strip())] == [
        "n", "Arc B580: 256", "Arc B580: 1024", "Arc 140V: 256", "Arc 140V: 1024"]
    n, *figures = map(float, text[3].split())
    assert n == 1 << 22
    assert 200 < figures[1] < 500
    assert 50 < figures[3] < 120
    page = out.read_text()
    assert page.count("<polyline") == 8
    assert not re.search(r"(?:src|href)\s*=|@import|url\(", page)
    assert "RuntimeError: not with 256" in page


def test_a_file_that_fails_says_why(tmp_path, capsys):
    file = tmp_path / "bench.py"
    file.write_text("raise ValueError('no data')\n")
    assert cli.main(["bench", str(file)]) == 1
    assert "on bmg: ValueError: no data" in capsys.readouterr().err
    file.write_text("x = 1\n")
    assert cli.main(["bench", str(file)]) == 1
    assert "no function with @triton.testing.perf_report" in capsys.readouterr().err
    assert cli.main(["bench", str(tmp_path / "none.py")]) == 1


def test_exact_asks_for_the_clock_that_counts_native_instructions(tmp_path, monkeypatch):
    clocks = tmp_path / "clocks"
    monkeypatch.setenv("TRITON_XE_OCLOC", __file__)  # it exists, and is not run
    file = tmp_path / "bench.py"
    file.write_text("import os\n"
                    f"with open({str(clocks)!r}, 'a') as file:\n"
                    "    print(os.environ['TRITON_XE_CLOCK'], file=file)\n")
    for more in ([], ["--exact"]):
        assert cli.main(["bench", str(file), *more]) == 1
    assert clocks.read_text().split() == ["device", "exact"]
    monkeypatch.setenv("TRITON_XE_OCLOC", "/nowhere")
    assert cli.main(["bench", str(file), "--exact"]) == 1
