"""No test looks for words in the text of a stage: FileCheck and lists of operations say it."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STAGES = ("ttir", "ttgir", "xetile", "xegpu", "llir")
PRINTERS = {
    "attached_llvm_ir", "canonical", "canonical_llvm", "canonical_mlir", "for_intel", "make_llir",
    "make_ttgir", "make_xegpu", "make_xetile", "print_function", "print_module", "transformed",
    "write_module"}
"""Functions that return a stage or its text."""
HOSTED = {"host", "host_of", "hosted", "translate"}
"""Objects whose `text` is the LLVM IR of the simulator."""
PARTS = {"join", "list", "lower", "next", "partition", "replace", "rpartition", "split",
         "splitlines", "str", "strip", "sub"}
"""Functions of a text that return parts of it, or most of it."""


def name_of(node):
    return getattr(node, "id", getattr(node, "attr", ""))


def is_text(node, names, functions):
    """True for the text of a stage, a part of it, or lines of it.

    `names` are bound to such texts, and `functions` return them.
    """
    def any_of(nodes):
        return any(is_text(each, names, functions) for each in nodes)

    match node:
        case ast.Name():
            return node.id in names
        case ast.Subscript(value=ast.Attribute(attr="asm")):
            return not isinstance(node.slice, ast.Constant) or node.slice.value in STAGES
        case ast.Call(func=ast.Attribute(attr="items", value=ast.Attribute(attr="asm"))):
            return True
        case ast.Call():
            name, receiver = name_of(node.func), getattr(node.func, "value", None)
            return name in functions or (name in PARTS and any_of([receiver, *node.args])) or (
                name == "str" and [name_of(each) for each in node.args] == ["module"])
        case ast.Attribute(attr="text"):
            return name_of(getattr(node.value, "func", node.value)) in HOSTED
        case ast.Subscript() | ast.Starred() | ast.NamedExpr() | ast.DictComp():
            return any_of([node.value])
        case ast.ListComp() | ast.GeneratorExp():
            return any_of([node.elt])
        case ast.BinOp():
            return any_of([node.left, node.right])
        case ast.Tuple() | ast.List():
            return any_of(node.elts)
        case _:
            return False


@cache
def bindings(function):
    """(target, value) of all that a function binds to names."""
    nodes = [*ast.walk(function)]
    pairs = [(target, node.value) for node in nodes if isinstance(node, ast.Assign)
             for target in node.targets]
    pairs += [(node.target, getattr(node, "value", getattr(node, "iter", None))) for node in nodes
              if isinstance(node, ast.AnnAssign | ast.For | ast.NamedExpr | ast.comprehension)]
    return [each for target, value in pairs for each in (
        zip(target.elts, value.elts, strict=False)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else [(target, value)])]


def texts(function, functions):
    """Names of texts of stages in a function; pytest's fixtures are its parameters."""
    found, before = {each.arg for each in function.args.args if each.arg in functions}, None
    while found != before:
        before = {*found}
        found |= {name.id for target, value in bindings(function)
                  if is_text(value, found, functions)
                  for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def returned(defined, functions):
    """Names of the functions that return texts, beside those that are known to."""
    found, before = {*functions}, None
    while found != before:
        before = {*found}
        found |= {each.name for each in defined if each.name not in found and any(
            is_text(node.value, texts(each, before), before) for node in ast.walk(each)
            if isinstance(node, ast.Return | ast.Yield))}
    return found


def searches(tree, imported=()):
    """Lines that look for something in a text, or count it there."""
    defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    functions = returned(defined, PRINTERS | {*imported})
    for function in defined:
        names = texts(function, functions)
        for node in ast.walk(function):
            match node:
                case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[where]):
                    pass
                case ast.Call(func=ast.Attribute(attr="count", value=where)):
                    pass
                case _:
                    continue
            if is_text(where, names, functions):
                yield node.lineno


@cache
def tree_of(file):
    return ast.parse(file.read_text())


@cache
def helpers_of(file):
    """Functions of a file that return texts."""
    defined = [node for node in tree_of(file).body if isinstance(node, ast.FunctionDef)]
    return returned(defined, PRINTERS)


def helpers(tree):
    """Functions of other files of tests that return texts, by the names that a file gives them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("python.test."):
            file = ROOT / (node.module.replace(".", "/") + ".py")
            if file.exists():
                yield from (a.asname or a.name for a in node.names if a.name in helpers_of(file))


@pytest.mark.parametrize("code", [
    'assert "dpas" in kernel.asm["llir"]', 'assert "dpas" not in kernel.asm[stage]',
    'assert ("dpas" in kernel.asm["llir"]) == used', 'assert write_module(m).count("tt.load") == 2',
    'text = kernel.asm["ttgir"]\n    assert "tt.load" in text.partition("scf.for")[2]',
    'loop, after = kernel.asm["llir"].split("after")\n    assert "phi" in loop',
    'lines = [x for x in kernel.asm["llir"].splitlines() if "store" in x]',
    'assert "nsw" not in str(module)', 'assert str(make_xetile(m)).count("tile_mma") == 1',
    'assert "prefetch" in loaded.host.text', 'assert "urem" in translate(m, "k").text',
    'for stage in ("ttir", "ttgir"):\n        n = kernel.asm[stage].count("tt.load")',
])
def test_words_in_texts_are_found(code):
    assert len({*searches(ast.parse(f"def test(kernel, stage, used, m):\n    {code}"))}) == 1


@pytest.mark.parametrize("code", [
    'def made():\n    text = compiled().asm["llir"]\n    return text\n'
    'def test():\n    assert "phi" in made()',
    'def stages():\n    made = compiled()\n    return {k: v for k, v in made.asm.items()}\n'
    'def test(stages):\n    assert "phi" in stages["llir"]'])
def test_texts_of_helpers_and_fixtures_are_texts(code):
    assert [*searches(ast.parse(code))] == [5]


@pytest.mark.parametrize("code", [
    'assert "tt.load" in operations(kernel.asm["ttgir"])', 'assert "x" in str(error.value)',
    'assert operations(write_module(m)).count("tt.load") == 2', 'assert "spv" in kernel.asm',
    'assert kernel.asm["spv"].count(b"x")'])
def test_other_words_are_left_alone(code):
    assert [*searches(ast.parse(f"def test(kernel, error, m):\n    {code}"))] == []


def test_no_test_looks_for_words_in_texts_of_stages():
    files = sorted((ROOT / "python/test").rglob("*.py"))
    found = [f"{file.relative_to(ROOT)}:{line}" for file in files
             for line in sorted({*searches(tree_of(file), helpers(tree_of(file)))})]
    assert not found, "use check_text, operations or instructions:\n" + "\n".join(found)
