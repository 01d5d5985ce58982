"""`triton-xe report FILE::KERNEL`: write a page that shows how a kernel spends its time."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from triton_xe.hardware.target import TARGETS, row_name

HELP = "write an HTML page that shows where a kernel's time goes"
EPILOG = """\
The signature has the form of `triton-xe compile`.  Times are predicted for one launch.  Give it by
--grid and --values, or give --script, a program that launches the kernel on the simulated device.
With --script, the report is about the longest launch.  Without --signature, the kernel is then
compiled with the types and constants of that launch.

example:
  triton-xe report examples/vector_add.py::add_kernel --grid 16384 --values n=16777216 \\
      --signature "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32:16 BLOCK=1024"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="FILE::KERNEL",
                        help="a Python file, and a @triton.jit function in it")
    parser.add_argument("--signature",
                        help="name=value of each argument; not needed with --script")
    parser.add_argument("--target", default="bmg", type=row_name, choices=list(TARGETS),
                        help="device")
    parser.add_argument("--num-warps", type=int, default=4, help="warps of a program")
    parser.add_argument("--num-stages", type=int, default=2, help="as in a launch")
    parser.add_argument("--grf-mode", default="default", help="default, auto, or registers")
    parser.add_argument("--grid", help="programs of the launch, such as 16,16")
    parser.add_argument("--values", default="", help="values of integer arguments: M=4096 N=4096")
    parser.add_argument("--script", metavar="'FILE ARGUMENT ...'",
                        help="program to take the launch from")
    parser.add_argument("--device", metavar="emu:NAME",
                        help="run the script on an emulated device, and show how many instructions "
                             "each line executed")
    parser.add_argument("--sanitize", action="store_true",
                        help="also run the script under the checks, and show the findings")
    parser.add_argument("--exact", action="store_true",
                        help="predict from the instructions of Intel's compiler")
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), help="the page")


def run(arguments: argparse.Namespace) -> int:
    """Compile, predict, and write the page."""
    from triton_xe.tools.commands.compile import load_kernel
    from triton_xe.tools.report import gathering, page

    if arguments.sanitize and not arguments.script:
        raise ValueError("--sanitize needs --script: there is nothing else to run")
    arguments.target = target_of(arguments)
    function = load_kernel(arguments.kernel)
    kernel, launch = (from_script if arguments.script else from_options)(arguments, function)
    report = replace(gathering.gathered(
        function, kernel, arguments.target, launch, findings=findings_of(arguments),
        was_sanitized=arguments.sanitize, exact=arguments.exact), executed=arguments.executed)
    arguments.output.write_text(page.to_html(report), encoding="utf-8")
    print(arguments.output)
    return 0


def target_of(arguments: argparse.Namespace) -> str:
    """Return the device's name, and clear `arguments.executed`, which `from_script` fills."""
    arguments.executed = None
    if not arguments.device:
        return str(arguments.target)
    kind, _, name = arguments.device.partition(":")
    if kind != "emu" or name not in TARGETS or not arguments.script:
        raise ValueError(f"--device {arguments.device}: give emu:bmg or another of "
                         f"{', '.join(TARGETS)}, with --script, a program that launches the kernel")
    return name


def compiled(arguments: argparse.Namespace, function: Any, variant: Any) -> Any:
    """Compile a variant of the kernel with the source locations of all operations."""
    from triton_xe.tools.commands.compile import compile_kernel

    options = variant._asdict()
    return compile_kernel(function, options.pop("signature"), arguments.target,
                          options | {"locates_all": True})


def variant_of(arguments: argparse.Namespace) -> Any:
    """Return the signature and compilation options of the command line."""
    from triton_xe.tools.report.watching import Variant

    return Variant(*(getattr(arguments, name) for name in Variant._fields))


def from_options(arguments: argparse.Namespace, function: Any) -> tuple[Any, Any]:
    """Compile the kernel; return it and its launch, which is None without --grid."""
    from triton_xe.tools.report.gathering import Launch

    if arguments.signature is None:
        raise ValueError(f"give --signature, of {', '.join(function.arg_names)}, or --script, a "
                         "program that launches the kernel")
    kernel = compiled(arguments, function, variant_of(arguments))
    if arguments.grid is None:
        return kernel, None
    sizes = [int(size) for size in arguments.grid.replace("x", ",").split(",")]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise ValueError(f"--grid {arguments.grid}: give one to three positive numbers")
    x, y, z = (*sizes, 1, 1)[:3]
    given = values(function.arg_names, arguments.signature, arguments.values)
    return kernel, Launch((x, y, z), given)


def values(names: list[str], signature: str, text: str) -> list[int | float]:
    """Values of all arguments that are not constants; pointers are multiples of 1 TiB.

    >>> values(["p", "n", "B"], "p=*fp16 n=i32 B=64", "n=100")
    [1099511627776, 100]
    """
    from triton_xe.tools.commands.compile import parse_signature

    types, constants, _ = parse_signature(names, signature)
    pairs = [part.partition("=") for part in text.replace(",", " ").split()]
    given = {name: float(v) if "." in v else int(v, 0) for name, _, v in pairs}
    found: list[int | float] = []
    for name in (n for n in names if n not in constants):
        kind = types[name]
        if kind[0] != "*" and name not in given and kind[0] in "iu":
            raise ValueError(f"the time depends on {name}: give it with --values {name}=...")
        found.append(len(found) + 1 << 40 if kind[0] == "*" else given.get(name, 1.0))
    return found


def from_script(arguments: argparse.Namespace, function: Any) -> tuple[Any, Any]:
    """Run the script; return the kernel and the launch with the longest predicted time."""
    from triton_xe.tools.report import gathering, watching

    watched = watching.launches(
        shlex.split(arguments.script), arguments.device or f"sim:{arguments.target}")
    variants = watched.variants.get(function.__name__, [])
    given = variants if arguments.signature is None else [variant_of(arguments)]
    kernels = [compiled(arguments, function, variant) for variant in given]
    if not kernels or kernels[0].metadata.name not in {s.name for s in watched.launches}:
        raise ValueError(f"{arguments.script} launches no kernel {function.__name__!r}"
                         + (f"; it ended with {watched.error}" if watched.error else ""))
    by_digest = {watching.digest(kernel.asm["llir"]): kernel for kernel in kernels}
    same = [seen for seen in watched.launches if seen.digest in by_digest]
    if not same:
        raise ValueError(
            f"{arguments.script} launches {function.__name__!r} with other constants, types or "
            "options than those of --signature, --num-warps and --num-stages: leave these out, or "
            "give " + " or ".join(map(str, variants)))
    if arguments.device:
        arguments.executed = gathering.lines_of_file(
            watched.executed.get(same[0].name, {}), gathering.source_file(function))
    found = [(by_digest[seen.digest], gathering.Launch(seen.grid, seen.arguments))
             for seen in [s for s in same if s.was_run] or same]
    return max(found, key=lambda pair: gathering.timed(
        pair[0], arguments.target, "", pair[1]).prediction.us)


def findings_of(arguments: argparse.Namespace) -> list[str]:
    """Run the script under the sanitizer, if asked; return the findings."""
    from triton_xe.tools.report import watching

    if not arguments.sanitize:
        return []
    watched = watching.launches(
        shlex.split(arguments.script), f"sim:{arguments.target}", sanitize=True)
    return [watched.error] if watched.error else []
