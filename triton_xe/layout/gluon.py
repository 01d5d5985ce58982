"""Gluon's marks for layouts that a pass still has to choose.

`GluonAttrDefs.td` of triton 3.9; no kernel is compiled before they are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triton_xe.layout.encodings import NamedEncoding

_LATER = "is no layout yet: it is {}; look at the IR after that pass"


@dataclass(frozen=True)
class AutoEncoding(NamedEncoding):
    """To be found from the neighbouring operations."""

    mnemonic: ClassVar[str] = "gluon.auto_encoding"
    why: ClassVar[str] = _LATER.format(
        "inferred from neighbouring ops (gluon-resolve-auto-encodings)")


@dataclass(frozen=True)
class CoalescedEncoding(NamedEncoding):
    """To be chosen so that loads and stores are wide."""

    mnemonic: ClassVar[str] = "gluon.coalesced_encoding"
    why: ClassVar[str] = _LATER.format("chosen for wide accesses (gluon-infer-coalesced-encodings)")
