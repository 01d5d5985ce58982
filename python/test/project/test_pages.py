"""Pages that are made from the code say what the code says."""

from pathlib import Path

import pytest

from triton_xe.tools import pages

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", pages.PAGES)
def test_made_pages(name):
    assert (DOCS / name).read_text() == pages.PAGES[name](), (
        "run: python -m triton_xe.tools.pages")


def test_every_argument_is_explained():
    rows = [line for line in pages.reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert [row for row in rows if row.endswith(("|  |", "| |"))] == []
    assert [row for row in rows if "| default:" in row or "| one of" in row] == []
