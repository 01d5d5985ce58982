"""A kernel as LLVM IR text, with its cached host modules, and its parsed form if needed.

Host modules: `<cache>/simulator/<key>.host`, the key as in `jit` with the module, kernel and part.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from triton_xe.collector import paused_collector
from triton_xe.hardware.target import Target
from triton_xe.runtime import code_cache
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator.host_kernel import Form, HostKernel
from triton_xe.runtime.simulator.run.jit import object_key
from triton_xe.runtime.versions import entry_name
from triton_xe.spirv import attached_llvm_ir, is_spirv

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.run.kernel_module import KernelModule


@dataclass(frozen=True)
class KernelSource:
    """Kernel `name` of the LLVM module `text`, for one device."""

    text: str
    name: str
    target: Target

    @classmethod
    def from_binary(cls, binary: bytes, kernel_name: str, target: Target) -> KernelSource:
        """A kernel of a SPIR-V module that carries its LLVM IR, or of plain LLVM IR."""
        if not is_spirv(binary):
            return cls(binary.decode(), kernel_name, target)
        return cls(attached_llvm_ir(binary), entry_name(binary, kernel_name), target)

    @once
    def parsed(self) -> KernelModule:
        """The kernel in its module, which is not parsed if a host module is cached."""
        from triton_xe.runtime.simulator.run.kernel_module import KernelModule

        with paused_collector():
            return KernelModule.parse(self.text, self.name, self.target)

    def check(self) -> None:
        """Refuse a kernel that exceeds the device's lanes, work-items or shared local memory."""
        self.parsed.check()

    def read_cached(self, form: Form) -> HostKernel | None:
        """The cached host module of a form without checks; None if there is none."""
        found = code_cache.read(self._path(form))
        return None if found is None else _read(found)

    def translated(self, form: Form) -> HostKernel:
        """The host module of a form, from the cache if it is unchecked and cached."""
        if form.plan is not None:
            shuffled = form.is_shuffled and self.parsed.has_atomics
            return self.parsed.translated(replace(form, is_shuffled=shuffled))
        found = self.read_cached(form)
        if found is not None:
            return found
        made = self.parsed.translated(form)
        code_cache.write(self._path(form), _written(made))
        return made

    def _path(self, form: Form) -> Path:
        key = object_key("\0".join([self.target.name, self.name, self.text]), str(form))
        return code_cache.file("simulator", key, ".host")


def _written(host: HostKernel) -> bytes:
    """A line of JSON, then the text unencoded, because it is most of the bytes."""
    fields = asdict(host)
    text = fields.pop("text")
    return f"{json.dumps(fields)}\n{text}".encode()


def _read(data: bytes) -> HostKernel:
    head, _, text = data.decode().partition("\n")
    fields = json.loads(head) | {"text": text}
    for name in ("argument_types", "helpers", "work_group", "aligned"):
        fields[name] = tuple(fields[name])
    fields["locations"] = {int(line): text for line, text in fields["locations"].items()}
    return HostKernel(**fields)
