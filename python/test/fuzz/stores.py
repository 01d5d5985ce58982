"""Random programs of stores, and what an interpreter of stores says that they may leave in memory.

    python python/test/fuzz/stores.py --seed 1 --kernels 40 --draws 25 --device pvc

A kernel is drawn with its control flow, element types, shapes and number of warps.  Each draw
launches it with other strides, offsets, bounds and contents.  Every byte of memory is compared with
the bytes that the stores may leave there in some order that barriers and programs allow.
`--in-step` runs all subgroups of a program in step.
A kernel that left other bytes is kept in `--keep`, with the arguments that showed it.
"""

from __future__ import annotations

import argparse
import os
import random
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from store_programs import (
    TYPES,
    Barrier,
    Block,
    Box,
    Call,
    If,
    Index,
    Load,
    Loop,
    Made,
    Mask,
    Place,
    Program,
    Store,
    everything,
    wrapped,
    wrong_places,
)

CAPACITY = 4096
"""Elements of each array."""
ARRAYS = ("a", "b", "o", "p", "q")
WRITTEN = ("o", "p", "q")

# --- drawing them ---------------------------------------------------------------------------------


class Writer:
    """Draws a program; what it declares as arguments is drawn anew for each launch."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.count = rng, 0
        self.grid = rng.choice((1, 1, 2, 3))
        self.warps = rng.choice((1, 2, 2, 4, 4, 8, 16, 16, 32))
        kinds = [*TYPES, "int8", "int8", "int8", "int1"]
        self.arrays = {name: rng.choice(kinds) for name in ARRAYS}
        self.draws: list[Callable[[random.Random], dict[str, int]]] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, str] = {}
        self.in_loop = False

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def number(self, low: int, high: int) -> str:
        name = self.name("n")
        self.draws.append(lambda rng: {name: rng.randint(low, high)})
        return name

    def program(self) -> Program:
        body = [self.load(self.rng.choice("ab")) for _ in range(self.rng.randint(1, 2))]
        body += self.statements(self.rng.randint(4, 9), depth=0)
        return Program(body, self.arrays, self.draws, self.grid, self.warps,
                       self.rng.random() < 0.5 or any(
                           isinstance(s, Box) or (isinstance(s, Store) and s.place.cast)
                           for s in everything(body)))

    def statements(self, count: int, depth: int) -> list[Any]:
        return [x for _ in range(count) for x in self.statement(depth)]

    def statement(self, depth: int) -> list[Any]:
        kind = self.rng.choices(
            ["store", "box", "barrier", "load", "made", "if", "loop", "scalar", "call"],
            [10, 1, 5, 2, 2, 1 * (depth < 2), 1 * (not self.in_loop and depth < 2), 0.5, 0.5])[0]
        return getattr(self, f"_{kind}")(depth)

    def _barrier(self, depth: int) -> list[Any]:
        return [Barrier()]

    def _load(self, depth: int) -> list[Any]:
        if self.grid > 1 or self.rng.random() < 0.5:
            return [self.load(self.rng.choice("ab"))]
        return [self.load(self.rng.choice(WRITTEN)), Barrier()]

    def _made(self, depth: int) -> list[Any]:
        return [self.made(self.rng.choice(list(self.shapes)))]

    def _scalar(self, depth: int) -> list[Any]:
        return [x for x in (self.load(self.rng.choice("ab"), shape=()),) for x in (
            x, self.store(x.name))]

    def _store(self, depth: int) -> list[Any]:
        return [self.store(self.rng.choice(list(self.shapes)))]

    def _box(self, depth: int) -> list[Any]:
        flat = [n for n, s in self.shapes.items() if len(s) == 2]
        name = self.rng.choice(flat) if flat else ""
        array = self.rng.choice(WRITTEN)
        place = Place(array, self.arrays[array])
        if not name or place.dtype == "int1" or self.shapes[name][1] * place.size < 16:
            return self._store(depth)
        rows, columns = self.shapes[name]
        each = 16 // place.size
        pitch = -(-(columns + 3) // each) * each + each * self.rng.randint(0, 1)
        if rows * pitch * self.grid > CAPACITY:
            return self._store(depth)
        box = Box(len(self.shapes) * 64 + self.count, name, place, (rows, columns), pitch,
                  0, rows * pitch, self.number(1, rows), self.number(1, columns),
                  self.number(0, 1), self.number(0, 2))
        self.count += 1
        return [box]

    def _call(self, depth: int) -> list[Any]:
        with self.inside():
            self.shapes = {}
            load = self.load(self.rng.choice("ab"))
            return [Call(self.name("helper"), load, self.store(load.name))]

    def _if(self, depth: int) -> list[Any]:
        with self.inside():
            then = self.statements(self.rng.randint(1, 2), depth + 1)
        with self.inside():
            other = self.statements(self.rng.randint(0, 2), depth + 1)
        return [If(self.number(0, 5), then, other)]

    def _loop(self, depth: int) -> list[Any]:
        with self.inside():
            self.in_loop = True
            body = self.statements(self.rng.randint(1, 3), depth + 1)
            self.in_loop = False
        return [Loop(self.number(0, 3), body, self.rng.choice(("for", "while")))]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Variables of a block are not known after it."""
        shapes = dict(self.shapes)
        yield
        self.shapes = shapes

    def shape(self) -> tuple[int, ...]:
        """Mostly of fewer elements than the warps have lanes, which then repeat them."""
        most = self.rng.choice((16, 128, 128, 256, 1024))
        while True:
            sizes = tuple(self.rng.choice((1, 2, 2, 4, 4, 8, 16, 32, 64, 128))
                          for _ in range(self.rng.choice((1, 2, 2, 3, 3))))
            if most // 4 < prod(sizes) <= most:
                return sizes

    def load(self, array: str, shape: tuple[int, ...] | None = None) -> Load:
        shapes = list(self.shapes.values())
        if shape is None:
            shape = self.rng.choice(shapes) if shapes and self.rng.random() < 0.5 else self.shape()
        place = Place(array, self.arrays[array])
        mask = self.mask(shape) if self.rng.random() < 0.4 else None
        index = self.index(shape, place)
        name = self.name("v")
        self.shapes[name], self.types[name] = shape, place.dtype
        return Load(name, place, index, mask, self.rng.choice((0, 0, 1)))

    def made(self, source: str) -> Made:
        name, shape, rng = self.name("v"), self.shapes[source], self.rng
        number = "int32" if self.types[source] != "int64" else "int64"
        ways = ["cast", "sum"] + ["largest", "flat"] * (len(shape) > 0) + ["across"] * (
            len(shape) == 2)
        way, self.shapes[name], self.types[name] = rng.choice(ways), shape, number
        if way == "cast":
            dtype = self.types[name] = rng.choice(list(TYPES))
            return Made(name, f"{source}.to(tl.{dtype})", lambda m: Block(
                wrapped(m.variables[source].values, dtype), m.variables[source].known))
        if way == "sum":
            n = self.number(-100, 100)
            return Made(name, f"{source}.to(tl.{number}) + {n}", lambda m: Block(
                wrapped(m.variables[source].values + m.number(n), number),
                m.variables[source].known))
        if way == "largest":
            axis = rng.randrange(len(shape))
            sizes = ", ".join(map(str, shape))
            return Made(name, f"tl.broadcast_to(tl.max({source}.to(tl.{number}), {axis}, "
                        f"keep_dims=True), {sizes})", lambda m: Block(*(
                            np.broadcast_to(f(x, axis, keepdims=True), shape) for f, x in (
                                (np.max, m.variables[source].values),
                                (np.min, m.variables[source].known)))))
        self.types[name] = self.types[source]
        if way == "flat":
            flat = self.shapes[name] = (prod(shape),)
            return Made(name, f"tl.reshape({source}, {flat[0]})", lambda m: Block(
                m.variables[source].values.reshape(flat), m.variables[source].known.reshape(flat)))
        self.shapes[name] = shape[::-1]
        return Made(name, f"tl.trans({source})", lambda m: Block(
            m.variables[source].values.T, m.variables[source].known.T))

    def store(self, value: str) -> Store:
        array, shape = self.rng.choice(WRITTEN), self.shapes[value]
        place = Place(array, self.arrays[array])
        if self.rng.random() < 0.15 and place.dtype != "int1":
            place = Place(array, self.rng.choice(("int8", "int16", "int32", "int64")), cast=True)
        mask = self.mask(shape) if self.rng.random() < 0.5 else None
        index = self.index(shape, place)
        self.count += 1
        return Store(self.count, value, place, index, mask)

    def mask(self, shape: tuple[int, ...]) -> Mask | None:
        axes = [d for d in range(len(shape)) if self.rng.random() < 0.6]
        bounds = tuple((d, self.number(0, shape[d]) if self.rng.random() < 0.7
                        else self.rng.randint(0, shape[d])) for d in axes)
        like = [n for n, s in self.shapes.items() if s == shape]
        data = self.rng.choice(like) if like and self.rng.random() < 0.25 else ""
        above = self.number(0, 5) if self.rng.random() < 0.15 else ""
        return Mask(shape, bounds, data, above) if bounds or data or above else None

    def index(self, shape: tuple[int, ...], place: Place) -> Index:
        """Strides, start and step: known when compiled, or arguments."""
        elements = CAPACITY * np.dtype(TYPES[self.arrays[place.array]]).itemsize // place.size
        rank, how = len(shape), self.rng.choices(("known", "inner", "drawn"), (3, 5, 2))[0]
        turns = self.in_loop and self.rng.random() < 0.7
        names = [self.name("s") for _ in range(rank + 2 + turns)]
        inner = self.rng.randrange(rank) if rank and how == "inner" else None
        grid = self.grid

        def draw(rng: random.Random) -> dict[str, int]:
            return dict(zip(names, _layout(rng, shape, grid, turns, elements, inner), strict=True))

        numbers: list[int | str] = list(names)
        if how == "known":
            numbers = list(draw(self.rng).values())
        else:
            self.draws.append(draw)
        if inner is not None:
            numbers[inner] = 1
        return Index(shape, tuple(numbers[:rank]), *numbers[rank:rank + 2],
                     numbers[-1] if turns else 0)


