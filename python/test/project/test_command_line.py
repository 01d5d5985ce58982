"""The `triton-xe` command and its compile subcommand, up to the stages of libtriton."""

import subprocess
import sys
from pathlib import Path

import pytest

from triton_xe.tools import cli
from triton_xe.tools.commands import compile as compile_command

ROOT = Path(__file__).parents[3]


def test_every_command_module_registers_itself():
    names = cli.command_names()
    assert "compile" in names
    assert set(cli.make_parser(names)._subparsers._group_actions[0].choices) == set(names)


def test_a_command_does_not_import_the_others(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["compile", "--help"])
    assert stop.value.code == 0
    assert "name=value" in capsys.readouterr().out


def test_help_of_the_program_is_fast_and_needs_no_torch():
    code = "import sys; from triton_xe.tools import cli; cli.make_parser(['compile']);"
    code += "print([m for m in ('torch', 'triton', 'xdsl') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == "[]", run.stderr


def test_signature_kinds():
    names = ["p", "n", "m", "x", "B", "S", "F"]
    text = "B=64 S='gelu' F=True p=*fp16:16, n=i32:16 m=i64 x=fp32"
    types, constants, attributes = compile_command.parse_signature(names, text)
    assert list(types.values()) == ["*fp16", "i32", "i64", "fp32", *["constexpr"] * 3]
    assert constants == {"B": 64, "S": "gelu", "F": True}
    assert attributes == {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}


def test_signature_errors_name_the_arguments():
    with pytest.raises(ValueError, match="no n, unknown q; the kernel takes p, n"):
        compile_command.parse_signature(["p", "n"], "p=*fp32 q=i32")
    assert compile_command.parse_signature([], " ") == ({}, {}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p=*fp99", r"p=\*fp99: no type of Triton and no constant"),
        ("p=gelu", "p=gelu: no type"),
        ("p=tensordesc<fp16[64", "p=tensordesc<fp16"),
        ("p=*fp32:x", "p: a divisor is a power of two such as 16, not 'x'"),
        ("p=*fp32:12", "not '12'"),
        ("p=*fp32:0", "not '0'"),
        ("p=i32 p=i64", "'p=i64', which is not a new name=value"),
        ("i32 p=i64", "'i32', which is not a new"),
        ("p=", "'p=', which is not a new"),
    ],
)
def test_a_wrong_signature_is_one_sentence(text, message):
    with pytest.raises(ValueError, match=message):
        compile_command.parse_signature(["p"], text)


def test_a_descriptor_may_hold_commas():
    types, _, _ = compile_command.parse_signature(["d", "n"], "d=tensordesc<fp16[64,32]>, n=i32")
    assert types == {"d": "tensordesc<fp16[64,32]>", "n": "i32"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["BLOCK=1000"], "range must be a power of 2"),
        (["BLOCK=1024", "--num-warps", "128"], "out of resource: threads"),
    ],
)
def test_what_triton_refuses_is_told_without_a_traceback(more, message, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    signature = f"a_ptr=*fp32 b_ptr=*fp32 c_ptr=*fp32 n=i32 {more[0]}"
    kernel = "examples/vector_add.py::add_kernel"
    assert cli.main(["compile", kernel, "--signature", signature, *more[1:]]) == 1
    said = capsys.readouterr().err
    assert said.startswith("triton-xe compile: ")
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("examples/vector_add.py", "not of the form"),
        ("examples/nowhere.py::k", "no file"),
        ("examples/vector_add.py::add", "no @triton.jit function 'add'"),
    ],
)
def test_a_wrong_kernel_is_one_sentence(spelling, message, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert cli.main(["compile", spelling, "--signature", ""]) == 1
    assert message in capsys.readouterr().err
