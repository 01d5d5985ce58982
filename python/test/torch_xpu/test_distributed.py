"""Training on two simulated devices, one process each, equals training in one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed")

SCRIPT = """
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.fsdp import fully_shard

kind, backend = sys.argv[1:]
world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
device = torch.device("xpu", rank)
torch.xpu.set_device(device)
torch.manual_seed(0)
norm = nn.BatchNorm1d if kind.startswith("batch") else nn.LayerNorm
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), norm(16), nn.Linear(16, 4)).to(device)
if world > 1:
    dist.init_process_group(backend if backend != "default" else None)
    lists = [torch.empty(2, device=device) for _ in range(world)]
    dist.all_gather(lists, torch.full((2,), float(rank), device=device))
    assert [x.tolist() for x in lists] == [[0, 0], [1, 1]]
    if backend == "xccl":
        gathered = torch.empty(1, 4, device=device)
        dist.all_gather_into_tensor(gathered, lists[rank])
        assert gathered.tolist() == [[0, 0, 1, 1]]
        part = torch.empty(2, 1, device=device)
        dist.reduce_scatter_tensor(part, gathered)
        assert part.tolist() == [[2 * rank], [2 * rank]]
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
if kind.endswith("ddp"):
    model = DistributedDataParallel(model, device_ids=[rank])
elif kind == "fsdp":
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
run = torch.compile(model) if kind.startswith("compiled") else model
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
inputs, targets = torch.randn(3, 8, 8), torch.randn(3, 8, 4)
for x, y in zip(inputs.chunk(world, 1)[rank], targets.chunk(world, 1)[rank]):
    loss = nn.functional.mse_loss(run(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss = loss.detach()
    if world > 1:
        dist.all_reduce(loss)
    print(f"{loss.item() / world:.4f}")
if world > 1:
    dist.destroy_process_group()
"""


def losses(kind: str, backend: str, world: int, folder: Path) -> list[str]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    starter = [] if world == 1 else [
        "-m", "torch.distributed.run", "--nproc-per-node", str(world), "--master-port", port,
        "--local-ranks-filter", "0"]
    done = subprocess.run(
        [sys.executable, *starter, str(script), kind, backend], check=False, timeout=200, text=True,
        env=os.environ | {"TRITON_XE_DEVICE": "sim:bmg,bmg"}, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.usefixtures("xpu")
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    alone = losses("alone", "none", 1, tmp_path)
    assert len(alone) == 3
    for kind, backend in (("ddp", "xccl"), ("ddp", "gloo"), ("fsdp", "xccl"), ("fsdp", "default"),
                          ("compiled ddp", "xccl")):
        assert losses(kind, backend, 2, tmp_path) == alone, (kind, backend)


@pytest.mark.slow
@pytest.mark.usefixtures("xpu")
def test_two_processes_normalize_one_batch(tmp_path: Path) -> None:
    alone = losses("batch norm", "none", 1, tmp_path)
    assert len(alone) == 3
    assert losses("batch norm ddp", "xccl", 2, tmp_path) == alone
