"""What the documents say of the hardware is what the tables say."""

from __future__ import annotations

from pathlib import Path

from triton_xe.hardware.block_2d import surface_rules
from triton_xe.hardware.target import TARGETS, Target

ROOT = Path(__file__).parents[3]


def row(device: Target) -> str:
    cells = (
        f"`{device.name}`", device.architecture, device.product,
        ".".join(map(str, device.ip_version)), device.subgroup_size, device.grf_bytes,
        f"{device.max_slm_bytes >> 10} KiB", device.dpas_execution_size or "none",
        *("yes" if has else "no" for has in (device.has_block_2d, device.has_fp64)),
    )
    return f"| {' | '.join(map(str, cells))} |"


def test_the_table_of_devices() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    rows = "\n".join(row(device) for device in TARGETS.values())
    assert rows in text, f"docs/architecture.md needs these rows:\n{rows}"


def test_the_rules_of_surfaces() -> None:
    text = " ".join((ROOT / "docs/architecture.md").read_text().split())
    rules = ", ".join(map(str, surface_rules(16, 2)))
    assert rules in text, f"docs/architecture.md needs this sentence:\n{rules}"


def test_lanes_in_the_glossary() -> None:
    narrow = " and ".join(t.name for t in TARGETS.values() if t.subgroup_size == 8)
    assert f"16 (8 on {narrow.replace(' and ', ', ', 1)}) work-items" in (
        ROOT / "docs/glossary.md").read_text()
