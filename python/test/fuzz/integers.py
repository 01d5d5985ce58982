"""Run random kernels of integers on the device of `TRITON_XE_DEVICE`, and report wrong numbers.

    TRITON_XE_DEVICE=sim:pvc python python/test/fuzz/integers.py --seed 1 --count 1000

Every second kernel runs under the checks, which may find nothing.  A kernel that is not right is
made smaller, as long as it stays wrong, and printed; it stays in `--keep`.  Run a file with
`PYTHONPATH=python/test/fuzz python FILE`.
"""

import argparse
import ast
import copy
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from integer_kinds import KINDS, program
from run_programs import outcome, outcomes

REFUSED = re.compile(r"^(XeError|\w*Refus\w*|UnsupportedError|CompilationError|OutOfResources)")
VARYING = re.compile(r"\S*\.py\S*|(0x[0-9a-f]+|-?\d+)([, ]+(0x[0-9a-f]+|-?\d+))*")
"""Files, and numbers or lists of them, which differ between programs with the same fault."""
SMALLER = 150
"""Trials that make a wrong program smaller."""


def refused(why: str) -> bool:
    """True if the kernel was refused: neither right nor wrong."""
    return bool(REFUSED.match(why))


def fault(why: str) -> str:
    """Kind, operation and cause of a report, without numbers and files.

    They are the same for a program made smaller.
    """
    return VARYING.sub("#", why.partition("\n")[0])


# -- smaller programs ------------------------------------------------------------------------------


def smaller(path: Path, why: str, most: int = SMALLER,
            outcome: Callable[[Path], str] = outcome) -> str:
    """The program with the fewest parts found that has the same fault."""
    text, trials = path.read_text(), most
    trial = path.with_suffix(".trial.py")
    found = True
    while found:
        found = False
        for candidate in candidates(text):
            if not trials:
                break
            trials -= 1
            trial.write_text(candidate)
            if fault(outcome(trial)) == fault(why):
                text, found = candidate, True
                break
    trial.unlink(missing_ok=True)
    return text


def candidates(text: str) -> Iterator[str]:
    """Programs that lack a part: launches first, then statements, then operations."""
    tree = ast.parse(text)
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _kept_alone(text, tree, index)
            break
    yield from _without_statements(tree)
    yield from _without_operations(tree)


def _kept_alone(text: str, tree: ast.Module, first: int) -> Iterator[str]:
    calls = tree.body[first:]
    if len(calls) > 1:
        lines = text.splitlines(keepends=True)
        for call in calls:
            yield "".join(lines[:calls[0].lineno - 1] + lines[call.lineno - 1:call.end_lineno])


def _without_statements(tree: ast.Module) -> Iterator[str]:
    for number, block in enumerate(_blocks(tree)):
        for index in range(len(block.body)):
            changed = copy.deepcopy(tree)
            again = _blocks(changed)[number]
            if len(again.body) > 1:
                del again.body[index]
                yield _text(changed)


def _blocks(tree: ast.Module) -> list[Any]:
    """The kernel and its loops and branches: nodes whose body is a list of statements."""
    return [node for node in ast.walk(_kernel(tree))
            if isinstance(getattr(node, "body", None), list)]


def _without_operations(tree: ast.Module) -> Iterator[str]:
    count = sum(1 for _ in _operations(_kernel(tree)))
    for number in range(count):
        for part in range(4):
            changed = copy.deepcopy(tree)
            parent, name, at, node = list(_operations(_kernel(changed)))[number]
            parts = _parts(node)
            if part >= len(parts):
                break
            if at is None:
                setattr(parent, name, parts[part])
            else:
                getattr(parent, name)[at] = parts[part]
            yield _text(changed)


def _operations(node: ast.AST) -> Iterator[tuple]:
    """Each operation below the node: its parent, the field, the index in it, itself."""
    for name, value in ast.iter_fields(node):
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                if _parts(child):
                    yield node, name, at, child
                yield from _operations(child)


def _parts(node: ast.AST) -> list[ast.expr]:
    """The operands that an operation can be replaced with."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        return [node.operand]
    if isinstance(node, ast.Compare):
        return []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("minimum", "maximum", "abs", "cdiv", "multiple_of"):
            return node.args
        if node.func.attr == "where":
            return node.args[1:]
        if node.func.attr == "to":
            return [node.func.value]
        if node.func.attr == "load" and node.keywords:
            return [ast.Call(node.func, node.args, [])]
        if node.func.attr == "store" and node.keywords:
            return [ast.Call(node.func, node.args, [])]
    return []


def _kernel(tree: ast.Module) -> ast.FunctionDef:
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef))


def _text(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


# -- the command -----------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--smaller", type=int, default=SMALLER, metavar="TRIALS")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "xe-integers")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    import triton  # noqa: F401  (children inherit what is imported)

    from triton_xe.lowering import pipeline  # noqa: F401

    counts: Counter[str] = Counter()
    begin, paths = time.time(), []
    for i in range(given.first, given.first + given.count):
        kind = given.kinds[i % len(given.kinds)]
        paths.append(given.keep / f"{kind}_{given.seed}_{i}.py")
        paths[-1].write_text(program(kind, f"{given.seed} {i}", (i // len(given.kinds)) % 2 == 1))
    for path, why in zip(paths, outcomes(paths), strict=True):
        result = "right" if not why else "refused" if refused(why) else "wrong"
        counts[result] += 1
        if result == "right":
            path.unlink()
            continue
        print(f"{result}: {path}: {why[:1000]}", flush=True)
        if result == "wrong":
            path.write_text(smaller(path, why, given.smaller))
            print(path.read_text(), flush=True)
    print(f"{dict(counts)} in {time.time() - begin:.0f} s", flush=True)
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
