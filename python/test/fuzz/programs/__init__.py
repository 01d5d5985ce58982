"""Random programs with their answers: a kernel of a common kind, its tensors, the same in torch.

A program is the text of one Python file, drawn from its seed alone.  It ends with an error where
the device's numbers are wrong (`answers.check`).
"""

from collections.abc import Callable

from . import (
    atomics,
    attention,
    blocks,
    boxes,
    chains,
    gathers,
    graphs,
    products,
    rows,
    scaled,
    tiles,
)
from .draw import Draw

KINDS: dict[str, Callable[[Draw], str]] = {
    "tiles": tiles.program, "products": products.program, "attention": attention.program,
    "rows": rows.program, "gathers": gathers.program, "blocks": blocks.program,
    "chains": chains.program, "boxes": boxes.program, "scaled": scaled.program,
    "atomics": atomics.program, "graphs": graphs.program,
}
HEAD = """import torch
import triton
import triton.language as tl
from answers import POISON, check, moved, output, tensor

torch.manual_seed({seed})


"""


def program(kind: str, seed: str) -> str:
    """The program of this kind that belongs to the seed."""
    draw = Draw(f"{kind} {seed}")
    return HEAD.format(seed=draw.randrange(1 << 30)) + KINDS[kind](draw)
