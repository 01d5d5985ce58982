"""Dialects and passes of this project for `xdsl-opt`, through the entry point `xdsl.universe`."""

from __future__ import annotations

from xdsl.universe import Universe

from triton_xe.dialects import OWN_DIALECTS
from triton_xe.lowering.pipeline import PASSES

UNIVERSE = Universe(all_dialects=OWN_DIALECTS, all_passes=PASSES)
