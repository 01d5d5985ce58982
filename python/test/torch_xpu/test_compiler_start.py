"""What a program pays before its first compiled function runs: imports, and worker processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_xe.runtime.torch_xpu import inductor

torch = pytest.importorskip("torch")

PROGRAM = textwrap.dedent("""
    import torch
    from torch._inductor import async_compile

    def doubled(x):
        return x * 2 + 1

    def tripled(x):
        return (x * 3).sum(-1)

    x = torch.arange(64.0, device="xpu").reshape(8, 8)
    for function in (doubled, tripled):
        result = torch.compile(function)(x)
        assert torch.equal(result.cpu(), function(x.cpu()))
        print(len(async_compile._pool_set), end=" ")
        if {only_first}:
            break
""")


def pools(folder: Path, *, only_first: bool, threads: int = 2) -> list[int]:
    """How many pools of workers there are after each of the functions."""
    environment = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_XE_DEVICE": "sim",
        "TRITON_CACHE_DIR": str(folder / "triton"), "TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(only_first=only_first)], env=environment,
        capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [int(each) for each in done.stdout.split()]


def test_workers_start_when_something_must_be_compiled(xpu: None, tmp_path: Path) -> None:
    assert pools(tmp_path, only_first=True, threads=1) == [0]
    assert pools(tmp_path, only_first=False) == [0, 1], "known, then unknown"


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """No object is exempt from garbage collection; afterwards all are that have survived."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_an_import_makes_counts_as_old(unfrozen: None) -> None:
    assert gc.isenabled()
    with inductor._at_once():
        assert not gc.isenabled()
        made: list[list[object]] = [[] for _ in range(10)]
    assert gc.isenabled()
    old = {id(each) for each in gc.get_objects(generation=2)}
    assert all(id(each) in old for each in made)


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError, match="half"), inductor._at_once():
        raise ImportError("half")
    assert gc.isenabled()


TEMPLATES = textwrap.dedent("""
    import torch
    import jinja2

    parse, parsed = jinja2.Environment.from_string, []

    def counted(self, source, *arguments, **named):
        parsed.append(source)
        return parse(self, source, *arguments, **named)

    jinja2.Environment.from_string = counted
    torch.ones(1, device="xpu")
    from torch._inductor import compile_fx, config
    from torch._inductor.codegen.common import KernelTemplate
    from torch._inductor.kernel.mm import mm_template

    before, text = len(parsed), mm_template.template.render
    assert KernelTemplate._template_from_string("{{ 1 + 1 }}").render() == "2"
    made = len(parsed)
    try:
        KernelTemplate._template_from_string("{% if %}")
    except jinja2.TemplateSyntaxError as error:
        told = "line 1" in str(error)
    assert mm_template.template.render == text
    print(before, made, len(parsed), told)
""")


def test_templates_are_parsed_when_they_are_used(xpu: None) -> None:
    """Torch's own; a user's at once, with their errors."""
    done = subprocess.run(
        [sys.executable, "-c", TEMPLATES], capture_output=True, text=True, check=False,
        env=os.environ | {"TRITON_XE_DEVICE": "sim"}, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "2", "3", "True"]
