"""Description of a kernel's threads and arguments in a native binary (`.ze_info`).

Format: Intel compute runtime, `zebin/zeinfo.h`; IGC writes YAML in a fixed block style.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_xe.errors import DeviceError
from triton_xe.runtime.level_zero.zebin import ze_info

Fields = Mapping[str, str]
_ENTRY = re.compile(r"(\s*)(- )?(\w+):[ \t]*(.*)$")


@dataclass(frozen=True)
class Argument:
    """A part of the payload that a launch fills in; sizes and offsets in bytes."""

    kind: str
    offset: int
    size: int
    index: int = -1
    source_offset: int = 0
    is_bindless: bool = False
    """True for a pointer that is passed as the number of a surface."""


@dataclass(frozen=True)
class KernelInfo:
    """How the hardware has to start the threads of a kernel."""

    name: str
    simd: int
    inline_bytes: int
    slm_bytes: int
    barriers: int
    grf_count: int
    scratch_bytes: int
    """Scratch memory of each thread."""
    spill_bytes: int
    """Spilled registers of each thread, in scratch memory."""
    work_group: tuple[int, int, int] | None
    """Required size of a work-group in work-items."""
    arguments: tuple[Argument, ...]
    per_thread: tuple[Argument, ...]
    """Local ids that are part of each thread's payload."""


def kernel_info(binary: bytes, kernel: str) -> KernelInfo:
    """The facts of one kernel."""
    block = _block(ze_info(binary), kernel)
    sections: dict[str, list[dict[str, str]]] = {}
    for section, fields in _entries(block):
        sections.setdefault(section, []).append(fields)
    environment = sections.get("execution_env", [{}])[0]

    def number(name: str) -> int:
        return int(environment.get(name, 0))

    scratch = sum(int(each["size"]) for each in sections.get("per_thread_memory_buffers", ())
                  if each["type"] == "scratch")
    return KernelInfo(
        kernel, number("simd_size"), number("inline_data_payload_size"), number("slm_size"),
        number("barrier_count"), number("grf_count"), scratch, number("spill_size"),
        _work_group(environment),
        tuple(map(_argument, sections.get("payload_arguments", ()))),
        tuple(map(_argument, sections.get("per_thread_payload_arguments", ()))))


def _block(text: str, kernel: str) -> str:
    """The lines about one kernel."""
    found = re.search(
        rf"^  - name:\s*'?{re.escape(kernel)}'?\s*$(.*?)(?=^  - name:|^\S|\Z)", text,
        re.MULTILINE | re.DOTALL)
    if found is None:
        raise DeviceError(f".ze_info of the native binary does not describe kernel {kernel}")
    return found[1]


def _entries(block: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each mapping of the kernel with the name of its section; list entries one by one."""
    section, fields = "", dict[str, str]()
    for line in block.splitlines():
        match = _ENTRY.match(line)
        if match is None:
            continue
        indent, starts, key, value = match.groups()
        if (not value and len(indent) <= 4) or starts:
            if fields:
                yield section, fields
            fields = {}
        if not value and len(indent) <= 4:
            section = key
        else:
            fields[key] = value.strip().strip("'")
    if fields:
        yield section, fields


def _argument(fields: Fields) -> Argument:
    return Argument(
        fields["arg_type"], int(fields.get("offset", 0)), int(fields.get("size", 0)),
        int(fields.get("arg_index", -1)), int(fields.get("source_offset", 0)),
        fields.get("addrmode") == "bindless")


def _work_group(environment: Fields) -> tuple[int, int, int] | None:
    text = environment.get("required_work_group_size")
    if text is None:
        return None
    x, y, z = (int(part) for part in re.findall(r"\d+", text))
    return x, y, z
