"""The road of programs written in XeTile or XeGPU by hand: text to SPIR-V.

    lower-kernel-functions, guard-tiles, convert-xetile-to-xegpu, convert-xegpu-to-llvm, SPIR-V
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from triton_xe.dialects import context
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target, target
from triton_xe.lowering.surfaces.affine import attribute

TARGET = "ttg.target"
XETILE = "xetile."


@dataclass
class Program:
    """A compiled module and what a launch must know."""

    spirv: bytes = field(repr=False)
    llvm_ir: str = field(repr=False)
    metadata: dict[str, Any]
    kernels: tuple[str, ...]
    subgroups: int


def parse(text: str, name: str = "module") -> ModuleOp:
    """The verified module of a text in any of the dialects."""
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    try:
        module = Parser(context(), text, name=name).parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        raise UnsupportedError(f"{name} cannot be read: {error}") from error
    return module


def set_target(module: Operation, name: str) -> Target:
    """Note the device in the module, as Triton's modules do; the module's own word wins."""
    held = attribute(module, TARGET)
    if held is None:
        module.attributes[TARGET] = StringAttr(f"xpu:{name}")
        return target(name)
    return target(held.data.split(":")[1])


def prepare(module: ModuleOp, target_name: str) -> int:
    """Kernels as Triton's are, with device and subgroups noted; answers the subgroups."""
    from triton_xe.lowering.by_hand.lower_kernel_functions import lower_kernel_functions

    set_target(module, target_name)
    return lower_kernel_functions(module)


def lower(module: ModuleOp, target_name: str) -> Program:
    """Compile a module in place."""
    from triton_xe.lowering.by_hand.guard_tiles import guard_tiles
    from triton_xe.lowering.pipeline import Stage, make_llir, make_spirv, make_xegpu
    from triton_xe.lowering.rewriting import functions

    subgroups = prepare(module, target_name)
    stage = Stage(module)
    if any(op.name.startswith(XETILE) for op in module.walk()):
        guard_tiles(module, target(target_name))
        stage = make_xegpu(stage)
    kernels = tuple(attribute(f, "sym_name").data for f in functions(module))
    metadata: MutableMapping[str, Any] = {}
    llir = make_llir(stage, metadata)
    return Program(make_spirv(llir, metadata), str(llir), dict(metadata), kernels, subgroups)


def compile_text(text: str, target_name: str, name: str = "module") -> Program:
    """Compile a program in XeTile or XeGPU."""
    return lower(parse(text, name), target_name)


__all__ = ["Program", "compile_text", "lower", "parse", "prepare"]
