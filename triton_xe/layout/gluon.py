"""Gluon's placeholders for layouts that a pass still has to choose.

Source: `GluonAttrDefs.td` of triton 3.9.  No kernel is compiled before they are resolved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triton_xe.layout.encodings import NamedEncoding

_LATER = "is no layout yet: it is {}; look at the IR after that pass"


@dataclass(frozen=True)
class AutoEncoding(NamedEncoding):
    """Placeholder for a layout that is inferred from neighbouring operations."""

    mnemonic: ClassVar[str] = "gluon.auto_encoding"
    why: ClassVar[str] = _LATER.format(
        "inferred from neighbouring ops (gluon-resolve-auto-encodings)")


@dataclass(frozen=True)
class CoalescedEncoding(NamedEncoding):
    """Placeholder for a layout that makes loads and stores wide."""

    mnemonic: ClassVar[str] = "gluon.coalesced_encoding"
    why: ClassVar[str] = _LATER.format("chosen for wide accesses (gluon-infer-coalesced-encodings)")