def _layout(rng: random.Random, shape: tuple[int, ...], grid: int, turns: bool,
            elements: int, inner: int | None) -> list[int]:
    """Strides of axes, start, step of programs and of turns, all within so many elements.

    The elements of axis `inner` are side by side.
    """
    axes = [(n, d) for d, n in enumerate(shape)] + [(grid, len(shape))] + [(3, -1)] * turns
    while True:
        order = sorted(axes, key=lambda a: (a[1] in (len(shape), -1)) - a[1] / 8)
        if rng.random() < 0.4:
            rng.shuffle(order)
        order.sort(key=lambda a: a[1] != inner)
        strides, extent = {}, 1
        for n, d in order:
            gap = rng.choice((0, 0, 0, 0, 1, 2, 3, 5))
            strides[d] = 0 if rng.random() < 0.04 else max(1, extent + gap) if n > 1 else 1
            strides[d] = rng.randint(1, 3) if rng.random() < 0.05 else strides[d]
            strides[d] = 1 if d == inner else strides[d]
            extent += strides[d] * (n - 1)
        start = rng.choice((0, 0, 1, 1, 2, 3, 4, 7, 16))
        for d in range(len(shape)):
            if rng.random() < 0.05 and d != inner:
                start += strides[d] * (shape[d] - 1)
                strides[d] = -strides[d]
        if extent + start <= elements:
            return [*(strides[d] for d in range(len(shape))), start, strides[len(shape)],
                    *([strides[-1]] if turns else [])]


