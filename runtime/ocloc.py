"""Intel's graphics compiler, `ocloc`: SPIR-V modules to native binaries.

The tools are those on PATH, or of `triton-xe toolchain`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import with_256_registers
from triton_xe.runtime import code_cache
from triton_xe.runtime.level_zero.native_cache import entry_key
from triton_xe.runtime.level_zero.zebin import kernel_facts, loses_stores, sections

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


def run_ocloc(
    spirv: bytes, device: str, options: str, folder: Path, environment: Mapping[str, str]
) -> tuple[bytes, str]:
    """The native binary of a module, and the compiler's log; other files are left in `folder`.

    The binary uses fewer registers than `options` say if the compiler would lose stores with so
    many.
    `IntelCompilerError` when the compiler refuses or crashes, or leaves all kernels out, which it
    does without a message.
    """
    command = ocloc_command()
    if command is None:
        raise DeviceError(available() or "ocloc is missing")
    source = folder / "module.spv"
    source.write_bytes(spirv)
    arguments = ["compile", "-spirv_input", "-file", str(source), "-device", device]
    arguments += ["-output", "native", "-out_dir", str(folder)]
    arguments += ["-options", options] if options else []
    log = _run_compiler([*command, *arguments], device, folder, environment)
    built = sorted(folder.glob("native_*.bin"))
    if not built:
        raise IntelCompilerError(f"ocloc wrote no binary for {device}: {_last_line(log)}", log)
    binary = built[0].read_bytes()
    if ".ze_info" not in sections(binary) or not kernel_facts(binary):
        raise IntelCompilerError(
            f"ocloc wrote a binary without kernels for {device}: a kernel needs more registers "
            f"than {options!r} allows", log)
    if loses_stores(binary):
        for file in folder.iterdir():
            file.unlink()
        return run_ocloc(spirv, device, with_256_registers(options), folder, environment)
    return binary, log


def native_binary(spirv: bytes, device: str, options: str) -> bytes:
    """The native binary of a module; it is compiled once, and kept in the code cache."""
    command = ocloc_command() or ()
    compiler = [f"{name} {Path(name).stat().st_mtime_ns}" for name in command
                if Path(name).is_file()]
    path = code_cache.file("native", entry_key(spirv, device, options, *compiler), ".zebin")
    found = code_cache.read(path)
    if found is None:
        with tempfile.TemporaryDirectory(prefix="triton-xe-ocloc-") as name:
            found, _ = run_ocloc(spirv, device, options, Path(name), {})
        code_cache.write(path, found)
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
