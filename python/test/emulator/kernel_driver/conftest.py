"""Programs on the emulated GPU, each in a process of its own, started as a user starts it."""

import subprocess
import sys

import pytest

from triton_xe import knobs
from triton_xe.runtime import native


@pytest.fixture
def emulate(tmp_path):
    """Run `triton-xe emulate -- COMMAND`; returns the finished process."""
    if native.emulated_gpu is None:
        pytest.skip("the preloaded part is not built")

    def run(*command: str, device: str = "bmg", timeout: float = 300, **variables: str):
        environment = {**knobs.process_environment(), "TRITON_XE_CACHE": str(tmp_path),
                       "TRITON_XE_TOOLCHAIN": str(knobs.toolchain()), **variables}
        return subprocess.run(
            [sys.executable, "-m", "triton_xe.tools.cli", "emulate", "--device", device, "--",
             *command], env=environment, capture_output=True, text=True, timeout=timeout,
            check=False)

    return run
