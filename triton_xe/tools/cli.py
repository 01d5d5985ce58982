"""The `triton-xe` command; each subcommand is a module of `commands`.

Such a module has `HELP`, optionally `EPILOG`, `add_arguments(parser)`, and `run`, a function from
the parsed arguments to an exit code.  Only the module of the requested command is imported.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence

import triton_xe
from triton_xe.errors import XeError
from triton_xe.tools import commands


def command_names() -> list[str]:
    """Every subcommand, from the names of the modules."""
    return sorted(module.name for module in pkgutil.iter_modules(commands.__path__))


def make_parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the commands `names`."""
    parser = argparse.ArgumentParser(prog="triton-xe", description=triton_xe.__doc__)
    parser.add_argument("--version", action="version", version=triton_xe.__version__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name in names:
        module = importlib.import_module(f"{commands.__name__}.{name}")
        command = subparsers.add_parser(
            name, help=module.HELP, description=module.__doc__,
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command: 0 on success, 1 if it refuses with a message, 2 on wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    names = command_names()
    asked = [name for name in names if arguments and arguments[0] == name]
    parsed = make_parser(asked or names).parse_args(arguments)
    try:
        return int(parsed.run(parsed) or 0)
    except (XeError, OSError, ValueError, EOFError) as error:
        print(f"triton-xe {parsed.command}: {_sentence(error)}", file=sys.stderr)
        return 1


def _sentence(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "the file is not text in UTF-8"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
