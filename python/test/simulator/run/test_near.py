"""Objects that are loaded where little room is left between what is mapped."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCATTERED = """
import ctypes, mmap
from triton_xe.runtime.simulator.run import jit

text = '''@room = internal global [8192 x double] zeroinitializer
define double @sum(i64 %i, double %x) {
  %at = getelementptr [8192 x double], ptr @room, i64 0, i64 %i
  %y = load double, ptr %at
  %z = fadd double %x, %y
  store double %z, ptr %at
  ret double %z
}'''
data = jit.compiled(text, "library")
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long
libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
NORESERVE = 0x4000

def take(nbytes):
    return libc.mmap(None, nbytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE, -1, 0)

below, taken, nbytes = take(1 << 40), [], 1 << 30
while nbytes >= 4096:
    at = take(nbytes)
    if at > below:
        taken.append((at, nbytes))
    else:
        libc.munmap(at, nbytes)
        nbytes //= 2
libc.munmap(next(at for at, nbytes in taken if nbytes >= 8192), 8192)
code = jit.NativeCode(data)
add = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(code.address("sum"))
print(add(5, 1.5) + add(5, 2))
"""
"""Room for the code's section above a terabyte that is taken, and for what it reaches below."""


@pytest.mark.skipif(sys.platform != "linux", reason="maps memory as Linux does")
def test_sections_are_within_reach_of_each_other() -> None:
    done = subprocess.run([sys.executable, "-c", SCATTERED], capture_output=True, text=True,
                          check=False)
    assert done.stdout == "5.0\n", done.stderr
