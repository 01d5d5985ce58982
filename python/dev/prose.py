"""Report docstrings, comments, errors and pages that are not in plain words.

Usage: `python python/dev/prose.py [PATH ...]`.

Three things are checked: the first word of a docstring, the length of sentences, and words that
stand for a term of the field.  With paths, only findings below them are listed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("backend", "benchmarks", "examples", "lowering", "python/dev", "runtime", "triton_xe")
LONGEST = 25
"""Words of a sentence."""
LONGEST_ERROR = 35
"""Words of a sentence in an error, which is one sentence: what, where, why, and what to do."""
OPENERS = re.compile(r"(Whether|What|Of|Where|As|The same)\b")
NOUNS = re.compile(r"(A|An|The|All|Each|Every|One|Nothing)\b")
"""Words that no docstring of a function without result begins with."""
WORDS = {
    r"\bvouch\w*": "assumed at launch, checked by a guard",
    r"\b(no|some)body\b": "name the pass, thread or operation",
    r"^Who\b": "name the pass, thread or operation",
    r"\bloaded places?\b": "gathered, indirect addresses",
    r"\b(?<!in )(?<!in-)(?<!take )(?<!takes )(?<!last )places?\b":
        "address, position, source location",
    r"\b(lies?|lay)\b": "is stored at, is",
    r"\bstands?\b(?! for|-)": "is at, is written",
    r"\bheld\b": "live, cached, retained",
    r"\bbehind\b": "after",
    r"\bapart\b": "separately, split",
    r"\balike\b": "equal, of the same layout",
    r"\bmet\b": "encountered, visited, satisfied",
    r"\bonly then\b": "if and only if",
    r"\bturned\b": "transposed",
    r"\basks? ahead\b": "prefetches",
    r"\bsettle\w*|\bcomes? to rest\b": "reach a fixed point",
    r"\b(told|tells)\b": "reported, reports",
}
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"'(\d])|\n\s*\n")
CODE = re.compile(r"^(```|~~~).*?^\1|^( {4,}|[|>#%]).*?$", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"# *(type:|noqa|ruff:|mypy:|pragma:|---|!)")
LIST_ITEM = re.compile(r"^(?=\s*([-*]\s|\d+\.\s|[\w.]*\w\s\s+\w))", re.MULTILINE)
QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"\n]*\"|\[[^\]]*\]\([^)]*\)", re.DOTALL)

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Text:
    """A docstring, comment, message or page, with its position and the name of its subject."""

    path: str
    line: int
    name: str
    text: str
    acts: bool = False
    """True for the docstring of a function that returns None."""


@dataclass(frozen=True)
class Finding:
    """One passage that makes a reader stumble, and the remedy."""

    path: str
    line: int
    name: str
    reason: str

    def __str__(self) -> str:
        """Format as compilers do, so that editors jump there."""
        return f"{self.path}:{self.line}: {self.name}: {self.reason}"


def _literal(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None


def _name(node: ast.AST) -> str:
    """Name that a docstring after or in `node` documents."""
    if isinstance(node, ast.Assign):
        node = node.targets[0]
    if isinstance(node, ast.AnnAssign):
        node = node.target
    return getattr(node, "name", None) or getattr(node, "id", None) or "module"


def _returns_nothing(node: ast.AST) -> bool:
    returns = getattr(node, "returns", None)
    return isinstance(returns, ast.Constant) and returns.value is None


def docstrings(source: str, path: str) -> Iterator[Text]:
    """Yield the docstrings of modules, classes, functions and assigned names."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, statement in zip([node, *body], body, strict=False):
            text = _literal(statement)
            if text is not None:
                plain = text.replace("\n" + " " * statement.col_offset, "\n").strip()
                acts = before is node and _returns_nothing(node)
                yield Text(path, statement.lineno, _name(before), plain, acts)


def comments(source: str, path: str) -> Iterator[Text]:
    """Yield the comments; those on consecutive lines are one text."""
    block, end = Text(path, 0, "comment", ""), -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or DIRECTIVE.match(token.string):
            continue
        line, words = token.start[0], token.string.strip("# ")
        if line == end + 1 and not token.line[:token.start[1]].strip():
            block = replace(block, text=f"{block.text}\n{words}")
        else:
            yield block
            block = Text(path, line, "comment", words)
        end = line
    yield block


def messages(source: str, path: str) -> Iterator[Text]:
    """Yield the strings in `raise` statements."""
    for error in ast.walk(ast.parse(source)):
        for node in ast.walk(error) if isinstance(error, ast.Raise) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield Text(path, node.lineno, "message", node.value)


def sentences(text: str) -> list[str]:
    """Split prose into sentences; code, tables and quotations are left out."""
    prose = QUOTED.sub("X", CODE.sub("\n", text))
    prose = LIST_ITEM.sub("\n", prose)
    return [part.strip(" \n-*") for part in SENTENCE_END.split(prose) if part.strip()]


def judge(text: Text, *, opener: bool = True) -> Iterator[Finding]:
    """Yield the findings of one text; only docstrings have an `opener`."""
    first = OPENERS.match(text.text)
    if opener and first:
        yield Finding(text.path, text.line, text.name, f'opens with "{first[1]}"')
    noun = NOUNS.match(text.text)
    if text.acts and noun:
        yield Finding(text.path, text.line, text.name,
                      f'opens with "{noun[1]}", but returns None: begin with a verb')
    for sentence in sentences(text.text):
        count = len(sentence.split())
        if count > (LONGEST_ERROR if text.name == "message" else LONGEST):
            start = " ".join(sentence.split()[:6])
            yield Finding(text.path, text.line, text.name, f'{count} words: "{start} ..."')
        for pattern, remedy in WORDS.items():
            for found in re.finditer(pattern, sentence):
                yield Finding(text.path, text.line, text.name, f'"{found[0]}": {remedy}')


def findings_of(path: Path) -> list[Finding]:
    """List the findings of one Python file or Markdown page."""
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text()
    if path.suffix == ".md":
        return list(judge(Text(name, 1, path.stem, source), opener=False))
    return [*(finding for text in docstrings(source, name) for finding in judge(text)),
            *(finding for text in (*comments(source, name), *messages(source, name))
              for finding in judge(text, opener=False))]


def files() -> list[Path]:
    """List the sources and pages that are checked."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "python/test/README.md"]
    return sorted([*pages, *(x for room in SOURCES for x in (ROOT / room).rglob("*.py"))])


def main(arguments: list[str]) -> int:
    """Print the findings; return 1 if there are any."""
    found = [finding for path in files() for finding in findings_of(path)
             if not arguments or finding.path.startswith(tuple(arguments))]
    print(f"prose: {len(found)} findings")
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
