"""`triton-xe run FILE.mlir --args ...`: run an XeTile or XeGPU function on the simulator."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import TARGETS, row_name
from triton_xe.tools.commands.opt import current_notation

if TYPE_CHECKING:
    import numpy as np

HELP = "run an XeTile or XeGPU function on the simulator"
EPILOG = """\
Each argument of the function is one of
  a.npy                        an array from a file
  shape:64x64:f16:seed=1       random numbers; also :zeros, :ones (types f16 bf16 f32 i8 ...)
  5, 0.5                       a number
After the run every array is written to DIR as arg0.npy, arg1.npy, ...; bf16 is kept in uint16.

example:
  triton-xe run examples/xetile_gemm.mlir --grid 2,2,1 --out results --args \\
      shape:300x200:f16:seed=1 shape:200x260:f16:seed=2 shape:300x260:f32:zeros 300 260 200
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="module with the function")
    parser.add_argument("--args", nargs="*", default=[], metavar="ARG",
                        help="arguments of the function, see below")
    parser.add_argument("--kernel", help="function to run, if the module has several")
    parser.add_argument("--target", default="bmg", type=row_name, choices=list(TARGETS),
                        help="device")
    parser.add_argument("--grid", default="1,1,1", help="work-groups: x,y,z")
    parser.add_argument("--out", type=Path, help="folder for the arrays after the run")


def run(arguments: argparse.Namespace) -> int:
    """Run the function, and write or describe the arrays."""
    import numpy as np

    values = [read_argument(text) for text in arguments.args]
    grid = read_grid(arguments.grid)
    text = current_notation(Path(arguments.file).read_text(), arguments.file)
    run_program(text, values, target=arguments.target, grid=grid,
                kernel=arguments.kernel, name=arguments.file)
    for number, value in enumerate(values):
        if not isinstance(value, np.ndarray):
            continue
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
            np.save(arguments.out / f"arg{number}.npy", value)
        shape = "x".join(map(str, value.shape))
        print(f"arg{number}: {shape} {value.dtype}, sum {value.sum(dtype=np.float64):g}")
    return 0


def read_grid(text: str) -> tuple[int, int, int]:
    """
    >>> read_grid("4,2")
    (4, 2, 1)
    """
    parts = text.split(",")
    sizes = [int(part) for part in parts if part.isdigit()]
    if not 1 <= len(sizes) <= 3 or len(sizes) < len(parts) or min(sizes) < 1:
        raise ValueError(f"a grid is one to three positive sizes, x,y,z; not {text!r}")
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


_TYPES = {
    "f16": "float16", "bf16": "uint16", "f32": "float32", "f64": "float64", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64",
}


_ARRAY = re.compile(r"shape:\d+(x\d+)*:\w+(:(zeros|ones|seed=\d+))?")


def read_argument(text: str) -> Any:
    """An array or a number from its spelling on the command line.

    >>> read_argument("shape:2x3:i32:ones").tolist()
    [[1, 1, 1], [1, 1, 1]]
    """
    import numpy as np

    if text.startswith("shape:"):
        return made_array(text)
    if text.endswith(".npy"):
        try:
            return np.ascontiguousarray(np.load(text))
        except (ValueError, EOFError) as error:
            raise ValueError(f"{text} holds no array of numpy: {error}") from error
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is no .npy file, no shape:... and no number")


def made_array(text: str) -> np.ndarray[Any, Any]:
    """The array that `shape:64x64:f16:seed=1` describes."""
    import numpy as np

    from triton_xe.intrinsics.definitions.conversions import float_to_bf16

    parts = text.split(":")
    if not _ARRAY.fullmatch(text) or parts[2] not in _TYPES:
        raise ValueError(f"{text!r} is not shape:SIZES:TYPE, as in shape:64x64:f16, and after it "
                         f":seed=N, :zeros, :ones or nothing; types: {', '.join(_TYPES)}")
    shape = tuple(int(size) for size in parts[1].split("x"))
    kind = np.dtype(_TYPES[parts[2]])
    fill = parts[3] if len(parts) == 4 else "seed=0"
    if fill == "zeros":
        return np.zeros(shape, kind)
    random = np.random.default_rng(int(fill.removeprefix("seed=")) if fill != "ones" else 0)
    if parts[2] == "bf16":
        drawn = np.ones(shape) if fill == "ones" else random.standard_normal(shape)
        return float_to_bf16(drawn.astype(np.float32))
    if fill == "ones":
        return np.ones(shape, kind)
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    low = 0 if kind.kind == "u" else -8
    return random.integers(low, 8, shape).astype(kind)


_NUMBERS = ("i1", "i8", "i16", "i32", "i64", "f16", "f32", "f64")


@dataclass
class Run:
    """The program that ran, and its kernel."""

    program: Any
    kernel: str


def run_program(
    text: str, values: Sequence[Any], *, target: str = "bmg",
    grid: tuple[int, int, int] = (1, 1, 1), kernel: str | None = None, name: str = "module",
) -> Run:
    """Compile a module, run one of its functions, and update the arrays among `values`."""
    import numpy as np

    from triton_xe.lowering.by_hand.dialect_pipeline import compile_text
    from triton_xe.runtime.simulator.interface import SimulatedDevice

    program = compile_text(text, target, name)
    chosen = _chosen(program.kernels, kernel, name)
    device = SimulatedDevice(target)
    loaded = device.load(program.spirv, chosen,
                         build_flags=program.metadata.get("build_flags", ""))
    if len(loaded.argument_types) != len(values):
        raise UnsupportedError(
            f"{name}: @{chosen} takes {len(loaded.argument_types)} arguments, not {len(values)}"
        )
    for number, (kind, value) in enumerate(zip(loaded.argument_types, values, strict=True)):
        if kind not in (("ptr", "i64") if isinstance(value, np.ndarray) else _NUMBERS):
            given = "an array" if isinstance(value, np.ndarray) else value
            raise UnsupportedError(f"{name}: argument {number} of @{chosen} is {kind}, not {given}")
    buffers = []
    arguments: list[int | float] = []
    for value in values:
        if isinstance(value, np.ndarray):
            buffer = device.allocate(max(value.nbytes, 1))
            device.copy_to_device(buffer.pointer, value)
            buffers.append((buffer, value))
            arguments.append(buffer.pointer)
        else:
            arguments.append(value)
    device.launch(loaded, grid, arguments)
    device.synchronize()
    for buffer, value in buffers:
        device.copy_to_host(value, buffer.pointer)
        buffer.free()
    return Run(program, chosen)


def _chosen(kernels: tuple[str, ...], wanted: str | None, name: str) -> str:
    if wanted is None and len(kernels) == 1:
        return kernels[0]
    if wanted in kernels:
        return str(wanted)
    if wanted is None:
        raise UnsupportedError(f"{name} has the functions {', '.join(kernels)}; name one")
    raise UnsupportedError(f"{name} has no function {wanted}; it has {', '.join(kernels)}")
