"""Gluon kernels on the command line."""

from python.test.filecheck import check_text
from triton_xe.tools import cli

KERNEL = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def double(x, SIZE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [16], [gl.num_warps()], [0])
    at = x + gl.arange(0, SIZE, layout)
    gl.store(at, gl.load(at) * 2)
"""


def test_a_gluon_kernel_is_compiled(tmp_path, capsys):
    (tmp_path / "kernels.py").write_text(KERNEL)
    kernel = f"{tmp_path}/kernels.py::double"
    assert cli.main(["compile", kernel, "--signature", "x=*fp32 SIZE=128", "--emit",
                     "llir"]) == 0
    check_text(capsys.readouterr().out, 'CHECK: spir_kernel void @double')
