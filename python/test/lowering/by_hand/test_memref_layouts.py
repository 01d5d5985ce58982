"""Strides, offsets and subviews of memrefs: honoured or refused, for random layouts."""

import random

import numpy as np
import pytest

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.by_hand.dialect_pipeline import compile_text
from triton_xe.tools.commands.run import run_program

TILE, OUT = "!xetile.tile<8x16xf32>", "memref<8x16xf32>"
BODIES = {
    "xetile": """
  %t = xetile.init_tile %v, Y, X : VIEW -> !xetile.tile<8x16xf32>
  %r = xetile.load_tile %t : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %s = xetile.init_tile %o, 0, 0 : memref<8x16xf32> -> !xetile.tile<8x16xf32>
  xetile.store_tile %r, %s : vector<8x16xf32>, !xetile.tile<8x16xf32>""",
    "xegpu": """
  %t = xegpu.create_nd_tdesc %v, Y, X : VIEW -> !xegpu.tensor_desc<8x16xf32>
  %r = xegpu.load_nd %t : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  %s = xegpu.create_nd_tdesc %o, 0, 0 : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  xegpu.store_nd %r, %s : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>""",
}


def layout(strides, offset):
    tail = f", offset: {offset}" if offset else ""
    return f"strided<[{strides[0]}, {strides[1]}]{tail}>"


class Case:
    """A memref argument with a layout, seen through a subview or not, and a block of it."""

    def __init__(self, seed: int) -> None:
        r = random.Random(seed)
        self.pitch, self.offset = r.choice([16, 32, 36, 40, 48]), r.choice([0, 16, 32, 64, 100])
        shape = r.choice([8, 12, 20]), r.choice([16, self.pitch])
        self.argument = f"memref<{shape[0]}x{shape[1]}xf32, {layout((self.pitch, 1), self.offset)}>"
        self.start, self.step, self.dynamic = (0, 0), 1, False
        self.view, self.lines, self.shape = self.argument, "%v = arith.constant 0 : i1", shape
        self.subviewed = r.random() < 0.6
        if self.subviewed:
            self.start, self.step = (r.randrange(3), r.choice([0, 8, 16])), r.choice([1, 1, 2])
            self.dynamic = r.random() < 0.5
            rows = (shape[0] - self.start[0]) // self.step
            self.shape = rows, min(16, shape[1] - self.start[1])
            found = self.offset + self.start[0] * self.pitch + self.start[1]
            self.view = (f"memref<{self.shape[0]}x{self.shape[1]}xf32,"
                         f" {layout((self.pitch * self.step, 1), '?' if self.dynamic else found)}>")
        self.at = r.randrange(4), r.choice([0, 4])

    def text(self, body: str) -> str:
        first = "%n" if self.dynamic else self.start[0]
        source = (
            f"  %v = memref.subview %a[{first}, {self.start[1]}] [{self.shape[0]}, {self.shape[1]}]"
            f" [{self.step}, 1] : {self.argument} to {self.view}" if self.subviewed else "")
        filled = body.replace("VIEW", self.view).replace("Y", str(self.at[0]))
        filled = filled.replace("X", str(self.at[1]))
        if not self.subviewed:
            filled = filled.replace("%v", "%a")
        return (f"func.func @k(%a: {self.argument}, %o: {OUT}, %n: index) {{\n{source}{filled}\n"
                "  func.return\n}\n")

    def expected(self, memory: np.ndarray) -> np.ndarray:
        out = np.zeros((8, 16), np.float32)
        for i in range(8):
            for j in range(16):
                y, x = self.at[0] + i, self.at[1] + j
                if y < self.shape[0] and x < self.shape[1]:
                    row = self.start[0] + y * self.step
                    out[i, j] = memory[self.offset + row * self.pitch + self.start[1] + x]
        return out


def runs(case: Case, body: str) -> bool:
    memory = np.arange(2048, dtype=np.float32)
    out = np.full((8, 16), -1, np.float32)
    try:
        run_program(case.text(body), [memory, out, case.start[0]], target="bmg")
    except UnsupportedError:
        return False
    np.testing.assert_array_equal(out, case.expected(memory))
    return True


@pytest.mark.rest
@pytest.mark.parametrize("form", BODIES)
@pytest.mark.parametrize("count", [24, pytest.param(60, marks=pytest.mark.slow)])
def test_random_layouts_are_honoured_or_refused(form, count):
    done = sum(runs(Case(seed), BODIES[form]) for seed in range(count))
    assert done >= {"xetile": count, "xegpu": count // 3}[form]


REFUSED = {
    "an argument's offset that nothing says": (
        "memref<8x16xf32, strided<[16, 1], offset: ?>>", "", "its offset is not known"),
    "a map": (
        "memref<8x16xf32, affine_map<(d0, d1) -> (d0 * 16 + d1 + 7)>>", "",
        "its offset is not known"),
    "a subview's type that contradicts it": (
        "memref<8x16xf32>",
        "%v = memref.subview %a[1, 0] [4, 16] [1, 1] : memref<8x16xf32>"
        " to memref<4x16xf32, strided<[16, 1]>>",
        "its offset is 16"),
    "a subview of other strides": (
        "memref<8x16xf32>",
        "%v = memref.subview %a[0, 0] [4, 16] [2, 1] : memref<8x16xf32>"
        " to memref<4x16xf32, strided<[16, 1]>>",
        "sizes and strides"),
    "shared local memory with a layout": (
        "index", "%v = memref.alloca() : memref<16x16xf32, strided<[20, 1]>, 3>",
        "only without a layout"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    argument, line, message = REFUSED[what]
    with pytest.raises(UnsupportedError, match=message):
        compile_text(f"func.func @k(%a: {argument}) {{\n{line}\n  func.return\n}}\n", "bmg")


@pytest.mark.parametrize("body", ["xetile", "xegpu"])
def test_other_views_of_memrefs_are_refused(body):
    view = "memref<8x16xf32, strided<[16, 1], offset: ?>>"
    text = BODIES[body].replace("VIEW", view).replace("Y", "0").replace("X", "0")
    with pytest.raises(UnsupportedError, match=r"memref.reinterpret_cast of .*memref.subview"):
        compile_text(f"""func.func @k(%a: memref<256xf32>, %o: {OUT}, %n: index) {{
  %v = memref.reinterpret_cast %a to offset: [%n], sizes: [8, 16], strides: [16, 1]
      : memref<256xf32> to {view}{text}
  func.return
}}""", "bmg")
