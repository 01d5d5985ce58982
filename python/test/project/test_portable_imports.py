"""What only one system has is imported where it is used, never by importing a module."""

import ast
import subprocess
import sys

import pytest

from python.test.project.test_imports import ROOT, sources

ONLY_POSIX = {"crypt", "fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
CALLS = {"sched_getaffinity", "geteuid", "getuid", "uname", "fork"}
"""Functions of `os` that Windows lacks."""
ITANIUM = {"runtime.level_zero.sycl_queue", "runtime.level_zero.sycl_events"}
"""The modules that name C++ functions as compilers on Linux do."""


def executed_at_import(tree):
    """Every node that runs when the module is imported: no bodies of functions."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        inner = ast.iter_child_nodes(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner = []
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            inner = node.orelse
        todo.extend(inner)


def unportable(name, tree):
    for node in executed_at_import(tree):
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {node.module or ""}
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names = {f"{called}()"} if called in CALLS else set()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = {node.value} if node.value.startswith("_ZN") and name not in ITANIUM else set()
        else:
            continue
        yield from (f"{name}: {each}" for each in names
                    if each in ONLY_POSIX or each.endswith("()") or each.startswith("_ZN"))


def test_importing_needs_nothing_that_one_system_alone_has():
    found = [said for name, file in sources()
             for said in unportable(name, ast.parse(file.read_text()))]
    assert found == []


@pytest.mark.parametrize(("text", "said"), [
    ("import fcntl", ["m: fcntl"]),
    ("class A:\n    from resource import getrusage", ["m: resource"]),
    ("N = len(os.sched_getaffinity(0))", ["m: sched_getaffinity()"]),
    ("NAME = '_ZN4sycl3_V15queue'", ["m: _ZN4sycl3_V15queue"]),
    ("def f():\n    import fcntl\n    return os.geteuid()", []),
    ("if TYPE_CHECKING:\n    import pwd", []),
])
def test_the_rule_itself(text, said):
    assert list(unportable("m", ast.parse(text))) == said


@pytest.mark.skipif(sys.platform == "win32", reason="these are what is hidden here")
def test_the_package_is_imported_without_them(monkeypatch):
    """In a new process in which they cannot be imported."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({sorted(ONLY_POSIX)!r}))\n"
    names = "triton_xe.lowering.pipeline, triton_xe.runtime.selection, triton_xe.backend.plugin"
    done = subprocess.run(
        [sys.executable, "-c", f"import subprocess, triton\n{hide}import {names}"],
        capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
