"""Run one check on the first GPU, and print the result as a line of JSON."""

import json
import sys

from triton_xe.runtime.opening import open_device
from triton_xe.tools import gpu_checks

for result in gpu_checks.on(open_device("gpu"), tuple(sys.argv[1:])):
    print(json.dumps(result.to_json()), flush=True)
