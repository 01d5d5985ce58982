"""Cache hints of XeGPU (and XeTile) accesses: L1_hint, L2_hint, L3_hint."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import opt_prop_def
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import STORE_HINTS, CacheHintAttr
from triton_xe.dialects.text.tile_syntax import RESERVED, UsualSyntax

HINTS = ("L1_hint", "L2_hint", "L3_hint")
_CODES = {
    "cached": "ca", "uncached": "uc", "streaming": "st", "read_invalidate": "ri",
    "write_through": "wt", "write_back": "wb",
}  # fmt: skip


@lru_cache(maxsize=16)
def cache_hint(keyword: str) -> CacheHintAttr:
    return CacheHintAttr(keyword)


def hint_properties() -> tuple[Any, Any, Any]:
    """The three properties, in the order of the cache levels."""
    one, two, three = (opt_prop_def(CacheHintAttr, prop_name=name) for name in HINTS)
    return one, two, three


class HintedOp(UsualSyntax):
    """An access with cache hints; `ALLOWED_HINTS` are those of its direction."""

    ALLOWED_HINTS: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def hints(l1: str | None, l2: str | None, l3: str | None) -> dict[str, Attribute]:
        """The properties of the hints that are given."""
        given = zip(HINTS, (l1, l2, l3), strict=True)
        return {name: cache_hint(hint) for name, hint in given if hint is not None}

    @property
    def cache_hints(self) -> tuple[str | None, str | None, str | None]:
        """Hints for L1, L2 and L3; None where the hardware decides."""
        one, two, three = (self.properties.get(name) for name in HINTS)
        return _keyword(one), _keyword(two), _keyword(three)

    @property
    def cache_policy(self) -> str:
        """The hints as the policy that `hardware.block_2d.cache_code` knows, such as "uc.ca".

        "default" without hints.  Messages have codes for L1 and L3: L2_hint counts where L3_hint
        is missing, and a level without a hint caches (loads) or writes back (stores).
        """
        l1, l2, l3 = self.cache_hints
        if l1 is None and l2 is None and l3 is None:
            return "default"
        outer = l3 or l2
        if l1 == "read_invalidate" and outer is None:
            return "ri"
        usual = "write_back" if self.ALLOWED_HINTS is STORE_HINTS else "cached"
        return f"{_CODES[l1 or usual]}.{_CODES[outer or usual]}"

    def verify_hints(self) -> None:
        """Refuse hints of the other direction, and what only other accesses can do."""
        for name in RESERVED & self.attributes.keys():
            raise VerifyException(f"{self.name} has no {name}")
        for name, hint in zip(HINTS, self.cache_hints, strict=True):
            if hint is not None and hint not in self.ALLOWED_HINTS:
                raise VerifyException(
                    f"{self.name}: {name} is one of {', '.join(self.ALLOWED_HINTS)}, not {hint}"
                )


def _keyword(attr: Attribute | None) -> str | None:
    return attr.data if isinstance(attr, CacheHintAttr) else None
