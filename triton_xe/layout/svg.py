"""The parts of SVG pictures."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

FONT = "font-family='ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace'"


def document(width: float, height: float, body: Iterable[str]) -> str:
    """A complete picture on white."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}'>\n"
        "<rect width='100%' height='100%' fill='white'/>\n"
        + "\n".join(body) + "\n</svg>\n"
    )


def rect(
    x: float, y: float, width: float, height: float, fill: str, stroke: str = "",
    stroke_width: float = 1, hover: str = "",
) -> str:
    """A rectangle; `hover` is its tooltip."""
    line = f" stroke='{stroke}' stroke-width='{stroke_width}'" if stroke else ""
    title = f"<title>{escape(hover)}</title>" if hover else ""
    return (
        f"<rect x='{x:.2f}' y='{y:.2f}' width='{width:.2f}' height='{height:.2f}' fill='{fill}'"
        f"{line}>{title}</rect>"
    )


def text(
    x: float, y: float, words: str, size: float, anchor: str = "start", colour: str = "#111"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size:.1f}' {FONT} text-anchor='{anchor}' "
        f"fill='{colour}' xml:space='preserve'>{escape(words)}</text>"
    )
