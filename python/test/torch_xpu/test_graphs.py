"""torch.xpu.XPUGraph on the simulated device: captured work runs at replays only."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("xpu"),
    pytest.mark.skipif(not hasattr(torch.xpu, "XPUGraph"), reason="this torch has no XPUGraph"),
]
triton = pytest.importorskip("triton")
tl = triton.language


@triton.jit
def scaled(x, out, factor, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) * factor)


def captured(work: Callable[[], object], **kwargs: object) -> tuple[object, object]:
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph, **kwargs):
        result = work()
    return graph, result


def test_a_capture_runs_nothing() -> None:
    x, count = torch.ones(4, device="xpu"), torch.zeros(4, device="xpu")
    graph, y = captured(lambda: x * 2 + count.add_(1))
    assert count.tolist() == [0] * 4
    assert y.isnan().all()
    graph.replay()
    graph.replay()
    assert count.tolist() == [2] * 4
    assert y.tolist() == [4] * 4


def test_a_replay_reads_todays_numbers_and_writes_to_the_same_memory() -> None:
    x = torch.zeros(16, device="xpu")

    def work() -> object:
        halves = torch.split(x.sin(), 8)
        out = torch.empty(16, device="xpu")
        torch.add(torch.cat(halves[::-1]), torch.tensor(1.0, device="xpu"), out=out)
        scaled[(1,)](out, out, 3.0, N=16)
        return out.t().clone()

    graph, out = captured(work)
    where = out.data_ptr()
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.randn(16))
        graph.replay()
        halves = x.cpu().sin().split(8)
        torch.testing.assert_close(out.cpu(), (torch.cat(halves[::-1]) + 1) * 3)
    assert out.data_ptr() == where


def test_random_numbers_are_new_in_each_replay() -> None:
    torch.xpu.manual_seed(5)
    graph, numbers = captured(lambda: torch.rand(8, device="xpu"))
    drawn = []
    for _ in range(2):
        graph.replay()
        drawn.append(numbers.clone())
    torch.xpu.manual_seed(5)
    assert torch.equal(drawn[0], torch.rand(8, device="xpu"))
    assert torch.equal(drawn[1], torch.rand(8, device="xpu"))


@pytest.mark.parametrize("work", [
    lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: x.nonzero(), lambda x: x[x > 0],
], ids=["item", "cpu", "nonzero", "mask"])
def test_what_needs_results_is_refused(work: Callable[[object], object]) -> None:
    x = torch.ones(4, device="xpu")
    with pytest.raises(RuntimeError, match="the stream is being captured into a graph"):
        captured(lambda: work(x + 1))
    assert not torch.xpu.is_current_stream_capturing()
    assert (x + 1).tolist() == [2] * 4


def train(steps: int, graphed: bool) -> object:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to("xpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = torch.randn(steps, 5, 8)
    x = torch.empty(5, 8, device="xpu")

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    x.copy_(batches[0])
    step()
    run = captured(step)[0].replay if graphed else step
    for batch in batches:
        x.copy_(batch)
        run()
    return torch.cat([p.detach().cpu().flatten() for p in model.parameters()])


def test_a_training_step_with_its_optimizer() -> None:
    torch.testing.assert_close(train(3, True), train(3, False))


def test_graphed_callables_have_gradients() -> None:
    layer = torch.nn.Linear(4, 4).to("xpu")
    graphed = torch.xpu.make_graphed_callables(layer, (torch.randn(2, 4, device="xpu"),))
    x = torch.randn(2, 4, device="xpu")
    out = graphed(x)
    out.sum().backward()
    torch.testing.assert_close(out, x @ layer.weight.T + layer.bias)
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(4, 4))


def test_pools_and_the_states_of_a_graph() -> None:
    x = torch.ones(2, device="xpu")
    handle = torch.xpu.graph_pool_handle()
    first, _ = captured(lambda: x + 1, pool=handle)
    second, y = captured(lambda: x + 2, pool=first.pool())
    assert tuple(first.pool()) == tuple(second.pool()) == tuple(handle)
    second.replay()
    second.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        second.replay()
    assert y.tolist() == [3, 3]
    with torch.xpu.use_mem_pool(torch.xpu.MemPool()):
        assert (x + 1).tolist() == [2, 2]
    kept = torch.xpu.XPUGraph(keep_graph=True)
    with torch.xpu.graph(kept):
        z = x + 5
    kept.instantiate()
    kept.replay()
    assert z.tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        kept.capture_begin()


def test_memory_of_a_graph_is_held_until_it_is_dropped() -> None:
    gc.collect()
    x = torch.ones(1 << 16, device="xpu")
    before = torch.xpu.memory_allocated()
    graph, _ = captured(lambda: scaled[(1,)](x + 1, torch.empty(64, device="xpu"), 2.0, N=64))
    assert torch.xpu.memory_allocated() >= before + x.nbytes
    del graph
    assert torch.xpu.memory_allocated() == before


@triton.jit
def small(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.device_assert(value < 9, "too large")
    tl.store(out + at, value * 2)


@pytest.mark.parametrize("checks", ["0", "1"])
def test_replays_report_failed_assertions(checks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", checks)
    x, out = torch.ones(16, device="xpu"), torch.zeros(16, device="xpu")
    graph, _ = captured(lambda: small[(1,)](x, out, N=16, debug=True))
    for value in (10.0, 3.0, 11.0):
        x[5] = value
        if value > 9:
            with pytest.raises(AssertionError, match=r"element \(5\): too large"):
                graph.replay()
        else:
            graph.replay()
        assert out[5].item() == 2 * value


def test_scratch_of_launches_is_held_until_their_graph_is_dropped() -> None:
    from triton_xe.backend import devices
    from triton_xe.runtime.torch_xpu.cpp import Kernel

    kernel, given = object.__new__(Kernel), []
    kernel.device, kernel.scratch, kernel.sites = devices.device(0), [(64, 16)], ()
    kernel.start = lambda grid, values, stream: given.extend(values)
    x = torch.ones(4, device="xpu")
    graph, _ = captured(lambda: (x + 1, kernel.launch((2, 1, 1), [], 0)))
    kernel.launch((2, 1, 1), [], 0)
    blocks = kernel.device.blocks
    held, freed = given
    assert blocks.find(held) is not None
    assert blocks.find(freed) is None
    graph.replay()
    assert blocks.find(held) is not None
    del graph
    gc.collect()
    assert blocks.find(held) is None
