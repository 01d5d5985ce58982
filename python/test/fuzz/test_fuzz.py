"""A sample of what `fuzz.py` compiles and of what `run_programs.py` runs."""

import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from triton_xe.runtime.simulator.run.host_cpu import host_cpu

FUZZ = Path(__file__).parent / "fuzz.py"
PROGRAMS = FUZZ.with_name("run_programs.py")
sys.path.insert(0, str(FUZZ.parent))

import stores  # noqa: E402
from run_programs import outcome, outcomes  # noqa: E402
from store_programs import Barrier, Index, Load, Place, Program, Store  # noqa: E402


@pytest.mark.parametrize("what", [
    ["--count", "4"], ["--count", "50", "--texts"],
    *(pytest.param(more, marks=pytest.mark.rest) for more in (
        ["--count", "10"], ["--count", "2", "--chains"], ["--count", "200", "--texts"])),
    *(pytest.param(more, marks=pytest.mark.slow)
      for more in (["--count", "40"], ["--count", "10", "--chains"])),
])
def test_random_programs_compile_or_are_refused(what, tmp_path):
    done = subprocess.run(
        [sys.executable, FUZZ, "--seed", "suite", "--keep", tmp_path, *what],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'compiled'" in done.stdout


@pytest.mark.parametrize(("seed", "kinds", "how"), [
    ("small", ["products", "gathers", "atomics"], []),
    pytest.param("small", ["tiles", "products", "attention", "rows", "gathers", "blocks", "chains",
                           "boxes", "scaled", "atomics", "graphs"], [], marks=pytest.mark.rest),
    pytest.param("small", ["rows", "tiles"], ["--in-step"], marks=pytest.mark.rest),
    *(pytest.param("suite", kinds, how, marks=pytest.mark.slow) for kinds, how in (
        (["tiles", "products", "attention", "rows", "gathers"], []),
        (["blocks", "chains", "boxes", "scaled", "atomics"], []),
        (["graphs"] * 2, []),
        (["rows", "tiles", "attention", "rows"], ["--in-step"]))),
])
def test_random_programs_have_right_numbers(seed, kinds, how, tmp_path):
    done = subprocess.run(
        [sys.executable, PROGRAMS, "--seed", seed, "--count", str(len(kinds)), "--keep",
         tmp_path, *how, "--kinds", *kinds],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(kinds)} of {len(kinds)} right" in done.stdout


@pytest.mark.parametrize(("changed", "why"), [
    (lambda x: ([x * 2], x.exp() + (x == 0)),
     "the last: 1 of 4 elements, the first at (0, 0): 2.0, not 1.0"),
    (lambda x: ([x * 2 + (x == 3) * 1e-6], x.exp()),
     "result 0: 1 of 4 elements, the first at (1, 1): 6.000000953674316, not 6.0"),
    (lambda x: ([x.detach() * 2], x.exp()),
     "gradient 0: 3 of 4 elements, the first at (0, 0): -1.0, not -3.0"),
    (lambda x: ([x * 2], x.exp()[0]),
     "the last: torch.float32 of [2], not torch.float32 of [2, 2]"),
    (lambda x: ([x * 2], [x.exp(), x.detach().neg_()][0]),
     "argument 0: 3 of 4 elements, the first at (0, 1): -1.0, not 1.0"),
])
def test_compiled_functions_that_differ_are_reported(changed, why, monkeypatch):
    import torch._inductor.config as config

    monkeypatch.setattr(torch, "compile", lambda function: changed)
    with config.patch(compile_threads=1):  # as the module sets it, and until here
        from compiled import compare

        with pytest.raises(SystemExit) as error:
            compare(lambda x: ([x * 2], x.exp()), [torch.arange(4.0).reshape(2, 2)], gradients=True)
    assert str(error.value) == why


def test_wrong_numbers_are_reported(tmp_path):
    path = tmp_path / "p.py"
    path.write_text("import torch; from answers import check, output\n"
                    "o = output(2, 3, torch.int32, pad=1); o[1, 2] = 5\n"
                    "check(o, torch.full((2, 3), 77), 0)")
    assert outcome(path) == "wrong: 1 of 6 elements, the first at (1, 2): 5.0, not 77.0"


def test_a_kernel_that_leaves_other_memory_than_its_text_says_is_reported(tmp_path):
    path = tmp_path / "p.py"
    path.write_text("""
import torch, triton, triton.language as tl
import reference

@triton.jit
def kernel(o):
    at = tl.arange(0, 4)
    tl.store(o + at, tl.cumsum(at * 2, 0, reverse=True))

o = torch.zeros(5, dtype=torch.int32)
reference.compare(kernel, (1,), o)
reference.LANGUAGE.cumsum = lambda x, axis, reverse: x
reference.compare(kernel, (1,), o)
""")
    assert outcome(path) == "wrong: 3 of 5 elements of o, the first at 0: 12.0, not 0.0"


def test_the_programs_behind_one_that_ends_its_process_run(tmp_path):
    paths = [tmp_path / f"{name}.py" for name in "abcd"]
    ends = "1", "import os; os.kill(os.getpid(), 9)", "raise SystemExit('no')", "1"
    for path, line in zip(paths, ends, strict=True):
        path.write_text(line)
    assert list(outcomes(paths)) == ["", "signal 9", "no", ""]


def test_a_child_that_dies_is_reported_and_the_others_go_on(tmp_path):
    text = f"""
import os, sys
sys.path.insert(0, {str(FUZZ.parent)!r})
import fuzz
from pathlib import Path
def compile_one(made, path, device, native):
    if path.stem == "b":
        os.abort()
    return fuzz.Outcome(path.stem, "compiled")
fuzz.compile_one = compile_one
print([(o.name, o.kind, o.why) for o in
       fuzz.outcomes(iter([(n, None) for n in "abc"]), Path("."), "bmg")])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "[('a', 'compiled', ''), ('b', 'bug', 'signal 6: '), ('c', 'compiled', '')]")


STORES = FUZZ.with_name("stores.py")
NARROW = pytest.mark.skipif(
    not host_cpu().has("avx2"), reason="needs a CPU with AVX2")


@pytest.mark.parametrize(("device", "level", "kernels", "draws", "how"), [
    ("bmg", "", 3, 8, []),
    pytest.param("bmg", "", 8, 100, [], marks=pytest.mark.rest),
    pytest.param("pvc", "x86-64-v3", 6, 100, [], marks=[NARROW, pytest.mark.rest]),
    pytest.param("dg2", "", 6, 100, [], marks=pytest.mark.rest),
    pytest.param("bmg", "", 3, 3, ["--in-step"], marks=pytest.mark.rest),
    pytest.param("bmg", "", 30, 25, [], marks=pytest.mark.slow),
    pytest.param("pvc", "x86-64-v3", 30, 25, [], marks=[NARROW, pytest.mark.slow]),
    pytest.param("dg2", "", 20, 25, [], marks=pytest.mark.slow),
    pytest.param("bmg", "", 8, 3, ["--in-step"], marks=pytest.mark.slow),
])
def test_stores_leave_what_some_order_of_them_leaves(
    device, level, kernels, draws, how, tmp_path, monkeypatch
):
    monkeypatch.setenv("TRITON_XE_HOST_CPU", level)
    done = subprocess.run(
        [sys.executable, STORES, "--seed", "suite", "--device", device, "--kernels", str(kernels),
         "--draws", str(draws), "--keep", tmp_path, *how],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kernels * draws} draws right" in done.stdout


@pytest.mark.parametrize("fault", ["", "value", "lost", "neighbour", "early"])
def test_stores_that_go_wrong_are_reported(fault, tmp_path):
    """Programs whose last store stores another value, nothing, one element more, or too early."""
    at = Index((8,), (3,), 1, 24)
    load = Load("v1", Place("a", "int8"), at, None, 0)
    store = Store(1, "v1", Place("o", "int8"), at, None)
    again = Load("v2", Place("b", "int8"), at, None, 0)
    last = Store(2, "v2", Place("o", "int8"), at, None)
    body = [load, store, again, Barrier(), last]
    runs = {"": body, "value": [load, store, again, Barrier(), replace(last, value="v1")],
            "lost": [load, store, again, Barrier()],
            "neighbour": [*body, replace(last, index=replace(at, start=2))],
            "early": [load, again, last, Barrier(), store]}
    arrays = dict.fromkeys(stores.ARRAYS, "int8")
    right, run = (Program(x, arrays, [], 2, 1, True) for x in (body, runs[fault]))
    path = tmp_path / "k.py"
    path.write_text(run.text())
    why = stores.wrong_bytes(right, runpy.run_path(str(path))["kernel"], "1")
    assert bool(why) == bool(fault)
