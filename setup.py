"""Where the packages of triton-xe lie: one import package, `triton_xe`, from four source folders.

What the distribution says of itself is in `pyproject.toml`.
"""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
OUTER = ("backend", "lowering", "runtime")


def packages() -> list[str]:
    """Import names of every package, the outer folders mapped below `triton_xe`."""
    found = [name for name in find_packages(str(HERE)) if name.split(".")[0] == "triton_xe"]
    for folder in OUTER:
        found.append(f"triton_xe.{folder}")
        found += [f"triton_xe.{folder}.{name}" for name in find_packages(str(HERE / folder))]
    return found


setup(
    packages=packages(),
    package_dir={f"triton_xe.{folder}": folder for folder in OUTER},
    package_data={"": ["py.typed", "*.cpp", "*.h", "*.json"]},
)
