"""Another backend's driver is active as well: whoever names an Intel device has chosen."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import triton
from triton.backends import backends
backends["nvidia"].driver.is_active = staticmethod(lambda: True)
print(type(triton.runtime.driver.active).__name__)
"""


CASES = [("sim:bmg", "XeDriver"), ("", "2 active drivers")]


@pytest.mark.rest
@pytest.mark.parametrize(("chosen", "expected"), CASES)
def test_two_active_drivers(chosen, expected):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_DEFAULT_BACKEND"}
    environment |= {"TRITON_XE_DEVICE": chosen}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
                          text=True, check=False)
    assert expected in done.stdout + done.stderr
