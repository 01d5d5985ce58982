"""The simulated device in other processes: several devices, forks, torch's compilers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `script` on a simulated device in a fresh Python with these variables set."""
    inherited = os.environ | {"TRITON_XE_DEVICE": "sim:bmg"}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=inherited | environment,
        capture_output=True, text=True, check=False, timeout=120)


def output(script: str, **environment: str) -> str:
    done = run(script, **environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.strip()


@pytest.mark.usefixtures("xpu")
def test_two_devices() -> None:
    assert output("""
        import io, torch
        assert torch.xpu.device_count() == 2
        names = [torch.xpu.get_device_properties(i).target_name for i in range(2)]
        x = torch.ones(3, device="xpu:0", requires_grad=True)
        y = x.to("xpu:1") * 2
        y.sum().backward()
        assert x.grad.tolist() == [2.0] * 3 and str(x.grad.device) == "xpu:0"
        w = torch.ones(2, device="xpu:1")
        assert str(torch.randn(2, device="xpu:1").matmul(w).device) == "xpu:1"
        for bad in (lambda: x + y, lambda: torch.ones(1, device="xpu:0").add_(y)):
            try:
                bad()
            except RuntimeError as error:
                assert "two devices, xpu:0 and xpu:1" in str(error), error
            else:
                raise AssertionError
        with torch.xpu.device(1):
            z = torch.empty(4, device="xpu")
            assert str(z.device) == "xpu:1" and torch.xpu.current_device() == 1
            assert torch._C._xpu_getDevice() == 1
        assert torch.xpu.current_device() == 0
        from triton_xe.runtime import torch_memory
        assert torch_memory.allocation_of(z.data_ptr()).device == 1
        assert torch.xpu.memory_allocated(1) > 0
        file = io.BytesIO()
        torch.save(x, file); file.seek(0)
        assert str(torch.load(file, map_location="xpu:1").device) == "xpu:1"
        torch.xpu.manual_seed_all(4)
        first = torch.rand(2, device="xpu:0")
        assert torch.equal(torch.rand(2, device="xpu:1").cpu(), first.cpu())
        assert torch._C._xpu_getCurrentRawStream(0) != torch._C._xpu_getCurrentRawStream(1)
        for call in (lambda: torch.ones(1, device="xpu:2"), lambda: torch.xpu.set_device(2)):
            try:
                call()
            except RuntimeError as error:
                assert "xpu:2 does not exist" in str(error), error
            else:
                raise AssertionError
        print(*names)
        """, TRITON_XE_DEVICE="sim:bmg,pvc") == "bmg pvc"


@pytest.mark.usefixtures("xpu")
def test_fork_spawn_and_exit(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(textwrap.dedent("""
        import os, sys, threading
        import torch
        import torch.multiprocessing as mp

        def child(queue):
            queue.put(torch.ones(3, device="xpu").sum().item())

        def forked(x):
            sys.exit(0 if (x + 1).sum().item() == 6.0 else 1)

        if __name__ == "__main__":
            x = torch.ones(3, device="xpu")
            stop = threading.Event()
            def churn():
                while not stop.is_set():
                    torch.empty(10, device="xpu")
            thread = threading.Thread(target=churn, daemon=True); thread.start()
            for _ in range(5):
                process = mp.get_context("fork").Process(target=forked, args=(x,))
                process.start(); process.join(20)
                assert process.exitcode == 0, process.exitcode
            stop.set(); thread.join()
            context = mp.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            assert queue.get(timeout=60) == 3.0
            process.join()
            sys.kept = (x, torch.randn(3, device="xpu").add(1), torch.xpu.Stream())
            print("done")
        """))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


@pytest.mark.rest
@pytest.mark.usefixtures("xpu")
def test_forks_while_other_threads_allocate() -> None:
    """Without locks that forks wait for, four runs of five hang within 200 forks."""
    assert output("""
        import os, signal, threading, torch

        def churn():
            while True:
                (torch.empty(10, device="xpu") + 1).softmax(0)

        x = torch.ones(3, device="xpu")
        (x + 1).sum().item()
        for _ in range(4):
            threading.Thread(target=churn, daemon=True).start()
        hung = 0
        for _ in range(100):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                os._exit(0 if (x + 1).sum().item() == 6.0 else 1)
            hung = hung or os.waitpid(pid, 0)[1]
        print(hung, flush=True)
        os._exit(0)
        """) == "0"


@pytest.mark.rest
@pytest.mark.usefixtures("xpu")
def test_torch_xpu_has_the_names_of_an_xpu_build() -> None:
    """Executing `torch.xpu` again, as in a build with XPU, binds nothing else from elsewhere."""
    assert output("""
        import importlib, torch
        before = dict(vars(torch.xpu))
        after = vars(importlib.reload(torch.xpu))
        taken = [name for name, each in after.items() if callable(each)
                 and getattr(each, "__module__", None) != "torch.xpu" and name[:2] != "__"]
        assert "_exchange_device" in taken and "Stream" in taken
        print([name for name in taken if before[name] is not after[name]])
        """) == "[]"


@pytest.mark.usefixtures("xpu")
def test_a_seed_from_before_the_first_use_counts() -> None:
    assert output("""
        import torch
        torch.xpu.manual_seed(5)
        first = torch.rand(3, device="xpu")
        torch.xpu.manual_seed(5)
        print(torch.equal(first, torch.rand(3, device="xpu")))
        """) == "True"


@pytest.mark.rest
@pytest.mark.usefixtures("xpu")
def test_compiler_stack_knows_the_device() -> None:
    assert output("""
        import sys, torch
        assert "torch._inductor.config" not in sys.modules
        import torch._inductor.config as config
        import torch._inductor.runtime.benchmarking as benchmarking
        from triton_xe.runtime.torch_xpu import inductor
        if hasattr(benchmarking, "_BENCHMARK_DISPATCH"):
            assert benchmarking._BENCHMARK_DISPATCH["xpu"] is inductor.benchmark
            ours = {"device": "xpu"}
        else:  # before torch 2.12
            ours = {}
        calls = []
        x = torch.ones(1, device="xpu")
        timed = lambda one: calls.append(one)
        assert benchmarking.benchmarker.benchmark(timed, (x,), {}, **ours) > 0
        assert len(calls) == 1, calls  # the device's clock tells its time
        at_once = benchmarking.benchmarker.benchmark_gpu
        assert at_once(lambda: calls.append(torch.mm(x[None], x[None])), warmup=5) > 0
        assert len(calls) == 2, calls
        assert len(at_once(lambda: None, return_mode="all")) == 1
        from torch._dynamo.device_interface import get_interface_for_device
        interface = get_interface_for_device("xpu")
        assert interface.is_available() and interface.get_raw_stream(0)
        assert torch._C._dynamo.guards._empty_strided_xpu((2,), (1,), torch.float16).is_xpu
        is_new = inductor.torch_version() >= (2, 11)
        assert getattr(config, "use_static_triton_launcher", is_new) == is_new

        @torch.compile(backend="aot_eager")
        def step(x, w):
            return (x @ w).relu().sum()
        w = torch.ones(3, 3, device="xpu", requires_grad=True)
        step(torch.ones(3, 3, device="xpu"), w).backward()
        print(w.grad[0].tolist())
        """) == "[3.0, 3.0, 3.0]"
