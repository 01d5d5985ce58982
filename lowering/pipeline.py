"""The road from ttgir to SPIR-V: four stages, each a text that can be read back.

    ttgir --make_xetile--> xetile --make_xegpu--> xegpu --make_llir--> llir --make_spirv--> spv

A stage hands on the module itself next to its text, so that nothing is parsed twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target, target
from triton_xe.lowering.remarks import Remarks
from triton_xe.lowering.surfaces.affine import attribute

Metadata = MutableMapping[str, Any]
HALF_OF_128 = 64
"""Registers; loops that carry more than this leave too few of 128 for operands."""
TARGET = "ttg.target"
FACTS = "xe.facts"
"""Module attribute: decisions of earlier stages, as JSON, for the kernel's metadata."""


@dataclass
class Stage:
    """A module between two stages; `str()` is its text, with the place of each op in Python."""

    module: ModuleOp
    remarks: Remarks = field(default_factory=Remarks)

    @cached_property
    def text(self) -> str:
        from triton_xe.dialects.text.writer import write_module

        return write_module(self.module, locations=True)

    def __str__(self) -> str:
        return self.text


@dataclass
class LlvmStage:
    """The LLVM module's text, and the module that LLVM made of it."""

    text: str
    parsed: Any = None

    def __str__(self) -> str:
        return self.text


def stage_of(source: Stage | str) -> Stage:
    """A stage from its text, or the stage itself."""
    if isinstance(source, Stage):
        return source
    from triton_xe.lowering.import_ttgir import import_ttgir

    return Stage(import_ttgir(str(source)))


def facts_of(module: Operation) -> dict[str, Any]:
    """What earlier stages wrote down about a module."""
    held = module.attributes.get(FACTS)
    return dict(json.loads(held.data)) if isinstance(held, StringAttr) else {}


def note_facts(module: Operation, **facts: Any) -> None:
    """Write facts down in the module, for later stages and for people."""
    module.attributes[FACTS] = StringAttr(json.dumps(facts_of(module) | facts))


def module_target(module: Operation) -> Target:
    """The device that the module names, `xpu:bmg` for example."""
    return target(attribute(module, TARGET).data.partition(":")[2])


def module_warps(module: Operation) -> int:
    """Subgroups per work-group."""
    return int(attribute(module, "ttg.num-warps").value.data)


def module_lanes(module: Operation, device: Target) -> int:
    """Lanes of a subgroup: what the module says, else the device's own choice."""
    held = module.attributes.get("ttg.threads-per-warp")
    lanes = int(held.value.data) if isinstance(held, IntegerAttr) else device.subgroup_size
    if lanes not in device.subgroup_sizes:
        raise UnsupportedError(
            f"ttg.threads-per-warp = {lanes} is not a subgroup size of {device.name}; it has "
            f"{', '.join(map(str, device.subgroup_sizes))}"
        )
    return lanes


def _name_device(module: Operation, options: Any) -> None:
    """TTGIR that says `xpu`, without a device, is for the one it is compiled for."""
    held = module.attributes.get(TARGET)
    if isinstance(held, StringAttr) and held.data == "xpu":
        module.attributes[TARGET] = StringAttr(f"xpu:{options.arch}")


