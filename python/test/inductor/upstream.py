"""Run a seeded sample of PyTorch's own Inductor tests on the simulated device.

    python python/test/inductor/upstream.py --checkout ~/pytorch --sample 400 --seed 0

The checkout is of the release of torch that is installed, and stays as it is; the tests want
`pip install expecttest pytest-timeout`.  Prints what passed, and each reason for which others did
not.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

FILES = tuple(f"test_{name}.py" for name in (
    "torchinductor_opinfo", "torchinductor", "triton_kernels", "flex_attention", "max_autotune",
    "combo_kernels", "compiled_optimizers", "foreach"))
OTHERS = re.compile(r"_(cpu|cuda|mps)(_|$)|::\w*CPU\w*::", re.IGNORECASE)
VARIABLES = ("UPSTREAM_SAMPLE", "UPSTREAM_SEED")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of other devices, and keep a sample of the rest."""
    if VARIABLES[0] not in os.environ:
        return
    mine = [item for item in items if not OTHERS.search(item.nodeid)]
    size, seed = (int(os.environ[name]) for name in VARIABLES)
    kept = set(random.Random(seed).sample(sorted(item.nodeid for item in mine),
                                          min(size, len(mine))))
    config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def reason(text: str) -> str:
    """The last error of a failure, without addresses, numbers and paths."""
    errors = re.findall(r"^E +(\S*(?:Error|Exception|Failed)\b.*)$", text, re.MULTILINE)
    line = [*(text.strip().splitlines() or ["no message"])[-1:], *errors][-1]
    line = re.sub(r"(/[\w.+-]+){2,}", "…", line)
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "N", line)[:150]


def summary(report: Path) -> tuple[collections.Counter[str], dict[str, list[str]]]:
    """How many tests had each outcome, and the names by the reason of their failure."""
    counts: collections.Counter[str] = collections.Counter()
    failures: dict[str, list[str]] = collections.defaultdict(list)
    for test in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag: child for child in test}
        failed = kinds.get("failure", kinds.get("error"))
        if failed is not None:
            failures[reason(failed.text or failed.get("message", ""))].append(test.get("name", ""))
        counts["failed" if failed is not None else "skipped" if "skipped" in kinds else
               "passed"] += 1
    return counts, failures


def run(file: Path, arguments: argparse.Namespace, report: Path) -> None:
    """The file's tests in a process of their own: some end it."""
    here = Path(__file__)
    paths = (here.parent, file.parent, file.parents[1], os.environ.get("PYTHONPATH", ""))
    environment = os.environ | dict(zip(VARIABLES, map(str, (arguments.sample, arguments.seed)),
                                        strict=True))
    environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    log = report.with_suffix(".log")
    with log.open("w") as out:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", here.stem,
             "-p", "no:cacheprovider",
             f"--junitxml={report}", f"--timeout={arguments.timeout}", "-n",
             str(arguments.workers), "--max-worker-restart=50", "-rN", str(file)],
            env=environment, cwd=file.parent, stdout=out, stderr=out, check=False)
    if not report.exists():
        print(f"{file.name}: not run\n" + "\n".join(log.read_text().splitlines()[-5:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--checkout", type=Path, required=True, help="folder of PyTorch's sources")
    parser.add_argument("--files", nargs="+", default=FILES, help="of its test/inductor")
    parser.add_argument("--sample", type=int, default=400, help="most tests of a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a test")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    # until it is built torch has no device, and all tests are skipped
    subprocess.run([sys.executable, "-m", "triton_xe.runtime.torch_xpu"], check=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.files:
            file, report = arguments.checkout / "test/inductor" / name, Path(folder) / f"{name}.xml"
            run(file.resolve(), arguments, report)
            if not report.exists():
                failed += 1
                continue
            counts, failures = summary(report)
            judged = counts["passed"] + counts["failed"]
            print(f"{name}: {counts['passed']} of {judged} passed, {counts['skipped']} skipped")
            for why, tests in sorted(failures.items(), key=lambda each: -len(each[1])):
                print(f"  {len(tests):4} x {why}\n         {', '.join(tests[:4])}")
            failed += counts["failed"]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
