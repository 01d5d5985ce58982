"""Format the report as one HTML file, which needs no server and no network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from triton_xe.model.time import EXPECTED_ERROR, Prediction
from triton_xe.tools.report import pictures
from triton_xe.tools.report.gathering import Report, Timed
from triton_xe.tools.report.stages import Stage

HERE = Path(__file__).parent
_LOCATION = re.compile(r" \(([^():]+):(\d+)\): ")
"""File and line in a remark."""
TERMS = {
    "xmx": "matrix unit", "fp": "fp pipe", "int": "integer pipe", "math": "maths pipe",
    "send": "messages", "l1": "L1", "slm": "shared local memory", "l2": "L2", "dram": "memory",
    "wait": "waiting for memory",
}
COUNTED = {
    "issued": "instructions", "dpas": "DPAS", "block_loads": "block loads",
    "block_stores": "block stores", "prefetches": "prefetches", "gathers": "gathers",
    "scatters": "scatters", "atomics": "atomics", "slm": "shared local memory",
    "barriers": "barriers", "moves": "moves", "spills": "spills", "fills": "fills",
}


def to_html(report: Report) -> str:
    """Return the page of a report."""
    sections = [
        _head(report), _section("What bounds it", _bound(report)),
        _section("Source and stages", _source_and_stages(report)),
        _section("Registers and instructions", _native(report)),
        _section("Remarks", _remarks(report)),
        _section("Sanitizer", _findings(report)),
        _section("Block messages of one subgroup", _blocks(report)),
        _section("Layouts", _layouts(report)),
    ]
    style, script = ((HERE / f"page.{kind}").read_text() for kind in ("css", "js"))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">'
        f"<title>{escape(report.kernel)} on {escape(report.product)}</title>\n"
        f"<style>\n{style}</style></head>\n<body>\n" + "\n".join(sections)
        + f"\n<script>\n{script}</script>\n</body></html>\n")


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{body}\n</section>"


def _head(report: Report) -> str:
    m = report.metadata
    options = f"{m['num_warps']} warps, {m['num_stages']} stages"
    return (f"<h1>{escape(report.kernel)} <span class=soft>on {escape(report.product)}</span></h1>"
            f"<div class=soft>{escape(report.file)}, {options}, "
            f"Triton {escape(str(m['triton_version']))}</div>")


# -- the time -------------------------------------------------------------------------------------


def _bound(report: Report) -> str:
    if report.timed is None:
        return "<p class=soft>No time: no launch was given (--grid or --script).</p>"
    prediction, launch = report.timed.prediction, report.timed.launch
    counted = " Instructions are those of the native code." * report.timed.is_exact
    guess = "" if report.timed.is_known else (
        " Loops, branches or addresses depend on data: they are estimated.")
    return (
        f"<p><b>{microseconds(prediction.us)} us predicted</b> for the grid "
        f"{' x '.join(map(str, launch.grid))}, expected error {EXPECTED_ERROR:.0%}; bound by "
        f"{TERMS[prediction.bound]}.{counted}{guess} <span class=soft>The launch itself takes "
        f"{microseconds(prediction.parts['launch'])} us of it. Each bar is the part of the time in "
        f"which the unit is busy.</span></p>\n"
        f"<div class=bars>{''.join(_bars(prediction))}</div>")


def _bars(prediction: Prediction) -> Iterator[str]:
    for name, busy in sorted(prediction.busy.items(), key=lambda pair: -pair[1]):
        if busy >= 0.001:
            width = min(100.0, 100 * busy)
            yield (f"<span>{TERMS[name]}</span><div class=bar><i style='width:{width:.1f}%'></i>"
                   f"</div><span>{busy:.0%}</span>")


def microseconds(us: float) -> str:
    """Format with three digits; times below 0.005 us are empty.

    >>> microseconds(1495.8), microseconds(28.24), microseconds(0.5), microseconds(0.00009)
    ('1,496', '28.2', '0.50', '')
    """
    if us < 0.005:
        return ""
    return f"{us:,.0f}" if us >= 100 else f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def quantity(value: float) -> str:
    """Format with three digits and the letter of a power of 1000.

    >>> quantity(1495.8), quantity(0.0312), quantity(4.84e9), quantity(0)
    ('1.50 k', '0.0312', '4.84 G', '0')
    """
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}" if value / size >= 10 else (
                f"{value / size:.2f}{letter}")
    return f"{value:.3g}"


# -- source and stages ----------------------------------------------------------------------------


def _source_and_stages(report: Report) -> str:
    buttons = "".join(f'<button data-stage="{s.name}">{s.name}</button>' for s in report.stages)
    stages = "".join(map(_stage, report.stages))
    return (f"<p class=soft>Point at a line to highlight the lines that it became or came from. "
            f"Click to scroll the other side to them."
            f"{_assembly_note(report)}{executed_text(report)}</p>"
            f"<div class=tabs role=tablist>{buttons}</div><div class=split>"
            f"<div class='pane code'>{_source(report)}</div>"
            f"<div class='pane code'>{stages}</div></div>")


def executed_text(report: Report) -> str:
    """Explain the column of executed instructions; empty without this column."""
    if report.executed is None:
        return ""
    total, rest = sum(report.executed.values()), report.executed.get(0, 0)
    return (f" Executed: instructions that threads of the emulated device ran for a line in all "
            f"launches. The total is {quantity(total)}; {quantity(rest)} have no line here.")


def _assembly_note(report: Report) -> str:
    """Explain why there is no assembly, or how it differs from that of a launch."""
    if report.why_not_native:
        return f" No assembly: {escape(report.why_not_native)}."
    return (" The assembly was compiled with line numbers for this page; these may change the "
            "order of instructions.")


def _source(report: Report) -> str:
    costs = ("us predicted", "bytes", "messages") if report.timed else ()
    columns = (*costs, *(("executed",) if report.executed is not None else ()))
    head = "".join(f"<th>{name}" for name in ("", *columns, ""))
    return f"<table><tr>{head}</tr>{''.join(_rows(report))}</table>"


def _rows(report: Report) -> Iterator[str]:
    before = 0
    for number, text in report.source:
        if before and number > before + 1:
            yield "<tr><td>&#8942;</td></tr>"
        before = number
        yield (f'<tr data-l="{number}"><td class=soft>{number}</td>{_costs(report.timed, number)}'
               f"{_executed(report, number)}"
               f"<td>{escape(text)}</td></tr>")


def _costs(timed: Timed | None, number: int) -> str:
    if timed is None:
        return ""
    cost = timed.lines.get(number)
    if cost is None:
        return "<td></td><td></td><td></td>"
    share = 100 * cost.us / timed.prediction.us
    values = (quantity(v) if v else "" for v in (cost.bytes, cost.messages))
    return (f"<td class=share><i style='width:{share:.1f}%'></i>{microseconds(cost.us)}</td>"
            + "".join(f"<td>{v}</td>" for v in values))


def _executed(report: Report, number: int) -> str:
    if report.executed is None:
        return ""
    count = report.executed.get(number, 0)
    return f"<td>{quantity(count) if count else ''}</td>"


def _stage(stage: Stage) -> str:
    lines = "".join(
        f'<div data-l="{n}">{escape(t)}</div>' if n else f"<div>{escape(t)}</div>"
        for t, n in stage.lines)
    return f'<div class=stage id="stage-{stage.name}">{lines}</div>'


# -- registers, remarks, findings, drawings -------------------------------------------------------


def _native(report: Report) -> str:
    if report.native is None:
        return f"<p class=soft>Not counted: {escape(report.why_not_native)}.</p>"
    figures = report.native
    spills = f"{figures.spill_size} bytes"
    rows = [("registers of a thread", str(figures.grf_count)),
            ("spilled", f"<b class=bad>{spills}</b>" if figures.spill_size else "nothing")]
    for title, counts in (("hot loop", figures.hot_loop), ("whole kernel", figures.whole)):
        present = ((getattr(counts, name), word) for name, word in COUNTED.items())
        rows.append((title, ", ".join(f"{count} {word}" for count, word in present if count)))
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in rows)}</dl>"


def _list(items: Iterable[str], none: str, kind: str = "") -> str:
    found = "".join(f"<li class='{kind}'>{escape(item)}</li>" for item in items)
    return f"<ul>{found}</ul>" if found else f"<p class=soft>{none}</p>"


def _remarks(report: Report) -> str:
    """List the remarks; one about a line of the kernel's file is linked with that line."""
    items = []
    for remark, count in Counter(report.metadata["remarks"]).items():
        location = _LOCATION.search(remark)
        is_here = location is not None and location[1] == Path(report.file).name
        line = f' data-l="{location[2]}"' if location is not None and is_here else ""
        items.append(f"<li{line}>{escape(remark)}{_times(count)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else "<p class=soft>none</p>"


def _times(count: int) -> str:
    return f" <span class=soft>({count} times)</span>" if count > 1 else ""


def _findings(report: Report) -> str:
    if not report.was_sanitized:
        return "<p class=soft>Not run (--script with --sanitize).</p>"
    return _list(report.findings, "Run, and nothing found.", "bad")


def _blocks(report: Report) -> str:
    drawn = Counter((pictures.caption(plan), pictures.block_picture(plan))
                    for plan in report.metadata["plan_summary"])
    figures = [f"<figure><figcaption>{escape(caption)}{_times(count)}</figcaption>"
               f"{picture}</figure>" for (caption, picture), count in drawn.items()]
    return f"<div class=cards>{''.join(figures)}</div>" if figures else (
        "<p class=soft>none</p>")


def _layouts(report: Report) -> str:
    found = [f"<figure><figcaption><code>{escape(title)}</code></figcaption>{picture}</figure>"
             for title, picture in pictures.layouts(list(report.texts.values()))]
    return f"<details><summary>{len(found)} layouts</summary><div class=cards>{''.join(found)}" \
           "</div></details>"
