"""Run a script on a simulated device, and see which kernels it launches.

    python -m triton_xe.tools.report.watching OUT SCRIPT [ARGUMENT ...]
"""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from triton_xe import knobs

_SAID = re.compile(r", ![\w.]+ !\d+")


class Seen(NamedTuple):
    """A launch; `digest` is that of the kernel's LLVM IR."""

    name: str
    digest: str
    grid: tuple[int, int, int]
    arguments: Sequence[int | float]


def digest(llvm_ir: str) -> str:
    """Of the instructions, whatever they say of their lines."""
    lines = (line for line in llvm_ir.splitlines() if not line.startswith("!"))
    plain = "\n".join(_SAID.sub("", line).rstrip() for line in lines)
    return hashlib.sha256(plain.encode()).hexdigest()


def launches(script: Sequence[str], device: str, *, sanitize: bool = False) -> tuple[
        list[Seen], str]:
    """What a script launches on a simulated device, and the error that it ended with."""
    with TemporaryDirectory(prefix="triton-xe-") as folder:
        out = Path(folder) / "launches.json"
        environment = knobs.process_environment() | {"TRITON_XE_DEVICE": f"sim:{device}"}
        environment |= {"TRITON_XE_SANITIZE": "1"} if sanitize else {}
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, str(out), *script], env=environment,
            capture_output=True, text=True, errors="replace", check=False)
        if not out.exists():
            raise ValueError(f"{script[0]} ended with exit code {done.returncode}: "
                             f"{done.stderr.strip()[-400:]}")
        data = json.loads(out.read_text())
    return [Seen(s[0], s[1], tuple(s[2]), s[3]) for s in data["launches"]], data["error"]


def watch(out: Path, script: Sequence[str]) -> None:
    """Run the script here; write its launches, each kind once, and its error."""
    from triton_xe.runtime.simulator import clock

    seen: dict[tuple[Any, ...], Seen] = {}

    def note(kernel: Any, grid: tuple[int, int, int], arguments: Sequence[int | float]) -> None:
        found = Seen(kernel.name, digest(kernel.source.text), grid, tuple(arguments))
        scalars = tuple(a for k, a in enumerate(arguments) if k not in kernel.pointer_arguments)
        seen.setdefault((found.name, found.digest, grid, scalars), found)

    clock.WATCHERS.append(note)
    sys.argv = list(script)
    sys.path.insert(0, str(Path(script[0]).resolve().parent))
    error = ""
    try:
        runpy.run_path(script[0], run_name="__main__")
    except Exception as raised:  # whatever the user's script ends with is what there is to say
        error = f"{type(raised).__name__}: {raised}"
    out.write_text(json.dumps({"launches": list(seen.values()), "error": error}))


if __name__ == "__main__":
    watch(Path(sys.argv[1]), sys.argv[2:])
