"""`triton-xe replay DIR`: repeat launches that TRITON_XE_RECORD=DIR recorded, and examine them.

Needs neither torch nor triton, nor the program that was recorded.  DIR is one launch, or a folder
of several, which are repeated in order, each with its recorded memory.  The exit code is 1 if a
launch ends in an error, or differs from the recorded one by more than the tolerance.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_xe import knobs
from triton_xe.errors import XeError

if TYPE_CHECKING:
    from triton_xe.runtime.recording.compare import Difference
    from triton_xe.runtime.recording.replay import Outcome, Replay

HELP = "launch a recorded kernel again"
EPILOG = """\
example:
  TRITON_XE_RECORD=launches TRITON_XE_RECORD_FILTER=softmax_kernel:2 python model.py
  triton-xe replay launches --compare
  triton-xe replay launches --sanitize --shrink
"""
LEAST_SECONDS = 10
"""Minimum time limit of a run of `--shrink`; otherwise ten times that of the whole launch."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="recorded launch, or several")
    parser.add_argument("--device", default="", help="gpu, gpu:1, sim, sim:bmg or "
                        "emu:bmg; default: the simulated device that the kernel was compiled for")
    parser.add_argument("--sanitize", action="store_true", help="check every access (simulated)")
    parser.add_argument("--trace", metavar="FILE", default="",
                        help="write what each subgroup executed (simulated, without --sanitize)")
    parser.add_argument("--compare", action="store_true",
                        help="compare the memory afterwards with the recorded one")
    parser.add_argument("--rtol", type=float, help="relative tolerance; default: by type")
    parser.add_argument("--atol", type=float, help="absolute tolerance; default: by type")
    parser.add_argument("--repeat", type=_positive, default=1, metavar="N",
                        help="launch N times with the same memory, and compare the runs")
    parser.add_argument("--programs", type=_numbers, metavar="N,...",
                        help="run only these programs of the grid (simulated)")
    parser.add_argument("--shrink", action="store_true",
                        help="find the fewest programs that show the error (simulated)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, as in 0,5,7")
    return list(map(int, parts))


@dataclass
class Result:
    """Results for one launch."""

    folder: str
    kernel: str
    milliseconds: list[float] = field(default_factory=list)
    finding: dict[str, Any] | None = None
    is_recorded_finding: bool = False
    differences: list[Any] = field(default_factory=list)
    is_wrong: bool = False
    programs: list[int] | None = None
    error: str = ""
    """Reason why it was not launched."""
    lines: list[str] = field(default_factory=list)


def run(arguments: argparse.Namespace) -> int:
    """Replay, and print the results."""
    from triton_xe.runtime.recording.folder import recordings

    results = []
    for folder in recordings(arguments.folder):
        with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
            result = _try_replay(folder, arguments)
        results.append(result)
        if not arguments.json:
            print("\n".join(result.lines), flush=True)
    if arguments.json:
        print(json.dumps([asdict(each) for each in results], indent=1, default=str))
    return int(any(each.is_wrong for each in results))


def _try_replay(folder: Path, arguments: argparse.Namespace) -> Result:
    """Replay a launch; an error does not stop the replay of others."""
    try:
        return replay_folder(folder, arguments)
    except XeError as error:
        if folder == arguments.folder:
            raise
        said = f"{folder}: {error}"
        return Result(str(folder), "", error=str(error), is_wrong=True, lines=[said])


def replay_folder(folder: Path, arguments: argparse.Namespace) -> Result:
    """Replay one launch."""
    from triton_xe.runtime.recording.replay import Replay, describe

    replay = Replay(folder, arguments.device)
    _check(replay, arguments)
    result = Result(str(folder), replay.recording.program.kernel)
    result.lines += [f"{folder}", describe(replay.recording)]
    sanitize = arguments.sanitize or (knobs.sanitize() and replay.device.is_simulated)
    with knobs.changed("TRITON_XE_TRACE", arguments.trace):
        runs = _runs(replay, sanitize, arguments)
    _say_times(result, replay, runs)
    _say_finding(result, replay, runs)
    found = _say_differences(result, replay, runs, arguments) if arguments.compare else []
    if arguments.shrink:
        _say_shrunk(result, replay, runs[0], found, sanitize, arguments)
    return result


def _runs(replay: Replay, sanitize: bool, arguments: argparse.Namespace) -> list[Outcome]:
    """All runs; a run with the same memory as the first one shares it."""
    runs: list[Outcome] = []
    for _ in range(arguments.repeat):
        made = replay.run(sanitize=sanitize, programs=arguments.programs)
        same = [each for each in runs if _is_same(each, made)]
        runs.append(dataclasses.replace(made, after=same[0].after) if same else made)
    return runs


def _is_same(one: Outcome, other: Outcome) -> bool:
    return all((other.after[number] == data).all() for number, data in one.after.items())


