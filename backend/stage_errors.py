"""Errors of the stages in the user's terms: with the kernel and the source line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton_xe.backend.options import XeOptions
from triton_xe.errors import XeError, not_this_configuration
from triton_xe.progress import progress

Stage = Callable[[Any, dict[str, Any]], Any]

_KERNEL = re.compile(r"tt\.func public @([\w.$-]+)\(")
_HALF = re.compile(r"%[\w.$-]+: b?f16\b")
_DEFINITION = re.compile(r'^#loc = loc\("([^"]+)":(\d+):\d+\)', re.MULTILINE)


def stage_text(source: Any, produced_by: str, options: XeOptions) -> Any:
    """The output of the previous stage, or the text of the file that overrides it.

    Triton reads only its own kinds of overriding files and passes `None` for ours.
    """
    if source is not None:
        return source
    path = options.ir_override or ""
    if path.endswith(f".{produced_by}"):
        return Path(path).read_text()
    raise ValueError(
        f"Triton cannot override the stage {produced_by!r} through TRITON_KERNEL_OVERRIDE; "
        f"set ir_override=FILE.{produced_by} in the launch or in triton.Config"
    )


class KernelNamer:
    """Wraps the stages of one compilation, so that their errors name the kernel and its line."""

    def __init__(self) -> None:
        self.ttgir = ""

    def wrap(self, stage: str, run: Stage) -> Stage:
        """Wrap `run` so that its `XeError`s name the kernel and `error.location` or its definition.

        Autotuners skip configurations that raise them.  Other exceptions are bugs, or Triton's own;
        they keep their text and get a note.
        """

        def wrapped(source: Any, metadata: dict[str, Any]) -> Any:
            try:
                name = str(metadata.get("name", ""))
                with progress(f"compiling {name or 'a kernel'} to {stage}", name):
                    return run(source, metadata)
            except XeError as error:
                raise self._named(error, source) from error
            except Exception as error:
                error.add_note(self._bug_note(stage, source))
                raise

        return wrapped

    def _bug_note(self, stage: str, source: Any) -> str:
        kernel, definition = kernel_of(self.ttgir or str(source))
        return f"triton-xe: while making {stage} of kernel {kernel!r} ({definition})"

    def _named(self, error: XeError, source: Any) -> XeError:
        """The error with the kernel's name and location in front, unless its text has them."""
        kernel, definition = kernel_of(self.ttgir or str(source))
        location = getattr(error, "location", "") or definition
        if not kernel or str(error).startswith("kernel "):
            return not_this_configuration(error)
        where = f"kernel {kernel!r}" + (f" ({location})" if location else "")
        named = type(error)(f"{where}: {error}")
        named.__dict__.update(error.__dict__)
        return not_this_configuration(named)


def kernel_of(module_text: str) -> tuple[str, str]:
    """Name and file:line of the public function in MLIR text; empty if the text has none.

    >>> kernel_of("  tt.func public @add(%a: i32) {")
    ('add', '')
    """
    name = _KERNEL.search(module_text)
    line = _DEFINITION.search(module_text)
    return name.group(1) if name else "", f"{line.group(1)}:{line.group(2)}" if line else ""


def takes_halves(module_text: str) -> bool:
    """True if an argument of the kernel is itself a floating-point number of 16 bits.

    >>> takes_halves("  tt.func public @add(%x: !tt.ptr<f16>, %scale: bf16) {")
    True
    >>> takes_halves("  tt.func public @add(%x: !tt.ptr<f16>, %n: i16) {")
    False
    """
    header = module_text.partition("tt.func public @")[2].partition("\n")[0]
    return _HALF.search(header) is not None
