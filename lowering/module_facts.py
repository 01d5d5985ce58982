"""Attributes of a module: its device, its subgroups, and decisions of earlier stages.

    ttg.target = "xpu:bmg"            the device
    "ttg.num-warps" = 4 : i32         subgroups of a work-group
    "ttg.threads-per-warp" = 16       lanes of a subgroup; default: the device's own number
    xe.options = {num_stages = 2, contract = true, grf_mode = "default"}
    xe.remarks = ["tt.dot (kernel.py:12): dpas 8x16x16 ..."]
    xe.plans = [{op = "load", width = 16, ...}]
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Attribute, Operation

from triton_xe.dialects.text.locations import source_of
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target, target
from triton_xe.lowering.facts.values import attribute, integer_attribute

TARGET = "ttg.target"
WARPS = "ttg.num-warps"
LANES = "ttg.threads-per-warp"
OPTIONS, REMARKS, PLANS = "xe.options", "xe.remarks", "xe.plans"
LAUNCH_CONDITIONS = "xe.launch_conditions"
"""Attribute of a module: conditions under which its kernel may run (`triton_xe.conditions`)."""
GUARDS = ("launch", "kernel")


@dataclass(frozen=True)
class CompileOptions:
    """Options of a compilation for the stages.

    - `num_stages`: loads are prefetched `num_stages - 1` iterations ahead.
    - `contract`: products and sums may be fused.
    - `grf_mode`: the register file: "default", "auto" (Intel's compiler chooses) or a number.
    - `guards`: conditions of the fast version are tested in the "kernel", which then has a slower
      version too.  With "launch" they are tested before it, as far as possible.
    - `keeps_layouts`: tensors have the layouts that the program specifies.
    - `tests_promises`: the kernel tests the program's promises, for the simulator's checks.
    - `split_barriers`: keep the subgroups of large work-groups together in K loops.
    - `line_prefetches`: the operand of products, "a" or "b", that lanes prefetch line by line.
    - `locates_all`: every LLVM instruction has its line.
    """

    num_stages: int = 2
    contract: bool = True
    grf_mode: str = "default"
    guards: str = "kernel"
    keeps_layouts: bool = False
    tests_promises: bool = False
    split_barriers: bool = False
    line_prefetches: str = ""
    locates_all: bool = False

    def __post_init__(self) -> None:
        if self.guards not in GUARDS:
            raise UnsupportedError(f"guards = {self.guards!r} is none of {', '.join(GUARDS)}")
        if self.grf_mode not in ("default", "auto") and not self.grf_mode.isdigit():
            raise UnsupportedError(f"grf_mode = {self.grf_mode!r} is no register file")


def set_target(module: Operation, name: str) -> Target:
    """Note the device in the module, as Triton's modules do, unless the module names one."""
    held = module.attributes.get(TARGET)
    if not isinstance(held, StringAttr) or held.data == "xpu":
        module.attributes[TARGET] = StringAttr(f"xpu:{name}")
        return target(name)
    return target(held.data.partition(":")[2])


def module_target(module: Operation) -> Target:
    """The device that the module names, `xpu:bmg` for example."""
    return target(attribute(module, TARGET).data.partition(":")[2])


def module_warps(module: Operation) -> int:
    """Subgroups per work-group."""
    warps = integer_attribute(module, WARPS)
    if not warps:
        raise UnsupportedError(f'the module says its subgroups as "{WARPS}" = 4 : i32, from 1 on')
    return warps


def module_lanes(module: Operation, device: Target) -> int:
    """Lanes of a subgroup: the module's number, otherwise the device's own."""
    held = integer_attribute(module, LANES)
    lanes = device.subgroup_size if held is None else held
    if lanes not in device.subgroup_sizes:
        raise UnsupportedError(
            f"ttg.threads-per-warp = {lanes} is not a subgroup size of {device.name}; it has "
            f"{', '.join(map(str, device.subgroup_sizes))}"
        )
    return lanes


def options_of(module: Operation) -> CompileOptions:
    """The options that a module carries."""
    held = module.attributes.get(OPTIONS)
    return CompileOptions() if held is None else CompileOptions(**plain(held))


def set_options(module: Operation, options: CompileOptions) -> None:
    fields = asdict(options)
    for name in ("tests_promises", "split_barriers", "line_prefetches", "locates_all"):
        if not fields[name]:
            del fields[name]
    module.attributes[OPTIONS] = attribute_of(fields)


def module_of(op: Operation) -> Operation:
    """The outermost operation around one."""
    while (parent := op.parent_op()) is not None:
        op = parent
    return op


def remark(op: Operation, text: str) -> None:
    """Add a remark about a decision to an operation; it is shown in the kernel's metadata."""
    module = module_of(op)
    source = source_of(op)
    where = f" ({PurePath(source.users_own.file).name}:{source.users_own.line})" if source else ""
    _append(module, REMARKS, [text if module is op else f"{op.name}{where}: {text}"])


def remarks_of(module: Operation) -> list[str]:
    """Decisions of passes: one line per load, store or dot."""
    return plain(module.attributes.get(REMARKS, ArrayAttr(())))


def launch_conditions_of(module: Operation) -> str:
    """Conditions of the module on each launch, as a table's text; empty if there are none."""
    held = module.attributes.get(LAUNCH_CONDITIONS)
    return held.data if isinstance(held, StringAttr) else ""


def note_plans(module: Operation, plans: list[dict[str, Any]]) -> None:
    """Store the summaries of the messages that move tiles."""
    _append(module, PLANS, plans)


def plans_of(module: Operation) -> list[dict[str, Any]]:
    return plain(module.attributes.get(PLANS, ArrayAttr(())))


def _append(module: Operation, name: str, values: list[Any]) -> None:
    held = module.attributes.get(name)
    before = held.data if isinstance(held, ArrayAttr) else ()
    module.attributes[name] = ArrayAttr([*before, *map(attribute_of, values)])


def attribute_of(value: Any) -> Attribute:
    """Plain data as an attribute: booleans, integers, strings, and lists and dicts of these."""
    if isinstance(value, bool | int | str):
        return _plain_attribute(value, isinstance(value, bool))
    if isinstance(value, dict):
        return DictionaryAttr({key: attribute_of(held) for key, held in value.items()})
    return ArrayAttr([attribute_of(held) for held in value])


@lru_cache(maxsize=4096)
def _plain_attribute(value: int | str, is_bool: bool) -> Attribute:
    """The attribute of a scalar, created once; `is_bool` distinguishes True from 1 in the cache."""
    if isinstance(value, str):
        return StringAttr(value)
    return IntegerAttr(int(value), i1 if is_bool else i64)


def plain(held: Attribute) -> Any:
    """The data of an attribute, the inverse of `attribute_of`."""
    if isinstance(held, IntegerAttr):
        return bool(held.value.data) if held.type == i1 else held.value.data
    if isinstance(held, StringAttr):
        return held.data
    if isinstance(held, DictionaryAttr):
        return {key: plain(inner) for key, inner in held.data.items()}
    if isinstance(held, ArrayAttr):
        return [plain(inner) for inner in held.data]
    raise UnsupportedError(f"{held} is no plain data")