def _check(replay: Replay, arguments: argparse.Namespace) -> None:
    asked = ["--" + name for name in ("sanitize", "trace", "shrink", "programs")
             if getattr(arguments, name)]
    if asked and not replay.device.is_simulated:
        raise ValueError(f"{asked[0]} is for simulated devices, and {replay.device.name} is a GPU")
    if arguments.trace and arguments.sanitize:
        raise ValueError("--trace and --sanitize are two ways to run a kernel; choose one")
    if any(number >= replay.programs for number in arguments.programs or ()):
        raise ValueError(f"--programs: the grid has {replay.programs} programs, from 0 on")


def _say_times(result: Result, replay: Replay, runs: list[Outcome]) -> None:
    ended = [each.milliseconds for each in runs if each.is_whole]
    times = [each for each in ended if each == each]
    result.milliseconds = times
    how = f"{statistics.median(times):.4g} ms on its clock" if times else (
        "the device gave no time" if ended else "an error")
    many = f", median of {len(times)} runs" if len(times) > 1 else ""
    result.lines.append(f"  replayed on {replay.device.name}: {how}{many}")
    other = [number for number, each in enumerate(runs, 1) if each.after is not runs[0].after]
    if other:
        result.is_wrong = True
        result.lines.append(f"  run {other[0]} left other memory than the first: the kernel is not "
                            "deterministic")


def _say_finding(result: Result, replay: Replay, runs: list[Outcome]) -> None:
    found = next((each.finding for each in runs if each.finding is not None), None)
    recorded = replay.recording.finding
    if found is not None:
        result.finding, result.is_wrong = asdict(found), True
        result.is_recorded_finding = recorded is not None and recorded.key == found.key
        result.lines.append(f"  {found.error}: {found.text}")
        if result.is_recorded_finding:
            result.lines.append("  the recorded launch ended in the same")
    if recorded is not None and not result.is_recorded_finding:
        result.lines.append(f"  the recorded launch ended in {recorded.error}: {recorded.text}")


def _say_differences(
    result: Result, replay: Replay, runs: list[Outcome], arguments: argparse.Namespace
) -> list[Difference]:
    from triton_xe.runtime.recording.compare import differences

    why = replay.why_nothing_to_compare
    if why or not all(each.is_whole for each in runs):
        result.lines.append(f"  nothing to compare: {why or 'it did not run to its end'}")
        result.is_wrong = True
        return []
    asked = (arguments.rtol, arguments.atol)
    tolerance = None if asked == (None, None) else (asked[0] or 0.0, asked[1] or 0.0)
    wanted = replay.expected()
    found = [each for run in {id(each.after): each for each in runs}.values()
             for each in differences(replay.recording, run.after, wanted, tolerance)]
    result.differences = [asdict(each) for each in found]
    result.is_wrong |= any(each.beyond for each in found)
    result.lines += [f"  {each}" for each in found] or [
        "  memory is the same as after the recorded launch, to the bit"]
    return found


def _say_shrunk(
    result: Result, replay: Replay, first: Outcome, found: list[Difference], sanitize: bool,
    arguments: argparse.Namespace,
) -> None:
    """Print the fewest programs with the same finding, or with the same wrong element."""
    from triton_xe.runtime.recording.shrink import Programs, smallest

    wrong = next((each for each in found if each.beyond), None)
    finding = first.finding
    if finding is None and wrong is None:
        result.lines.append("  nothing to shrink: the launch did not go wrong")
        return

    def shows(programs: Programs) -> bool:
        run = replay.run(sanitize=sanitize, programs=programs)
        if finding is not None:
            return run.finding is not None and run.finding.key == finding.key
        assert wrong is not None
        part = slice(*wrong.at)
        return bool((run.after[wrong.block][part] == first.after[wrong.block][part]).all())

    limit = max(LEAST_SECONDS, 10 * first.seconds)
    with knobs.changed("TRITON_XE_TIME_LIMIT", f"{limit:g}"):
        if finding is None and shows([]):
            result.lines.append("  no program writes this element")
            return
        named = list(finding.programs) if finding is not None else []
        likely = [[each] for each in named] + [sorted(named)] * (len(named) > 1)
        everything = arguments.programs or range(replay.programs)
        result.programs, is_certain = smallest(everything, shows, likely)
    _say_programs(result, replay, is_certain)


def _say_programs(result: Result, replay: Replay, is_certain: bool) -> None:
    x, y, _ = replay.recording.grid
    programs = result.programs or []
    ids = ", ".join(str((n % x, n // x % y, n // x // y)) for n in programs)
    less = "none can be left out" if is_certain else "more runs may leave out some"
    result.lines.append(
        f"  {len(programs)} of {replay.programs} programs are enough, {less}: {ids} "
        f"(--programs {','.join(map(str, programs))})")
