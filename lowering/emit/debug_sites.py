"""The places in a kernel that report to the host, as the host needs to know them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class DebugSites:
    """One entry per printed operand and per assertion; a record names its site by number.

    An entry is a JSON object: `what` ("print" or "assert"), `text`, `shape` (None for a scalar),
    `type`, `signed`, `hex`, `operand` (None when it is the only one), `where`.
    """

    sites: list[dict[str, Any]] = field(default_factory=list)

    def add(self, **site: Any) -> int:
        """The number of a new site."""
        self.sites.append(site)
        return len(self.sites) - 1
