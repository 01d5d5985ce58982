"""`triton-xe opt FILE.mlir -p PASSES`: read a module, run passes, print it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from triton_xe.hardware.target import TARGETS, row_name

HELP = "run passes over a module of any stage"
EPILOG = """\
examples:
  triton-xe opt gemm.mlir                       read, verify, print; the RFCs' notation is read too
  triton-xe opt gemm.mlir -p 'lower-kernel-functions,convert-xetile-to-xegpu' --target pvc
  triton-xe opt kernel.ttgir -p 'find-surfaces,assign-layouts,convert-to-xetile{num-stages=3}'
  triton-xe opt gemm.mlir -p 'lower-kernel-functions,convert-xetile-to-xegpu,convert-xegpu-to-llvm'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="module to read; - is standard input")
    parser.add_argument("-p", "--passes", default="", help="pass,pass{option=value}")
    parser.add_argument("--target", type=row_name, choices=list(TARGETS),
                        help="device of a module that names none")
    parser.add_argument("-o", "--output", type=Path, help="file to write; default: standard output")
    parser.add_argument("--generic", action="store_true", help="print every op in generic form")
    parser.add_argument("--list", action="store_true", help="list the passes and stop")


def run(arguments: argparse.Namespace) -> int:
    """Run the passes and print the module; LLVM IR as LLVM prints it."""
    from triton_xe.lowering.universe import UNIVERSE

    if arguments.list:
        print("\n".join(UNIVERSE.all_passes))
        return 0
    source = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text()
    source = current_notation(source, arguments.file)
    text = transformed(source, arguments.passes, arguments.target, arguments.file,
                       generic=arguments.generic)
    if arguments.output is None:
        print(text, end="")
    else:
        arguments.output.write_text(text)
    return 0


def current_notation(source: str, name: str) -> str:
    """Rewrite text in the RFCs' notation into that of the dialects, and print each change."""
    from triton_xe.dialects.text.rfc import is_rfc_notation, normalized

    if not is_rfc_notation(source):
        return source
    found = normalized(source, name)
    for note in found.notes:
        print(f"{name}: read as in the RFCs, {note}", file=sys.stderr)
    return found.text


def transformed(
    source: str, passes: str, target: str | None = None, name: str = "module", *,
    generic: bool = False,
) -> str:
    """The text of a module after the passes of a pipeline."""
    from io import StringIO

    from xdsl.passes import PassPipeline
    from xdsl.printer import Printer

    from triton_xe.dialects import context
    from triton_xe.dialects.text.writer import write_module
    from triton_xe.lowering.by_hand.diagnostics import errors_located, read_by_hand, verify
    from triton_xe.lowering.convert_xegpu_to_llvm import LLVM_IR
    from triton_xe.lowering.facts.values import attribute
    from triton_xe.lowering.module_facts import set_target
    from triton_xe.lowering.universe import UNIVERSE

    module = read_by_hand(source, name)
    if target is not None:
        set_target(module, target)
    try:
        pipeline = PassPipeline.parse_spec(UNIVERSE.all_passes, passes) if passes else (
            PassPipeline(()))
    except ValueError as error:
        raise ValueError(f"{error}; `triton-xe opt --list` names the passes") from None
    for step in pipeline.passes:
        with errors_located(f"pass {step.name}"):
            step.apply(context(), module)
        verify(module, f"pass {step.name}")
    llvm_ir = attribute(module, LLVM_IR)
    if llvm_ir is not None:
        return str(llvm_ir.data)
    if not generic:
        return write_module(module)
    out = StringIO()
    Printer(out, print_generic_format=True).print_op(module)
    return out.getvalue() + "\n"
