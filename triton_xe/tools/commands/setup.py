"""`triton-xe setup`: repair stock Triton next to a torch that requires another Triton.

Torch's XPU builds install `triton-xpu`, which overwrites stock Triton.  This command removes it,
installs stock Triton completely, and registers with pip that torch's requirement is satisfied.
Neither triton nor torch is imported; nothing else changes.
"""

from __future__ import annotations

import argparse
import sys

from triton_xe.tools import installation

HELP = "make stock Triton whole where another package has overwritten it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="print the steps, and stop")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--undo", action="store_true", help="restore the Triton that torch requires")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if everything is, or has been made, correct; 1 if the user declines."""
    seen = installation.examine()
    todo = installation.undo_steps(seen) if arguments.undo else installation.steps(seen)
    if not todo:
        print("nothing to undo" if arguments.undo
              else f"nothing to do: {seen.stock} is complete, and nothing shadows it")
        return 0
    for sentence in () if arguments.undo else installation.findings(seen):
        print(f"found    {sentence}")
    for number, step in enumerate(todo, start=1):
        print(f"step {number}   {step.what}")
    if arguments.dry_run:
        return 0
    if not arguments.yes and not _ask_user():
        print("nothing was changed; --yes does not ask")
        return 1
    for number, step in enumerate(todo, start=1):
        step.run()
        print(f"done {number}   {step.what}", flush=True)
    return 0 if arguments.undo else _verdict()


def _ask_user() -> bool:
    if not sys.stdin.isatty():
        return False
    return input("Go on? [y/N] ").strip().lower() in ("y", "yes")


def _verdict() -> int:
    """Print what is still wrong; the exit code is 1 if anything is."""
    left = installation.findings(installation.examine())
    for sentence in left:
        print(f"still    {sentence}")
    return 1 if left else 0
