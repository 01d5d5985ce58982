"""`TRITON_XE_TRACE=FILE`: write the messages that every subgroup executed.

The file is Chrome-trace JSON (chrome://tracing, ui.perfetto.dev): a process per work-group, a
thread per subgroup, an event per message with its source line.  `summary` counts the same messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import DeviceError
from triton_xe.hardware.memory import CACHE_LINE_BYTES
from triton_xe.locks import Lock

MOST_RECORDS = 1 << 20
_lock = Lock()
_events: dict[str, list[dict[str, Any]]] = {}
_summaries: dict[str, list[str]] = {}


@dataclass(frozen=True)
class Site:
    """One instruction that sends a message: its kind, bytes of a lane (or all), source location."""

    kind: str
    nbytes: int
    location: str
    detail: str = ""


def write(
    path: str, kernel: str, sites: Mapping[int, Site], records: NDArray[np.int64], dropped: int,
    lanes: int, seconds: float,
) -> None:
    """Append a launch to the trace file, which has all launches of this process.

    The summary table is written to `<path>.txt`.
    """
    with _lock:
        events = _events.setdefault(path, [])
        tables = _summaries.setdefault(path, [])
        number = len(tables)
        events += _launch_events(f"{kernel} #{number}", number, sites, records, seconds)
        tables.append(f"launch {number}: {summary(kernel, sites, records, dropped, lanes)}")
        document = {"traceEvents": events, "displayTimeUnit": "ns"}
        try:
            Path(path).write_text(json.dumps(document), encoding="utf-8")
            Path(path + ".txt").write_text("\n".join(tables), encoding="utf-8")
        except OSError as error:
            raise DeviceError(
                f"the trace cannot be written to TRITON_XE_TRACE={path}: {error.strerror}"
            ) from error


def _launch_events(
    name: str, number: int, sites: Mapping[int, Site], records: NDArray[np.int64], seconds: float
) -> list[dict[str, Any]]:
    """Events of one launch in Chrome's trace format; a program is a process, a warp a thread."""
    if not len(records):
        return []
    start, span = int(records[0, 0]), max(1, int(records[-1, 0] - records[0, 0]))
    scale = seconds * 1e6 / span
    found: list[dict[str, Any]] = []
    named: set[int] = set()
    ends: dict[int, float] = {}
    for time, who, line, a, b in reversed(records.tolist()):
        group, warp = who >> 32, who & 0xFFFFFFFF
        process = (number << 24) + group
        now = (time - start) * scale
        site = sites[line]
        found.append({
            "name": site.kind, "cat": name, "ph": "X", "ts": now, "pid": process, "tid": warp,
            "dur": max(0.0, min(ends.get(who, now + scale), now + 1.0) - now),
            "args": _arguments(site, a, b),
        })
        ends[who] = now
        if process not in named:
            named.add(process)
            found.append({"name": "process_name", "ph": "M", "pid": process,
                          "args": {"name": f"{name} work-group {group}"}})
    return found[::-1]


def _arguments(site: Site, a: int, b: int) -> dict[str, Any]:
    """Numbers of a message by their names: coordinates, lanes, bank passes or cache lines."""
    known: dict[str, Any] = {"source": site.location}
    if site.detail:
        known["shape"] = site.detail
    if site.kind.startswith("2D block"):
        known |= {"x": a, "y": b}
    elif site.kind.startswith("SLM"):
        known |= {"lanes": a, "bank passes": b}
    elif site.nbytes:
        known |= {"lanes": a, "cache lines": b}
    return known


def summary(
    kernel: str, sites: Mapping[int, Site], records: NDArray[np.int64], dropped: int, lanes: int
) -> str:
    """A table by kind of message: how often, bytes, lanes active, cache lines or bank passes.

    Efficiency is bytes asked for over bytes of the cache lines touched; block messages touch the
    lines of their rows only.  SLM passes above one are bank conflicts.
    """
    lines = [f"kernel {kernel}", f"{'message':28s} {'count':>9s} {'bytes':>12s} {'lanes':>6s} "
             f"{'line use':>8s} {'passes':>6s}"]
    kinds: dict[str, list[int]] = {}
    for line, site in sites.items():
        kinds.setdefault(site.kind, []).append(line)
    for kind in sorted(kinds):
        rows = records[np.isin(records[:, 2], kinds[kind])]
        if len(rows):
            lines.append(_row(kind, sites, rows, lanes))
    if dropped:
        lines.append(f"{dropped} more messages did not fit into the trace")
    return "\n".join(lines) + "\n"


def _row(
    kind: str, sites: Mapping[int, Site], rows: NDArray[np.int64], lanes: int
) -> str:
    """A row of the summary: messages of a kind, bytes, active lanes, use of cache lines, passes."""
    nbytes = np.array([sites[int(line)].nbytes for line in rows[:, 2]], np.int64)
    share = use = passes = ""
    if not nbytes.any():
        total = 0
    elif kind.startswith("2D block"):
        total = int(nbytes.sum())
    else:
        total = int((nbytes * rows[:, 3]).sum())
        share = f"{100 * rows[:, 3].mean() / lanes:.0f}%"
        if kind.startswith("SLM"):
            passes = f"{rows[:, 4].mean():.2f}"
        else:
            touched = int(rows[:, 4].sum()) * CACHE_LINE_BYTES
            use = f"{100 * min(1.0, total / touched):.0f}%" if touched else ""
    return f"{kind:28s} {len(rows):9d} {total:12d} {share:>6s} {use:>8s} {passes:>6s}"
