"""Intel's offline compiler and driver, as installed on the system or by this project.

`triton-xe toolchain` puts them into a Debian root of their own; programs of that root run through
its dynamic loader, without chroot.  The driver can run without a GPU on a simulated command stream.
Then the driver's real code builds modules, allocates memory and launches kernels.  However, the
kernels are not executed (debug keys of Intel's compute runtime, tested with 26.27).
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.target import target
from triton_xe.runtime.emulator.kernel_info import kernel_info
from triton_xe.runtime.emulator.listing import source_lines
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.emulator.undefined_registers import lost_value, payload
from triton_xe.runtime.level_zero.zebin import KernelFacts, undefined_symbols
from triton_xe.runtime.ocloc import (
    INSTALL_HINT as INSTALL_HINT,
)
from triton_xe.runtime.ocloc import (
    LIBRARIES as LIBRARIES,
)
from triton_xe.runtime.ocloc import (
    IntelCompilerError as IntelCompilerError,
)
from triton_xe.runtime.ocloc import (
    available as available,
)
from triton_xe.runtime.ocloc import (
    ocloc_command as ocloc_command,
)
from triton_xe.runtime.ocloc import (
    run_ocloc,
    through_loader,
    tool,
)
from triton_xe.runtime.ocloc import (
    toolchain_root as toolchain_root,
)
from triton_xe.tools.native_figures import KernelFigures, figures


@dataclass(frozen=True)
class CompiledKernel:
    """A native binary, with the compiler's facts about its kernels by kernel name."""

    device: str
    binary: bytes = field(repr=False)
    kernels: Mapping[str, KernelFacts]
    asm: Mapping[str, str] = field(repr=False)
    """Assembly listing per kernel; empty without `dump_asm`."""
    log: str = field(repr=False, default="")
    _programs: dict[str, Program] = field(repr=False, compare=False, default_factory=dict)

    @property
    def facts(self) -> KernelFacts:
        """The facts of the only kernel; `DeviceError` if there are several."""
        if len(self.kernels) != 1:
            raise DeviceError(f"the module has {len(self.kernels)} kernels; name one of them")
        return next(iter(self.kernels.values()))

    @property
    def program(self) -> Program:
        """The machine code of the only kernel."""
        return self.program_of(self.facts.name)

    @property
    def figures(self) -> KernelFigures:
        """Figures of the only kernel."""
        return figures(self.program, self.facts)

    def program_of(self, kernel: str) -> Program:
        """The machine code of a kernel, with source lines if its listing has them."""
        if kernel not in self._programs:
            made = Program.from_zebin(self.device, self.binary, kernel)
            made.lines = source_lines(self.asm.get(kernel, ""), made.instructions)
            self._programs[kernel] = made
        return self._programs[kernel]


