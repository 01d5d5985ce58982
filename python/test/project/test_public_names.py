"""Tests use public names only, so that they say what users and callers may rely on."""

import ast
from contextlib import suppress
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "python/test"
SOURCES = ("backend", "benchmarks", "examples", "lowering", "python/dev", "runtime", "triton_xe")
OURS = ("triton_xe", "benchmarks", "examples", "python")
OF_OTHERS = {"_replace", "_fields", "_fields_", "_name", "_pointer"}
"""Attributes of named tuples, ctypes and dpctl, which sources define too."""
BY_NAME = {"setattr", "delattr", "getattr", "hasattr"}


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def defined(node):
    """Names that a statement binds, and attributes that it sets."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
        node, ast.AnnAssign) else []
    return {getattr(target, "id", getattr(target, "attr", "")) for target in targets}


@cache
def private_names():
    """Private names of the sources."""
    files = [file for room in SOURCES for file in (ROOT / room).rglob("*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return {name for node in nodes for name in defined(node) if is_private(name)} - OF_OTHERS


def root_of(node):
    """Name at which `name.attribute[index].call()` begins."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", "")


def origins(tree):
    """Top-level package of each name that a file imports, or makes of an import, at its top."""
    found = {(alias.asname or alias.name).partition(".")[0]:
                 (getattr(node, "module", None) or alias.name).partition(".")[0]
             for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
             for alias in node.names}
    made = {node.targets[0].id: root_of(node.value) for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    return found | {name: found[root] for name, root in made.items() if root in found}


def is_ours(node, packages):
    """False for an attribute of the test itself, and of what other packages define."""
    name = root_of(node)
    return name not in ("self", "cls") and packages.get(name, OURS[0]) in OURS


def programs(tree):
    """Texts of a test that are programs of Python."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            with suppress(SyntaxError):
                yield ast.parse(dedent(node.value))


def private_uses(tree):
    """(line, name) of the imports, attributes and strings that name what is private to a source."""
    private, packages = private_names(), origins(tree)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and (
                node.level or str(node.module).partition(".")[0] in OURS):
            names = [alias.name for alias in node.names if is_private(alias.name)]
        elif isinstance(node, ast.Attribute) and is_ours(node.value, packages):
            names = [node.attr]
        elif isinstance(node, ast.Call) and node.args and is_ours(node.args[0], packages):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names = [each.value.rpartition(".")[2] for each in node.args[:2] if called in BY_NAME
                     and isinstance(each, ast.Constant) and isinstance(each.value, str)]
        yield from ((node.lineno, name) for name in names
                    if name in private or isinstance(node, ast.ImportFrom))
    for program in programs(tree):
        yield from private_uses(program)


@pytest.mark.parametrize("code", [
    "from triton_xe.conditions import _known",
    "from triton_xe import conditions\nconditions._known(1)",
    "def test(table):\n    table.rows[0]._known()",
    "from triton_xe import conditions\nmonkeypatch.setattr(conditions, '_known', None)",
    "monkeypatch.setattr('triton_xe.conditions._known', None)",
    "PROGRAM = 'import triton_xe\\ntriton_xe.conditions._known(1)'",
])
def test_private_names_are_found(code):
    assert "_known" in private_names()
    assert [name for _, name in private_uses(ast.parse(code))] == ["_known"]


@pytest.mark.parametrize("code", [
    "import torch\ntorch.xpu._lazy_init()", "self._known = 1", "x.__wrapped__()",
    "from torch._inductor import config", "version._replace(number=1)"])
def test_names_of_others_are_left_alone(code):
    assert list(private_uses(ast.parse(code))) == []


def test_tests_use_public_names():
    found = [f"{file.relative_to(ROOT)}:{line}: {name}" for file in sorted(TESTS.rglob("*.py"))
             if file != Path(__file__) for line, name in private_uses(ast.parse(file.read_text()))]
    assert not found, "\n".join(found)


REPLACERS = {"setattr", "delattr", "setitem", "delitem"}
MOST_REPLACED = 32
"""Lines that replace a public name of ours; README.md lists the reasons that count."""


def replaced(tree):
    """Lines that replace a name of our packages by `monkeypatch`."""
    packages = origins(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args and root_of(node.func) == "monkeypatch"
                and node.func.attr in REPLACERS):
            continue
        owner = node.args[0]
        is_path = isinstance(owner, ast.Constant)
        root = owner.value.partition(".")[0] if is_path else packages.get(root_of(owner))
        if root in OURS:
            yield node.lineno


@pytest.mark.parametrize(("code", "lines"), [
    ("from triton_xe import conditions\nmonkeypatch.setattr(conditions, 'known', None)", [2]),
    ("monkeypatch.setattr('triton_xe.conditions.known', None)", [1]),
    ("import os\nmonkeypatch.setattr(os, 'geteuid', None)\nmonkeypatch.setenv('A', 'b')", []),
])
def test_replaced_names_are_found(code, lines):
    assert list(replaced(ast.parse(code))) == lines


def test_few_names_are_replaced():
    found = [f"{file.relative_to(ROOT)}:{line}" for file in sorted(TESTS.rglob("*.py"))
             if file != Path(__file__) for line in replaced(ast.parse(file.read_text()))]
    assert len(found) <= MOST_REPLACED, "\n".join(found)
