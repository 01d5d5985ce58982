"""Type-check the package as it is built: `python -m triton_xe.tools.check_types`.

`setup.py` maps folders into the package.  Type checkers do not follow that mapping in an editable
install, and skip those folders without a message.  Therefore this program assembles the package in
a temporary folder, as in a wheel, and checks it there.
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
    """Copy the package's sources into one tree below `into`; return its folder."""
    package = into / PACKAGE
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / PACKAGE, package, ignore=ignore)
    for folder in MAPPED:
        shutil.copytree(root / folder, package / folder, ignore=ignore)
    shutil.copy(root / "pyproject.toml", into)
    return package


def main(root: Path) -> int:
    """Run mypy and return its exit code; its paths are those of the repository."""
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
