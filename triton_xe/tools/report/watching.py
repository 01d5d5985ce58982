"""Run a script on a simulated device, and observe the kernels that it launches.

    python -m triton_xe.tools.report.watching OUT SCRIPT [ARGUMENT ...]
"""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from triton_xe import knobs

_METADATA = re.compile(r", ![\w.]+ !\d+")


class Seen(NamedTuple):
    """A launch; `digest` is that of the kernel's LLVM IR."""

    name: str
    digest: str
    grid: tuple[int, int, int]
    arguments: Sequence[int | float]
    was_run: bool
    """False if it was only timed, as the configurations of an autotuner are."""


class Variant(NamedTuple):
    """Compilation options of a kernel, as the command line spells them."""

    signature: str
    num_warps: int
    num_stages: int
    grf_mode: str

    def __str__(self) -> str:
        return (f'--signature "{self.signature}" --num-warps {self.num_warps} --num-stages '
                f"{self.num_stages} --grf-mode {self.grf_mode}")


class Watched(NamedTuple):
    launches: Sequence[Seen]
    variants: Mapping[str, Sequence[Variant]]
    """Variants by the kernel's name."""
    error: str
    """The error that ended the script; empty if there was none."""
    executed: Mapping[str, Mapping[str, int]] = {}
    """Kernel -> `file:line` -> instructions of threads that an emulated device executed for it."""


def digest(llvm_ir: str) -> str:
    """Digest of the instructions without their line numbers."""
    lines = (line for line in llvm_ir.splitlines() if not line.startswith("!"))
    plain = "\n".join(_METADATA.sub("", line).rstrip() for line in lines)
    return hashlib.sha256(plain.encode()).hexdigest()


def launches(script: Sequence[str], device: str, *, sanitize: bool = False) -> Watched:
    """The launches of a script on a device, `sim:NAME` or `emu:NAME`."""
    with TemporaryDirectory(prefix="triton-xe-") as folder:
        out = Path(folder) / "launches.json"
        environment = knobs.process_environment() | {"TRITON_XE_DEVICE": device}
        environment |= {"TRITON_XE_LINES": "1"} if device.startswith("emu:") else {}
        environment |= {"TRITON_XE_SANITIZE": "1"} if sanitize else {}
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, str(out), *script], env=environment,
            capture_output=True, text=True, errors="replace", check=False)
        if not out.exists():
            raise ValueError(f"{script[0]} ended with exit code {done.returncode}: "
                             f"{done.stderr.strip()[-400:]}")
        found, variants, error, executed = json.loads(out.read_text())
    return Watched([Seen(name, digest, tuple(grid), *rest) for name, digest, grid, *rest in found],
                   {name: [Variant(*v) for v in all_] for name, all_ in variants.items()}, error,
                   executed)


def spelled(
    types: Mapping[str, str], constants: Mapping[Any, Any],
    attributes: Mapping[tuple[int, ...], Sequence[Sequence[Any]]],
) -> str:
    """A signature as on the command line, from the source that Triton compiles.

    >>> spelled({"x": "*fp32", "B": "constexpr"}, {(1,): 64}, {(0,): [["tt.divisibility", 16]]})
    'x=*fp32:16 B=64'
    """
    def value(position: int, name: str, kind: str) -> str:
        if kind == "constexpr":
            return repr(constants.get((position,), constants.get(name)))
        divisors = dict(map(tuple, attributes.get((position,), ())))
        return f"{kind}:{divisors['tt.divisibility']}" if divisors else kind

    return " ".join(f"{name}={value(position, name, str(kind))}"
                    for position, (name, kind) in enumerate(types.items()))


def watch(out: Path, script: Sequence[str]) -> None:
    """Run the script in this process; write its launches, each kind once, its kernels, and its
    error.
    """
    from triton import knobs as triton_knobs

    from triton_xe.runtime.observers import Observer
    from triton_xe.tools.report import executed_lines

    variants: dict[str, dict[Variant, None]] = {}

    def specialize(*, fn: Any, compile: Mapping[str, Any], **_: Any) -> bool:
        options = json.loads(compile["specialization_data"])["options"]
        variants.setdefault(fn.name.rpartition(".")[2], {})[Variant(
            spelled(compile["signature"], compile["constants"], compile["configs"][0]),
            *(options[name] for name in Variant._fields[1:]))] = None
        return False

    triton_knobs.runtime.jit_cache_hook = specialize
    seen: dict[tuple[Any, ...], Seen] = {}

    class Launches(Observer):
        def note(self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[int | float],
                 is_run: bool) -> None:
            found = Seen(kernel.name, digest(kernel.source.text), grid, tuple(arguments), is_run)
            scalars = tuple(a for k, a in enumerate(arguments) if k not in kernel.pointer_arguments)
            key = (found.name, found.digest, grid, scalars)
            if is_run or key not in seen:
                seen[key] = found

    Launches(is_active=True)
    emulated = executed_lines.emulated()
    sys.argv = list(script)
    sys.path.insert(0, str(Path(script[0]).resolve().parent))
    error = ""
    try:
        runpy.run_path(script[0], run_name="__main__")
    except Exception as raised:  # whatever the user's script ends with is what there is to say
        error = f"{type(raised).__name__}: {raised}"
    kernels = {name: list(found) for name, found in variants.items()}
    out.write_text(json.dumps(Watched(list(seen.values()), kernels, error,
                                       executed_lines.counts(emulated))))


if __name__ == "__main__":
    watch(Path(sys.argv[1]), sys.argv[2:])
