"""Device memory has addresses of its own: wild stores of kernels never reach the process's heap."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")

WILD_STORES = """
import torch, triton, triton.language as tl
from triton_xe.errors import SimulatorTrap

@triton.jit
def store(p, off):
    i = tl.arange(0, 128)
    tl.store(p + off + i, i.to(tl.float32))

traps = 0
for x in (torch.zeros(1024, device="xpu"), torch.ones(1024, device="xpu") * 2):
    host = [bytearray(b"x" * n) for n in range(1, 20_000, 7)]
    for off in OFFSETS:
        try:
            store[(1,)](x, off)
        except SimulatorTrap:
            traps += 1
    assert all(set(one) == {ord("x")} for one in host)
del x
torch.randn(100, device="xpu").sum().item()
print("traps", traps)
"""


@pytest.mark.rest
def test_wild_stores_leave_the_process_alone(tmp_path: Path) -> None:
    offsets = [1030, 5000, 70_000, 3_000_000, -3_000_000, 100_000_000, -100_000_000, 2**31 - 200]
    path = tmp_path / "wild.py"
    path.write_text(WILD_STORES.replace("OFFSETS", str(offsets)))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_XE_SANITIZE")}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "traps"
    assert int(done.stdout.split()[1]) >= 6


def fill_and_check(seed: int, rounds: int) -> list[str]:
    """Keep random blocks alive, each full of its own number; name those that another overwrote."""
    chosen = random.Random(seed)
    alive: dict[int, torch.Tensor] = {}
    wrong = []
    for number in range(rounds):
        size = chosen.choice([0, 1, 100, 4096, 300_000, 2_000_000]) + chosen.randrange(50)
        fresh = torch.empty(size, device="xpu", dtype=torch.int32).fill_(number)
        alive[number] = fresh if chosen.random() < 0.5 else fresh + 0
        if len(alive) > 12:
            old = chosen.choice(list(alive))
            if not bool((alive.pop(old) == old).all()):
                wrong.append(f"block {old} of seed {seed}")
    return wrong + [f"block {n} of {seed}" for n, x in alive.items() if not bool((x == n).all())]


def test_blocks_do_not_overlap() -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda s=seed: found.extend(fill_and_check(s, 150)))
               for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.xpu.empty_cache()
    assert found + fill_and_check(9, 150) == []


def test_memory_of_large_blocks_goes_back_to_the_host() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    blocks = [torch.ones(n << 20, device="xpu") for n in range(20, 26)]
    assert resident() - before > 2**29
    del blocks
    torch.xpu.empty_cache()
    assert resident() - before < 2**27


def test_range_is_below_what_the_host_maps() -> None:
    """Else parts of one compiled kernel may come to lie on both sides, too far apart to link."""
    block = torch.empty(1 << 20, device="xpu")
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        libraries = [int(line.split("-")[0], 16) for line in maps if ".so" in line]
    assert block.data_ptr() + (1 << 41) < min(libraries)
