"""Packaging of triton-xe: one import package, `triton_xe`, from four source folders."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
OUTER = ("backend", "lowering", "runtime")


def packages() -> list[str]:
    """Import names of every package, the outer folders mapped below `triton_xe`."""
    found = [name for name in find_packages(str(HERE)) if name.split(".")[0] == "triton_xe"]
    for folder in OUTER:
        found.append(f"triton_xe.{folder}")
        found += [f"triton_xe.{folder}.{name}" for name in find_packages(str(HERE / folder))]
    return found


setup(
    name="triton-xe",
    version="0.1.0",
    description="Unmodified Triton kernels on Intel Xe GPUs, or on a strict simulator of them",
    long_description=(HERE / "README.md").read_text() if (HERE / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    packages=packages(),
    package_dir={f"triton_xe.{folder}": folder for folder in OUTER},
    package_data={"": ["py.typed", "*.cpp", "*.h", "*.json"]},
    install_requires=[
        "triton>=3.9,<3.10",  # the front end, and the passes that make ttir and ttgir
        "llvmlite>=0.50,<0.51",  # writes LLVM IR and SPIR-V, and is the simulator's JIT
        "xdsl>=0.74,<0.75",  # holds every stage between ttgir and LLVM IR
        "numpy>=1.26",  # layout tables, and arrays as kernel arguments without torch
    ],
    extras_require={
        "torch": ["torch>=2.13,<2.14"],  # tensors on device "xpu"; bring the CPU or the XPU build
        "test": ["pytest", "pytest-xdist", "hypothesis", "filecheck", "ruff", "mypy", "pandas",
                 "matplotlib", "ml_dtypes", "scipy"],
        # an independent OpenCL for x86-64 CPUs to compare with: about 900 MB, a minute to install
        "opencl": ["intel-opencl-rt", "intel-cmplr-lib-rt", "pyopencl"],
        # real SYCL queues on Intel's driver, for the tests of launches in order with them: 900 MB
        "sycl": ["dpctl>=0.22,<0.23"],
    },
    entry_points={
        "triton.backends": ["intel = triton_xe.backend"],
        "torch.backends": ["triton_xe = triton_xe.runtime.torch_xpu:autoload"],
        "xdsl.universe": ["triton_xe = triton_xe.dialects:UNIVERSE"],
        "console_scripts": ["triton-xe = triton_xe.tools.cli:main"],
    },
)
