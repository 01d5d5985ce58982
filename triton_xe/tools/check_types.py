"""Type-check the package as it is built: `python -m triton_xe.tools.check_types`.

`setup.py` maps folders into the package, and type checkers do not follow that mapping in an
editable install: they skip those folders without a word.  So the package is put together in a
temporary folder, as a wheel would hold it, and checked there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "triton_xe"
MAPPED = ("backend", "lowering", "runtime")


def assemble(root: Path, into: Path) -> Path:
    """The package's sources as one tree below `into`; returns its folder."""
    package = into / PACKAGE
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / PACKAGE, package, ignore=ignore)
    for folder in MAPPED:
        shutil.copytree(root / folder, package / folder, ignore=ignore)
    shutil.copy(root / "pyproject.toml", into)
    return package


def main(root: Path) -> int:
    """mypy's exit code; its paths are those of the repository."""
    with tempfile.TemporaryDirectory() as name:
        into = Path(name)
        assemble(root, into)
        run = subprocess.run(
            [sys.executable, "-m", "mypy", "--cache-dir", str(root / ".mypy_cache"), "-p", PACKAGE],
            cwd=into, capture_output=True, text=True, check=False,
        )
    text = run.stdout + run.stderr
    for folder in MAPPED:
        text = text.replace(f"{PACKAGE}/{folder}/", f"{folder}/")
    sys.stdout.write(text)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[2]))
