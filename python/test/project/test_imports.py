"""Imports point one way, rooms say where to begin, and nothing is imported before it is needed."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINKED = ("backend", "lowering", "runtime")
# what may import what: a package imports only those of its own row and of the rows above it;
# lowering and runtime stand side by side and do not know each other
ROWS = (
    ("__init__", "collector", "conditions", "deep_calls", "errors", "knobs", "hardware", "locks",
     "packed_text", "progress", "triton_versions"),
    ("layout", "model"),
    ("plan",),
    ("dialects", "intrinsics", "llvm", "spirv"),
    ("lowering",),
    ("runtime",),
    ("backend", "gluon", "tools"),
)
STRANGERS = {("runtime", "lowering"), ("runtime", "dialects")}
ROOMS = sorted({ROOT / "lowering", *(f.parent for f in (ROOT / "lowering").rglob("*.py"))})


@functools.cache
def imports_of(file):
    """Import statements of a file, those inside functions included."""
    return [node for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))]


def sources():
    for folder, prefix in ((ROOT / "triton_xe", ""), *((ROOT / m, f"{m}.") for m in LINKED)):
        for file in folder.rglob("*.py"):
            name = prefix + ".".join(file.relative_to(folder).with_suffix("").parts)
            yield name, file


def package_of(module):
    """`triton_xe.plan.model` and `plan.model` are in `plan`; a top-level module is itself."""
    return module.removeprefix("triton_xe.").split(".")[0]


def imported(file):
    for node in imports_of(file):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "triton_xe":
                yield from (alias.name for alias in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def row_of(package):
    return next((i for i, row in enumerate(ROWS) if package in row), None)


def wrong_imports():
    for name, file in sources():
        here = package_of(name)
        for module in imported(file):
            if module == "triton_xe" or not (
                module.startswith("triton_xe.") or row_of(module) is not None
            ):
                continue
            there = package_of(module)
            if row_of(there) is None or row_of(there) > row_of(here) or (
                (here, there) in STRANGERS
            ):
                yield f"{name} imports {module}"


def test_each_module_has_a_place():
    assert {name for name, _ in sources() if row_of(package_of(name)) is None} == set()


def test_imports_point_one_way():
    assert list(wrong_imports()) == []


def test_the_architecture_page_has_the_rows():
    rows = (", ".join(f"`{name}`" for name in row if name != "__init__") for row in ROWS)
    table = "".join(f"| {row} |\n" for row in rows)
    assert table in (ROOT / "docs/architecture.md").read_text()


def reaching_into_the_simulator():
    """Names of the simulator's modules in other rooms; `interface` is for them."""
    room = "runtime.simulator."
    for name, file in (*sources(), *(
            (f"benchmarks.{file.stem}", file) for file in (ROOT / "benchmarks").glob("*.py"))):
        if not name.startswith(room):
            named = re.findall(r"triton_xe\.runtime\.simulator\.(\w+)", file.read_text())
            yield from ((name, module) for module in named if module != "interface")


def test_other_rooms_use_the_interface_of_the_simulator():
    assert list(reaching_into_the_simulator()) == []


def test_the_interface_of_the_simulator_is_small():
    from triton_xe.runtime.simulator import interface

    assert len(interface.__all__) <= 10
    assert all(getattr(interface, name) for name in interface.__all__)


def test_passes_do_not_import_the_emitter():
    """It comes after them: what both need to know is in `facts`."""
    after = ("lowering.emit.", "lowering.by_hand.", "lowering.spirv.",
             "lowering.convert_xegpu_to_llvm")
    assert not [name for name, file in sources()
                if name.startswith("lowering.") and not name.startswith(after)
                and any("lowering.emit" in module for module in imported(file))]


def test_the_compiler_does_not_need_programs_written_by_hand():
    """They are a plugin beside it, which commands and `xdsl.universe` reach."""
    plugin = "triton_xe.lowering.by_hand"
    found = {name for name, file in sources() for module in imported(file)
             if module == plugin or module.startswith(plugin + ".")}
    assert {name for name in found if not name.startswith("lowering.by_hand.")} == {
        "lowering.universe", "tools.commands.opt", "tools.commands.run"}


def dependencies():
    """Each module's own imports of others, those inside functions included."""
    modules = {name.removesuffix(".__init__"): file for name, file in sources()}
    for name, file in modules.items():
        found = set()
        for node in imports_of(file):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("triton_xe"):
                package = node.module.removeprefix("triton_xe").lstrip(".")
                for alias in node.names:
                    inner = f"{package}.{alias.name}".lstrip(".")
                    found.add(inner if inner in modules else package)
        yield name, (found & modules.keys()) - {name}


def cycles(graph):
    """The sets of modules that import each other, directly or through others."""
    reached = {}

    def reach(start):
        seen, left = set(), [start]
        while left:
            for there in graph[left.pop()] - seen:
                seen.add(there)
                left.append(there)
        return seen

    for name in graph:
        reached[name] = reach(name)
    found = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph if name in reached[name]
    }
    return sorted(sorted(group) for group in found)


def test_a_cycle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert cycles(graph) == [["a", "b", "c"]]


def test_no_module_imports_itself_through_others():
    assert cycles(dict(dependencies())) == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_rooms_of_the_compiler_say_where_to_begin(room):
    if len(list(room.glob("*.py"))) > 4:
        text = (room / "README.md").read_text()
        names = set(re.findall(r"`(\w+(?:\.py|/))`", text))
        assert names
        assert {name for name in names if not (room / name).exists()} == set()


def test_our_environment_variables_are_read_in_one_place():
    read = re.compile(r"""(?:environ(?:\.get)?[\[(]|getenv\(|\b_text\()\s*["']TRITON_XE_""")
    assert {name for name, file in sources() if read.search(file.read_text())} == {"knobs"}


def test_our_environment_variables_are_in_the_table():
    text = (ROOT / "triton_xe/knobs.py").read_text()
    table, code = text.split('"""', 2)[1:]
    variables = set(re.findall(r'"(TRITON_XE_\w+)"', code))
    assert variables == set(re.findall(r"`(TRITON_XE_\w+)`", table))


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import triton", ["torch", "numpy", "xdsl", "llvmlite", "triton_xe.lowering"]),
        ("import triton_xe", ["triton", "torch", "numpy"]),
        ("import triton_xe.runtime.selection", ["triton", "torch", "xdsl", "llvmlite"]),
    ],
)
def test_importing_is_light(statement, absent):
    code = f"{statement}\nimport sys\nprint([m for m in {absent!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
