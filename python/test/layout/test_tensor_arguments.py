"""What `layout`, `plan` and `convert` share: tensor types, aliases of a file, colours."""

import pty
import subprocess
import sys

import pytest

from triton_xe import knobs
from triton_xe.errors import LayoutError
from triton_xe.tools.cli import main
from triton_xe.tools.tensor_arguments import parse_tensor_type
from triton_xe.tools.terminal import paint_messages, painted, wants_colour

KERNEL = """\
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, \
threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2]}>
#b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
#broken = #ttg.slice<{dim = 0, parent = 3}>
module {}
"""
COMMANDS = [["layout", "#b"], ["plan", "#b"], ["convert", "#dpas", "#b"]]
TYPE = ["-t", "tensor<32x256xf16>"]


@pytest.mark.parametrize(
    ("text", "shape", "bits"),
    [
        ("tensor<256x32xf16>", (256, 32), 16),
        (" tensor<8xbf16, #blocked> ", (8,), 16),
        ("tensor<8x!tt.ptr<f16>, #ttg.slice<{dim = 1, parent = #blocked}>>", (8,), 64),
        ("tensor<4x8xf8E4M3FN>", (4, 8), 8),
        ("tensor<4x8xf4E2M1FN>", (4, 8), 4),
        ("tensor<4xtf32>", (4,), 32),
        ("tensor<4xui8>", (4,), 8),
        ("tensor<4xi1>", (4,), 1),
        ("tensor<4xindex>", (4,), 64),
    ],
)
def test_tensor_types(text, shape, bits):
    assert parse_tensor_type(text) == (shape, bits)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("  vector<4xf32>", 3),
        ("tensor<f32>", 8),
        ("tensor<4x?xf32>", 10),
        ("tensor<4xf17>", 10),
        ("tensor<4xf8>", 10),
        ("tensor<4xf32", 13),
        ("tensor<4xf32> x", 13),
    ],
)
def test_bad_tensor_types_have_a_column(text, column):
    with pytest.raises(LayoutError, match=rf"^column {column}: expected .*, found "):
        parse_tensor_type(text)


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "k.ttgir"
    path.write_text(KERNEL)
    return str(path)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_aliases_of_a_file(command, kernel, capsys):
    assert main([*command, *TYPE, "--file", kernel]) == 0
    out = capsys.readouterr().out
    assert out
    assert "\x1b" not in out
    assert main([*command[:-1], "#c", *TYPE, "--file", kernel]) == 1
    assert "column 1: expected one of #ttg.blocked, " in capsys.readouterr().err
    assert main([*command[:-1], "#broken", *TYPE, "--file", kernel]) == 1
    assert "in #broken: column 31: expected a layout attribute" in capsys.readouterr().err
    assert main([*command[:-1], "#ttg.bloked<{}>", *TYPE]) == 1
    assert "column 1: expected one of #ttg.blocked, " in capsys.readouterr().err


class Terminal:
    def isatty(self):
        return True


def test_colours_on_a_terminal_only(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(Terminal())
    assert not wants_colour(open("/dev/null"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "")
    assert not knobs.no_color()
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_commands_colour_what_a_terminal_shows(command, kernel, monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([*command, *TYPE, "--file", kernel]) == 0
    assert "\x1b[" in capsys.readouterr().out


def test_a_real_terminal():
    code = "from triton_xe.tools.terminal import wants_colour; print(wants_colour())"
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm", "PATH": ""}
    subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True, env=environment)
    with open(ours, "rb", buffering=0) as terminal:
        assert terminal.read(6).strip() == b"True"


def test_message_numbers_are_painted():
    text = " #1 \n  1  load     16\n 17 rows"
    first = painted(1, "1")
    assert paint_messages(text) == f" {painted(1, '#1')} \n  {first}  load     16\n 17 rows"
