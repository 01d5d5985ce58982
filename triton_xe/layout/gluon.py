"""Gluon's marks for layouts that a pass still has to choose.

`GluonAttrDefs.td` of triton 3.9; no kernel is compiled before they are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from triton_xe.errors import LayoutError
from triton_xe.layout.encodings import Encoding
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import Shape


class UnresolvedEncoding(Encoding):
    """Says who will choose the layout, not which it is; fits tensors of any rank."""

    chosen_by: ClassVar[str]

    @property
    def rank(self) -> int:
        return 0

    def parameters(self) -> Iterable[tuple[str, str]]:
        return ()

    def __str__(self) -> str:
        return f"#{self.mnemonic}"

    def linear_layout(self, shape: Shape) -> LinearLayout:
        raise LayoutError(
            f"#{self.mnemonic} is no layout yet: {self.chosen_by}; look at the IR after that pass"
        )


@dataclass(frozen=True)
class AutoEncoding(UnresolvedEncoding):
    """To be found from the neighbouring operations."""

    mnemonic: ClassVar[str] = "gluon.auto_encoding"
    chosen_by: ClassVar[str] = "it is inferred from neighbouring ops (gluon-resolve-auto-encodings)"


@dataclass(frozen=True)
class CoalescedEncoding(UnresolvedEncoding):
    """To be chosen so that loads and stores are wide."""

    mnemonic: ClassVar[str] = "gluon.coalesced_encoding"
    chosen_by: ClassVar[str] = "it is chosen for wide accesses (gluon-infer-coalesced-encodings)"
