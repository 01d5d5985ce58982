"""Packages and parts in C of triton-xe; all else of the distribution is in `pyproject.toml`.

The folders backend, lowering and runtime are linked into the import package `triton_xe`, so that
every tool that reads sources finds them there.
"""

import hashlib
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup

HERE = Path(__file__).parent
HEADERS = "third_party/level_zero/include"
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
"""True if this Python has the limited API, for one wheel that serves every later Python too."""


def native(name: str) -> Extension:
    """A part in C; without a compiler, or Python's headers, the package is built without it.

    What was built knows its source, so that it is not used with another.
    """
    source = f"triton_xe/runtime/native/{name}.c"
    digest = hashlib.sha256((HERE / source).read_bytes()).hexdigest()
    return Extension(
        f"triton_xe.runtime.native.{name}", [source], include_dirs=[HEADERS],
        define_macros=[("XE_SOURCE", f'"{digest}"')], depends=[f"{HEADERS}/ze_api.h"],
        extra_compile_args=["-std=gnu11", "-O2"],
        py_limited_api=LIMITED, optional=True,
    )


setup(
    packages=find_packages(include=["triton_xe", "triton_xe.*"]),
    package_data={"": ["py.typed", "*.c", "*.cpp", "*.h", "*.json", "*.css", "*.js", "*.txt"]},
    ext_modules=[native("launch"), native("threads"), native("emulated_gpu")],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
