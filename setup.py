"""Where the packages of triton-xe lie: one import package, `triton_xe`, from four source folders.

What the distribution says of itself is in `pyproject.toml`.
"""

import hashlib
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup

HERE = Path(__file__).parent
OUTER = ("backend", "lowering", "runtime")
HEADERS = "third_party/level_zero/include"
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
"""True if this Python has the limited API, for one wheel that serves every later Python too."""


def packages() -> list[str]:
    """Import names of every package, the outer folders mapped below `triton_xe`."""
    found = [name for name in find_packages(str(HERE)) if name.split(".")[0] == "triton_xe"]
    for folder in OUTER:
        found.append(f"triton_xe.{folder}")
        found += [f"triton_xe.{folder}.{name}" for name in find_packages(str(HERE / folder))]
    return found


def native(name: str) -> Extension:
    """A part in C; without a compiler, or Python's headers, the package is built without it.

    What was built knows its source, so that it is not used with another.
    """
    source = f"runtime/native/{name}.c"
    digest = hashlib.sha256((HERE / source).read_bytes()).hexdigest()
    return Extension(
        f"triton_xe.runtime.native.{name}", [source], include_dirs=[HEADERS],
        define_macros=[("XE_SOURCE", f'"{digest}"')], depends=[f"{HEADERS}/ze_api.h"],
        extra_compile_args=["-std=gnu11", "-O2"],
        py_limited_api=LIMITED, optional=True,
    )


setup(
    packages=packages(),
    package_dir={f"triton_xe.{folder}": folder for folder in OUTER},
    package_data={"": ["py.typed", "*.c", "*.cpp", "*.h", "*.json", "*.css", "*.js"]},
    ext_modules=[native("launch"), native("threads"), native("emulated_gpu")],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
