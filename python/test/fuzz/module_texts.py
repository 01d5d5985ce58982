"""Module texts of the tests with mistakes in them: tokens and lines lost, doubled, changed.

A text is drawn from its seed alone.
"""

import ast
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from triton_xe.dialects.text.rfc import is_rfc_notation

TESTS = Path(__file__).parents[1]
TOKEN = re.compile(r"%[\w#]+|[#!@^]?[\w.]+|->|\"[^\"\n]*\"|\s+|.")
PARTS = re.compile(r"\d+(?=x)|(?<=x)(?:ui|si|[ifb])+\d+|\b\d+\b|(?<=[ <])(?:index|[fi]\d+)\b|"
                   r"(?<== )[a-z_]+\b")
ELEMENTS = ("f16", "f32", "f64", "bf16", "i1", "i4", "i8", "i16", "i32", "i64", "ui8", "index",
            "tf32", "f8E4M3FN", "f8E5M2")
BY_HAND = ",".join((
    "lower-kernel-functions", "guard-tiles", "convert-xetile-to-xegpu", "sink-loads",
    "keep-in-shared-memory", "convert-xegpu-to-llvm",
))
ODD = ("0", "1", "-1", "3", "17", "65536", "4294967296", "9223372036854775807", "?", "i1", "i4",
       "index", "f64", "bf16", "f8E5M2", "vector<3xf32>", "tensor<16xf32>", "memref<*xf32>",
       "dense<>", "!zz", "#zz",
       "{", "}", "(", ")", "<", ">", "[", "]", ",", ":", "=", "\\", "\u00e9", '"', "loc(#loc9)",
       "affine_map<(i) -> (i)>", "unit", "none", "true", "0x7FC0", "1.0e500", "%0", "%zz")


@dataclass(frozen=True)
class ModuleText:
    """A text, and the passes to run over it; `arrays` where it is also to be launched."""

    text: str
    passes: str
    arrays: tuple = ()


@cache
def corpus() -> tuple[ModuleText, ...]:
    """The programs of the tests, by hand and in TTGIR."""
    from python.test.lowering.by_hand.xegpu_programs import PROGRAMS
    from python.test.lowering.test_rewrites import sections, wrapped

    made = [ModuleText(text, BY_HAND, tuple(arrays))
            for text, arrays, _ in (program(16) for program in PROGRAMS.values())]
    made += [ModuleText(wrapped(shared, part), passes or BY_HAND)
             for passes, shared, part in (section.values for section in sections())]
    for path in sorted(TESTS.rglob("test_*.py")):
        made += [ModuleText(text, BY_HAND) for text in _constants(path)
                 if "func.func" in text or is_rfc_notation(text)]
    return tuple(made)


def _constants(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


@cache
def _words() -> tuple[str, ...]:
    return tuple(sorted({word for made in corpus() for word in TOKEN.findall(made.text)}))


def mistaken(seed: str) -> ModuleText:
    """One of the texts with one to three mistakes, and sometimes with passes of another one."""
    rng = random.Random(seed)
    made = rng.choice(corpus())
    text = made.text
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice((_tokens, _lines, _numbers, _everywhere, _everywhere))(text, rng)
    passes = made.passes if rng.random() < 0.9 else rng.choice(corpus()).passes
    return ModuleText(text, passes, made.arrays if rng.random() < 0.2 else ())


def _tokens(text: str, rng: random.Random) -> str:
    tokens = TOKEN.findall(text) or [""]
    at = rng.choice([i for i, token in enumerate(tokens) if not token.isspace()] or [0])
    other = rng.choice(tokens)
    new = (rng.choice(ODD), rng.choice(_words()), other, other, "", tokens[at] * 2)
    tokens[at] = rng.choice(new)
    return "".join(tokens)


def _everywhere(text: str, rng: random.Random) -> str:
    """A size, an element type or a word gets another in all places, which often still verifies."""
    found = sorted(set(PARTS.findall(text)))
    if not found:
        return text
    old = rng.choice(found)
    if old.isdigit():
        sizes = (0, 1, 2, 3, 4, 5, 8, 12, 16, 32, 64, 128, int(old) + 1, int(old) * 2)
        new = str(rng.choice(sizes))
    else:
        new = rng.choice((*ELEMENTS, *found))
    return re.sub(rf"(?<![\w.%#@]){old}(?=x|\b)|(?<=x){old}(?=x|\b)", new, text)


def _numbers(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"-?\b\d+", text))
    if not found:
        return text
    at = rng.choice(found)
    value = int(at[0])
    new = rng.choice((0, 1, -1, value + 1, value - 1, value * 2, value // 2, -value, value * 1000))
    return f"{text[: at.start()]}{new}{text[at.end() :]}"


def _lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[a]
        case 1:
            lines.insert(b, lines[a])
        case 2:
            lines[a], lines[b] = lines[b], lines[a]
        case 3:
            del lines[min(a, b) : max(a, b)]
    return "\n".join(lines)