@dataclass(frozen=True)
class DriverSession:
    """Command and environment that run Python on Intel's driver with the simulated command
    stream.
    """

    device: str
    command: tuple[str, ...]
    """Start of the command; append a script's path, or `-c` and its text, and its arguments."""
    environment: Mapping[str, str] = field(repr=False)

    def run(
        self, *arguments: str, extra: Mapping[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run `arguments` (a script or `-c TEXT`, then its arguments); output is captured."""
        return subprocess.run(
            [*self.command, *arguments],
            env={**knobs.process_environment(), **self.environment, **(extra or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )


def driver_available() -> str | None:
    """None if Intel's Level Zero driver can be started, otherwise the reason."""
    if platform.machine() != "x86_64":
        return f"Intel's driver exists for x86_64 only; this is {platform.machine()}"
    root = toolchain_root()
    if root is not None:
        for name in ("libze_loader.so.1", "libze_intel_gpu.so.1"):
            if not (root / LIBRARIES / name).exists():
                return f"{name} is missing in {root}; {INSTALL_HINT}"
        return None
    if not on_system("libze_loader.so.1") or not on_system("libze_intel_gpu.so.1"):
        return f"Intel's Level Zero driver is not installed; {INSTALL_HINT}"
    return None


def compile_spirv(
    spv: bytes, device: str, options: str = "", dump_asm: bool = True
) -> CompiledKernel:
    """Compile a SPIR-V module for one device (`bmg`, `pvc`, ...) with Intel's compiler.

    If `options` name no register file, the code has the one that spills less.

    Raise `IntelCompilerError` if the compiler refuses or crashes.  Raise it also if the code calls
    an undefined function, or (with `dump_asm`) if it reads unwritten registers.  The compiler
    accepts these, but running them is undefined.
    """
    with tempfile.TemporaryDirectory(prefix="triton-xe-ocloc-") as name:
        built = run_ocloc(spv, device, options, Path(name), dump=dump_asm)
        facts, log = built.facts, built.made.log
        asm = _listings(built.made.folder, facts) if dump_asm else {}
    missing = undefined_symbols(built.native)
    if missing:
        raise IntelCompilerError(
            f"the module calls functions that nothing defines: {', '.join(missing)}", log
        )
    made = CompiledKernel(device, built.native, facts, asm, log)
    unread = [text for name in asm if (text := _check_registers(made, name))]
    return replace(made, log="\n".join((log, *unread))) if unread else made


def _check_registers(made: CompiledKernel, kernel: str) -> str:
    """Raise if the code reads unwritten registers; say so if the code cannot be decoded.

    libiga64 of IGC 2.40 does not decode messages whose address is in register 510.
    """
    try:
        program = made.program_of(kernel)
    except DeviceError as error:
        return f"the registers of {kernel} were not checked: {error}"
    inputs = payload(kernel_info(made.binary, kernel), program.grf_bytes)
    if lost := lost_value(program, inputs):
        raise IntelCompilerError(lost, made.log)
    return ""


def spirv_val(binary: bytes, *options: str) -> str | None:
    """None if the SPIR-V validator accepts the module, otherwise its message."""
    command = tool("spirv-val")
    if command is None:
        raise DeviceError(f"spirv-val is not installed; {INSTALL_HINT}")
    done = subprocess.run([*command, *options, "-"], input=binary, capture_output=True, check=False)
    output = (done.stdout + done.stderr).decode(errors="replace").strip()
    return None if done.returncode == 0 else output or f"spirv-val exit code {done.returncode}"


def spirv_val_available() -> str | None:
    """None if the SPIR-V validator can be used, otherwise the reason."""
    return None if tool("spirv-val") else f"spirv-val is not installed; {INSTALL_HINT}"


def compiler_version() -> str:
    """Output of `ocloc --version` on one line; empty if it is missing."""
    command = ocloc_command()
    if command is None:
        return ""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split())


def level_zero_environment(device: str, *, real_gpu: bool = False) -> DriverSession:
    """Session of Python on Intel's driver, with the simulated command stream of `device`.

    With `real_gpu` nothing is simulated: the driver looks for the GPUs of this machine.
    """
    reason = driver_available()
    if reason is not None:
        raise DeviceError(reason)
    environment = {} if real_gpu else simulated_stream(device)
    python = str(Path(sys.executable).resolve())
    packages = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    start = (
        "import site, sys, runpy\n"
        f"for folder in {packages!r}: site.addsitedir(folder)\n"
        "sys.argv = sys.argv[1:]\n"
        "if sys.argv[0] == '-c':\n"
        "    text = sys.argv.pop(1)\n"
        "    exec(compile(text, '<command>', 'exec'), {'__name__': '__main__'})\n"
        "else:\n"
        "    runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    root = toolchain_root()
    if root is None:
        return DriverSession(device, (python, "-c", start), environment)
    libraries = root / LIBRARIES
    environment["ZE_ENABLE_ALT_DRIVERS"] = str(libraries / "libze_intel_gpu.so.1")
    environment["TRITON_XE_LEVEL_ZERO"] = str(libraries / "libze_loader.so.1")
    return DriverSession(device, (*through_loader(root, python), "-c", start), environment)


def simulated_stream(device: str) -> dict[str, str]:
    """Debug keys of Intel's driver: act as `device` (the example machine), execute nothing."""
    machine = target(device)
    cores = machine.xe_cores // machine.slices
    return {
        "NEOReadDebugKeys": "1",
        "SetCommandStreamReceiver": "1",
        "UseAubStream": "0",
        "ProductFamilyOverride": device,
        "HardwareInfoOverride": f"{machine.slices}x{cores}x{machine.eus_per_core}",
        "UseExternalAllocatorForSshAndDsh": "0",
        "UseBindlessMode": "0",
    }


def without_recording() -> dict[str, str]:
    """Further keys for `simulated_stream`, which stop it from recording memory.

    The stream is made for writing captures for Intel's simulators.  Even if no file is written, it
    visits every allocation at every submission.  That is about a third of the cost of a launch,
    which does not exist on a GPU.
    """
    return {"AUBDumpSubCaptureMode": "2", "AUBDumpAllocsOnEnqueueReadOnly": "1"}


def _listings(folder: Path, facts: Mapping[str, KernelFacts]) -> dict[str, str]:
    """The listing of each kernel; if the compiler tried several times, the one that it used."""
    tries: dict[str, list[tuple[int, str]]] = {}
    for path in folder.glob("*.asm"):
        text = path.read_text(errors="replace")
        title = re.search(r'^//\.kernel "?([^"\n]+?)"?\s*$', text, re.MULTILINE)
        number = re.search(r"_(\d+)_simd\d+_", path.name)
        if title and title[1] in facts:
            tries.setdefault(title[1], []).append((int(number[1]) if number else 0, text))
    kept = {}
    for name, found in tries.items():
        found.sort()
        same = [text for _, text in found if _spills(text) == facts[name].spill_size]
        kept[name] = (same or [found[-1][1]])[-1]
    return kept


def _spills(listing: str) -> int:
    match = re.search(r"^//\.spill size (\d+)", listing, re.MULTILINE)
    return int(match[1]) if match else 0


def on_system(library: str) -> bool:
    import ctypes.util

    stem = library.removeprefix("lib").split(".so")[0]
    return ctypes.util.find_library(stem) is not None
