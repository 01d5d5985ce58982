"""From ttgir to SPIR-V: four stages, each a text that can be read back.

    ttgir --make_xetile--> xetile --make_xegpu--> xegpu --make_llir--> llir --make_spirv--> spv

`PIPELINE` is the one list of stages and passes.  The compiler, `triton-xe opt` and `xdsl-opt` run
them, and docs/architecture.md shows `pass_table()`.  Programs written by hand enter at `xegpu`;
their own passes are a plugin (`lowering/by_hand`).
A stage hands on the module itself next to its text, so that nothing is parsed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from triton_xe.dialects.text.unchanged import snapshot, with_head
from triton_xe.dialects.text.writer import write_module
from triton_xe.dialects.tt.structure import AssertOp, PrintOp
from triton_xe.lowering.allocate_buffers import AllocateBuffersPass
from triton_xe.lowering.convert_xegpu_to_llvm import (
    ConvertXeGPUToLLVMPass,
    LlvmStage,
    write_llvm,
)
from triton_xe.lowering.family import Family
from triton_xe.lowering.front.expand_operations import ExpandOperationsPass
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.insert_barriers import InsertBarriersPass
from triton_xe.lowering.layouts.assign_layouts import AssignLayoutsPass
from triton_xe.lowering.module_facts import CompileOptions, set_options, set_target
from triton_xe.lowering.rewriting import all_of
from triton_xe.lowering.specialize.assume_indices import AssumeIndicesPass
from triton_xe.lowering.specialize.simplify_masks import SimplifyMasksPass
from triton_xe.lowering.specialize.strength_reduce import StrengthReducePass
from triton_xe.lowering.spirv.emit_spirv import emit_spirv
from triton_xe.lowering.surfaces.find_surfaces import FindSurfacesPass
from triton_xe.lowering.tensor_sizes import refuse_large_tensors
from triton_xe.lowering.tiles.convert_to_xetile import ConvertToXeTilePass
from triton_xe.lowering.tiles.convert_xetile_to_xegpu import ConvertXeTileToXeGPUPass
from triton_xe.lowering.tiles.keep_in_shared_memory import KeepInSharedMemoryPass
from triton_xe.lowering.tiles.sink_loads import SinkLoadsPass
from triton_xe.lowering.tiles.split_barriers import SplitBarriersPass

Metadata = MutableMapping[str, Any]


PIPELINE: tuple[tuple[str, tuple[type[ModulePass], ...]], ...] = (
    ("xetile", (
        ExpandOperationsPass,
        AssumeIndicesPass,
        FindSurfacesPass,
        SimplifyMasksPass,
        AssignLayoutsPass,
        StrengthReducePass,
        AllocateBuffersPass,
        InsertBarriersPass,
        ConvertToXeTilePass,
        SplitBarriersPass,
    )),
    ("xegpu", (
        ConvertXeTileToXeGPUPass,
        SinkLoadsPass,
        KeepInSharedMemoryPass,
    )),
    ("llir", (ConvertXeGPUToLLVMPass,)),
)
"""The stages and their passes, in order."""


def _keep_class(pass_type: type[ModulePass]) -> type[ModulePass]:
    return pass_type


def by_name(passes: Iterable[type[ModulePass]]) -> dict[str, Callable[[], type[ModulePass]]]:
    """Passes by name, in the form that xDSL expects."""
    return {made.name: partial(_keep_class, made) for made in passes}


PASSES = by_name(made for _, passes in PIPELINE for made in passes)


@dataclass
class Stage:
    """A module between two stages; `str()` is its text, with the source location of each op."""

    module: ModuleOp

    @cached_property
    def text(self) -> str:
        return write_module(self.module, locations=True)

    def __str__(self) -> str:
        return self.text


def stage_of(source: Stage | str) -> Stage:
    """A stage from its text, or the stage itself."""
    return source if isinstance(source, Stage) else Stage(import_ttgir(str(source)))


def run_passes(stage: str, module: ModuleOp, options: CompileOptions | None = None) -> None:
    """Run the passes of a stage; a pass takes the options that it has a field for."""
    context = Context()
    for made in passes_of(stage, options):
        made.apply(context, module)


@lru_cache(maxsize=64)
def passes_of(stage: str, options: CompileOptions | None) -> tuple[ModulePass, ...]:
    """The passes of a stage, with those options that they have a field for."""
    given = {} if options is None else asdict(options)
    return tuple(
        made(**{f.name: given[f.name] for f in fields(made) if f.name in given})
        for made in dict(PIPELINE)[stage]
    )


def steps_of(
    stage: str, options: CompileOptions | None = None
) -> Iterator[tuple[str, ModulePass]]:
    """Names and passes of a stage, where a family is one pass for each of its rules."""
    for made in passes_of(stage, options):
        if isinstance(made, Family):
            for rule in made.table:
                yield rule.name, replace(made, rules=(rule.name,))
        else:
            yield made.name, made


def make_xetile(ttgir: Stage | str, options: CompileOptions, arch: str) -> Stage:
    """Find surfaces, DPAS layouts and tiles, for the module's device or else for `arch`."""
    module = stage_of(ttgir).module
    if all_of(module, PrintOp, AssertOp):  # the numbers of reports are those of one module
        options = replace(options, guards="kernel")
    set_target(module, arch)
    set_options(module, options)
    refuse_large_tensors(module)
    run_passes("xetile", module, options)
    return Stage(module)


def make_xegpu(xetile: Stage | str) -> Stage:
    """Convert tiles to instructions; a kernel without tiles keeps its text."""
    before = stage_of(xetile)
    module, text = before.module, str(vars(before).get("text", ""))
    taken = snapshot(module) if text and "xetile." not in text else None
    run_passes("xegpu", module)
    made = Stage(module)
    if taken is not None and taken == snapshot(module):
        unchanged = with_head(text, module)
        if unchanged is not None:
            made.text = unchanged
    return made


def make_llir(xegpu: Stage | str, metadata: Metadata) -> LlvmStage:
    """Write LLVM IR, and store the launcher's facts in `metadata`."""
    stage, facts = write_llvm(stage_of(xegpu).module)
    metadata.update(facts)
    return stage


def make_spirv(llir: LlvmStage | str, metadata: Metadata) -> bytes:
    """Write the SPIR-V module."""
    return emit_spirv(str(llir), llir.module if isinstance(llir, LlvmStage) else None)


def pass_table() -> str:
    """Rows of a table in Markdown: stage, pass, rule of a family, and what it does."""
    rows: list[tuple[str, str, str, object]] = []
    for stage, passes in PIPELINE:
        for made in passes:
            rows.append((f"`{stage}`" if made is passes[0] else "", f"`{made.name}`", "", made))
            if issubclass(made, Family):
                rows += [("", "", f"`{rule.name}`", rule.rewrite) for rule in made.table]
    return "\n".join(
        "|" + "|".join(f" {cell} " if cell else " " for cell in (*names, summary_of(made))) + "|"
        for *names, made in rows)


def summary_of(pass_type: object) -> str:
    """The first line of a docstring."""
    return (pass_type.__doc__ or "").partition("\n")[0].removesuffix(".")
