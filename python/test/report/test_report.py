"""The report of a kernel: lines of all stages, costs that add up, a page that a browser runs."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from triton_xe.tools import cli
from triton_xe.tools.commands.report import values
from triton_xe.tools.report import gathering, page, pictures, watching
from triton_xe.tools.report.stages import stage

ROOT = Path(__file__).parents[3]
KERNELS = ROOT / "benchmarks/loop_kernels.py"
SIGNATURE = "x_ptr=*fp32:16 y_ptr=*fp32:16 stride=i32:16 n=i32 BLOCK=1024"
GEMM = ("a_ptr=*fp16:16 b_ptr=*fp16:16 c_ptr=*fp16:16 add_ptr=*fp16:16 M=i32:16 N=i32:16 K=i32:16 "
        "stride_am=i32:16 stride_ak=1 stride_bk=i32:16 stride_bn=1 stride_cm=i32:16 BLOCK_M=64 "
        "BLOCK_N=64 BLOCK_K=32 EPILOGUE='' CONVERT='' SPLIT_K=1")
SIZES = "M=1024 N=1024 K=1024 stride_am=1024 stride_bk=1024 stride_cm=1024"


def report(tmp_path, kernel, *arguments):
    path = tmp_path / "report.html"
    assert cli.main(["report", kernel, *arguments, "-o", str(path)]) == 0
    return path.read_text()


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """A cached kernel may have come from a file elsewhere, with the same text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def gemm(tmp_path_factory):
    return report(tmp_path_factory.mktemp("page"), f"{KERNELS}::gemm", "--signature", GEMM,
                  "--grid", "16,16", "--values", SIZES)


def line_of(words):
    return next(k for k, line in enumerate(KERNELS.read_text().splitlines(), 1) if words in line)


def rows(html):
    """Source line -> its cells."""
    return {int(m[1]): re.findall(r"<td[^>]*>(.*?)</td>", m[2])
            for m in re.finditer(r'<tr data-l="(\d+)">(.*?)</tr>', html, re.DOTALL)}


def test_costs_of_lines_add_up_to_the_predicted_time(gemm):
    total = float(re.search(r"<b>([\d.,]+) us predicted</b>", gemm)[1].replace(",", ""))
    launch = float(re.search(r"The launch itself takes\s*([\d.]+) us", gemm)[1])
    lines = {n: re.sub("<.*?>", "", cells[1]) for n, cells in rows(gemm).items()}
    assert sum(float(us) for us in lines.values() if us) == pytest.approx(total - launch, rel=0.02)
    dot = line_of("acc = tl.dot(a, b, acc)")
    assert float(lines[dot]) > 0.2 * total


def test_bytes_and_messages_of_a_load_are_those_of_its_blocks(gemm):
    """Each of 256 work-groups and 32 steps loads 2 x 2 parts of 64x32 halves, each part twice."""
    cells = rows(gemm)[line_of("a = tl.load(a_ptrs, mask=k[None, :] < left")]
    loaded = 256 * 32 * 64 * 32 * 2 * 2
    prefetched = 256 * 33 * 64 * 32 * 2
    assert cells[2] == page.quantity(loaded + prefetched)


def test_every_stage_names_the_line_of_the_product(gemm):
    dot = line_of("acc = tl.dot(a, b, acc)")
    for name, words in (("ttgir", "tt.dot"), ("xegpu", "xegpu.dpas"), ("llir", "dpas")):
        text = re.search(rf'id="stage-{name}">(.*?)</div></div>', gemm, re.DOTALL)[1]
        lines = re.findall(rf'<div data-l="{dot}">(.*?)</div>', text + "</div>")
        assert any(words in line for line in lines), name


@pytest.mark.intel_compiler
def test_products_of_the_assembly_are_from_the_line_of_the_product(gemm):
    dot = line_of("acc = tl.dot(a, b, acc)")
    load = line_of("a = tl.load(a_ptrs, mask=k[None, :] < left")
    text = re.search(r'id="stage-asm">(.*?)</div></div>', gemm, re.DOTALL)[1] + "</div>"
    lines = dict.fromkeys(("dpas.", "load_block2d", "store_block2d"))
    for words in lines:
        found = re.findall(rf'<div(?: data-l="(\d+)")?>[^<]*{re.escape(words)}', text)
        lines[words] = set(filter(None, found))
    assert lines["dpas."] == {str(dot)}
    assert str(load) in lines["load_block2d"]
    assert lines["store_block2d"] == {str(line_of("tl.store(c_ptr + at, acc.to("))}


