"""Compare devices on a sample of Triton's own tests.

    python -m python.dev.triton_tests --checkout ~/triton --devices sim:bmg emu:bmg

The checkout is of Triton or of its Intel fork, and stays as it is: the installed Triton runs its
tests, which want `pip install scipy pytest-timeout`.  Each device runs the same ones, drawn by
their names and the seed.  The command prints how many passed, and the tests on which a device
differs from the first one, and fails if there are any.  With `--results FOLDER` each verdict is
kept as it comes, and the same command later runs what is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from python.test.inductor.upstream import KNOWN, RESULTS, read, reason
from python.test.inductor.upstream import pytest_runtest_logreport as pytest_runtest_logreport

ROOT = Path(__file__).parents[2]
FILES = ("python/test/unit/language/test_core.py",)
SHARE, SEED = "TRITON_TESTS_SHARE", "TRITON_TESTS_SEED"


# -- as a plugin of the tests' process ------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Answer the questions of the fork's tests that the installed Triton does not have."""
    import triton._internal_testing as helpers

    def missing(name: str) -> Any:
        if not name.startswith("is_xpu_"):
            raise AttributeError(name)
        return lambda: os.environ["TRITON_XE_DEVICE"].endswith(name.removeprefix("is_xpu_"))

    helpers.__getattr__ = missing


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a share of the tests, and of it those without a known result."""
    known = set(Path(os.environ[KNOWN]).read_text().splitlines())
    kept = {item for item in items if item.nodeid not in known
            and is_drawn(item.nodeid, os.environ[SEED], float(os.environ[SHARE]))}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def is_drawn(name: str, seed: str, share: float) -> bool:
    """True for a share of all names: the same on every machine and in every order."""
    drawn = hashlib.sha1(f"{seed}\0{name}".encode()).digest()[:8]
    return int.from_bytes(drawn, "big") < share * 2**64


# -- as the command -------------------------------------------------------------------------------


def run(device: str, results: Path, arguments: argparse.Namespace) -> None:
    """Run the sample on a device, in a copy of the tests without Triton's own modules."""
    with tempfile.TemporaryDirectory() as work:
        for name in ("python/test", "python/conftest.py"):
            source, target = arguments.checkout / name, Path(work) / name
            (shutil.copytree if source.is_dir() else _copy)(source, target)
        known = Path(work) / "known"
        known.write_text("\n".join(read(results)))
        environment = os.environ | {
            "TRITON_XE_DEVICE": device, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0",
            SHARE: str(arguments.share), SEED: arguments.seed, KNOWN: str(known),
            RESULTS: str(results)}
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", __spec__.name, "-p", "no:cacheprovider",
             "--rootdir", work, "--device", "xpu", f"--timeout={arguments.timeout}",
             "-n", str(arguments.workers), "--max-worker-restart=50", *arguments.files],
            env=environment, cwd=work, capture_output=True, text=True, check=False)
    if ended.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED,
                                pytest.ExitCode.NO_TESTS_COLLECTED):
        print(f"{device}: not all run\n" + "\n".join(ended.stdout.splitlines()[-5:]), ended.stderr)


def _copy(source: Path, target: Path) -> None:
    """Copy a file that not every version of Triton has."""
    if source.exists():
        shutil.copy(source, target)


def differences(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Name each test whose verdicts differ, with both and the last error."""
    found = []
    for name in sorted(first.keys() | other.keys()):
        a, b = (each.get(name, {"outcome": "not run", "text": ""}) for each in (first, other))
        if a["outcome"] != b["outcome"]:
            why = reason(a["text"] or b["text"] or "no message")
            found.append(f"{name.split('::')[-1]}: {a['outcome']}, {b['outcome']}: {why}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--checkout", type=Path, required=True, help="folder of Triton's sources")
    parser.add_argument("--devices", nargs="+", default=["sim:bmg", "emu:bmg"])
    parser.add_argument("--files", nargs="+", default=FILES, help="of the checkout")
    parser.add_argument("--share", type=float, default=0.04, help="of the tests")
    parser.add_argument("--seed", default="81")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of a test")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--results", type=Path, help="folder that keeps the verdicts")
    arguments = parser.parse_args()
    # until it is built torch has no device
    subprocess.run([sys.executable, "-m", "triton_xe.runtime.torch_xpu"], check=True)
    with tempfile.TemporaryDirectory() as made:
        folder = (arguments.results or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        verdicts = {}
        for device in arguments.devices:
            results = folder / f"{device.replace(':', '-')}.jsonl"
            run(device, results, arguments)
            verdicts[device] = read(results)
            counts = Counter(each["outcome"] for each in verdicts[device].values())
            print(f"{device}: {dict(sorted(counts.items()))}", flush=True)
    first, *others = arguments.devices
    found = [f"{first}, {device}: {line}" for device in others
             for line in differences(verdicts[first], verdicts[device])]
    print("\n".join(found) or "the same verdicts")
    return int(bool(found) or not verdicts[first])


if __name__ == "__main__":
    sys.exit(main())
