"""Findings of a checked program, in a file of one JSON object for each, and for each launch.

Every process of the program appends to the file that `TRITON_XE_FINDINGS` names, and continues
after a finding; `triton-xe check` reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_xe import knobs
from triton_xe.errors import DeviceError


@dataclass(frozen=True)
class Finding:
    """One error of a kernel, or of the arguments of a launch."""

    kind: str
    kernel: str
    location: str
    text: str
    argument: str = ""
    element: str = ""

    @property
    def key(self) -> str:
        """Identity of a finding in a program, as written in a list of known ones."""
        path, *numbers = self.location.rsplit(":", 2)
        where = ":".join((os.path.basename(path), *numbers[:1]))
        return f"{self.kind} {self.kernel} {where}"


@dataclass(frozen=True)
class CheckedLaunch:
    """A checked launch, and its number of accesses of single lanes."""

    kernel: str
    accesses: int


def note(what: Finding | CheckedLaunch) -> None:
    """Append to the file of findings, if there is one."""
    path = knobs.findings()
    if not path:
        return
    fields: dict[str, Any] = {"what": type(what).__name__, **asdict(what)}
    test = knobs.running_test()
    if test and isinstance(what, Finding):
        fields["test"] = test
    line = json.dumps(fields) + "\n"
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise DeviceError(f"findings cannot be written to TRITON_XE_FINDINGS={path}: "
                          f"{error.strerror}") from error


def read_findings(path: Path) -> tuple[list[CheckedLaunch], list[tuple[Finding, str]]]:
    """The launches of a program, and its findings with their tests; skips truncated lines."""
    launches: list[CheckedLaunch] = []
    found: list[tuple[Finding, str]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        fields = _fields(line)
        what = fields.pop("what", "")
        if what == "CheckedLaunch":
            launches.append(CheckedLaunch(**fields))
        elif what == "Finding":
            test = fields.pop("test", "")
            found.append((Finding(**fields), test))
    return launches, found


def _fields(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return dict(found) if isinstance(found, Mapping) else {}