def test_the_page_needs_nothing_but_itself(gemm):
    assert not re.search(r"(?:src|href)\s*=|@import|url\(|fetch\(", gemm)
    assert set(re.findall(r"https?://[^'\" <]+", gemm)) <= {"http://www.w3.org/2000/svg"}


def test_without_a_launch_nothing_is_predicted(tmp_path):
    html = report(tmp_path, f"{KERNELS}::softmax", "--signature", SIGNATURE, "--target", "dg2")
    assert "No time: no launch was given" in html
    assert "us predicted</b>" not in html
    assert "dg2 has no 2D block messages" in html or "no 2D block" in html


def test_values_that_decide_the_time_are_asked_for(capsys):
    with pytest.raises(ValueError, match="the time depends on n: give it with --values n="):
        values(["p", "n"], "p=*fp16 n=i32", "")
    assert cli.main(["report", f"{KERNELS}::softmax", "--signature", SIGNATURE, "--grid", "0"]) == 1
    assert "one to three positive numbers" in capsys.readouterr().err


SCRIPT = """
import sys, torch
sys.path.insert(0, {root!r})
from benchmarks.loop_kernels import softmax
for rows in (16, 256):
    x = torch.zeros(rows, 1024, device="xpu")
    softmax[(rows,)](x, torch.empty_like(x), 1024, {n}, BLOCK=1024)
"""


@pytest.mark.rest
def test_the_longest_launch_of_a_script_is_predicted(tmp_path, capsys):
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(ROOT), n=1000))
    html = report(tmp_path, f"{KERNELS}::softmax", "--signature", SIGNATURE,
                  "--script", str(script), "--sanitize")
    assert "for the grid 256 x 1 x 1" in html
    assert "Run, and nothing found." in html
    found = report(tmp_path, f"{KERNELS}::softmax", "--script", str(script))
    assert found.replace("Not run (--script with --sanitize).", "Run, and nothing found.") == html
    other = SIGNATURE.replace("fp32", "fp16")
    assert cli.main(["report", f"{KERNELS}::softmax", "--signature", other,
                     "--script", str(script)]) == 1
    assert f'or give --signature "{SIGNATURE}" --num-warps 4' in capsys.readouterr().err


TUNED = """
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def scaled(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)

if __name__ == "__main__":
    x = torch.zeros(1 << 17, device="xpu")
    scaled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x.numel())
"""


def test_what_an_autotuner_only_timed_is_not_predicted(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "tuned.py"
    script.write_text(TUNED)
    html = report(tmp_path, f"{script}::scaled", "--script", str(script))
    assert "for the grid 128 x 1 x 1" in html


def test_a_signature_or_a_script_is_needed(capsys):
    assert cli.main(["report", f"{KERNELS}::softmax", "--grid", "16"]) == 1
    assert "give --signature, of x_ptr, y_ptr, stride, n, BLOCK" in capsys.readouterr().err


@pytest.mark.rest
def test_what_the_sanitizer_finds_is_on_the_page(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(ROOT), n="1000 if rows == 16 else 1 << 20"))
    text = script.read_text().replace("torch.empty_like(x)", "torch.empty(1, device='xpu')")
    script.write_text(text)
    html = report(tmp_path, f"{KERNELS}::softmax", "--signature", SIGNATURE,
                  "--script", str(script), "--sanitize")
    assert re.search(r"<li class='bad'>[^<]*loop_kernels.py:\d+", html)


def test_locations_of_inlined_functions_are_those_of_the_kernels_file():
    text = ('%a = x loc(#loc3)\n%b = y loc("n"(#loc1))\n%c = z loc(unknown)\n'
            '#loc = loc("/k.py":7:3)\n#loc1 = loc("/k.py":9:1)\n#loc2 = loc("/lib.py":40:1)\n'
            '#loc3 = loc(callsite(#loc2 at #loc))')
    assert stage("ttgir", text, "/k.py").lines == (("%a = x", 7), ("%b = y", 9), ("%c = z", 0))


