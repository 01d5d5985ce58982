"""Run checks on the first GPU, and print each result as a line of JSON.

After `--isolated`, each one runs in its own process.
"""

import json
import sys

from triton_xe import knobs
from triton_xe.runtime.opening import open_device
from triton_xe.tools import gpu_checks
from triton_xe.tools.gpu_checks import isolation

TIME_LIMIT = 1200 if knobs.emulated() else 300
"""Seconds for one check; the driver resets a hanging GPU earlier."""
names = sys.argv[1:]
if names[:1] == ["--isolated"]:
    chosen = [check for check in gpu_checks.checks() if check.name in names]
    results = isolation.run_each(chosen, lambda: open_device("gpu"), TIME_LIMIT)
else:
    results = gpu_checks.run_here(open_device("gpu"), tuple(names))
for result in results:
    print(json.dumps(result.to_json()), flush=True)
