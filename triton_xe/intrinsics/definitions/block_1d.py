"""1D blocks between memory and registers: element e of lane l is number e * S + l in memory."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Values = NDArray[Any]


def block_read(memory: Values, start: int, elements: int, lanes: int) -> Values:
    return memory[start : start + elements * lanes]


def block_write(memory: Values, start: int, image: Values) -> None:
    memory[start : start + image.size] = image
