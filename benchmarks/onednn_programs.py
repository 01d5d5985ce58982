"""oneDNN's own kernels against numpy: matrix products, convolutions, normalizations and more.

oneDNN generates most of this machine code itself, without Intel's graphics compiler, and compiles
the rest from OpenCL C.  Run it on the emulated GPU, with the packages of the extra `onednn`:

    triton-xe emulate -- python benchmarks/onednn_programs.py [--choose] [NAME ...]

Prints a line of JSON for each case whose name contains one of the words; exits 1 if one is wrong.
A name that no case has becomes one: `matmul 512x512x1024 f16 f16 f16`, `softmax 1024x1024 f16`,
`normalization 1024x1024 f16`.  `--choose` creates the products of these names without running them,
so that `ONEDNN_VERBOSE=debuginfo=255` prints what oneDNN chooses for each.
Numbers of types and algorithms: `oneapi/dnnl/dnnl_types.h`.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

GPU, IN_ORDER, INFERENCE, ALLOCATE = 2, 1, 96, 2**64 - 1
SRC, SRC_1, DST, WEIGHTS, BIAS, SCALE, SHIFT = 1, 2, 17, 33, 41, 51, 52
SCALE_AND_SHIFT, DIRECT = 6, 1
Handle = ctypes.c_void_p
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Type:
    """A type of elements, and how far a result may be from the exact one, for the largest."""

    name: str
    number: int
    stored: Any
    bound: float


F16, BF16 = Type("f16", 1, np.float16, 1e-3), Type("bf16", 2, np.uint16, 8e-3)
F32, S32 = Type("f32", 3, np.float32, 4e-6), Type("s32", 4, np.int32, 0)
S8, U8 = Type("s8", 5, np.int8, 0), Type("u8", 6, np.uint8, 0)
TYPES = {each.name: each for each in (F16, BF16, F32, S32, S8, U8)}


def stored(values: Array, kind: Type) -> Array:
    """Values rounded to the type, as it is stored."""
    if kind is not BF16:
        return np.ascontiguousarray(values.astype(kind.stored))
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def exact(values: Array, kind: Type) -> Array:
    if kind is BF16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def library() -> ctypes.CDLL:
    """`libdnnl`, which the package puts beside the interpreter's folders."""
    return ctypes.CDLL(str(Path(sys.prefix) / "lib/libdnnl.so.3"))


