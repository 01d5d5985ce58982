"""`python -m triton_xe.runtime.torch_xpu`: build the simulated device ahead of its first use."""

from __future__ import annotations

import os
import sys
import time

from triton_xe.errors import DeviceError


def main() -> int:
    # This process must not build while it imports torch: it reports errors in a better way.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    from triton_xe.runtime.torch_xpu import compilation

    start = time.perf_counter()
    try:
        path = compilation.build()
    except DeviceError as error:
        print(f"triton-xe: {error}", file=sys.stderr)
        return 1
    print(f"{path} ({time.perf_counter() - start:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
