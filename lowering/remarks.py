"""What passes decided, for people: one line per load, store or dot."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation


@dataclass
class Remarks:
    """Lines in the order of the decisions; they reach the kernel's metadata."""

    lines: list[str] = field(default_factory=list)

    def add(self, op: Operation, text: str) -> None:
        self.lines.append(f"{op.name}: {text}")
