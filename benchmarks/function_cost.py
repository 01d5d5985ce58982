"""Cost of functions of fp32: the project's own code, and that of Intel's OpenCL library.

    python -m benchmarks.function_cost [--devices bmg,pvc] [NAME ...]

No GPU is needed, but Intel's compiler is.  It prints the table of docs/tuning.md, with errors from
`python/test/language/maths`.  A kernel of four warps loads, computes and stores 16 elements in each
lane.  Cycles are those that one warp occupies the pipes of an engine.  It is one for 16 lanes of
fp32 or of integers, and `MATH_CLOCKS` for 16 lanes of a transcendental instruction.  Both counts
include all branches, and the copy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any
from unittest import mock

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.compile_time import lowered
from triton_xe.backend.libdevice import FUNCTIONS as LIBDEVICE
from triton_xe.lowering.emit.maths.elementary import ELEMENTARY
from triton_xe.lowering.spirv import emit_spirv
from triton_xe.model.rates import MATH_CLOCKS
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.tools import intel
from triton_xe.tools.native_figures import pipe

BLOCK, WARPS = 1024, 4
FUNCTIONS: dict[str, Any] = {name: LIBDEVICE[name] for name in ("erf", *ELEMENTARY, "fmod")}
_CLOCKS = {"fp": 1, "integer": 1, "maths": MATH_CLOCKS}


@triton.jit
def one(x_ptr, y_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, F(tl.load(x_ptr + at)))


@triton.jit
def two(x_ptr, z_ptr, y_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, F(tl.load(x_ptr + at), tl.load(z_ptr + at)))


def compiled(name: str, device: str, library: bool) -> intel.CompiledKernel:
    """Native code of a function's kernel, without Triton's cache; `library` calls Intel's."""
    kernel = two if name == "fmod" else one
    constants = {"F": FUNCTIONS[name], "BLOCK": BLOCK}
    types = {n: "constexpr" if n in constants else "*fp32" for n in kernel.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(kernel.arg_names)
               if n not in constants}
    source = ASTSource(kernel, types, constants, aligned)
    with mock.patch.dict(ELEMENTARY, {}, clear=library):
        module, metadata = lowered(source, GPUTarget("xpu", device, 16), {"num_warps": WARPS},
                                   "llir" if library else "spv")
    if library:
        module = emit_spirv.write_spirv(str(module))
    return intel.compile_spirv(module, device, metadata["build_flags"])


def cycles(instructions: Sequence[Instruction]) -> int:
    """Cycles that instructions occupy the arithmetic pipes."""
    return round(sum(_CLOCKS.get(pipe(each), 0) * max(each.width, 16) / 16
                     for each in instructions))


def figures(name: str, device: str, library: bool) -> tuple[int, int, int]:
    """Instructions, cycles, and gathers from tables, of a kernel."""
    built = compiled(name, device, library)
    whole, operands = built.figures.whole, 2 if name == "fmod" else 1
    tables = whole.gathers - operands * whole.scatters
    return whole.issued, cycles(built.program.instructions), tables


def row(name: str, devices: Sequence[str]) -> str:
    """A function's row; no figures of the library if it has no such function."""
    ours, theirs = ([figures(name, device, library) for device in devices]
                    for library in (False, True))
    missing = ours == theirs
    cells = [f"{ours[0][0]:,}", "-" if missing else f"{theirs[0][0]:,}"]
    for mine, other in zip(ours, theirs, strict=True):
        cells += [f"{mine[1]:,}", "-" if missing else f"{other[1]:,}"]
    cells.append(f"{ours[0][2]}" + f" instead of {theirs[0][2]}" * (ours[0][2] != theirs[0][2]))
    return f"| `{name}` | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", default="bmg,pvc", help="the first one's instructions")
    parser.add_argument("names", nargs="*")
    parsed = parser.parse_args(arguments)
    devices = parsed.devices.split(",")
    columns = ["instructions", *(f"cycles on {device}" for device in devices)]
    print("| function |", " | ".join(f"{c} | of OpenCL's" for c in columns), "| messages |")
    print("|---" * (2 * len(columns) + 2) + "|")
    for name in [n for n in FUNCTIONS if not parsed.names or n in parsed.names]:
        print(row(name, devices), flush=True)


if __name__ == "__main__":
    main()
