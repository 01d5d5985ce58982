"""Reuse the text of a module in which passes changed only the module's own attributes."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from triton_xe.dialects.text.writer import write_module

Snapshot = list[Any]
_HEAD = "builtin.module"


def snapshot(module: ModuleOp) -> Snapshot:
    """List all that a module's text depends on, except its own attributes.

    Two snapshots are equal if the text is.
    """
    taken: Snapshot = []
    for op in module.body.block.ops:
        _take(op, taken)
    return taken


def _take(op: Operation, taken: Snapshot) -> None:
    taken += (op, op.location, *op.operands, *op.successors, dict(op.attributes),
              dict(op.properties))
    for result in op.results:
        taken += result.type, result.name_hint
    for region in op.regions:
        for block in region.blocks:
            taken.append(block)
            for arg in block.args:
                taken += arg.type, arg.name_hint, arg.location
            for inner in block.ops:
                _take(inner, taken)


def with_head(text: str, module: ModuleOp) -> str | None:
    """Replace the module's attributes in its earlier text by its current ones.

    None if an attribute is printed as an alias.
    """
    head, _, rest = write_module(ModuleOp([], module.attributes, module.sym_name)).partition("\n")
    if not head.startswith(_HEAD) or rest.strip() != "}":
        return None
    at = 0 if text.startswith(_HEAD) else text.index("\n" + _HEAD) + 1
    return text[:at] + head + text[text.index("\n", at) :]
