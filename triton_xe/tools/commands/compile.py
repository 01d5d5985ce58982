"""`triton-xe compile FILE::KERNEL`: compile a kernel to any stage, without a GPU and without
torch.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_xe.hardware.target import TARGETS, is_target, known_names
from triton_xe.hardware.target import target as find_target

if TYPE_CHECKING:
    from triton_xe.runtime.folder import Description

STAGES = {"ttir": "ttir", "ttgir": "ttgir", "xetile": "xetile", "xegpu": "xegpu", "llvm": "llir",
          "llir": "llir", "spirv": "spv", "spv": "spv"}
"""Triton's name of each stage that `--emit` takes."""
NATIVE = ("zebin", "asm")

HELP = "compile a @triton.jit kernel and show a stage of it"
EPILOG = """\
The signature gives each argument of the kernel as name=value, in any order:
  a_ptr=*fp16:16   a pointer, aligned to 16 bytes      n=i32      an integer
  n=i32:16         an integer that 16 divides          BLOCK=128  a constant
  n=1              the constant 1, as a launch with n=1 would compile it

example:
  triton-xe compile examples/vector_add.py::add_kernel --emit llvm \\
      --signature "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=1024"

--out DIR writes a folder with the SPIR-V module (with --emit zebin native code), kernel.json and a
C header; triton_xe.runtime.load_folder(DIR) launches it where triton is not installed.  Several
targets or signatures make a bundle of such folders, bundle.json and one C header: load_bundle(DIR),
and KERNEL_choose of the header, take the first that fits device and arguments.
"""


def devices(text: str) -> list[str]:
    """The names of devices in `bmg,pvc`, which may lack features."""
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if not is_target(name):
            raise argparse.ArgumentTypeError(f"{name!r} is no device; {known_names(name)}")
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="FILE::KERNEL",
                        help="a Python file, and a @triton.jit function in it")
    parser.add_argument("--signature", required=True, action="append",
                        help="name=value of each argument; several make a bundle")
    parser.add_argument("--target", default=["bmg"], type=devices,
                        help=f"device of {', '.join(TARGETS)}; several (bmg,pvc) make a bundle")
    parser.add_argument("--emit", default="spirv", choices=(*STAGES, *NATIVE), help="stage")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=Path, help="file to write; default: standard output")
    where.add_argument("--out", type=Path, metavar="DIR",
                        help="folder to write, for launches without triton")
    parser.add_argument("--num-warps", type=int, default=4, help="warps of a program")
    parser.add_argument("--num-stages", type=int, default=2,
                        help="a loop prefetches its loads one iteration less than this ahead")
    parser.add_argument("--grf-mode", default="default", help="default, auto, or registers")
    parser.add_argument(
        "--guards", choices=("launch", "kernel"),
        help="where to check the conditions of the fast version: before each launch, or inside the "
             "kernel (default for binaries)")


def run(arguments: argparse.Namespace) -> int:
    """Compile, then print text or write bytes."""
    function = load_kernel(arguments.kernel)
    if len(arguments.signature) > 1 or len(arguments.target) > 1:
        return write_variants(function, arguments)
    (arguments.signature,), (arguments.target,) = arguments.signature, arguments.target
    kernel = compiled(function, arguments)
    if arguments.out is not None:
        for path in write_out(kernel, function, arguments)[1]:
            print(path)
        return 0
    emit(_stage(kernel, arguments.emit, arguments.target), arguments.output)
    return 0


def compiled(function: Any, arguments: argparse.Namespace) -> Any:
    """The kernel for one device and one signature."""
    options = {
        "num_warps": arguments.num_warps,
        "num_stages": arguments.num_stages,
        "grf_mode": arguments.grf_mode,
        "guards": arguments.guards or default_guards(arguments),
    }
    from triton.errors import TritonError

    try:
        return compile_kernel(function, arguments.signature, arguments.target, options)
    except TritonError as error:
        raise ValueError("\n".join([str(error), *getattr(error, "__notes__", ())])) from error


def write_variants(function: Any, arguments: argparse.Namespace) -> int:
    """Write a bundle: each signature for each device in a separate folder, and the files that
    choose.
    """
    from triton_xe.tools.bundles import write_bundle

    if arguments.out is None:
        raise ValueError("several targets or signatures make a bundle; name its folder with --out")
    written = {}
    for target in arguments.target:
        for number, signature in enumerate(arguments.signature):
            name = f"{target}-{number}"
            one = argparse.Namespace(**vars(arguments) | {
                "target": target, "signature": signature, "out": arguments.out / name})
            written[name], paths = write_out(compiled(function, one), function, one)
            print(paths[0])
    for path in write_bundle(arguments.out, function.arg_names, written):
        print(path)
    return 0


def default_guards(arguments: argparse.Namespace) -> str:
    """"kernel" for binaries that are launched without Triton, otherwise "launch", as in Triton's
    launches.
    """
    is_binary = arguments.out is not None or arguments.emit in ("spirv", "spv", "zebin")
    return "kernel" if is_binary else "launch"


def write_out(
    kernel: Any, function: Any, arguments: argparse.Namespace
) -> tuple[Description, list[Path]]:
    """Write the folder; return its description, and its files."""
    from triton_xe.runtime.folder import DESCRIPTION
    from triton_xe.tools import aot

    if arguments.emit not in ("spirv", "spv", "zebin"):
        raise ValueError(f"--out takes --emit spirv or zebin, not {arguments.emit}")
    source = parse_signature(function.arg_names, arguments.signature)
    description = aot.write_folder(
        arguments.out, kernel, arguments.target, *source, native=arguments.emit == "zebin"
    )
    names = (description.binary, DESCRIPTION, description.header)
    return description, [arguments.out / name for name in names]


