"""Tiles that cover a shape."""

import pytest

from triton_xe.errors import LayoutError
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import cover


@pytest.mark.parametrize("size", [3, 12, 33])
def test_sizes_that_are_no_powers_of_two_are_refused(size: int) -> None:
    tile = LinearLayout.identity1d(16, "lane", "dim0")
    with pytest.raises(LayoutError, match="power of two"):
        cover(tile, (), (size,))