class Dnn:
    """One engine and one stream of the GPU."""

    def __init__(self) -> None:
        self._library = library()
        self.engine, self._stream = Handle(), Handle()
        self.began = 0.0
        """Time of the last execution's begin, by the system's monotonic clock."""
        self.call("engine_create", ctypes.byref(self.engine), GPU, ctypes.c_size_t(0))
        self.call("stream_create", ctypes.byref(self._stream), self.engine, IN_ORDER)

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, f"dnnl_{name}")(*arguments)
        if status:
            raise RuntimeError(f"dnnl_{name} answered {status}")

    def description(self, shape: Sequence[int], kind: Type,
                    strides: Sequence[int] | None = None) -> Handle:
        steps = strides or [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        made = Handle()
        self.call("memory_desc_create_with_strides", ctypes.byref(made), len(shape),
                  sizes(shape), kind.number, sizes(steps))
        return made

    def memory(self, description: Handle, values: Array | None = None) -> Handle:
        made = Handle()
        self.call("memory_create", ctypes.byref(made), description, self.engine, Handle(ALLOCATE))
        if values is not None:
            self._mapped(made, lambda at: ctypes.memmove(at, values.ctypes.data, values.nbytes))
        return made

    def read(self, memory: Handle, shape: Sequence[int], kind: Type) -> Array:
        found = np.empty(shape, kind.stored)
        self._mapped(memory, lambda at: ctypes.memmove(found.ctypes.data, at, found.nbytes))
        return exact(found, kind)

    def _mapped(self, memory: Handle, action: Callable[[Handle], Any]) -> None:
        at = Handle()
        self.call("memory_map_data", memory, ctypes.byref(at))
        action(at)
        self.call("memory_unmap_data", memory, at)

    def primitive(self, name: str, *arguments: Any) -> Handle:
        made, described = Handle(), Handle()
        first = () if name == "reorder" else (self.engine,)
        self.call(f"{name}_primitive_desc_create", ctypes.byref(described), *first, *arguments,
                  None)
        self.call("primitive_create", ctypes.byref(made), described)
        return made

    def execute(self, primitive: Handle, arguments: dict[int, Handle]) -> None:
        class Argument(ctypes.Structure):
            _fields_ = (("number", ctypes.c_int), ("memory", Handle))

        array = (Argument * len(arguments))(*(Argument(n, m.value) for n, m in arguments.items()))
        self.began = time.monotonic()
        self.call("primitive_execute", primitive, self._stream, len(arguments), array)
        self.call("stream_wait", self._stream)


def sizes(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * 12)(*values)


class Inputs:
    """Random arrays, the same in each run."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)

    def __call__(self, shape: Sequence[int], kind: Type, scale: float = 1) -> Array:
        if kind is U8:
            return self._random.integers(0, 16, shape).astype(np.uint8)
        if kind in (S8, S32):
            return self._random.integers(-8, 8, shape).astype(kind.stored)
        return stored(self._random.standard_normal(shape) * scale, kind)


Case = tuple[Array, Array, Type]
"""The result of oneDNN, the exact one, and their type."""


def matmul(shape: str, ta: Type, tb: Type, tc: Type, *, bias: bool = False,
           transposed: bool = False) -> Callable[[Dnn, Inputs], Case]:
    """A product `[B]xMxNxK`; `transposed` stores the second operand by columns."""
    *batch, m, n, k = map(int, shape.split("x"))

    def run(dnn: Dnn, inputs: Inputs) -> Case:
        a, b = inputs((*batch, m, k), ta), inputs((*batch, k, n), tb)
        c, held = dnn.description((*batch, m, n), tc), b
        steps = None
        if transposed:
            held, steps = np.ascontiguousarray(b.swapaxes(-1, -2)), [*(k * n for _ in batch), 1, k]
        da, db = dnn.description(a.shape, ta), dnn.description(b.shape, tb, steps)
        added, d_bias = inputs((*(1 for _ in batch), 1, n), F32), None
        arguments = {SRC: dnn.memory(da, a), WEIGHTS: dnn.memory(db, held), DST: dnn.memory(c)}
        if bias:
            d_bias = dnn.description(added.shape, F32)
            arguments[BIAS] = dnn.memory(d_bias, added)
        dnn.execute(dnn.primitive("matmul", da, db, d_bias, c), arguments)
        want = exact(a, ta) @ exact(b, tb) + (exact(added, F32) if bias else 0)
        return dnn.read(arguments[DST], (*batch, m, n), tc), want, tc

    return run


def convolution(n: int, ci: int, size: int, co: int, window: int, ti: Type, tw: Type, to: Type,
                stride: int = 1) -> Callable[[Dnn, Inputs], Case]:
    """A square convolution with channels last, padded to keep the size."""
    pad = (window - 1) // 2
    out = (size - 1) // stride + 1

    def run(dnn: Dnn, inputs: Inputs) -> Case:
        x, w = inputs((n, size, size, ci), ti), inputs((co, window, window, ci), tw)
        dx = dnn.description((n, ci, size, size), ti, [size * size * ci, 1, size * ci, ci])
        dw = dnn.description((co, ci, window, window), tw,
                             [window * window * ci, 1, window * ci, ci])
        dy = dnn.description((n, co, out, out), to, [out * out * co, 1, out * co, co])
        made = dnn.primitive("convolution_forward", INFERENCE, DIRECT, dx, dw, None, dy,
                             sizes([stride] * 2), sizes([0, 0]), sizes([pad] * 2), sizes([pad] * 2))
        y = dnn.memory(dy)
        dnn.execute(made, {SRC: dnn.memory(dx, x), WEIGHTS: dnn.memory(dw, w), DST: y})
        padded = np.pad(exact(x, ti), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        rows = range(0, size, stride)
        want = np.zeros((n, out, out, co))
        for i in range(window):
            for j in range(window):
                part = padded[:, i : i + len(padded[0])][:, rows][:, :, [j + c for c in rows]]
                want += np.einsum("nhwi,oi->nhwo", part, exact(w, tw)[:, i, j])
        return dnn.read(y, (n, out, out, co), to), want, to

    return run


def elementwise(name: str, kind: Type, shape: Sequence[int], out: Type,
                make: Callable[[Dnn, Handle, Handle], Handle], fn: Callable[[Array], Array],
                out_shape: Sequence[int] | None = None) -> Callable[[Dnn, Inputs], Case]:
    """An operation with one source; `make` makes the primitive from both descriptions."""

    def run(dnn: Dnn, inputs: Inputs) -> Case:
        x = inputs(shape, kind)
        dx, dy = dnn.description(shape, kind), dnn.description(out_shape or shape, out)
        y = dnn.memory(dy)
        dnn.execute(make(dnn, dx, dy), {SRC: dnn.memory(dx, x), DST: y})
        return dnn.read(y, out_shape or shape, out), fn(exact(x, kind)), out

    return run


def softmax(rows: int, columns: int, kind: Type, log: bool = False) -> Any:
    def fn(x: Array) -> Array:
        moved = x - x.max(1, keepdims=True)
        total = np.exp(moved).sum(1, keepdims=True)
        return moved - np.log(total) if log else np.exp(moved) / total

    return elementwise("softmax", kind, (rows, columns), kind, lambda dnn, dx, dy: dnn.primitive(
        "softmax_forward", INFERENCE, 0x30001 if log else 0x30000, dx, dy, 1), fn)


def eltwise(number: int, fn: Callable[[Array], Array], shape: Sequence[int], kind: Type) -> Any:
    zero = ctypes.c_float(0), ctypes.c_float(0)
    if number == 0x2C:
        zero = ctypes.c_float(1), ctypes.c_float(0)
    return elementwise("eltwise", kind, shape, kind, lambda dnn, dx, dy: dnn.primitive(
        "eltwise_forward", INFERENCE, number, dx, dy, *zero), fn)


def reduction(number: int, fn: Callable[..., Array], shape: Sequence[int], kind: Type,
              out: Type) -> Any:
    none = ctypes.c_float(0), ctypes.c_float(0)
    return elementwise("reduction", kind, shape, out, lambda dnn, dx, dy: dnn.primitive(
        "reduction", number, dx, dy, *none), lambda x: fn(x, axis=1, keepdims=True),
        (shape[0], 1))


def reorder(shape: Sequence[int], kind: Type, out: Type, order: Sequence[int]) -> Any:
    """Copy to the type `out`, with the axes stored in another order."""

    def run(dnn: Dnn, inputs: Inputs) -> Case:
        x = inputs(shape, kind, 50 if out is S8 else 1)
        moved = [shape[axis] for axis in order]
        steps = [0] * len(shape)
        for place, axis in enumerate(order):
            steps[axis] = math.prod(moved[place + 1 :])
        dx, dy = dnn.description(shape, kind), dnn.description(shape, out, steps)
        y = dnn.memory(dy)
        made = dnn.primitive("reorder", dx, dnn.engine, dy, dnn.engine)
        dnn.execute(made, {SRC: dnn.memory(dx, x), DST: y})
        want = exact(x, kind).transpose(order)
        if out is S8:
            want = np.clip(np.rint(want), -128, 127)
        return dnn.read(y, moved, out), exact(stored(want, out), out), out

    return run


def binary(number: int, fn: Callable[[Array, Array], Array], a: Sequence[int], b: Sequence[int],
           kind: Type) -> Any:
    def run(dnn: Dnn, inputs: Inputs) -> Case:
        x, y = inputs(a, kind), inputs(b, kind)
        dx, dy = dnn.description(a, kind), dnn.description(b, kind)
        z = dnn.memory(dx)
        dnn.execute(dnn.primitive("binary", number, dx, dy, dx),
                    {SRC: dnn.memory(dx, x), SRC_1: dnn.memory(dy, y), DST: z})
        return dnn.read(z, a, kind), fn(exact(x, kind), exact(y, kind)), kind

    return run


def normalization(name: str, shape: Sequence[int], axes: tuple[int, ...], kind: Type,
                  groups: int = 0) -> Any:
    """Layer (last axis), batch (all but channels) or group normalization."""
    channel = -1 if name == "layer" else 1

    def run(dnn: Dnn, inputs: Inputs) -> Case:
        x = inputs(shape, kind)
        g, b = (inputs((shape[channel],), F32) for _ in range(2))
        dx, dg = dnn.description(shape, kind), dnn.description(g.shape, F32)
        extra: dict[str, list[Any]] = {
            "layer": [None], "batch": [], "group": [ctypes.c_int64(groups)]}
        made = dnn.primitive(f"{name}_normalization_forward", INFERENCE, dx, dx, *extra[name],
                             ctypes.c_float(1e-5), SCALE_AND_SHIFT)
        y = dnn.memory(dx)
        dnn.execute(made, {SRC: dnn.memory(dx, x), DST: y, SCALE: dnn.memory(dg, g),
                           SHIFT: dnn.memory(dg, b)})
        v = exact(x, kind)
        v = v.reshape(shape[0], groups, -1, *shape[2:]) if groups else v
        v = (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + 1e-5)
        wide = [1] * len(shape)
        wide[channel] = -1
        want = v.reshape(shape) * exact(g, F32).reshape(wide) + exact(b, F32).reshape(wide)
        return dnn.read(y, shape, kind), want, kind

    return run


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def products() -> Iterator[tuple[str, Any]]:
    rows = (
        (F16, F16, F16, "64x64x64 128x96x64 33x47x65 65x129x257 1x256x512 8x512x1024 256x256x256"),
        (F16, F16, F32, "64x64x64 100x72x40 1x64x128 4x96x512"),
        (BF16, BF16, BF16, "64x64x64 33x47x66"), (BF16, BF16, F32, "128x128x128 17x31x63"),
        (F32, F32, F32, "64x64x64 33x47x65 8x128x256 3x32x32x32"),
        (S8, S8, S32, "64x64x64 33x47x65 128x128x256 8x64x512"),
        (U8, S8, S32, "64x64x64 31x33x65"), (F16, F16, F16, "3x32x48x64 5x17x19x23"))
    for ta, tb, tc, shapes in rows:
        for shape in shapes.split():
            yield f"matmul {shape} {ta.name} {tb.name} {tc.name}", matmul(shape, ta, tb, tc)
    for kind in (F16, F32):
        yield f"matmul bias {kind.name}", matmul("48x80x96", kind, kind, kind, bias=True)
        yield f"matmul columns {kind.name}", matmul("40x56x72", kind, kind, kind, transposed=True)


def others() -> Iterator[tuple[str, Any]]:
    yield "convolution 3x3 f16", convolution(1, 32, 14, 32, 3, F16, F16, F16)
    yield "convolution 1x1 bf16", convolution(2, 64, 7, 64, 1, BF16, BF16, F32)
    yield "convolution 3x3 f32", convolution(1, 16, 9, 24, 3, F32, F32, F32)
    yield "convolution ragged f16", convolution(1, 3, 11, 20, 3, F16, F16, F16)
    yield "convolution stride 2 f16", convolution(1, 32, 12, 32, 3, F16, F16, F16, 2)
    yield "convolution s8", convolution(1, 32, 8, 32, 3, S8, S8, S32)
    yield "convolution u8", convolution(1, 32, 8, 32, 1, U8, S8, S32)
    for rows, columns, kind in ((32, 781, F32), (32, 1024, F16), (4, 4096, BF16), (5, 7, F32)):
        yield f"softmax {rows}x{columns} {kind.name}", softmax(rows, columns, kind)
    yield "softmax log f32", softmax(16, 100, F32, log=True)
    for rows, columns, kind in ((32, 768, F32), (32, 1024, F16), (7, 100, BF16)):
        yield (f"normalization layer {rows}x{columns} {kind.name}",
               normalization("layer", (rows, columns), (1,), kind))
    for kind in (F32, F16):
        yield (f"normalization batch {kind.name}",
               normalization("batch", (4, 16, 6, 6), (0, 2, 3), kind))
    yield "normalization group f32", normalization("group", (2, 16, 5, 5), (2, 3, 4), F32, 4)
    functions: tuple[tuple[str, int, Any, Type], ...] = (
        ("gelu", 0x31, gelu, F32), ("tanh", 0x21, np.tanh, F16), ("exp", 0x2A, np.exp, F32),
        ("relu", 0x20, lambda x: np.maximum(x, 0), BF16), ("abs", 0x24, np.abs, F32),
        ("logistic", 0x29, lambda x: 1 / (1 + np.exp(-x)), F32),
        ("swish", 0x2C, lambda x: x / (1 + np.exp(-x)), F16), ("square", 0x23, np.square, F32))
    for name, number, fn, kind in functions:
        yield f"eltwise {name} {kind.name}", eltwise(number, fn, (61, 130), kind)
    for name, number, fn, kind, b in (
            ("add", 0x1FFF0, np.add, F16, (64, 100)), ("add", 0x1FFF0, np.add, F32, (64, 100)),
            ("multiply", 0x1FFF1, np.multiply, BF16, (64, 100)),
            ("maximum", 0x1FFF2, np.maximum, F32, (64, 1)),
            ("subtract", 0x1FFF5, np.subtract, F16, (1, 100))):
        yield f"binary {name} {kind.name} {b[0]}x{b[1]}", binary(number, fn, (64, 100), b, kind)
    for name, number, fn, kind, out in (
            ("sum", 0x2FFF4, np.sum, F32, F32), ("sum", 0x2FFF4, np.sum, F16, F32),
            ("maximum", 0x2FFF2, np.max, BF16, BF16), ("mean", 0x2FFF6, np.mean, F32, F32)):
        yield (f"reduction {name} {kind.name} {out.name}",
               reduction(number, fn, (37, 1000), kind, out))
    for shape, kind, out, order in (
            ((100, 72), F16, F16, (1, 0)), ((128, 128), F32, F16, (1, 0)),
            ((33, 65), F32, BF16, (0, 1)), ((40, 24), S8, F32, (1, 0)),
            ((64, 31), F32, S8, (0, 1)), ((6, 20, 36), F16, F16, (2, 0, 1))):
        yield (f"reorder {'x'.join(map(str, shape))} {kind.name} {out.name} {order}",
               reorder(shape, kind, out, order))


def named(name: str) -> Any:
    """The case of a name: what it is, its shape and its types."""
    kind, shape, *types = name.split()
    found = [TYPES[each] for each in types]
    if kind == "matmul":
        a, b, c = found
        return matmul(shape, a, b, c)
    rows, columns = map(int, shape.split("x"))
    if kind == "softmax":
        return softmax(rows, columns, found[0])
    return normalization("layer", (rows, columns), (1,), found[0])


def chosen(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """For each word the cases whose names contain it, or the case that it names."""
    cases = [*products(), *others()]
    for word in words or [""]:
        found = [(name, case) for name, case in cases if word in name]
        yield from found or [(word, named(word))]


def choose(dnn: Dnn, name: str) -> None:
    """Create the primitive of a product of two matrices."""
    _, shape, *types = name.split()
    m, n, k = map(int, shape.split("x"))
    a, b, c = [TYPES[each] for each in types]
    dnn.primitive("matmul", dnn.description((m, k), a), dnn.description((k, n), b), None,
                  dnn.description((m, n), c))


def main(words: Sequence[str]) -> int:
    dnn, failed = Dnn(), 0
    if words[:1] == ["--choose"]:
        for name in words[1:]:
            print(json.dumps({"case": name}), flush=True)
            choose(dnn, name)
        return 0
    for name, case in chosen(words):
        start = time.perf_counter()
        try:
            got, want, kind = case(dnn, Inputs())
        except RuntimeError as error:
            result: dict[str, Any] = {"right": False, "why": str(error)}
        else:
            off = float(np.max(np.abs(got - want)) / max(np.max(np.abs(want)), 1e-30))
            result = {"right": off <= kind.bound, "off": off, "began": dnn.began}
        failed += not result["right"]
        seconds = round(time.perf_counter() - start, 2)
        print(json.dumps({"case": name, **result, "seconds": seconds}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
