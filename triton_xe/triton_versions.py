"""The versions of Triton that the plugin works with, and all that differs between them.

Who uses a name of Triton's that only some versions have asks `installed()` and decides by its
field.  A version that is not in the table is not used at all: what it does otherwise is not known.

What the TTGIR of older versions spells otherwise (hints of a load or store as clauses, up to 3.8)
is read in every version, by `triton_xe.dialects.tt.memory`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from triton_xe.errors import UnsupportedError


class TritonVersion(NamedTuple):
    """One minor version, by how it differs from the newest.

    A named tuple: every `import triton` makes this class, and a dataclass takes five times as long.
    """

    number: tuple[int, int]
    decides_fp_fusion: bool = True
    """`knobs.language.fp_fusion_enabled`; else `default_fp_fusion` alone."""
    has_fp_sanitizer: bool = True
    """`passes.ttgpuir.add_fp_sanitizer`."""
    sanitizes_casts: bool = True
    """It, and `add_remove_layout_conversions`, take a second argument."""
    has_block_pointers: bool = False
    """Block pointers are operations, which `add_rewrite_tensor_pointer` turns into pointers."""

    def __str__(self) -> str:
        return ".".join(map(str, self.number))


VERSIONS = (
    TritonVersion((3, 7), decides_fp_fusion=False, has_fp_sanitizer=False, sanitizes_casts=False,
                  has_block_pointers=True),
    TritonVersion((3, 8), decides_fp_fusion=False, sanitizes_casts=False),
    TritonVersion((3, 9)),
)
"""Oldest first."""
NEWEST = VERSIONS[-1]


def minor_version(text: str) -> tuple[int, ...]:
    """Major and minor number.

    >>> minor_version("3.9.1+git123")
    (3, 9)
    """
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def of(text: str) -> TritonVersion | None:
    """The facts of a version by its full name; None where they are not known."""
    return next((v for v in VERSIONS if v.number == minor_version(text)), None)


@cache
def installed() -> TritonVersion:
    """The facts of this process's Triton; `UnsupportedError` where they are not known."""
    import triton

    known = of(triton.__version__)
    if known is None:
        raise UnsupportedError(f"Triton {triton.__version__} is not one of {span()}; `triton-xe "
                               "setup` installs one that is")
    return known


def span() -> str:
    """The range for people.

    >>> span()
    '3.7 to 3.9'
    """
    return f"{VERSIONS[0]} to {NEWEST}"
