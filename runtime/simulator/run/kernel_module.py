"""A kernel in its LLVM module: queries about it, and its translation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from triton_xe import llvm as ir
from triton_xe.hardware.target import Target
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator import pipeline
from triton_xe.runtime.simulator.analysis import kernel_sizes
from triton_xe.runtime.simulator.analysis.guards import part_of
from triton_xe.runtime.simulator.analysis.provenance import (
    NOWHERE,
    Roots,
    pointer_roots,
    stored_to,
)
from triton_xe.runtime.simulator.analysis.waits import changes
from triton_xe.runtime.simulator.host_kernel import Form, HostKernel, Part
from triton_xe.runtime.simulator.rewrites.inline_helpers import inline_visa_functions
from triton_xe.runtime.simulator.rewrites.lsc import plain_accesses
from triton_xe.runtime.simulator.sanitizer.definedness import loads_global


@dataclass(frozen=True)
class KernelModule:
    """Kernel `name` of a module, for one device."""

    module: ir.Module
    name: str
    target: Target

    @classmethod
    def parse(cls, text: str, name: str, target: Target) -> KernelModule:
        """Parse a module, with the rewrites that all forms of the kernel need."""
        module = inline_visa_functions(parse_module(canonical(text)))
        return cls(plain_accesses(module, target), name, target)

    @property
    def function(self) -> ir.Function:
        return kernel_sizes.find_kernel(self.module, self.name)

    @once
    def has_known_guards(self) -> bool:
        """True if a checked launch can leave out some of its fallbacks."""
        return part_of(self.function, Part.GUARDS) is not None

    @once
    def has_atomics(self) -> bool:
        """True if its results may legitimately depend on the order of its programs."""
        return changes(self.function, self.module.functions)

    @once
    def read_arguments(self) -> frozenset[int]:
        """Arguments whose memory it loads from."""
        return self._arguments(lambda i: i.operands[:1] if loads_global(i) else ())

    @once
    def written_arguments(self) -> frozenset[int]:
        """Arguments whose memory it stores to."""
        return self._arguments(stored_to)

    def _arguments(self, addresses: Callable[[ir.Instruction], Iterable[ir.Operand]]) -> Roots:
        """Arguments that certain addresses of instructions come from."""
        roots = pointer_roots(self.function)
        return NOWHERE.union(*(roots.get(address.local or "", NOWHERE)
                               for i in self.function.instructions() for address in addresses(i)))

    @once
    def argument_types(self) -> tuple[str, ...]:
        return kernel_sizes.argument_types(self.function)

    def check(self) -> None:
        kernel_sizes.sizes(self.module, self.function, self.target)
        kernel_sizes.check_slm(self.module, self.name, self.target)

    def translated(self, form: Form) -> HostKernel:
        return pipeline.translate(self.module, self.name, self.target, form)