def make_xetile(ttgir: Stage | str, options: Any) -> Stage:
    """Surfaces, DPAS layouts and tiles."""
    from triton_xe.dialects import context
    from triton_xe.lowering.insert_barriers import InsertBarriersPass
    from triton_xe.lowering.layouts.assign_dpas import assign_dpas
    from triton_xe.lowering.layouts.decompose_scaled_dots import decompose_scaled_dots
    from triton_xe.lowering.layouts.reduce_in_place import reduce_in_place
    from triton_xe.lowering.layouts.scatter_in_place import scatter_in_place
    from triton_xe.lowering.layouts.spread_rows import spread_rows
    from triton_xe.lowering.surfaces.expand_descriptors import expand_descriptors
    from triton_xe.lowering.surfaces.join_halves import join_halves
    from triton_xe.lowering.surfaces.raise_surfaces import raise_surfaces
    from triton_xe.lowering.tiles.convert_to_xetile import convert_to_xetile

    stage = stage_of(ttgir)
    module, remarks = stage.module, Remarks()
    _name_device(module, options)
    device, warps = module_target(module), module_warps(module)
    lanes = module_lanes(module, device)
    expand_descriptors(module)
    decompose_scaled_dots(module)
    if lanes == device.subgroup_size:
        raise_surfaces(module, device, remarks)
        join_halves(module, device, remarks)
        assign_dpas(module, device, warps, remarks)
        spread_rows(module)
    else:
        remarks.add(module, f"no DPAS and no 2D messages with {lanes} lanes: both need "
                            f"{device.subgroup_size} on {device.name}")
    reduce_in_place(module)
    scatter_in_place(module)
    InsertBarriersPass().apply(context(), module)
    convert_to_xetile(module, device, warps, getattr(options, "num_stages", 1))
    note_facts(
        module,
        remarks=remarks.lines,
        contract=bool(getattr(options, "enable_fp_fusion", True)),
        grf_mode=str(getattr(options, "grf_mode", "default")),
    )
    return Stage(module, remarks)


def make_xegpu(xetile: Stage | str) -> Stage:
    """Instructions."""
    from triton_xe.lowering.tiles.convert_xetile_to_xegpu import convert_xetile_to_xegpu
    from triton_xe.lowering.tiles.sink_loads import sink_loads

    stage = stage_of(xetile)
    module = stage.module
    plans = convert_xetile_to_xegpu(module, module_target(module))
    sink_loads(module, module_target(module))
    note_facts(module, plans=plans)
    return Stage(module, stage.remarks)


def make_llir(xegpu: Stage | str, metadata: Metadata) -> LlvmStage:
    """LLVM IR, and what the launcher must know."""
    from triton_xe.lowering.emit.module import emit_module
    from triton_xe.lowering.spirv.spirv_target import verified

    stage = stage_of(xegpu)
    module = stage.module
    facts = facts_of(module)
    device = module_target(module)
    state = emit_module(module, device, module_warps(module), module_lanes(module, device),
                        contract=facts.get("contract", True))
    text = str(state.llvm)
    parsed = verified(text)
    metadata["shared"] = state.slm_bytes
    metadata["debug_sites"] = state.debug.sites
    metadata["n_dpas"] = state.facts.get("dpas", 0)
    metadata["n_block_loads"] = state.facts.get("block_loads", 0)
    metadata["plan_summary"] = facts.get("plans", [])
    metadata["remarks"] = facts.get("remarks", [])
    metadata["build_flags"] = build_flags(facts.get("grf_mode", "default"), state.facts, device)
    metadata["registers"] = registers_of(metadata["build_flags"])
    return LlvmStage(text, parsed)


def registers_of(flags: str) -> int | None:
    """Registers per thread that the build options fix; None leaves them to Intel's compiler."""
    if "large-register-file" in flags:
        return 256
    found = re.search(r"register-file-size=(\d+)", flags)
    return int(found[1]) if found else None


def build_flags(grf_mode: str, facts: dict[str, Any], device: Target) -> str:
    """Options for Intel's compiler: the register file, and exact division where it is asked for."""
    exact = "-cl-fp32-correctly-rounded-divide-sqrt" if facts.get("precise") else ""
    return " ".join(filter(None, (_register_flag(grf_mode, facts, device), exact)))


def _register_flag(grf_mode: str, facts: dict[str, Any], device: Target) -> str:
    if grf_mode.isdigit():
        wanted = int(grf_mode)
    elif grf_mode == "default":
        wanted = 256 if facts.get("carried_bytes", 0) > device.grf_bytes * HALF_OF_128 else 0
    else:
        wanted = 0
    if grf_mode == "auto":
        return "-ze-intel-enable-auto-large-GRF-mode"
    if wanted == 256 and 256 in device.grf_modes:
        return "-ze-opt-large-register-file"
    return f"-ze-exp-register-file-size={wanted}" if wanted in device.grf_modes else ""


def make_spirv(llir: LlvmStage | str, metadata: Metadata) -> bytes:
    """The SPIR-V module."""
    from triton_xe.lowering.spirv.emit_spirv import emit_spirv

    return emit_spirv(str(llir), llir.parsed if isinstance(llir, LlvmStage) else None)
