"""A recorded launch: `launch.json`, the kernel's module, and the memory of its arguments.

    launch.json    the fields of `Recording`
    module.spv     the module that was launched (module.zebin: native code)
    general.spv    its general version, if the launch used that
    kernel.py      the kernel's source
    before.zip     the blocks of memory before the launch, by number
    after.zip      the blocks that the launch changed, after it
    unwritten.zip  for checked programs: 0xff for each byte that was never written
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from triton_xe.errors import DeviceError
from triton_xe.runtime.arguments import ELEMENTS
from triton_xe.runtime.device import MemoryBlock

LAUNCH, SOURCE = "launch.json", "kernel.py"
BEFORE, AFTER, UNWRITTEN = "before.zip", "after.zip", "unwritten.zip"
MODULES = {"spirv": "module.spv", "zebin": "module.zebin"}
GENERAL = "general.spv"
FORMAT = 1
Made = TypeVar("Made")


@dataclass(frozen=True)
class View:
    """The elements of a tensor, from its address on; steps in bytes."""

    dtype: str
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    itemsize: int


@dataclass(frozen=True)
class Argument:
    """One argument of the launch: `type` is ptr, i1, i8, ... f64, `triton` is Triton's type.

    The value of a pointer, or of an integer that is one, is its address during the recording.
    `extent` is the memory around it that kernels may use.  `block` is the number of the recorded
    block that contains it; None for a null pointer, or if the memory is unknown.
    """

    name: str
    type: str
    triton: str
    value: int | float
    block: int | None = None
    extent: tuple[int, int] = (0, 0)
    view: View | None = None


def elements_of(argument: Argument, block: MemoryBlock) -> View:
    """The elements of an argument: its tensor's, or all from its address to the end of the
    block.
    """
    if argument.view is not None:
        return argument.view
    dtype, size = ELEMENTS.get(argument.triton.removeprefix("*"), ("uint8", 1))
    return View(dtype, ((block.high - int(argument.value)) // size,), (size,), size)


@dataclass(frozen=True)
class Words:
    """Numbers in memory that are addresses in recorded blocks, at byte `offsets` of a block."""

    block: int
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """The properties that all launches of a kernel share."""

    kernel: str
    target: str
    kind: str
    build_flags: str
    subgroup_size: int
    group_size: tuple[int, int, int]
    metadata: dict[str, Any]
    sites: tuple[dict[str, Any], ...]
    """Source locations of its prints and asserts."""

    @property
    def module(self) -> str:
        return MODULES[self.kind]


@dataclass(frozen=True)
class Finding:
    """The error of a launch; two are equal if all fields but `text` and `programs` are."""

    error: str
    what: str
    location: str
    programs: tuple[int, ...] = ()
    """Numbers of the programs concerned."""
    text: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.error, self.what, self.location


@dataclass(frozen=True)
class Recording:
    """A recorded launch."""

    program: Program
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    blocks: tuple[MemoryBlock, ...]
    tables: tuple[Words, ...]
    number: int
    """Number of the launch among those of the kernel in its process, from 1 on."""
    failing: str = ""
    """The condition because of which the general version ran; empty if the module itself ran."""
    general_flags: str = ""
    sanitize: bool = False
    cooperative: bool = False
    device: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    finding: Finding | None = None
    changed: tuple[int, ...] | None = None
    """Blocks that the launch changed; None if memory was not recorded after it."""
    unwritten: tuple[int, ...] = ()
    """Blocks of which some bytes were never written."""
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise DeviceError(f"{LAUNCH} has format {self.format}, this version reads {FORMAT}; "
                              "replay it with the version of triton-xe that it names")
        numbers = {each.block for each in self.arguments} | {each.block for each in self.tables}
        if self.program.kind not in MODULES or not numbers <= {None, *range(len(self.blocks))}:
            raise DeviceError(f"{LAUNCH} of kernel {self.program.kernel!r} is damaged")

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, default=str) + "\n"


def read(folder: Path) -> Recording:
    """Read the recording in a folder; `DeviceError` if there is none, or it is damaged."""
    path = folder / LAUNCH
    try:
        return _recording(json.loads(path.read_text()))
    except OSError as error:
        raise DeviceError(f"{folder} holds no recorded launch: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DeviceError(f"{path} is damaged: {error}") from error


def recordings(folder: Path) -> list[Path]:
    """The folders of launches in a folder, in order; the folder alone if it is one itself."""
    if (folder / LAUNCH).exists():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{LAUNCH}"))
    if not found:
        raise DeviceError(
            f"{folder} holds no recorded launch: record one with TRITON_XE_RECORD={folder}")
    return found


def _recording(values: dict[str, Any]) -> Recording:
    """Create a recording from its JSON."""
    program, finding = values.pop("program"), values.pop("finding")
    lists: dict[str, Iterable[Any]] = {
        "arguments": map(_argument, values.pop("arguments")),
        "blocks": (MemoryBlock(**each) for each in values.pop("blocks")),
        "tables": (_with_tuples(Words, each) for each in values.pop("tables")),
    }
    return _with_tuples(Recording, {
        **values, **{name: tuple(each) for name, each in lists.items()},
        "program": _with_tuples(Program, program),
        "finding": None if finding is None else _with_tuples(Finding, finding),
    })


def _argument(values: dict[str, Any]) -> Argument:
    view = values.pop("view")
    made = None if view is None else _with_tuples(View, view)
    return _with_tuples(Argument, {**values, "view": made})


def _with_tuples(kind: Callable[..., Made], values: dict[str, Any]) -> Made:
    """Create a dataclass from JSON values, in which tuples are lists."""
    return kind(**{
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