PROBE = """
<script>
const row = document.querySelector('.pane [data-l="LINE"]');
row.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
const counts = {};
for (const e of document.querySelectorAll(".stage"))
  counts[e.id] = e.querySelectorAll(".hot").length;
document.querySelector('[data-stage="llir"]').click();
counts.shown = document.querySelector(".stage.shown").id;
row.click();
counts.scrolled = [...document.querySelectorAll(".pane")][1].scrollTop > 0;
document.title = JSON.stringify(counts);
</script>
"""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_pointing_at_a_line_lights_what_it_became(gemm, tmp_path):
    path = tmp_path / "probe.html"
    line = str(line_of("acc = tl.dot(a, b, acc)"))
    path.write_text(gemm.replace("</body>", PROBE.replace("LINE", line) + "</body>"))
    run = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~",
         f"--user-data-dir={tmp_path / 'user'}", "--dump-dom", f"file://{path}"],
        capture_output=True, text=True, timeout=120)
    title = re.search("<title>(.*?)</title>", run.stdout)[1]
    found = json.loads(title)
    assert all(found[f"stage-{name}"] > 0 for name in ("ttgir", "xetile", "xegpu", "llir")), found
    assert found["shown"] == "stage-llir"
    assert found["scrolled"] is True


def test_remarks_light_the_lines_that_they_are_about(gemm):
    load = line_of("a = tl.load(a_ptrs, mask=k[None, :] < left")
    said = rf"tt.load \(loop_kernels.py:{load}\): 2D block load"
    assert re.search(rf'<li data-l="{load}">{said}', gemm)


LINES = """
import triton
import triton.language as tl

@triton.jit
def k(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    e = tl.exp(v)
    s = e * e + v
    tl.store(y + at, s)
"""


def test_every_line_that_computes_has_instructions_and_a_time(tmp_path):
    """Also of values that are written where they are first used."""
    file = tmp_path / "lines.py"
    file.write_text(LINES)
    html = report(tmp_path, f"{file}::k", "--signature", "x=*fp32:16 y=*fp32:16 BLOCK=1024",
                  "--grid", "4096")
    text = re.search(r'id="stage-llir">(.*?)</div></div>', html, re.DOTALL)[1] + "</div>"
    lines = LINES.splitlines()
    for number, word in ((8, "load"), (9, "exp2"), (10, "fma"), (11, "store")):
        assert re.search(rf'<div data-l="{number}">[^<]*{word}', text), lines[number - 1]
        assert rows(html)[number][1], lines[number - 1]
    assert rows(html)[9][2:4] == ["", ""]


def test_layouts_of_vectors_are_drawn():
    blocked = ("#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], "
               "warpsPerCTA = [4], order = [0]}>\n")
    ((title, picture),) = pictures.layouts([f"{blocked}%a = foo : tensor<64xf32, #blocked>"])
    assert title == "tensor<64xf32, #blocked>"
    assert picture.count("<rect") > 64
    assert not list(pictures.layouts([f"{blocked}%a = foo : tensor<65536xf32, #blocked>"]))


SCALED = """
import torch, triton, triton.language as tl

@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    for k in range(n // 250):
        value = value * value + 1
    tl.store(y + at, value, mask=at < n)

x = torch.ones(1000, device="xpu")
scaled[(4,)](x, torch.empty_like(x), n=1000, BLOCK=256)
"""


@pytest.mark.intel_compiler
def test_instructions_that_each_line_executed(tmp_path):
    """Four programs of four threads, and four rounds of a loop: multiples of 16."""
    script = tmp_path / "scaled.py"
    script.write_text(SCALED)
    watched = watching.launches([str(script)], "emu:bmg")
    assert not watched.error
    (counts,) = watched.executed.values()
    lines = gathering.lines_of_file(counts, str(script))
    at, load, loop, store = (
        lines[next(k for k, text in enumerate(SCALED.splitlines(), 1) if words in text)]
        for words in ("tl.arange", "tl.load", "value * value", "tl.store"))
    assert all(count % 16 == 0 and count for count in (at, load, loop, store))
    assert loop >= 4 * 16
    assert sum(lines.values()) == sum(counts.values())
    page_rows = page.executed_text(Mock(executed=lines))
    assert page.quantity(sum(lines.values())) in page_rows


def test_an_emulated_device_needs_a_program(capsys):
    for words in (["--device", "sim:bmg", "--script", "x.py"], ["--device", "emu:bmg"]):
        assert cli.main(["report", f"{KERNELS}::gemm", "--signature", GEMM, *words]) != 0
        assert "give emu:bmg" in capsys.readouterr().err
