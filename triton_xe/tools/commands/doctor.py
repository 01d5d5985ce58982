"""`triton-xe doctor`: list devices, drivers and compilers, which are used, and which are missing.

The exit code is 0 if kernels can run, otherwise 1.  Kernels can run if stock Triton is complete and
loads this plugin.  Also, a small kernel must compute the right numbers on the device of this
process.  Next to another vendor's GPU, where the plugin is inactive on purpose, the kernel runs on
the simulated device.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton_xe
from triton_xe import knobs
from triton_xe.errors import XeError
from triton_xe.runtime import native
from triton_xe.runtime.selection import Machine, Selection, decide, select, torch_build
from triton_xe.tools import installation, intel
from triton_xe.tools.gpu_checks.bench import Result

TRIAL_ELEMENTS = 1024
PACKAGES = ("triton", "llvmlite", "xdsl", "numpy", "torch")
DRIVER_HINT = (
    "for a real GPU install Intel's driver: Debian and Ubuntu packages libze1 and libze-intel-gpu1"
)
TORCH_HINT = "for device='xpu' tensors install torch: the XPU build for a GPU, else the CPU build"
SETUP_HINT = "run `triton-xe setup`: it says what it will do, asks, and makes stock Triton whole"
LOAD = """
import triton
from triton.backends import backends
print(triton.__version__, backends["intel"].compiler.__module__)
"""
_CANARY = "from triton_xe.tools import triton_contract as c; print(c.sentence())"
NATIVE_HINT = (
    "for faster launches install this package where a C compiler and Python's headers are (Debian "
    "and Ubuntu: gcc and python3-dev)"
)
ON_REQUEST_HINT = (
    "to run kernels on the simulator set TRITON_XE_DEVICE=sim; without it this package leaves all "
    "kernels to the other GPU's backend"
)
OCLOC_HINT = (
    "Intel's offline compiler is not needed to run kernels; to inspect machine code run "
    "`triton-xe toolchain` or install the package intel-ocloc"
)


@dataclass
class Report:
    """Results of all examinations; `advice` has a sentence for each recommended action."""

    python: str
    packages: dict[str, str]
    torch_build: str
    native: str
    triton: dict[str, Any] = field(default_factory=dict)
    choice: dict[str, Any] = field(default_factory=dict)
    level_zero: dict[str, Any] = field(default_factory=dict)
    compiler: dict[str, str] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)
    trial: dict[str, Any] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    @property
    def can_run(self) -> bool:
        return bool(self.trial.get("passed")) and not self.triton.get("findings")

HELP = "check devices, drivers and compilers, and run a small kernel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a page")
    parser.add_argument("--gpu", action="store_true",
                        help="check on the GPU what only a GPU can confirm (docs/on-a-gpu.md)")
    parser.add_argument("--report", type=Path, default=Path("triton-xe-gpu.json"), metavar="FILE",
                        help="where --gpu writes its results; default: triton-xe-gpu.json")


def run(arguments: argparse.Namespace) -> int:
    if arguments.gpu:
        from triton_xe.tools import gpu_checks

        return check_gpu(
            arguments.json, arguments.report, machine_report(), gpu_checks.isolated())
    report = examine()
    if arguments.json:
        print(json.dumps({**vars(report), "can_run": report.can_run}, indent=2))
    else:
        print(page(report))
    return 0 if report.can_run else 1


def check_gpu(
    as_json: bool, file: Path, machine: Mapping[str, Any], checks: Iterable[Result]
) -> int:
    """Report checks of the first GPU; return 0 if all passed, 1 if one failed, 3 without a GPU."""
    from triton_xe.tools import gpu_checks

    gpus = [each for each in machine["devices"] if each["target"]]
    why = machine.get("error") or "no Intel GPU that this package knows was found"
    results = []
    for result in checks if gpus else gpu_checks.not_run("no GPU"):
        results.append(result)
        if not as_json:
            print(result.line(), flush=True)
    document = {**machine, "checks": [result.to_json() for result in results]}
    text = json.dumps(document, indent=2)
    if as_json:
        print(text)
    if not gpus:
        print(f"no check was run: {why}", file=sys.stderr)
        return 3
    file.write_text(text + "\n")
    wrong = [result.check for result in results if result.state not in gpu_checks.OK]
    if not as_json:
        print(f"{len(results) - len(wrong)} of {len(results)} hold; please attach {file} to an "
              "issue of this project, whatever it says")
    return 1 if wrong else 0


def machine_report() -> dict[str, Any]:
    """Properties of the machine on which results of checks depend."""
    report = Report("", {}, "", "")
    _level_zero(report)
    packages = {"triton-xe": triton_xe.__version__, **{name: _version(name) for name in PACKAGES}}
    return {"packages": packages, "python": platform.python_version(),
            "system": platform.platform(), "compiler": intel.compiler_version(),
            **report.level_zero}


def examine(
    triton: Callable[[], dict[str, Any]] | None = None,
    choose: Callable[[], Selection] = select,
) -> Report:
    """Examine everything once; missing parts do not raise.

    `triton` reports on Triton (default: `triton_report`); `choose` chooses the device.
    """
    packages = {name: _version(name) for name in PACKAGES}
    report = Report(f"{platform.python_version()} ({platform.machine()})", packages, torch_build(),
                    native.describe())
    report.triton = (triton or triton_report)()
    if report.triton["findings"]:
        report.advice.append(SETUP_HINT)
    selection = _choice(report, choose)
    _level_zero(report)
    _compiler(report)
    _cache(report)
    report.trial = run_trial(selection)
    if not packages["torch"]:
        report.advice.append(TORCH_HINT)
    if not (native.launch and native.threads):
        report.advice.append(NATIVE_HINT)
    return report


def page(report: Report) -> str:
    """The report as one page of text."""
    verdict = "kernels can run" if report.can_run else "kernels CANNOT run"
    if report.can_run and report.choice.get("on_request"):
        verdict = "inactive on purpose, until TRITON_XE_DEVICE=sim is set"
    sections: list[tuple[str, list[str]]] = [
        (
            "versions",
            [
                f"triton-xe {triton_xe.__version__}, python {report.python}",
                ", ".join(f"{n} {v or 'missing'}" for n, v in report.packages.items())
                + f" (torch build: {report.torch_build})",
                report.native,
            ],
        ),
        ("Triton", report.triton["findings"] or [report.triton["loads"]]),
        ("device used", [_choice_line(report.choice), _trial_line(report.trial)]),
        ("Level Zero", _level_zero_lines(report.level_zero)),
        ("Intel's compiler", [f"{k}: {v or 'missing'}" for k, v in report.compiler.items()]),
        ("cache", [", ".join(f"{k} {v}" for k, v in report.cache.items())]),
        ("advice", report.advice or ["nothing to do"]),
    ]
    lines = [f"triton-xe doctor: {verdict}"]
    for title, body in sections:
        lines += ["", title, *(f"  {line}" for line in body)]
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def triton_report(program: str = LOAD) -> dict[str, Any]:
    """State of stock Triton, and the result of a program that imports it in a new process."""
    found = installation.findings(installation.examine())
    if found:
        found += _newer()
        return {"loads": "", "findings": found}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    words = done.stdout.split()
    if done.returncode == 0 and words[-1] == "triton_xe.backend.compiler":
        return {"loads": f"stock triton {words[0]} loads this plugin", "findings": []}
    why = (done.stderr.strip().splitlines() or [f"the backend `intel` is {words[-1]}"])[-1]
    return {"loads": "", "findings": [f"`import triton` does not load this plugin: {why}"]}


def _newer() -> list[str]:
    """Describe the interfaces of Triton that differ, if its version is not supported."""
    done = subprocess.run([sys.executable, "-c", _CANARY], capture_output=True, text=True)
    return [line for line in (done.stdout.strip(),) if line and done.returncode == 0]


def _choice(report: Report, choose: Callable[[], Selection]) -> Selection | None:
    try:
        selection = choose()
    except XeError as error:
        report.choice = {"kind": "none", "targets": [], "reason": str(error)}
        report.advice.append("set TRITON_XE_DEVICE to gpu, sim or sim:<name>, or unset it")
        return None
    report.choice = {
        "kind": selection.kind, "targets": list(selection.targets), "reason": selection.reason,
        "on_request": selection.on_request,
    }
    if selection.on_request:
        report.advice.append(ON_REQUEST_HINT)
    return selection


def _level_zero(report: Report) -> None:
    """Record the loader, drivers and GPUs; a missing loader is recorded, too."""
    from triton_xe.runtime.level_zero.objects import drivers
    from triton_xe.runtime.level_zero.raw import api

    try:
        loader, found = api().path, drivers()
        report.level_zero = {
            "loader": loader,
            "drivers": [
                {"version": d.version_text, "api": ".".join(map(str, d.api_version))} for d in found
            ],
            "devices": [_device(device) for driver in found for device in driver.devices()],
        }
    except XeError as error:
        report.level_zero = {"loader": "", "error": str(error), "drivers": [], "devices": []}
    if not report.level_zero["drivers"]:
        report.advice.append(DRIVER_HINT)


def _device(device: Any) -> dict[str, Any]:
    from triton_xe.runtime.level_zero.targets import device_target, nearest_target

    facts = {
        "name": device.name,
        "ip_version": ".".join(map(str, device.ip_version)),
        "device_id": f"{device.device_id:#06x}",
        "integrated": device.is_integrated,
        "sub_devices": len(device.sub_devices()),
    }
    if not device.is_intel_gpu:
        return {**facts, "target": "", "note": "not an Intel GPU"}
    try:
        target = device_target(device)
        known = nearest_target(device)[1]
    except XeError as error:
        return {**facts, "target": "", "note": str(error)}
    note = "" if known else f"newer than this version of triton-xe: used as a {target.name}"
    return {
        **facts,
        "target": target.name,
        "xe_cores": target.xe_cores,
        "memory_gib": round(target.memory_bytes / 2**30, 1),
        "slm_kib": target.max_slm_bytes >> 10,
        "fp64": target.has_fp64,
        "matrix_unit": target.has_dpas,
        "note": note,
    }


def _compiler(report: Report) -> None:
    command = intel.ocloc_command()
    report.compiler = {
        "ocloc": f"{intel.compiler_version()} ({command[-1]})" if command else "",
        "spirv-val": "" if intel.spirv_val_available() else "found",
        "toolchain": str(intel.toolchain_root() or ""),
        "emulated GPU": intel.driver_available() or (
            "triton-xe emulate" if native.emulated_gpu else native.NO_EMULATED_GPU),
    }
    if command is None:
        report.advice.append(OCLOC_HINT)


def _cache(report: Report) -> None:
    folder = knobs.cache_dir()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    native = folder / "native"
    inside = [path for path in files if native in path.parents]
    writable = _is_writable(folder)
    report.cache = {
        "folder": str(folder),
        "writable": writable,
        "native_binaries": len(inside),
        "native_mib": round(sum(path.stat().st_size for path in inside) / 2**20, 2),
    }
    if not writable:
        report.advice.append(
            f"{folder} cannot be written: every process compiles again; set TRITON_XE_CACHE"
        )


def _is_writable(folder: Path) -> bool:
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def run_trial(
    selection: Selection | None, count_wrong: Callable[[Any], int] | None = None
) -> dict[str, Any]:
    """Run a vector addition on the device of this process, and check its numbers.

    `count_wrong` counts wrong numbers on a device (default: `wrong_elements`).
    """
    if selection is not None and selection.on_request:
        selection = decide("sim", Machine())
    if selection is None or selection.kind == "none":
        return {"passed": False, "why": "no device is chosen"}
    try:
        device = _open(selection)
        wrong = (count_wrong or wrong_elements)(device)
    except Exception as error:  # a broken driver or build may raise anything; doctor reports it
        return {"passed": False, "why": f"{type(error).__name__}: {error}"}
    if wrong:
        why = f"{wrong} of {TRIAL_ELEMENTS} numbers are wrong on {device.name}"
        return {"passed": False, "why": why}
    return {"passed": True, "device": device.name, "target": device.target.name}


def _open(selection: Selection) -> Any:
    if selection.kind == "sim":
        from triton_xe.runtime.opening import simulated

        return simulated(selection)[0]
    from triton_xe.errors import DeviceError
    from triton_xe.runtime.level_zero.device import open_devices

    found = open_devices()
    if not found:
        raise DeviceError("Level Zero finds no Intel GPU; is the driver installed, and may this "
                          "user open /dev/dri/renderD*?")
    return found[0]


def wrong_elements(device: Any) -> int:
    """Count the wrong numbers of a vector addition on the device."""
    import numpy as np

    from triton_xe.tools import sample_kernel

    spirv = sample_kernel.to_spirv(sample_kernel.vector_add(device.target.subgroup_size))
    kernel = device.load(spirv, "vector_add")
    count, padded = 1000, TRIAL_ELEMENTS
    left = np.arange(padded, dtype=np.float32)
    right = left * 0.5 + 1
    got = np.full(padded, -7, np.float32)
    buffers = [device.allocate(got.nbytes) for _ in range(3)]
    for buffer, values in zip(buffers, (left, right, got), strict=True):
        device.copy_to_device(buffer.pointer, values)
    groups = padded // sample_kernel.GROUP_SIZE
    device.launch(kernel, (groups, 1, 1), [*(b.pointer for b in buffers), count])
    device.synchronize()
    device.copy_to_host(got, buffers[2].pointer)
    expected = np.where(np.arange(padded) < count, left + right, np.float32(-7))
    return int(np.count_nonzero(got != expected))


def _choice_line(choice: dict[str, Any]) -> str:
    names = {"gpu": "the GPU", "sim": "simulated " + ", ".join(choice["targets"]), "none": "none"}
    return f"{names[choice['kind']]}: {choice['reason']}"


def _trial_line(trial: dict[str, Any]) -> str:
    if trial["passed"]:
        return f"a vector addition gave the right numbers on {trial['device']} ({trial['target']})"
    return f"trial failed: {trial['why']}"


def _level_zero_lines(found: dict[str, Any]) -> list[str]:
    if found.get("error"):
        return [found["error"]]
    lines = [f"loader {found['loader']}"]
    lines += [f"driver {d['version']} (API {d['api']})" for d in found["drivers"]]
    show: Callable[[dict[str, Any]], str] = _device_line
    return lines + [show(device) for device in found["devices"]] or lines


def _device_line(device: dict[str, Any]) -> str:
    head = f"{device['name']}, IP {device['ip_version']}"
    if not device["target"]:
        return f"{head}: not usable: {device['note']}"
    note = f" ({device['note']})" if device["note"] else ""
    return (
        f"{head} -> {device['target']}{note}: {device['xe_cores']} Xe-cores, "
        f"{device['memory_gib']} GiB, {device['slm_kib']} KiB SLM, "
        f"fp64 {'yes' if device['fp64'] else 'no'}, "
        f"matrix unit {'yes' if device['matrix_unit'] else 'no'}"
    )


if __name__ == "__main__":
    sys.exit(run(argparse.Namespace(json="--json" in sys.argv)))
