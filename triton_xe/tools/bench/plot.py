"""Format tables of predicted figures as text, and as a page of plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10

from triton_xe.model.time import EXPECTED_ERROR
from triton_xe.tools.bench.measuring import Series, Table

WIDTH, HEIGHT = 640, 360
LEFT, BOTTOM, TOP = 64, 36, 12
Scale = Callable[[float], float]
PREDICTED = f"predicted, expected error {EXPECTED_ERROR:.0%}"
STYLE = """:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fdfdfc; --line: #ccc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e4e0; --paper: #17181a; --line: #444; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 20px 24px; color: var(--ink);
  background: var(--paper); }
h2 { font-size: 15px; margin: 24px 0 4px; } svg text { fill: var(--ink); font-size: 11px; }
svg .axis { stroke: var(--line); } svg polyline { fill: none; stroke-width: 2; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { text-align: right; padding: 1px 10px; } th { font-weight: normal; }
.key { display: inline-block; width: 12px; height: 12px; margin: 0 6px 0 14px; }"""


def as_text(table: Table) -> str:
    """Format a table as text, with a column for each device and line."""
    rows = [[*table.x_names, *map(_title, table.series)]]
    for k, place in enumerate(table.x_values):
        rows.append([*map(str, place), *(_text(s.values[k]) for s in table.series)])
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    head = f"{table.plot} ({_unit(table)}{PREDICTED})"
    return "\n".join([head, *lines, *(f"  {note}" for note in table.notes)])


def _unit(table: Table) -> str:
    return f"{table.unit}, " if table.unit else ""


def _title(series: Series) -> str:
    return f"{series.device}: {series.name}" if series.name else series.device


def _text(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4g}"


def as_page(tables: Sequence[Table], file: str) -> str:
    """Format tables as one HTML file, with a plot for each; the page needs no network."""
    body = "".join(_section(t) for t in tables)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>{escape(file)}</title><style>\n{STYLE}\n</style></head><body>"
            f"<h1>{escape(file)}</h1>{body}</body></html>\n")


def _section(table: Table) -> str:
    key = "".join(f"<span class=key style='background:{_colour(k, table)}'></span>"
                  f"{escape(_title(s))}" for k, s in enumerate(table.series))
    head = "".join(f"<th>{escape(n)}</th>" for n in [*table.x_names, *map(_title, table.series)])
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in
                         [*map(str, place), *(_text(s.values[k]) for s in table.series)]) + "</tr>"
        for k, place in enumerate(table.x_values))
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    return (f"<h2>{escape(table.plot)}</h2><p>{escape(_unit(table))}{PREDICTED}{key}</p>"
            f"{to_svg(table)}<table><tr>{head}</tr>{rows}</table>{notes}")


def _colour(k: int, table: Table) -> str:
    return f"hsl({360 * k // len(table.series)} 65% 50%)"


def to_svg(table: Table) -> str:
    """Draw lines over the first name of the x axis."""
    xs = [float(place[0]) for place in table.x_values]
    ys = [v for s in table.series for v in s.values if v is not None and v == v]
    if not ys:
        return ""
    across = _scale(min(xs), max(xs), LEFT, WIDTH - 12, table.x_log)
    up = _scale(min(ys) if table.y_log else 0.0, max(ys) * 1.05, HEIGHT - BOTTOM, TOP, table.y_log)
    lines = []
    for k, series in enumerate(table.series):
        points = [(x, v) for x, v in zip(xs, series.values, strict=True) if v is not None]
        path = " ".join(f"{across(x):.1f},{up(v):.1f}" for x, v in points)
        dots = "".join(f"<circle cx='{across(x):.1f}' cy='{up(v):.1f}' r='3' fill='"
                       f"{_colour(k, table)}'><title>{escape(_title(series))}: {v:.4g}</title>"
                       "</circle>" for x, v in points)
        lines.append(f"<polyline points='{path}' stroke='{_colour(k, table)}'/>{dots}")
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}'>"
            f"{''.join(_axes(xs, ys, across, up, table))}{''.join(lines)}</svg>")


def _scale(low: float, high: float, start: float, end: float, log: bool) -> Scale:
    """Function from values to positions in the drawing."""
    def measure(value: float) -> float:
        return log10(max(value, 1e-30)) if log else value

    first, span = measure(low), (measure(high) - measure(low)) or 1.0
    return lambda value: start + (measure(value) - first) / span * (end - start)


def _axes(
    xs: Sequence[float], ys: Sequence[float], across: Scale, up: Scale, table: Table
) -> Iterator[str]:
    yield (f"<line class=axis x1='{LEFT}' x2='{WIDTH - 12}' y1='{HEIGHT - BOTTOM}' "
           f"y2='{HEIGHT - BOTTOM}'/>")
    for k in range(5):
        value = max(ys) * k / 4 if not table.y_log else min(ys) * (max(ys) / min(ys)) ** (k / 4)
        yield (f"<line class=axis x1='{LEFT}' x2='{WIDTH - 12}' y1='{up(value):.1f}' "
               f"y2='{up(value):.1f}' stroke-dasharray='2 4'/><text x='{LEFT - 6}' "
               f"y='{up(value) + 4:.1f}' text-anchor='end'>{value:.3g}</text>")
    for x in dict.fromkeys([xs[0], xs[len(xs) // 2], xs[-1]]):
        anchor = "end" if x == xs[-1] else "middle"
        yield (f"<text x='{across(x):.1f}' y='{HEIGHT - BOTTOM + 16}' text-anchor='{anchor}'>"
               f"{x:.4g}</text>")
    yield (f"<text x='{(LEFT + WIDTH) / 2}' y='{HEIGHT - 4}' text-anchor='middle'>"
           f"{escape(table.x_names[0])}</text>")
