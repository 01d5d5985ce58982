"""The supported versions of Triton, and all differences between them.

Code that uses a name of Triton's which only some versions have calls `installed()` and decides by
its field.  A version that is not in the table is not used, because its differences are not known.

Older spellings in TTGIR (hints of a load or store as clauses, up to 3.8) are read in every version,
by `triton_xe.dialects.tt.memory`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from triton_xe.errors import UnsupportedError


class TritonVersion(NamedTuple):
    """One minor version, described by its differences from the newest.

    It is a named tuple, because every `import triton` creates this class, and a dataclass takes
    five times as long.
    """

    number: tuple[int, int]
    decides_fp_fusion: bool = True
    """`knobs.language.fp_fusion_enabled` exists; older versions have `default_fp_fusion` alone."""
    has_fp_sanitizer: bool = True
    """`passes.ttgpuir.add_fp_sanitizer` exists."""
    sanitizes_casts: bool = True
    """`add_fp_sanitizer` and `add_remove_layout_conversions` take a second argument."""
    has_block_pointers: bool = False
    """Block pointers are operations, which `add_rewrite_tensor_pointer` converts to pointers."""

    def __str__(self) -> str:
        return ".".join(map(str, self.number))


VERSIONS = (
    TritonVersion((3, 7), decides_fp_fusion=False, has_fp_sanitizer=False, sanitizes_casts=False,
                  has_block_pointers=True),
    TritonVersion((3, 8), decides_fp_fusion=False, sanitizes_casts=False),
    TritonVersion((3, 9)),
)
"""Supported versions, oldest first."""
NEWEST = VERSIONS[-1]


def minor_version(text: str) -> tuple[int, ...]:
    """Major and minor number.

    >>> minor_version("3.9.1+git123")
    (3, 9)
    """
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def find(text: str) -> TritonVersion | None:
    """The facts of a version by its full name; None if not supported."""
    return next((v for v in VERSIONS if v.number == minor_version(text)), None)


@cache
def installed() -> TritonVersion:
    """The facts of this process's Triton; `UnsupportedError` if not supported."""
    import triton

    known = find(triton.__version__)
    if known is None:
        raise UnsupportedError(f"Triton {triton.__version__} is not one of {span()}; `triton-xe "
                               "setup` installs one that is")
    return known


def span() -> str:
    """The range of supported versions, for messages.

    >>> span()
    '3.7 to 3.9'
    """
    return f"{VERSIONS[0]} to {NEWEST}"
