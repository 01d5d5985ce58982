"""MLIR attribute text -> encoding, with the column of every mistake.

>>> parse_encoding("#ttg.slice<{dim = 1, parent = #blocked}>", {"#blocked":
...     "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 8], warpsPerCTA = [1, 1],"
...     " order = [1, 0]}>"}).dim
1
>>> parse_encoding("#ttg.slice<{dim = x}>")
Traceback (most recent call last):
    ...
triton_xe.errors.LayoutError: column 19: expected a number, '[', '{', '#', true or false, found 'x'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from triton_xe.layout.attribute_text import AttributeReader, Builder
from triton_xe.layout.dpas import DpasEncoding
from triton_xe.layout.encodings import Encoding


def parse_encoding(text: str, aliases: Mapping[str, str] | None = None) -> Encoding:
    """Parse an encoding; `LayoutError` names the column and what was expected there.

    `aliases` maps `#name` to attribute text, as the head of a ttgir file does (`read_aliases`).
    """
    found: Encoding = AttributeReader(text, aliases or {}, _builders()).whole()
    return found


def read_aliases(ttgir: str) -> dict[str, str]:
    """The `#name = #attribute` lines of an MLIR file."""
    return dict(re.findall(r"^(#[\w$-]+)\s*=\s*(#.*?)\s*$", ttgir, re.MULTILINE))


@cache
def _builders() -> Mapping[str, Builder]:
    """Mnemonic -> function that builds the encoding; Intel's names of `xe.dpas` are read too."""
    kinds = [kind for kind in Encoding.kinds.values() if hasattr(kind, "mnemonic")]
    intel = dict.fromkeys(("ttig.dpas", "triton_intel_gpu.dpas"), DpasEncoding.read)
    return {kind.mnemonic: kind.read for kind in kinds} | intel
