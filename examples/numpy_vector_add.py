"""c = a + b from numpy, with neither triton nor torch in the process that launches.

A kernel is compiled ahead of time, on a machine with triton, into a folder:

    triton-xe compile examples/vector_add.py::add_kernel --target bmg --out build/add \\
        --signature "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=1024"

and runs with only numpy, llvmlite and this package installed:

    python -m examples.numpy_vector_add build/add sim:bmg    (or gpu, gpu:1; default: as Triton)
"""

import sys

import numpy as np

from triton_xe import runtime


def add(folder: str, device_name: str = "") -> tuple[float, float]:
    """(largest error, milliseconds of one launch) of a sum of 98,432 floats."""
    device = runtime.open_device(device_name)
    kernel = runtime.load_folder(folder, device)
    a, b = np.random.default_rng(0).random((2, 98_432), np.float32)
    on_device = [runtime.put(device, array) for array in (a, b, np.zeros_like(a))]
    grid = (-(-a.size // kernel.description.constants["BLOCK"]),)
    elapsed = runtime.time_ms(device, lambda: kernel(grid, *on_device, a.size))
    c = runtime.get(device, on_device[2], a.shape, a.dtype)
    return float(np.abs(c - (a + b)).max()), elapsed


def main(folder: str, device_name: str = "") -> None:
    error, elapsed = add(folder, device_name)
    print(f"vector add of 98432 floats: largest error {error}, {elapsed:.3f} ms")
    assert error == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
