"""LLVM's FileCheck, from Triton's package, for the texts of stages."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile


def file_check(path: Path, text: str, prefix: str = "CHECK") -> None:
    """Fail unless `text` agrees with the lines of `path` that begin with the prefix."""
    spec = find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    command = [str(Path(spec.origin).parent / "FileCheck"), f"--check-prefix={prefix}", str(path)]
    result = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


def check_text(text: str, checks: str) -> None:
    """Fail unless `text` agrees with lines like `CHECK: load`, which a test has itself."""
    with NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(checks)
        file.flush()
        file_check(Path(file.name), text)
