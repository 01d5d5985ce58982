"""What a person reads after a mistake: one sentence that says what, where, and what to do."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe import knobs
from triton_xe.errors import DeviceError, OptionError
from triton_xe.runtime import native
from triton_xe.tools import cli

ROOT = Path(__file__).parents[3]
ADD = ["compile", str(ROOT / "examples/vector_add.py") + "::add_kernel", "--signature",
       "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=64"]
GEMM = ["run", str(ROOT / "examples/xetile_gemm.mlir")]


@triton.jit
def add_one(x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 1)


@pytest.mark.parametrize(("grid", "shown"), [
    ((1.5,), "(1.5, 1, 1)"), ((64 / 64,), "(1.0, 1, 1)"), ((-1,), "(-1, 1, 1)"),
    ((1, 1 << 40), "(1, 1099511627776, 1)"), (("2",), "(2, 1, 1)"),
])
def test_grids(grid, shown):
    with pytest.raises((DeviceError, TypeError)) as error:
        add_one[grid](np.zeros(64, np.float32), BLOCK=64)
    if not isinstance(grid[0], str):
        assert f"the grid {shown} is not of three whole numbers" in str(error.value)


@pytest.mark.parametrize(("option", "value"), [
    ("num_warps", "4"), ("num_warps", 4.0), ("num_stages", "2"), ("num_ctas", "1"),
    ("num_warps", 3), ("num_stages", -1),
])
def test_options(option, value):
    with pytest.raises(OptionError, match=f"{option} must"):
        add_one[(1,)](np.zeros(64, np.float32), BLOCK=64, **{option: value})


@pytest.mark.parametrize(("name", "text", "read"), [
    ("TRITON_XE_THREADS", "many", knobs.threads), ("TRITON_XE_THREADS", "0", knobs.threads),
    ("TRITON_XE_DEBUG", "plans", knobs.debug), ("TRITON_XE_TIME_LIMIT", "1h", knobs.time_limit),
    ("TRITON_XE_PRINT_BYTES", "8", knobs.print_bytes),
])
def test_variables_that_should_be_numbers(monkeypatch, name, text, read):
    knobs.warn_once.cache_clear()
    monkeypatch.delenv(name, raising=False)
    default = read()
    monkeypatch.setenv(name, text)
    with pytest.warns(RuntimeWarning, match=f"{name}={text} is not a number of at least"):
        assert read() == default


@pytest.mark.parametrize(("name", "text", "read", "known"), [
    ("TRITON_XE_CLOCK", "gpu", knobs.device_clock, "host, exact"),
    ("TRITON_XE_ASSERT", "exit", knobs.abort_on_assert, "abort"),
    ("TRITON_XE_SANITIZE", "finit", knobs.sanitize_finite, "finite, storage and strict"),
])
def test_variables_of_words(monkeypatch, name, text, read, known):
    knobs.warn_once.cache_clear()
    monkeypatch.setenv(name, text)
    with pytest.warns(RuntimeWarning, match=f"{name}={text} means nothing.*{known}"):
        read()


def test_findings_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    monkeypatch.setenv("TRITON_XE_FINDINGS", "/dev/null/found")
    with pytest.raises(DeviceError, match="cannot be written to TRITON_XE_FINDINGS=/dev/null/foun"):
        add_one[(1,)](np.zeros(64, np.float32), BLOCK=64)


def test_a_trace_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("TRITON_XE_TRACE", "/dev/null/trace")
    with pytest.raises(DeviceError, match="cannot be written to TRITON_XE_TRACE=/dev/null/trace"):
        add_one[(1,)](np.zeros(64, np.float32), BLOCK=64)


BROKEN = {
    "syntax.py": "def f(:\n", "missing.py": "import math\nimport no_such_module\n",
    "fails.py": "x = 1\n1 / 0\n", "exits.py": "import sys\nsys.exit(3)\n", "empty.npy": "",
    "empty.py": "", "kernel.py": "import triton\n@triton.jit\ndef first(x):\n    pass\n",
}


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["compile", "{}/syntax.py::k", "--signature", ""], "{}/syntax.py, line 1: invalid syntax"),
    (["compile", "{}/missing.py::k", "--signature", ""],
     "{}/missing.py, line 2: No module named 'no_such_module'; install it, or import it where it "
     "is used: compiling a kernel needs triton only"),
    (["compile", "{}/fails.py::k", "--signature", ""],
     "{}/fails.py, line 2: importing this file ends in ZeroDivisionError: division by zero; put "
     "what is no definition below `if __name__ == '__main__':`"),
    (["compile", "{}/exits.py::k", "--signature", ""],
     "{}/exits.py, line 2: importing this file ends in SystemExit: 3; put what is no definition "
     "below `if __name__ == '__main__':`"),
    (["compile", "{}/empty.py::k", "--signature", ""],
     "{}/empty.py has no @triton.jit function 'k'; it has none"),
    (["compile", "{}/kernel.py::k", "--signature", ""],
     "{}/kernel.py has no @triton.jit function 'k'; it has first"),
    ([*ADD, "-o", "/no/folder/x"], "/no/folder/x: No such file or directory"),
    ([*ADD, "--out", "/dev/null/x"], "/dev/null/x: Not a directory"),
    ([*ADD[:2], "--signature", "*fp32,i32"], "the signature has '*fp32,i32', which is not a new "
     "name=value, as in 'x=*fp32 n=i32 BLOCK=64'; the kernel takes "),
    (["opt", "{}/fails.py"], "fails.py:1:1: MLIR has an operation here, not 'x'"),
    (["opt", GEMM[1], "-p", "fuse"], "['fuse']; `triton-xe opt --list` names the passes"),
    (["opt", "/no/file"], "/no/file: No such file or directory"),
    (["opt", sys.executable], "the file is not text in UTF-8"),
    ([*GEMM, "--grid", "x"], "a grid is one to three positive sizes, x,y,z; not 'x'"),
    ([*GEMM, "--args", "{}/empty.npy"],
     "{}/empty.npy holds no array of numpy: No data left in file"),
    ([*GEMM, "--args", "shape:-3x3:f16"], "'shape:-3x3:f16' is not shape:SIZES:TYPE"),
    ([*GEMM, "--args", "shape:3x3:f16:seed=x"], "'shape:3x3:f16:seed=x' is not shape:SIZES:TYPE"),
    ([*GEMM, "--args", *"123", "shape:3x3:f16", *"56"],
     "argument 3 of @gemm is i32, not an array"),
])
def test_commands(tmp_path, capsys, arguments, sentence):
    for name, text in BROKEN.items():
        (tmp_path / name).write_text(text)
    assert cli.main([each.replace("{}", str(tmp_path)) for each in arguments]) == 1
    message = capsys.readouterr().err
    assert sentence.replace("{}", str(tmp_path)) in message
    assert message.startswith(f"triton-xe {arguments[0]}: ")
    assert "Traceback" not in message


def test_no_gpu():
    """Without torch's words: the driver's, for a program of numpy."""
    program = ("import numpy as np\nfrom test_messages import add_one\n"
               "add_one[(1,)](np.zeros(64, np.float32), BLOCK=64)")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parent,
        env={**knobs.process_environment(), "TRITON_XE_DEVICE": "gpu"})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("triton_xe.errors.DeviceError: ")
    assert "install Intel's GPU driver" in done.stderr or "finds no Intel GPU" in done.stderr


@pytest.mark.skipif(native.threads is None, reason="the compiled part is missing")
def test_a_crash_after_kernels_names_the_sanitizer():
    """What an access outside of arrays breaks may be noticed by others, much later."""
    program = ("import ctypes, numpy as np\nfrom test_messages import add_one\n"
               "add_one[(1,)](np.zeros(64, np.float32), BLOCK=64)\nctypes.string_at(8)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False, cwd=Path(__file__).parent)
    assert done.returncode < 0
    assert "TRITON_XE_SANITIZE=1 finds such an access" in done.stderr
