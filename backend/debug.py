"""Prints the stages of each compilation on standard error, by the level of `TRITON_XE_DEBUG`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from triton_xe import knobs
from triton_xe.runtime import native
from triton_xe.tools.plan_picture import describe

Stage = Callable[[Any, dict[str, Any]], Any]
STAGE_LEVELS = {"xetile": 3, "xegpu": 3, "llir": 4}


def printing(name: str, stage: Stage) -> Stage:
    """Wrap the stage so that it prints what the level requests."""

    @wraps(stage)
    def run(source: Any, metadata: dict[str, Any]) -> Any:
        result = stage(source, metadata)
        for line in _lines(name, result, metadata, knobs.debug()):
            print(line, file=sys.stderr)
        return result

    return run


def _lines(stage: str, result: Any, metadata: dict[str, Any], level: int) -> list[str]:
    """Lines to print for a stage: its text, plans, native code and remarks, by the debug level."""
    kernel = metadata.get("name", "")
    lines = []
    if level >= STAGE_LEVELS.get(stage, level + 1):
        lines += [f"triton-xe: {stage} of kernel {kernel!r}", str(result)]
    if stage == "llir" and level >= 1:
        lines += [f"triton-xe: {kernel}: {plan['operand']}: {describe(plan)}"
                  for plan in metadata["plan_summary"]]
        lines.append(f"triton-xe: {kernel}: {native.describe()}")
    if stage == "llir" and level >= 2:
        lines += [f"triton-xe: {kernel}: {remark}" for remark in metadata["remarks"]]
    return lines
