"""Gather the contents of a report about a kernel: source, stages, prediction, native code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.target import target as find_target
from triton_xe.model.rates import PRODUCTS
from triton_xe.model.time import Cost, Prediction, predict
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.simulator.interface import KernelSource, TimedKernel, line_costs
from triton_xe.runtime.versions import entry_name
from triton_xe.tools import intel
from triton_xe.tools.exact import exact_issue, native
from triton_xe.tools.native_figures import KernelFigures
from triton_xe.tools.report.native_lines import with_lines
from triton_xe.tools.report.stages import Stage, stage

STAGES = ("ttgir", "xetile", "xegpu", "llir")


@dataclass(frozen=True)
class Launch:
    """Grid of a launch, and all arguments that are not `tl.constexpr`."""

    grid: tuple[int, int, int]
    arguments: Sequence[int | float]


@dataclass(frozen=True)
class Timed:
    """The predicted time of a launch, and the costs of lines of the kernel's file."""

    launch: Launch
    prediction: Prediction
    is_known: bool
    """False if a loop, a branch or an address depends on data, and was estimated."""
    is_exact: bool
    """True if the instructions are those of the native code."""
    lines: Mapping[int, Cost]


@dataclass(frozen=True)
class Report:
    """Everything that the page of one kernel shows."""

    kernel: str
    device: str
    product: str
    file: str
    source: Sequence[tuple[int, str]]
    """Numbered lines of the kernel and of the functions of its file that it calls."""
    stages: Sequence[Stage]
    metadata: Mapping[str, Any]
    texts: Mapping[str, str] = field(repr=False)
    """Texts of stages that have layouts."""
    timed: Timed | None = None
    native: KernelFigures | None = None
    why_not_native: str = ""
    findings: Sequence[str] = field(default=())
    """Findings of the sanitizer, if it was run."""
    was_sanitized: bool = False
    executed: Mapping[int, int] | None = None
    """Line -> instructions that threads executed for it in all launches; 0 -> all others."""


def lines_of_file(executed: Mapping[str, int], file: str) -> Mapping[int, int]:
    """Sum instructions by line of one file; line 0 has those of other files and without a line.

    >>> lines_of_file({"a.py:3": 5, "b.py:3": 2, "": 1}, "a.py")
    {0: 3, 3: 5}
    """
    found = {0: 0}
    for location, count in executed.items():
        name, _, line = location.rpartition(":")
        number = int(line) if name == file else 0
        found[number] = found.get(number, 0) + count
    return found


def timed_kernel(kernel: Any, device: str) -> tuple[KernelSource, TimedKernel]:
    """Return the LLVM IR of a compiled kernel, and the properties that the time model reads."""
    source = KernelSource(
        kernel.asm["llir"], entry_name(kernel.asm["spv"], kernel.metadata.name),
        find_target(device))
    registers = RegisterFile.of_flags(kernel.metadata.build_flags).registers
    return source, TimedKernel.from_source(source, registers)


def timed(
    kernel: Any, device: str, file: str, launch: Launch, native: Program | None = None
) -> Timed:
    """Predict the time of a launch; if `native` is given, from the instructions in it."""
    source, model = timed_kernel(kernel, device)
    walk = model.sampled(launch.arguments, launch.grid)
    work, is_known = model.work_of(walk)
    if native is not None:
        work = replace(work, issue=exact_issue(native, model, walk, work.issue))
    prediction = predict(work, PRODUCTS[source.target.product])
    costs = line_costs(source.parsed.module, model, walk, prediction)
    return Timed(launch, prediction, is_known, native is not None,
                 {line: cost for (name, line), cost in costs.items() if name == file})


def native_of(kernel: Any, device: str, module: bytes = b"") -> intel.CompiledKernel:
    """Compile a kernel's SPIR-V by Intel's compiler; `module` replaces the SPIR-V."""
    return native(module or kernel.asm["spv"], device, kernel.metadata.build_flags)


def source_file(function: Any) -> str:
    return str(inspect.getsourcefile(function.fn))


def source_lines(function: Any, stages: Sequence[Stage]) -> list[tuple[int, str]]:
    """Lines of the kernel, and of functions of its file that appear in some stage."""
    text = Path(source_file(function)).read_text(encoding="utf-8")
    used = {number for each in stages for _, number in each.lines}
    first = function.fn.__code__.co_firstlineno
    wanted: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            lines = range(start, (node.end_lineno or start) + 1)
            if first in lines or used & set(lines):
                wanted |= set(lines)
    return [(k, line) for k, line in enumerate(text.splitlines(), 1) if k in wanted]


def gathered(
    function: Any, kernel: Any, device: str, launch: Launch | None, *, findings: Sequence[str] = (),
    was_sanitized: bool = False, exact: bool = False,
) -> Report:
    """Gather the report; if `exact`, the prediction uses the instructions of the native code."""
    file = source_file(function)
    missing = intel.available() or ""
    if exact and missing:
        raise DeviceError(f"--exact counts instructions of native code: {missing}")
    built = None if missing else native_of(kernel, device)
    texts = {name: kernel.asm[name] for name in STAGES}
    if built is not None:
        name = entry_name(kernel.asm["spv"], kernel.metadata.name)
        lined = with_lines(kernel.asm["spv"], name, file)
        (texts["asm"],) = native_of(kernel, device, lined).asm.values()
    stages = [stage(name, text, file) for name, text in texts.items()]
    return Report(
        kernel.metadata.name, device, PRODUCTS[find_target(device).product].label, file,
        source_lines(function, stages), stages, kernel.metadata._asdict(),
        {name: kernel.asm[name] for name in ("ttgir", "xetile")},
        None if launch is None else timed(
            kernel, device, file, launch, built.program if built and exact else None),
        built.figures if built else None, missing, findings, was_sanitized)
