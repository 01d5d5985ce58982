"""Run a seeded sample of PyTorch's own Inductor tests on the simulated device.

    python python/test/inductor/upstream.py --checkout ~/pytorch --sample 400 --seed 0

The checkout is of the release of torch that is installed or of the one before, and stays as it is;
the tests want `pip install expecttest pytest-timeout`.  Prints what passed, and each reason for
which others did not.  With `--results FOLDER` each result is kept as it comes, a line of JSON, and
the same command later runs what is missing.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

FILES = tuple(f"test_{name}.py" for name in (
    "torchinductor_opinfo", "torchinductor", "triton_kernels", "flex_attention", "max_autotune",
    "combo_kernels", "compiled_optimizers", "foreach"))
OTHERS = re.compile(r"_(cpu|cuda|mps)(_|$)|::\w*CPU\w*::", re.IGNORECASE)
SAMPLE, SEED, KNOWN, RESULTS = VARIABLES = (
    "UPSTREAM_SAMPLE", "UPSTREAM_SEED", "UPSTREAM_KNOWN", "UPSTREAM_RESULTS")


# -- as a plugin of the tests' process ------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    if SAMPLE in os.environ:
        provide_former_names()


def provide_former_names() -> None:
    """What files of torch 2.12 import, and 2.13 has elsewhere or no longer."""
    import torch._inductor.compile_fx as compile_fx
    from torch.testing._internal import common_device_type, common_methods_invocations

    def skip_operators(case: str, test: str, to_skip: Any) -> Any:
        return common_device_type.skipOps(to_skip)  # type: ignore[no-untyped-call]

    def gone(*args: Any) -> Any:
        raise NotImplementedError("this release of torch no longer has the function")

    for module, name, former in ((common_methods_invocations, "skipOps", skip_operators),
                                 (compile_fx, "complex_memory_overlap", gone)):
        if not hasattr(module, name):
            setattr(module, name, former)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of the tests of this device, and of it those without a known result."""
    if SAMPLE not in os.environ:
        return
    names = sorted(item.nodeid for item in items if not OTHERS.search(item.nodeid))
    size, seed = (int(os.environ[name]) for name in (SAMPLE, SEED))
    kept = set(random.Random(seed).sample(names, min(size, len(names))))
    kept -= set(Path(os.environ[KNOWN]).read_text().splitlines())
    config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append the result; workers' reports arrive in the process that started them."""
    is_result = report.when == "call" or report.outcome != "passed"
    if not is_result or RESULTS not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        return
    result = {"test": report.nodeid, "outcome": report.outcome,
              "seconds": round(report.duration, 1),
              "text": report.longreprtext if report.failed else ""}
    with Path(os.environ[RESULTS]).open("a") as file:
        file.write(json.dumps(result) + "\n")


# -- as the command -------------------------------------------------------------------------------


def reason(text: str) -> str:
    """The last error of a failure, without addresses, numbers and paths."""
    errors = re.findall(r"^E +(\S*(?:Error|Exception|Failed|Fault)\b.*)$", text, re.MULTILINE)
    line = [*(text.strip().splitlines() or ["no message"])[-1:], *errors][-1]
    line = re.sub(r"(/[\w.+-]+){2,}", "…", line)
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "N", line)[:150]


def read(results: Path) -> dict[str, dict[str, Any]]:
    """By the test's name; a failure counts, whatever else is told of the test."""
    found: dict[str, dict[str, Any]] = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        result = json.loads(line)
        if result["test"] not in found or result["outcome"] == "failed":
            found[result["test"]] = result
    return found


def summary(results: Path) -> tuple[collections.Counter[str], dict[str, list[str]]]:
    """How many tests had each outcome, and the names by the reason of their failure."""
    found = read(results)
    failures: dict[str, list[str]] = collections.defaultdict(list)
    for name, result in found.items():
        if result["outcome"] == "failed":
            failures[reason(result["text"])].append(name.split("::")[-1])
    return collections.Counter(result["outcome"] for result in found.values()), failures


def run(file: Path, arguments: argparse.Namespace, results: Path) -> None:
    """The file's tests in a process of their own: some end it."""
    here = Path(__file__)
    paths = (here.parent, file.parent, file.parents[1], os.environ.get("PYTHONPATH", ""))
    with tempfile.TemporaryDirectory() as folder:
        known, log = Path(folder) / "known", Path(folder) / "log"
        known.write_text("\n".join(read(results)))
        values = (arguments.sample, arguments.seed, known, results)
        environment = os.environ | dict(zip(VARIABLES, map(str, values), strict=True))
        environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        with log.open("w") as out:
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", here.stem,
                 "-p", "no:cacheprovider", f"--timeout={arguments.timeout}", "-n",
                 str(arguments.workers), "--max-worker-restart=50", "-rN", str(file)],
                env=environment, cwd=file.parent, stdout=out, stderr=out, check=False)
        if ended.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED,
                                    pytest.ExitCode.NO_TESTS_COLLECTED):
            print(f"{file.name}: not all run\n" + "\n".join(log.read_text().splitlines()[-5:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--checkout", type=Path, required=True, help="folder of PyTorch's sources")
    parser.add_argument("--files", nargs="+", default=FILES, help="of its test/inductor")
    parser.add_argument("--sample", type=int, default=400, help="most tests of a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a test")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", type=Path, help="folder that keeps what each test did")
    arguments = parser.parse_args()
    # until it is built torch has no device, and all tests are skipped
    subprocess.run([sys.executable, "-m", "triton_xe.runtime.torch_xpu"], check=True)
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = (arguments.results or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.files:
            results = folder / f"{name}.jsonl"
            run((arguments.checkout / "test/inductor" / name).resolve(), arguments, results)
            counts, failures = summary(results)
            judged = counts["passed"] + counts["failed"]
            print(f"{name}: {counts['passed']} of {judged} passed, {counts['skipped']} skipped")
            for why, tests in sorted(failures.items(), key=lambda each: -len(each[1])):
                print(f"  {len(tests):4} x {why}\n         {', '.join(tests[:4])}")
            failed += counts["failed"] or not judged
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
