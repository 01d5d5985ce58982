"""The compiler's stages take code of any depth under Python's usual recursion limit, in time that
grows with its length."""

import runpy
import sys

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.errors import OutOfResources

from python.test.counting import watched
from triton_xe.lowering.insert_barriers import may_alias
from triton_xe.lowering.pipeline import run_passes

HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x, y, n):\n"
FLAT = "i = tl.arange(0, 64)\nv = tl.load(x + i)\nw = n\np = x\n"
SQUARE = "i = tl.arange(0, 32)[:, None] * n + tl.arange(0, 32)[None, :]\nv = tl.zeros((32, 32), "\
    "tl.float32)\nw = n\np = x + i\nr = tl.arange(0, 32)\n"
PRODUCT = "a = tl.load(x + i + w)\ntl.store(y + i + w, tl.dot(a, a))\n"
STEPS = {
    "operations": (FLAT, "v = (v ^ {j}) * 3 + 1", 120, "tl.store(y + i, v)"),
    "sums": (FLAT, "w = w + (v ^ {j})", 200, "tl.store(y + i, w)"),
    "scalars": (FLAT, "w = (w ^ {j}) * 3 + 1", 120, "tl.store(y + i + w, v)"),
    "loads": (FLAT, "i = tl.load(x + i)", 60, "tl.store(y + i, v)"),
    "moved pointers": (FLAT, "p += n\nv += tl.load(p + i)", 60, "tl.store(y + i, v)"),
    "early ends": (FLAT, "if n == {j}:\n    return\nv = v * 3", 40, "tl.store(y + i, v)"),
    "branches": (FLAT + "if n == 9000:\n    v = v * 7\n", "elif n == {j}:\n    v = v * ({j} + 3)",
                 25, "tl.store(y + i, v)"),
    "powers": (SQUARE, "w = w * w + n", 40, PRODUCT),
    "doubled indices": (SQUARE, "i = i + i * n", 60, PRODUCT),
    "remainders": (SQUARE, "r = (r + {j}) % n", 60,
                   "a = tl.load(x + r[:, None] * n + tl.arange(0, 32)[None, :])\n"
                   "tl.store(y + i, tl.dot(a, a))"),
    "masks": (SQUARE, "m = (r[:, None] + {j} < n) & (m if {j} else r[:, None] < n)", 60,
              "a = tl.load(p, mask=m, other=0)\ntl.store(y + i, tl.dot(a, a), mask=m)"),
    "compared": (FLAT, "v = (v ^ {j}) * v", 60, "tl.store(y + i, v, v < n)"),
    "compared scalars": (FLAT + "u = n + tl.zeros((64,), tl.int32)\n", "u = (u ^ {j}) * u", 60,
                         "tl.store(y + i, v, u < 7)"),
    "chosen": (FLAT, "v = tl.where(v < w, v + 1, v)\nw = tl.where(v < {j}, v, w)", 60,
               "tl.store(y + i, v, v < w)"),
    "products": (SQUARE, "v = tl.dot(tl.load(p), tl.load(p), v)\np += 32", 15,
                 "tl.store(y + i, v)"),
}


def compiled(folder, text, kind="*fp16"):
    path = folder / "kernel.py"
    path.write_text(HEAD + "".join(f"    {line}\n" for line in text.splitlines()))
    signature = {"x": kind, "y": kind.replace("16", "32"), "n": "i32"}
    return triton.compile(ASTSource(runpy.run_path(str(path))["kernel"], signature),
                          target=GPUTarget("xpu", "bmg", 16))


@pytest.mark.parametrize("name", STEPS)
def test_deep_code_compiles(name, tmp_path):
    before, step, count, after = STEPS[name]
    body = "\n".join(step.format(j=j) for j in range(count))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(600)  # and pytest takes a part of it
    try:
        made = compiled(tmp_path, f"{before}{body}\n{after}", "*i32" if before is FLAT else "*fp16")
    finally:
        sys.setrecursionlimit(limit)
    assert made.asm["spv"]


@pytest.mark.parametrize("step", ["w = w + w", "u = w\nw = w + u * 3", "w += i\ni = i + 1"])
def test_offsets_that_a_loop_makes_from_themselves_are_no_surface(step, tmp_path):
    lines = "\n".join(f"    {line}" for line in step.splitlines())
    start = "w = i\n" if "+= i" in step else ""
    text = f"{SQUARE}{start}for j in range(n):\n{lines}\n    a = tl.load(x + w + i)\n" \
        "    v = tl.dot(a, a, v)\ntl.store(y + i, v)"
    assert compiled(tmp_path, text).metadata.n_block_loads == 0


def test_nested_loops_are_walked_in_linear_time(tmp_path):
    depth = 16
    loops = "".join(f"{'    ' * d}for j{d} in range(n):\n" for d in range(depth))
    body = f"{'    ' * depth}v = v * 3 + tl.load(x + i)\n{'    ' * depth}tl.store(x + i, v)\n"
    with watched(may_alias) as calls:
        compiled(tmp_path, FLAT + loops + body + "tl.store(y + i, v)", "*i32")
    assert 0 < len(calls) < 100 * depth**2


@pytest.mark.parametrize("work", ["tl.load(x + i) * 2", "tl.dot(tl.load(x + i), tl.load(x + i))"])
def test_a_tile_that_fits_nowhere_is_refused_before_any_work(work, tmp_path):
    at = "i = tl.arange(0, 1024)[:, None] * 1024 + tl.arange(0, 1024)[None, :]\n"
    with watched(run_passes) as calls, pytest.raises(
            OutOfResources, match=r"kernel 'kernel' \(.*kernel.py:[\d:]+\): a tensor of "
            r"1024x1024 elements: .*Required: 16384, Hardware limit: 2048"):
        compiled(tmp_path, f"{at}tl.store(y + i, {work})")
    assert not calls
