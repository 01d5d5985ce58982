"""Base class of the compiler's passes.

    xdsl-opt kernel.ttgir -p 'find-surfaces,assign-layouts,convert-to-xetile{num-stages=3}'

A pass reads the device (`ttg.target = "xpu:bmg"`) and the subgroups from the module.  The option
`target` gives the device of a module without one.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from triton_xe.hardware.target import Target
from triton_xe.lowering.module_facts import set_target


@dataclass(frozen=True)
class TargetedPass(ModulePass):
    """A pass for one device."""

    target: str = "bmg"

    def device(self, module: ModuleOp) -> Target:
        """The module's device; noted in the module."""
        return set_target(module, self.target)
