"""A kernel as LLVM IR text: its host modules, kept on disk, and its parsed form when needed.

Host modules: `<cache>/simulator/<key>.json`, the key as in `jit` with the module, kernel and part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import llvmlite.binding as llvm

from triton_xe.errors import DeviceError
from triton_xe.hardware.target import Target
from triton_xe.runtime import code_cache
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.guards import Part, part_of
from triton_xe.runtime.simulator.analysis.provenance import (
    NOWHERE,
    Roots,
    pointer_roots,
    stored_to,
)
from triton_xe.runtime.simulator.analysis.waits import changes
from triton_xe.runtime.simulator.ir.parser import parse_module
from triton_xe.runtime.simulator.rewrites.inline_helpers import without_halves
from triton_xe.runtime.simulator.rewrites.lsc import plain_accesses
from triton_xe.runtime.simulator.run.jit import object_key
from triton_xe.runtime.simulator.sanitizer.definedness import loads_global
from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
from triton_xe.runtime.simulator.widen.host import (
    HostKernel,
    argument_types,
    check_slm,
    find_kernel,
    sizes,
    translate,
)
from triton_xe.runtime.versions import entry_name
from triton_xe.spirv import attached_llvm_ir, is_spirv


@dataclass(frozen=True)
class KernelSource:
    """Kernel `name` of the LLVM module `text`, for one device."""

    text: str
    name: str
    target: Target

    @classmethod
    def of(cls, binary: bytes, kernel_name: str, target: Target) -> KernelSource:
        """A kernel of a SPIR-V module that carries its LLVM IR, or of plain LLVM IR."""
        if not is_spirv(binary):
            return cls(binary.decode(), kernel_name, target)
        return cls(attached_llvm_ir(binary), entry_name(binary, kernel_name), target)

    @once
    def module(self) -> ir.Module:
        module = without_halves(parse_module(canonical(self.text)))
        return plain_accesses(module, self.target)

    @once
    def has_known_guards(self) -> bool:
        """Whether it has fallbacks that a checked launch can do without."""
        return part_of(find_kernel(self.module, self.name), Part.GUARDS) is not None

    @once
    def has_atomics(self) -> bool:
        """Whether what it does may depend on the order of its programs, if it is right."""
        return changes(find_kernel(self.module, self.name), self.module.functions)

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
        function = find_kernel(self.module, self.name)
        roots = pointer_roots(function)
        return NOWHERE.union(*(roots.get(address.local or "", NOWHERE)
                               for i in function.instructions() for address in addresses(i)))

    @once
    def argument_types(self) -> tuple[str, ...]:
        return argument_types(find_kernel(self.module, self.name))

    def check(self) -> None:
        """Refuse what the device cannot hold: lanes, work-items, shared local memory."""
        sizes(self.module, find_kernel(self.module, self.name), self.target)
        check_slm(self.module, self.name, self.target)

    def kept(self, how: str) -> HostKernel | None:
        """The host module of an unchecked part, if it was made before."""
        found = code_cache.read(self._path(how))
        return None if found is None else _read(found)

    def translated(
        self, part: Part, sanitizer: Instrumentation | None = None, *, shuffled: bool = False,
        in_step: bool = False, arguments: Sequence[int] = (),
    ) -> HostKernel:
        """The host module of a part; that of an unchecked one comes from the cache if it can.

        One in step has a version for these `arguments`, of which integers count.
        """
        if sanitizer is not None:
            return translate(self.module, self.name, self.target, part=part, sanitizer=sanitizer,
                             shuffled=shuffled and self.has_atomics)
        how = f"in step {arguments}" if in_step else "shuffled" if shuffled else part.value
        found = self.kept(how)
        if found is not None:
            return found
        made = translate(self.module, self.name, self.target, part=part, shuffled=shuffled,
                         in_step=in_step, arguments=arguments)
        code_cache.write(self._path(how), _written(made))
        return made

    def _path(self, how: str) -> Path:
        key = object_key("\0".join([self.target.name, self.name, self.text]), how)
        return code_cache.file("simulator", key, ".json")


def _written(host: HostKernel) -> bytes:
    return json.dumps(asdict(host)).encode()


def _read(data: bytes) -> HostKernel:
    fields = json.loads(data)
    for name in ("argument_types", "helpers", "work_group"):
        fields[name] = tuple(fields[name])
    fields["locations"] = {int(line): text for line, text in fields["locations"].items()}
    return HostKernel(**fields)


def canonical(text: str) -> str:
    """The module as LLVM prints it, verified; `DeviceError` when it is no valid LLVM IR."""
    llvm.initialize_native_target()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise DeviceError(f"the kernel's LLVM module is not valid: {error}") from None
    return str(module)
