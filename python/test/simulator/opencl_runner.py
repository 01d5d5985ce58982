"""Runs a kernel on an OpenCL CPU device: `opencl_runner.py FOLDER`, in a process of its own.

FOLDER holds kernel.spv, helpers.spv (the functions the kernel imports), and job.json: name, global
and local size, and arguments, each a number with its numpy type or the name of a .npy file, which
is written back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(folder: Path) -> None:
    import pyopencl as cl

    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    programs = [cl.Program(context, (folder / n).read_bytes()) for n in
                ("kernel.spv", "helpers.spv")]
    for program in programs:
        program.compile()
    job = json.loads((folder / "job.json").read_text())
    kernel = cl.Kernel(cl.link_program(context, programs), job["name"])
    buffers: dict[str, tuple[Any, Any]] = {}
    arguments = []
    for kind, value in job["arguments"]:
        if kind != "file":
            arguments.append(np.dtype(kind).type(value))
            continue
        data = np.load(folder / value)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers[value] = data, cl.Buffer(context, flags, hostbuf=data)
        arguments.append(buffers[value][1])
    kernel(queue, (job["global"],), (job["local"],), *arguments)
    for name, (data, buffer) in buffers.items():
        cl.enqueue_copy(queue, data, buffer)
        np.save(folder / name, data)
    print(device.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
