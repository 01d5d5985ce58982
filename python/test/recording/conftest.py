"""Recording into a folder, and launches again from it."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from triton_xe.runtime.recording import folder
from triton_xe.tools import cli


@dataclass(frozen=True)
class Records:
    """The folder of this test; kernels must not have been launched before."""

    path: Path

    def replay(self, *options: str) -> tuple[int, list[dict[str, Any]]]:
        """The exit code, and what is said of each launch."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = cli.main(["replay", str(self.path), "--json", *options])
        return code, json.loads(printed.getvalue() or "[]")

    def same(self) -> list[folder.Recording]:
        """The recordings, all of which replay to the same bits."""
        code, said = self.replay("--compare")
        assert (code, [each["differences"] for each in said]) == (0, [[]] * len(said)), said
        return [folder.read(path) for path in folder.recordings(self.path)]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    monkeypatch.setenv("TRITON_XE_RECORD", str(tmp_path / "records"))
    return Records(tmp_path / "records")


@pytest.fixture
def xpu() -> None:
    """Torch's simulated device; `TRITON_XE_DEVICE` does not matter to a test."""
    torch = pytest.importorskip("torch")
    try:
        torch.empty(0, device="xpu")
    except (RuntimeError, AssertionError) as error:
        pytest.skip(f"no simulated device: {error}")
