"""`triton-xe emulate -- COMMAND`: run any program with Intel's driver on an emulated GPU.

The program sees one Intel GPU, whose kernels are executed instruction by instruction as Intel's
compiler wrote them.  Its child processes see the GPU too (docs/emulator.md).
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.target import target
from triton_xe.tools import intel

HELP = "run a program with Intel's driver on an emulated GPU"
EPILOG = """examples:
  triton-xe emulate -- triton-xe doctor --gpu
  triton-xe emulate --device pvc -- python kernel.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="bmg", metavar="NAME",
                        help="emulated GPU, such as pvc or cri (docs/emulator.md); default: bmg")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND",
                        help="the program and its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Run the program; return its exit code.  `DeviceError` if the driver is missing."""
    words = arguments.program[arguments.program[:1] == ["--"] :]
    if not words:
        raise ValueError("name a program to run: triton-xe emulate -- python kernel.py")
    reason = intel.driver_available()
    if reason is not None:
        raise DeviceError(reason)
    from triton_xe.runtime.emulator.kernel_driver.server import EmulatedGpu

    with EmulatedGpu(target(arguments.device)) as gpu:
        variables = gpu.environment(intel.toolchain_root(), intel.LIBRARIES)
        # `env` starts the program, so that the preloaded part finds it as it finds all others
        done = subprocess.run(
            ["/usr/bin/env", *words], env={**knobs.process_environment(), **variables},
            check=False)
        sys.stdout.flush()
        print(gpu.summary(), file=sys.stderr)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
