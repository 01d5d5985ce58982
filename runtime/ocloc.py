"""Intel's graphics compiler, `ocloc`: SPIR-V modules to native binaries.

The tools are those on PATH, or of `triton-xe toolchain`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.target import TARGETS
from triton_xe.runtime.level_zero import native_cache
from triton_xe.runtime.level_zero.native_build import Built, build, file_to_try
from triton_xe.runtime.level_zero.native_cache import NativeEntry
from triton_xe.runtime.level_zero.zebin import kernel_facts, sections
from triton_xe.runtime.spirv_reader import entry_point, entry_points
from triton_xe.spirv import is_spirv

INSTALL_HINT = "run `triton-xe toolchain`, or install Intel's packages"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
_COMPILE_SECONDS = 600


class IntelCompilerError(DeviceError):
    """Intel's compiler refused a module or crashed; `log` is its output."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


def toolchain_root() -> Path | None:
    """The folder of the project's own installation of Intel's tools, if it exists."""
    root = knobs.toolchain()
    return root.resolve() if _loader(root).exists() and (root / LIBRARIES).is_dir() else None


def ocloc_command() -> tuple[str, ...] | None:
    """The start of a command line that runs `ocloc`; None if it is not installed."""
    return tool("ocloc", knobs.ocloc())


def tool(name: str, configured: str = "") -> tuple[str, ...] | None:
    """Command of a tool: the configured path, else from PATH, else from the toolchain's root."""
    if configured:
        return (configured,) if Path(configured).exists() else None
    found = shutil.which(name)
    if found:
        return (found,)
    root = toolchain_root()
    if root is None:
        return None
    folder = root / "usr/bin"
    versions = sorted(folder.glob(f"{name}-[0-9]*"))
    program = versions[-1] if versions else folder / name
    return through_loader(root, str(program)) if program.exists() else None


def through_loader(root: Path, program: str) -> tuple[str, ...]:
    return (str(_loader(root)), "--library-path", str(root / LIBRARIES), program)


def _loader(root: Path) -> Path:
    return root / "lib64/ld-linux-x86-64.so.2"


def available() -> str | None:
    """None if Intel's compiler can be used, otherwise the reason: for skipping a test."""
    if ocloc_command() is None:
        return f"Intel's compiler (ocloc) is not installed; {INSTALL_HINT}"
    return None


@dataclass(frozen=True)
class Output:
    """The compiler's log, and the folder with the files that it wrote."""

    log: str
    folder: Path


def run_ocloc(
    spirv: bytes, device: str, options: str, folder: Path, *, dump: bool = False
) -> Built[Output]:
    """Native code of a module, with the register file that spills less unless `options` name one.

    Each build has a folder of its own in `folder`, with listings if `dump`.  `IntelCompilerError`
    when the compiler refuses or crashes, or leaves all kernels out, which it does without a
    message.
    """
    def once(flags: str) -> tuple[bytes, Output]:
        made = Path(tempfile.mkdtemp(dir=folder))
        return _compile(spirv, device, flags, made, dump)

    return build(once, options, _larger_file(spirv, device, options),
                 lambda error: isinstance(error, IntelCompilerError))


def _larger_file(spirv: bytes, device: str, options: str) -> RegisterFile | None:
    """The file to try if the kernels spill; None for modules and devices that ocloc refuses."""
    if not is_spirv(spirv) or device not in TARGETS:
        return None
    files = [file_to_try(entry, options, TARGETS[device]) for entry in entry_points(spirv).values()]
    return None if None in files else next(iter(files), None)


def _compile(
    spirv: bytes, device: str, options: str, folder: Path, dump: bool
) -> tuple[bytes, Output]:
    """Run the compiler once, with these options as they are."""
    command = ocloc_command()
    if command is None:
        raise DeviceError(available() or "ocloc is missing")
    source = folder / "module.spv"
    source.write_bytes(spirv)
    arguments = ["compile", "-spirv_input", "-file", str(source), "-device", device]
    arguments += ["-output", "native", "-out_dir", str(folder)]
    arguments += ["-options", options] if options else []
    environment = {"IGC_ShaderDumpEnable": "1", "IGC_DumpToCustomDir": str(folder)} if dump else {}
    log = _run_compiler([*command, *arguments], device, folder, environment)
    built = sorted(folder.glob("native_*.bin"))
    if not built:
        raise IntelCompilerError(f"ocloc wrote no binary for {device}: {_last_line(log)}", log)
    binary = built[0].read_bytes()
    if ".ze_info" not in sections(binary) or not kernel_facts(binary):
        raise IntelCompilerError(
            f"ocloc wrote a binary without kernels for {device}: a kernel needs more registers "
            f"than {options!r} allows", log)
    return binary, Output(log, folder)


def native_code(spirv: bytes, kernel: str, device: str, flags: str) -> NativeEntry:
    """The native code of a kernel, from the cache if this compiler made it before."""
    compiler = [f"{name} {Path(name).stat().st_mtime_ns}" for name in ocloc_command() or ()
                if Path(name).is_file()]
    key = native_cache.entry_key(spirv, kernel, flags, device, *compiler)
    found = native_cache.read(key)
    if found is None:
        with tempfile.TemporaryDirectory(prefix="triton-xe-ocloc-") as name:
            built = run_ocloc(spirv, device, flags, Path(name))
        found = NativeEntry(built.native, built.flags, built.spills_at_128, built.registers,
                            entry_point(spirv, kernel))
        native_cache.write(key, found)
    return found


def _run_compiler(
    command: Sequence[str], device: str, folder: Path, environment: Mapping[str, str]
) -> str:
    """Run ocloc in a folder; return its log, or raise `IntelCompilerError`."""
    done = subprocess.run(
        command, cwd=folder, env={**knobs.process_environment(), **environment},
        capture_output=True, text=True, errors="replace", timeout=_COMPILE_SECONDS, check=False,
    )
    log = (done.stdout + done.stderr).strip()
    if done.returncode < 0:
        raise IntelCompilerError(
            f"ocloc was killed by signal {-done.returncode} while compiling for {device}", log
        )
    if done.returncode != 0:
        raise IntelCompilerError(
            f"ocloc failed for {device} (exit code {done.returncode}): {_first_error(log)}", log
        )
    return log


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if re.search(r"\berror\b", line, re.IGNORECASE):
            follows = lines[number + 1] if line.endswith(":") and number + 1 < len(lines) else ""
            return f"{line} {follows}".strip()
    return lines[-1] if lines else "no message"


def _last_line(log: str) -> str:
    return log.splitlines()[-1] if log else "no message"
