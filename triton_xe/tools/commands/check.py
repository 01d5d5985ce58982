"""`triton-xe check -- COMMAND`: run a program with every simulated launch under the checks.

After a finding the launch and the program continue.  At the end, all findings are printed.  The
exit status is that of the program; if that is 0 and there was a finding, it is 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from triton_xe import knobs
from triton_xe.runtime.findings import CheckedLaunch, Finding, read_findings

HELP = "run a program with every simulated launch under the checks"
EPILOG = """\
A list of known findings has one in each line, as the page spells them: kind, kernel, file and line,
all or parts of which may be wildcards (* ?).  Lines that begin with # are comments.

examples:
  triton-xe check -- python train.py
  triton-xe check --json found.json --allow known.txt -- python -m pytest -x tests
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--allow", type=Path, metavar="FILE", help="list of known findings")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="also write the findings to this file")
    parser.add_argument("--finite", action="store_true", help="also find infinities and NaN")
    parser.add_argument("--storage", action="store_true",
                        help="kernels may access the whole storage of a tensor, beyond their view")
    parser.add_argument("--shuffle", type=int, default=0, metavar="SEED",
                        help="run programs in another order; each seed gives another one")
    parser.add_argument("--strict", action="store_true",
                        help="also report races that only barriers prevent which this "
                             "compiler adds")
    parser.add_argument("program", nargs="+", metavar="COMMAND",
                        help="the program and its arguments, after --")


@dataclass(frozen=True)
class Result:
    """Result of a program; `known` are findings of the list."""

    status: int
    launches: Sequence[CheckedLaunch]
    new: Sequence[tuple[Finding, str]]
    known: Sequence[tuple[Finding, str]]

    @property
    def exit_status(self) -> int:
        return self.status or int(bool(self.new))


def run(arguments: argparse.Namespace) -> int:
    """Run the program, print the page, write the file."""
    allowed = read_allowed(arguments.allow) if arguments.allow is not None else []
    words = ["1", *(word for word in ("finite", "storage", "strict") if getattr(arguments, word))]
    result = run_checked(arguments.program, words, allowed, arguments.shuffle)
    print("\n".join(page(result)))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(as_json(result), indent=1) + "\n", encoding="utf-8")
    return result.exit_status


def read_allowed(path: Path) -> list[str]:
    """The patterns of a list of known findings."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def run_checked(
    program: Sequence[str], words: Sequence[str], allowed: Sequence[str], seed: int = 0
) -> Result:
    """Run a program under the checks; a seed shuffles its launches."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "findings"
        file.touch()
        environment = knobs.process_environment() | {
            "TRITON_XE_SANITIZE": ",".join(words), "TRITON_XE_FINDINGS": str(file)}
        environment.setdefault("TRITON_XE_DEVICE", "sim")
        if seed:
            environment["TRITON_XE_SHUFFLE"] = str(seed)
        status = subprocess.run(program, env=environment, check=False).returncode
        launches, found = read_findings(file)
    known = [pair for pair in found
             if any(fnmatch.fnmatchcase(pair[0].key, pattern) for pattern in allowed)]
    new = [pair for pair in found if pair not in known]
    return Result(status if status >= 0 else 128 - status, launches, new, known)


def page(result: Result) -> list[str]:
    """The distinct findings and a summary."""
    first = {finding.key: (finding, test) for finding, test in reversed(result.new)}
    times = Counter(finding.key for finding, _ in result.new)
    lines = ["", "triton-xe check"]
    for key, (finding, test) in reversed(first.items()):
        lines += ["", key, f"  {finding.text}",
                  f"  in {_count(times[key], 'launch', 'es')}" + (f", {test}" if test else "")]
    return [*lines, "", *_summary(result)]


def _summary(result: Result) -> list[str]:
    kernels = {launch.kernel for launch in result.launches}
    accesses = sum(launch.accesses for launch in result.launches)
    kinds = Counter(key.split(" ")[0] for key in {f.key for f, _ in result.new})
    found = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    lines = [f"{_count(len(result.launches), 'launch', 'es')} of {_count(len(kernels), 'kernel')}, "
             f"{accesses:,} accesses checked",
             f"{_count(sum(kinds.values()), 'finding')}" + (f": {found}" if found else "")]
    known = {finding.key for finding, _ in result.known}
    if known:
        lines.append(f"{_count(len(known), 'known finding')} left out")
    if result.status:
        lines.append(f"the program ended with status {result.status}")
    if not result.launches:
        lines.append("no kernel was launched on a simulated device: nothing was checked")
    return lines


def _count(number: int, noun: str, ending: str = "s") -> str:
    """
    >>> _count(1, "launch", "es"), _count(1200, "launch", "es")
    ('1 launch', '1,200 launches')
    """
    return f"{number:,} {noun}{ending if number != 1 else ''}"


def as_json(result: Result) -> dict[str, object]:
    """Everything known about a run."""
    def listed(pairs: Sequence[tuple[Finding, str]]) -> list[dict[str, str]]:
        return [{"key": f.key, **asdict(f), "test": test} for f, test in pairs]

    launches = Counter(launch.kernel for launch in result.launches)
    return {"status": result.status, "exit_status": result.exit_status, "launches": launches,
            "accesses": sum(launch.accesses for launch in result.launches),
            "findings": listed(result.new), "known": listed(result.known)}