# --- running them ---------------------------------------------------------------------------------


def filled(dtype: str, rng: np.random.Generator, ahead: int) -> np.ndarray:
    """Random elements, `ahead` elements after a multiple of 64 bytes."""
    kind = np.dtype(TYPES[dtype])
    raw = np.zeros(CAPACITY * kind.itemsize + 192, np.uint8)
    first = -raw.ctypes.data % 64 + ahead * kind.itemsize
    array = raw[first:first + CAPACITY * kind.itemsize].view(kind)
    array.view(np.uint8)[...] = rng.integers(0, 2 if dtype == "int1" else 256, array.nbytes)
    return array


def wrong_bytes(made: Program, kernel: Any, seed: str) -> str:
    """What a launch with arguments drawn from the seed leaves that it may not, or nothing."""
    rng = random.Random(seed)
    arguments = made.arguments(rng)
    numbers = np.random.default_rng(rng.randrange(1 << 32))
    memory = {name: filled(dtype, numbers, 0 if made.whole else rng.randint(0, 3))
              for name, dtype in made.arrays.items()}
    programs = made.run(memory, arguments)
    initial = {name: array.view(np.uint8).copy() for name, array in memory.items()}
    kernel[(made.grid,)](*memory.values(), *arguments.values(), num_warps=made.warps)
    for name, array in memory.items():
        found, left = array.view(np.uint8), [m.memory[name] for m in programs]
        for k in wrong_places(found, initial[name], left)[:1]:
            wrong = len(wrong_places(found, initial[name], left))
            return (f"{wrong} bytes of {name} ({made.arrays[name]}), the first at {k}: {found[k]}, "
                    f"not one of {[p.may_be(k) for p in left]}; arguments {arguments}")
    return ""


def check(seed: str, draws: int, folder: Path) -> tuple[int, str]:
    """How many launches of a kernel were right, and what is wrong with the next."""
    made = Writer(random.Random(seed)).program()
    path = folder / f"stores_{seed.replace(' ', '_')}.py"
    path.write_text(made.text())
    try:
        kernel = runpy.run_path(str(path))["kernel"]
        for k in range(draws):
            why = wrong_bytes(made, kernel, f"{seed} {k}")
            if why:
                return k, f"{path} ({made.warps} warps, grid {made.grid}), draw {k}: {why}"
    except Exception as error:
        return 0, f"{path} ({made.warps} warps): {type(error).__name__}: {str(error)[:600]}"
    path.unlink()
    return draws, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kernels", type=int, default=40)
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--device", default="bmg")
    parser.add_argument("--in-step", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "xe-stores")
    given = parser.parse_args()
    os.environ["TRITON_XE_DEVICE"] = given.device if ":" in given.device else f"sim:{given.device}"
    given.keep.mkdir(parents=True, exist_ok=True)
    if given.in_step:
        os.environ["TRITON_XE_IN_STEP_AFTER"] = "0"  # the first launch runs so
    right = wrong = 0
    begin = time.process_time()
    for k in range(given.first, given.first + given.kernels):
        count, why = check(f"{given.seed} {k}", given.draws, given.keep)
        right, wrong = right + count, wrong + bool(why)
        if why:
            print(why, flush=True)
    print(f"{right} draws right, {wrong} kernels wrong, in {time.process_time() - begin:.0f} s of "
          "processor time")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
