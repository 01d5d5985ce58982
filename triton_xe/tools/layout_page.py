"""Draw a layout as one HTML file: the tensor on a canvas, with registers and lanes on hover.

The page contains only the bases of the linear layout and computes the rest.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from triton_xe.layout import Encoding, to_linear_layout

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>layout</title>
<style>
 body {{ font: 14px ui-monospace, Menlo, Consolas, monospace; margin: 16px; color: #111; }}
 #owner {{ min-height: 3.2em; white-space: pre-wrap; }}
 canvas {{ image-rendering: pixelated; border: 1px solid #888; cursor: crosshair; }}
</style>
<p>{title}</p>
<p id="owner">move over an element; equal lanes and equal warps are shown with it</p>
<canvas id="map"></canvas>
<script>
const layout = {data};
{script}
</script>
</html>
"""

SCRIPT = """
const ins = Object.keys(layout.bases), shape = layout.shape;
const counts = ins.map(name => 1 << layout.bases[name].length);
const size = shape.reduce((a, b) => a * b, 1);
const rows = size / shape[shape.length - 1], columns = shape[shape.length - 1];
const owners = Array.from({length: size}, () => []);
const total = counts.reduce((a, b) => a * b, 1);
for (let slot = 0; slot < total; slot++) {
  let rest = slot, place = [], image = shape.map(() => 0);
  ins.forEach((name, i) => {
    const value = rest % counts[i]; rest = Math.floor(rest / counts[i]); place.push(value);
    layout.bases[name].forEach((basis, bit) => {
      if (value >> bit & 1) image = image.map((v, d) => v ^ basis[d]);
    });
  });
  owners[image.reduce((a, v, d) => a * shape[d] + v, 0)].push(place);
}
const first = (...names) => ins.indexOf(names.find(name => ins.includes(name)));
const group = first("warp", "offset", "col"), shade = first("lane", "offset", "row");
const cell = Math.max(2, Math.min(20, Math.floor(1100 / columns), Math.floor(900 / rows)));
const canvas = document.getElementById("map"), brush = canvas.getContext("2d");
canvas.width = columns * cell; canvas.height = rows * cell;
function colour(place) {
  const share = counts[shade] > 1 ? place[shade] / (counts[shade] - 1) : 0;
  const hue = ins.includes("warp") ? place[group] * 222.5 % 360 : share * 300;
  return `hsl(${hue} 62% ${86 - 30 * share}%)`;
}
function paint(chosen) {
  owners.forEach((places, element) => {
    const x = element % columns * cell, y = Math.floor(element / columns) * cell;
    brush.fillStyle = places.length ? colour(places[0]) : "#fff";
    brush.fillRect(x, y, cell, cell);
    if (!chosen) return;
    const warp = places.some(p => chosen.some(c => c[group] === p[group]));
    const lane = warp && places.some(
      p => chosen.some(c => c[group] === p[group] && c[shade] === p[shade]));
    if (warp && !lane) return;
    brush.fillStyle = lane ? "#000" : "rgba(255,255,255,0.65)";
    brush.fillRect(x, y, cell, cell);
  });
}
function coordinates(element) {
  const result = [];
  for (let d = shape.length - 1; d >= 0; d--) {
    result.unshift(element % shape[d]); element = Math.floor(element / shape[d]);
  }
  return `(${result.join(", ")})`;
}
let last = -1;
canvas.addEventListener("mousemove", event => {
  const x = Math.floor(event.offsetX / cell), y = Math.floor(event.offsetY / cell);
  const element = y * columns + x;
  if (element === last || !owners[element]) return;
  last = element;
  const lines = owners[element].slice(0, 8).map(
    place => ins.map((name, i) => counts[i] > 1 ? `${name} ${place[i]}` : "").filter(Boolean)
      .join(", "));
  const more = owners[element].length > 8 ? `\\nand ${owners[element].length - 8} more` : "";
  document.getElementById("owner").textContent =
    `${coordinates(element)}: ` + lines.join("\\n") + more;
  paint(owners[element]);
});
canvas.addEventListener("mouseleave", () => { last = -1; paint(null); });
paint(null);
"""


def write_html(encoding: Encoding, shape: tuple[int, ...], bits: int, path: Path) -> None:
    path.write_text(to_html(encoding, shape))


def to_html(encoding: Encoding, shape: tuple[int, ...]) -> str:
    """The page as text."""
    layout = to_linear_layout(encoding, shape)
    data = json.dumps({"bases": layout.bases, "shape": shape})
    title = escape(f"{encoding} on a tensor of {'x'.join(map(str, shape))}")
    return PAGE.format(title=title, data=data, script=SCRIPT)