def load_kernel(spelling: str) -> Any:
    """The `@triton.jit` function called KERNEL in the Python file FILE."""
    import triton

    file, separator, name = spelling.partition("::")
    if not separator or not name:
        raise ValueError(f"{spelling!r} is not of the form FILE::KERNEL")
    path = Path(file).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(_why_not_imported(file, path, error)) from error
    function = getattr(module, name, None)
    while function is not None and not isinstance(function, triton.JITFunction):
        function = getattr(function, "fn", None)  # an autotuner or heuristics around it
    if function is None:
        there = [key for key, value in vars(module).items()
                 if isinstance(value, triton.runtime.KernelInterface)]
        raise ValueError(f"{file} has no @triton.jit function {name!r}; it has "
                         f"{', '.join(there) or 'none'}")
    return function


def _why_not_imported(file: str, path: Path, error: BaseException) -> str:
    """Describe an error of the user's file in one sentence, with its line."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or file}, line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
    where = f"{file}, line {lines[-1]}" if lines else file
    if isinstance(error, ModuleNotFoundError):
        return (f"{where}: {error}; install it, or import it where it is used: compiling a kernel "
                "needs triton only")
    return (f"{where}: importing this file ends in {type(error).__name__}: {error}; put what is no "
            "definition below `if __name__ == '__main__':`")


def compile_kernel(function: Any, signature: str, target: str, options: Mapping[str, Any]) -> Any:
    """A `CompiledKernel`; uses Triton's cache like a launch would."""
    import triton
    from triton.backends.compiler import GPUTarget

    types, constants, attributes = parse_signature(function.arg_names, signature)
    source = _source_class(function)(function, types, constants, attributes)
    gpu = GPUTarget("xpu", target, find_target(target).subgroup_size)
    return triton.compile(source, target=gpu, options=dict(options))


def _source_class(function: Any) -> Any:
    """Class from which Triton compiles a kernel; Gluon has its own."""
    if function.is_gluon():
        from triton.experimental.gluon import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def parse_signature(
    names: list[str], text: str
) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int], list[list[Any]]]]:
    """Types by name, constants by name, and attributes by position, as `ASTSource` takes them.

    >>> parse_signature(["p", "n", "B"], "p=*fp32:16 n=i32 B=64")
    ({'p': '*fp32', 'n': 'i32', 'B': 'constexpr'}, {'B': 64}, {(0,): [['tt.divisibility', 16]]})
    """
    given: dict[str, str] = {}
    for part in filter(None, re.split(r"[\s,]+(?=\w+=)", text.strip(" ,"))):
        name, is_given, value = part.partition("=")
        if not is_given or not value or name in given:
            raise ValueError(
                f"the signature has {part!r}, which is not a new name=value, as in 'x=*fp32 n=i32 "
                f"BLOCK=64'; the kernel takes {', '.join(names)}")
        given[name] = value.rstrip(" ,")
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    if missing or unknown:
        wrong = [f"no {name}" for name in missing] + [f"unknown {name}" for name in unknown]
        raise ValueError(
            f"the signature has {', '.join(wrong)}; the kernel takes {', '.join(names)}"
        )
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for position, name in enumerate(names):
        kind, _, divisor = given[name].partition(":")
        constant = _constant(kind)
        if constant is not _NO_CONSTANT:
            types[name], constants[name] = "constexpr", constant
            continue
        types[name] = _type(name, kind)
        if divisor:
            attributes[(position,)] = [["tt.divisibility", _divisor(name, divisor)]]
    return types, constants, attributes


def _type(name: str, kind: str) -> str:
    """The type of an argument as Triton spells it."""
    from triton.language import str_to_ty

    try:
        str_to_ty(kind, None)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{name}={kind}: no type of Triton and no constant; types are i32, fp16, *fp16, ..., "
            "and strings are quoted"
        ) from error
    return kind


def _divisor(name: str, text: str) -> int:
    if not text.isdigit() or int(text).bit_count() != 1:
        raise ValueError(f"{name}: a divisor is a power of two such as 16, not {text!r}")
    return int(text)


_NO_CONSTANT = object()
_WORDS: dict[str, Any] = {"True": True, "False": False, "None": None}


def _constant(text: str) -> Any:
    """A number, a word of Python or a quoted string; `_NO_CONSTANT` for a type."""
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return _NO_CONSTANT


def _stage(kernel: Any, name: str, target: str) -> str | bytes:
    if name in STAGES:
        found: str | bytes = kernel.asm[STAGES[name]]
        return found
    from triton_xe.tools import aot, intel

    spirv, flags = kernel.asm["spv"], getattr(kernel.metadata, "build_flags", "")
    if name == "zebin":
        return aot.native_code(spirv, kernel.name, target, flags)
    (listing,) = intel.compile_spirv(spirv, target, flags).asm.values()
    return listing


def emit(content: str | bytes, output: Path | None) -> None:
    """Write to the file, or to standard output; bytes are not written to a terminal."""
    data = content.encode() if isinstance(content, str) else content
    if output is not None:
        output.write_bytes(data)
    elif isinstance(content, bytes) and sys.stdout.isatty():
        raise ValueError("a binary stage does not belong on a terminal; name a file with -o")
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
