"""Write the pages of `docs/` that are generated from code: `python -m triton_xe.tools.pages`.

A test compares each page with the generated text, so that the pages match the program.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from triton_xe import knobs
from triton_xe.tools import cli, gpu_checks
from triton_xe.tools.gpu_checks import machine
from triton_xe.tools.gpu_checks.bench import Check

ON_A_GPU = """\
# On a GPU

Everything here was tested on the simulator, and with Intel's compiler and driver on an
[emulated GPU](emulator.md). What follows from the hardware alone is a list of facts, which one
command checks on a real card:

```sh
triton-xe doctor --gpu
```

It takes a few minutes, and needs no torch and no files. It prints a line for each fact. That is
`passed`, `WRONG` with the first number that differs, `FAILED` with the error, or `skipped` if the
device lacks the feature. Each check runs in a process of its own, so one that hangs the
GPU does not end the others. The exit code is 0 when all hold, 1 when one does not, and 3 where
there is no GPU. `triton-xe-gpu.json` (`--report FILE`) has the results with the versions of driver
and packages: please attach it to an issue of this project, whatever it says.

Numbers are compared with the simulator's, to the bit, or with numpy's where another rounding is as
good. On a device that this package knows too little of, a fact may be wrong without harm to your
kernels. However, no result should be trusted while `vector-add`, `exchange` or `matmul` is `WRONG`.

The last columns say where a check was seen to hold: on the simulator, on the emulated GPU
(`triton-xe emulate -- triton-xe doctor --gpu`), and on a card. Emulated were `bmg`, `lnl`, `ptl`,
`pvc`, `dg2`, `mtl`, `arl-h`, `nvl-p` and `cri`. `not decided` means that the emulated GPU agrees by
its own definition. No card was tried yet.

| check | what it confirms | simulator | emulated GPU | card |
|---|---|---|---|---|
{rows}
"""

REFERENCE = """\
# Command line and environment

`triton-xe COMMAND --help` says the same on the command line.

## Environment variables

{variables}
{commands}"""


def on_a_gpu() -> str:
    return ON_A_GPU.format(rows="\n".join(map(_check, gpu_checks.checks())))


def _check(check: Check) -> str:
    simulator = "no" if check.needs in machine.NEEDS_DRIVER else "yes"
    emulated = "not decided" if check.only_silicon else "yes"
    return f"| `{check.name}` | {check.fact} | {simulator} | {emulated} | no |"


def reference() -> str:
    """The table of `knobs`, then each command with its arguments."""
    table = [line for line in (knobs.__doc__ or "").splitlines() if line.startswith("|")]
    names = cli.command_names()
    groups = cli.make_parser(names)._subparsers
    assert groups is not None
    (commands,) = (each for each in groups._group_actions
                   if isinstance(each, argparse._SubParsersAction))
    sections = (_section(name, commands.choices[name]) for name in names)
    return REFERENCE.format(variables="\n".join(table) + "\n", commands="\n".join(sections))


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    rows = "".join(f"| {_spelling(action)} | {_meaning(action)} |\n"
                   for action in parser._actions if "--help" not in action.option_strings)
    epilog = f"\n```text\n{parser.epilog.strip()}\n```\n" if parser.epilog else ""
    return (f"## triton-xe {name}\n\n{(parser.description or '').strip()}\n\n"
            f"| argument | meaning |\n|---|---|\n{rows}{epilog}")


def _spelling(action: argparse.Action) -> str:
    named = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"`{named}`"
    return ", ".join(f"`{f'{option} {named}'.strip()}`" for option in action.option_strings)


def _meaning(action: argparse.Action) -> str:
    parts = [action.help or "", "required" if action.required and action.option_strings else "",
             f"one of {', '.join(map(str, action.choices))}" if action.choices else ""]
    if action.default not in (None, False, [], argparse.SUPPRESS) and "default" not in parts[0]:
        parts.append(f"default: {action.default}")
    return "; ".join(filter(None, parts)).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {"on-a-gpu.md": on_a_gpu, "reference.md": reference}

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    for name, page in PAGES.items():
        (folder / name).write_text(page())
