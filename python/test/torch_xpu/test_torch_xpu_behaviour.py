"""The simulated device behaves like a GPU: devices, memory, streams, randomness, errors."""

from __future__ import annotations

import ast
import copy
import ctypes
import io
import itertools
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from triton_xe.hardware.target import target
from triton_xe.runtime import torch_memory
from triton_xe.runtime.torch_xpu import activation

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")


def test_forward_and_backward() -> None:
    x = torch.arange(6.0, device="xpu").reshape(2, 3)
    w = torch.ones(3, 2, device="xpu", requires_grad=True)
    (x @ w).sum().backward()
    assert w.grad.device == torch.device("xpu:0")
    assert w.grad.tolist() == [[3.0, 3.0], [5.0, 5.0], [7.0, 7.0]]
    assert torch.accelerator.current_accelerator().type == "xpu"


def test_tensor_knows_its_device() -> None:
    x = torch.ones(2, device="xpu")
    assert x.is_xpu
    assert not x.is_cpu
    assert x.get_device() == 0
    assert x.cpu().device.type == "cpu"
    assert x.cpu().data_ptr() != x.data_ptr()
    assert torch.ones(2).xpu().device == torch.device("xpu:0")
    assert x.to("xpu") is x
    assert "device='xpu:0'" in repr(x)
    assert "xpu" in str(torch.nn.Linear(2, 2).to("xpu").weight)


def test_numpy_needs_a_copy_to_the_host() -> None:
    x = torch.ones(2, device="xpu")
    with pytest.raises(TypeError, match="xpu"):
        x.numpy()
    assert x.cpu().numpy().tolist() == [1.0, 1.0]


def test_mixed_devices_are_refused() -> None:
    x, y = torch.ones(2, device="xpu"), torch.ones(2)
    with pytest.raises(RuntimeError, match="at least two devices, xpu:0 and cpu"):
        x + y
    with pytest.raises(RuntimeError, match="at least two devices, xpu:0 and cpu"):
        torch.cat([y, x])
    with pytest.raises(RuntimeError, match="same device"):
        torch.add(x, x, out=y)
    assert (x + torch.tensor(1.0)).tolist() == [2.0, 2.0]
    assert y.copy_(x * 3).tolist() == [3.0, 3.0]


def test_lists_of_several_devices_are_taken_one_at_a_time() -> None:
    host, device = torch.arange(3.0), torch.arange(4.0, device="xpu")
    for sums in (torch._foreach_add([host, device], [host, device]),
                 torch._foreach_mul([host, device], 2.0)):
        assert [each.device.type for each in sums] == ["cpu", "xpu"]
        assert [each.tolist() for each in sums] == [[0, 2, 4], [0, 2, 4, 6]]
    torch._foreach_copy_([device, host], [-torch.arange(4.0), -host])
    assert device.tolist() == [0, -1, -2, -3]
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch._foreach_add([host, device], [device[:3], device])


def test_default_device() -> None:
    with torch.device("xpu"):
        assert torch.ones(2).device.type == "xpu"
    assert torch.ones(2).device.type == "cpu"


def test_gradients_to_second_order() -> None:
    x = torch.tensor([2.0], device="xpu", requires_grad=True)
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert second.item() == 12.0


def test_gradient_that_is_zero_everywhere() -> None:
    x = torch.rand(3, device="xpu", requires_grad=True)
    torch.sgn(x).sum().backward()
    assert (x.grad + 1).tolist() == [1.0] * 3
    zero = torch._efficientzerotensor(2, device="xpu")
    assert zero.cpu().tolist() == [0.0, 0.0]


def test_forward_mode_derivative() -> None:
    x = torch.rand(3, device="xpu")
    value, slope = torch.func.jvp(lambda x: x.square() + 1, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(slope, 2 * x)
    assert value.device.type == "xpu"


def test_gradcheck_of_a_small_network() -> None:
    layer = torch.nn.Linear(3, 2).double().to("xpu")
    x = torch.rand(2, 3, device="xpu", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x).sigmoid(), (x,))


def test_function_transforms() -> None:
    x = torch.rand(3, 4, device="xpu")
    per_row = torch.func.vmap(torch.func.grad(lambda row: row.square().sum()))(x)
    torch.testing.assert_close(per_row, 2 * x)


def test_checkpointing() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()).to("xpu")
    x = torch.rand(2, 4, device="xpu", requires_grad=True)
    torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert x.grad.device.type == "xpu"


def test_autograd_from_several_threads() -> None:
    gradients: list[Any] = []

    def work(scale: float) -> None:
        x = torch.ones(50, 50, device="xpu", requires_grad=True)
        for _ in range(5):
            (x @ x * scale).sum().backward()
        gradients.append((scale, x.grad[0, 0].item()))

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(gradients) == [(scale, 500.0 * scale) for scale in (1.0, 2.0, 3.0, 4.0)]


def test_save_and_load() -> None:
    x = torch.rand(3, device="xpu")
    file = io.BytesIO()
    torch.save({"x": x, "view": x[1:]}, file)
    for location, device in ((None, "xpu:0"), ("cpu", "cpu"), ("xpu", "xpu:0")):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert str(loaded["x"].device) == device
        assert loaded["x"].tolist() == x.tolist()
        whole, view = (loaded[name].untyped_storage() for name in ("x", "view"))
        assert whole.data_ptr() == view.data_ptr()


def test_pickle_and_deepcopy() -> None:
    x = torch.rand(3, device="xpu", requires_grad=True)
    assert pickle.loads(pickle.dumps(x)).device.type == "xpu"
    twin = copy.deepcopy(x)
    assert twin.device.type == "xpu"
    assert twin.data_ptr() != x.data_ptr()
    assert twin.requires_grad
    module = copy.deepcopy(torch.nn.LSTM(2, 3).to("xpu"))
    assert next(module.parameters()).device.type == "xpu"


def test_dlpack_shares_memory() -> None:
    x = torch.rand(3, device="xpu")
    y = torch.from_dlpack(x)
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()


def test_storage_resizes_and_set() -> None:
    x = torch.ones(4, device="xpu")
    x.resize_(2, 8)
    assert x.shape == (2, 8)
    assert x.flatten()[:4].tolist() == [1.0] * 4
    y = torch.empty(0, device="xpu")
    y.set_(x)
    assert y.data_ptr() == x.data_ptr()
    y.set_()
    assert y.numel() == 0
    z = torch.ones(4, device="xpu")
    z.untyped_storage().resize_(0)
    assert z.untyped_storage().size() == 0
    z.untyped_storage().resize_(16)
    assert z.fill_(2).tolist() == [2.0] * 4


def test_autocast() -> None:
    x = torch.rand(4, 4, device="xpu")
    with torch.autocast("xpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        assert x.softmax(-1).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32


def test_gradient_scaler() -> None:
    weight = torch.ones(2, device="xpu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("xpu")
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.0, 0.0]


def test_generators() -> None:
    generator = torch.Generator(device="xpu")
    generator.manual_seed(3)
    first = torch.rand(3, device="xpu", generator=generator)
    state = generator.get_state()
    second = torch.rand(3, device="xpu", generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.rand(3, device="xpu", generator=generator), second)
    assert not torch.equal(first, second)
    with pytest.raises(RuntimeError, match="'xpu' device type for generator"):
        torch.rand(3, device="xpu", generator=torch.Generator())


def test_generator_is_a_seed_and_an_offset() -> None:
    generator = torch.Generator(device="xpu").manual_seed(3)
    assert generator.get_offset() == 0
    torch.rand(3, device="xpu", generator=generator)
    offset = generator.get_offset()
    assert offset > 0
    assert offset % 4 == 0
    second = torch.rand(3, device="xpu", generator=generator)
    again = torch.Generator(device="xpu").manual_seed(3)
    again.set_offset(offset)
    assert torch.equal(torch.rand(3, device="xpu", generator=again), second)
    assert generator.get_state().view(torch.int64).tolist() == [3, generator.get_offset()]
    assert generator.clone_state().get_offset() == generator.get_offset()
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(3)
    with pytest.raises(RuntimeError, match="16 bytes"):
        generator.set_state(torch.Generator().get_state())


def test_numbers_of_operators_look_independent() -> None:
    torch.manual_seed(1)
    rows = torch.stack([torch.randn(500, device="xpu") for _ in range(100)]).cpu().double()
    assert abs(rows.mean()) < 0.02
    assert abs(rows.std() - 1) < 0.02
    assert (torch.corrcoef(rows) - torch.eye(100)).abs().max() < 0.25


def test_seeding_and_fork_of_random_state() -> None:
    torch.manual_seed(7)
    want = torch.rand(2, device="xpu")
    torch.manual_seed(7)
    with torch.random.fork_rng(device_type="xpu"):
        torch.rand(5, device="xpu")
    assert torch.equal(torch.rand(2, device="xpu"), want)
    assert torch.xpu.initial_seed() == 7
    torch.xpu.set_rng_state(torch.xpu.get_rng_state())


def test_streams_and_events() -> None:
    stream = torch.xpu.Stream()
    assert stream.device == torch.device("xpu:0")
    default = torch.xpu.current_stream()
    with torch.xpu.stream(stream):
        assert torch.xpu.current_stream() == stream
        assert torch._C._xpu_getCurrentRawStream(0) == stream.sycl_queue
    assert torch.xpu.current_stream() == default != stream
    assert torch.xpu.Stream() != stream
    assert torch._C._xpu_getCurrentRawStream(0) == default.sycl_queue != 0
    stream.wait_stream(default)
    stream.synchronize()
    assert stream.query()
    torch.ones(1, device="xpu").record_stream(stream)
    assert torch.xpu.get_stream_from_external(default.sycl_queue) == default


@pytest.mark.parametrize("device", [-1, 1, 1 << 40])
def test_devices_that_do_not_exist_have_no_stream_and_are_not_waited_for(device: int) -> None:
    torch.xpu.init()
    for ask in (torch._C._xpu_getCurrentRawStream, torch._C._xpu_synchronize):
        with pytest.raises(RuntimeError, match=f"xpu:{device} does not exist"):
            ask(device)
    with pytest.raises(RuntimeError, match=f"xpu:{device} does not exist"):
        torch.xpu.synchronize(device)


def test_what_is_asked_around_launches_follows_the_device_and_its_stream() -> None:
    torch.xpu.synchronize()
    torch.xpu.synchronize("xpu:0")
    assert torch._C._xpu_getDevice() == torch.xpu.current_device() == 0
    with pytest.raises(ValueError, match="cpu"):
        torch.xpu.synchronize("cpu")
    stream, raw = torch.xpu.Stream(), torch._C._xpu_getCurrentRawStream(0)
    seen = []
    with torch.xpu.stream(stream):
        other = threading.Thread(target=lambda: seen.append(torch._C._xpu_getCurrentRawStream(0)))
        other.start()
        other.join()
        assert torch._C._xpu_getCurrentRawStream(0) == stream.sycl_queue != raw
    assert seen == [raw]


def test_events_never_coincide() -> None:
    events = [torch.xpu.Event(enable_timing=True) for _ in range(100)]
    for event in events:
        event.record()
    gaps = [a.elapsed_time(b) for a, b in itertools.pairwise(events)]
    assert min(gaps) > 0
    generic = [torch.Event("xpu", enable_timing=True) for _ in range(2)]
    for event in generic:
        event.record()
    assert generic[0].elapsed_time(generic[1]) > 0
    with pytest.raises(ValueError, match="recorded"):
        events[0].elapsed_time(torch.xpu.Event(enable_timing=True))


def test_accelerator_interface() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.xpu.device_count() >= 1
    assert torch.accelerator.current_device_index() == torch.xpu.current_device() == 0
    torch.accelerator.synchronize()
    torch.xpu.synchronize()
    x = torch.ones(1000, device="xpu")
    assert torch.Stream("xpu").device.type == "xpu"
    if hasattr(torch.accelerator, "memory_allocated"):  # since torch 2.9
        assert torch.accelerator.memory_allocated() >= x.nbytes
        torch.accelerator.empty_cache()


def test_properties_describe_the_target() -> None:
    properties = torch.xpu.get_device_properties()
    device = activation.targets()[0]
    assert properties.name == f"Simulated Intel {device.product} ({device.name})"
    assert properties.gpu_subslice_count == device.xe_cores
    assert properties.local_mem_size == device.max_slm_bytes
    assert properties.sub_group_sizes == list(device.subgroup_sizes)
    assert properties.total_memory == device.memory_bytes
    assert torch.xpu.get_device_name() == properties.name
    capability = torch.xpu.get_device_capability()
    assert capability["target_name"] == device.name
    assert capability["has_subgroup_2d_block_io"] == device.has_block_2d
    assert "uuid" not in capability


def test_memory_statistics_follow_allocations() -> None:
    torch.xpu.reset_peak_memory_stats()
    before = torch.xpu.memory_allocated()
    x = torch.empty(1 << 20, device="xpu", dtype=torch.uint8)
    assert torch.xpu.memory_allocated() == before + x.nbytes
    y = x + 1
    assert torch.xpu.memory_allocated() == before + x.nbytes + y.nbytes
    del x, y
    assert torch.xpu.memory_allocated() == before
    assert torch.xpu.max_memory_allocated() >= before + (2 << 20)
    free, total = torch.xpu.mem_get_info()
    assert total == activation.targets()[0].memory_bytes
    assert total - free == before


def test_out_of_memory_is_torchs_error() -> None:
    total = torch.xpu.mem_get_info()[1]
    before = torch.xpu.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError, match="XPU out of memory"):
        torch.empty(total + 1, device="xpu", dtype=torch.uint8)
    if not hasattr(torch.xpu, "set_per_process_memory_fraction"):
        return  # before torch 2.10
    torch.xpu.set_per_process_memory_fraction((before + (1 << 20)) / total)
    try:
        x = torch.empty(600_000, device="xpu", dtype=torch.uint8)
        with pytest.raises(torch.OutOfMemoryError):
            x + 1
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty_like(x)
    finally:
        torch.xpu.set_per_process_memory_fraction(1.0)
    del x
    assert torch.xpu.memory_allocated() == before


def test_allocations_are_known_and_aligned() -> None:
    x = torch.empty(1000, device="xpu", dtype=torch.uint8)
    assert x.data_ptr() % 256 == 0
    assert torch_memory.allocation_of(x.data_ptr()) == (x.data_ptr(), 1000, 0)
    assert torch_memory.allocation_of(x.data_ptr() + 999) == (x.data_ptr(), 1000, 0)
    assert torch_memory.allocation_of(x.data_ptr() + 1000) is None
    assert torch_memory.allocation_of(x.data_ptr() - 1) is None
    product = torch.rand(9, 9, device="xpu") @ torch.rand(9, 9, device="xpu")
    assert product.data_ptr() % 64 == 0
    assert torch_memory.allocation_of(product.data_ptr()) == (product.data_ptr(), 9 * 9 * 4, 0)
    assert torch.arange(100, device="xpu").data_ptr() % 256 == 0
    pointer = x.data_ptr()
    del x
    assert torch_memory.allocation_of(pointer) is None
    assert torch_memory.allocation_of(torch.ones(3).data_ptr()) is None


def test_addresses_of_freed_blocks_are_not_those_of_cpu_tensors() -> None:
    made = torch.empty(1 << 16, device="xpu")
    adopted = torch.ones(64, 1024, device="xpu") @ torch.ones(1024, 64, device="xpu")
    pointers = {x.data_ptr(): x.nbytes for x in (made, adopted)}
    del made, adopted
    for pointer, nbytes in pointers.items():
        assert torch_memory.allocation_of(pointer + 7, freed=True) == (pointer, nbytes, 0)
    cpu = [torch.empty(n) for n in (1 << 16, 64 * 64) for _ in range(100)]
    assert not {x.data_ptr() for x in cpu} & pointers.keys()


FREED = """
import torch
from triton_xe.runtime import torch_memory
first, second = (torch.empty(12_345, device="xpu") for _ in range(2))
pointers = first.data_ptr(), second.data_ptr()
del first
del second
again = torch.empty(12_345, device="xpu")
used = pointers.index(again.data_ptr())
assert torch_memory.allocation_of(pointers[used], freed=True) is None
torch.xpu.empty_cache()
assert torch_memory.allocation_of(pointers[used]) == (pointers[used], 4 * 12_345, 0)
print(used)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize(("checks", "used"), [("", 1), ("1", 0)])
def test_the_block_freed_last_is_used_again_and_under_checks_the_first(
    checks: str, used: int
) -> None:
    """In a process where nothing was checked before."""
    done = subprocess.run(
        [sys.executable, "-c", FREED], env={**os.environ, "TRITON_XE_SANITIZE": checks},
        capture_output=True, text=True, check=False)
    assert done.stdout == f"{used}\n", done.stderr


@pytest.mark.parametrize(("offset", "where"), [(-1, "just before"), (1000, "just after")])
def test_damaged_guard_bytes_are_reported(
    offset: int, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    library = activation.library()
    assert library is not None
    before = library.functions.xe_guard_violations()
    x = torch.empty(1000, device="xpu", dtype=torch.uint8)
    ctypes.memset(x.data_ptr() + offset, 0, 1)
    del x
    assert library.functions.xe_guard_violations() == before + 1
    assert f"wrote {where} the block of 1000 bytes" in capfd.readouterr().err


def test_pinned_memory() -> None:
    x = torch.ones(10).pin_memory()
    assert x.is_pinned()
    assert not torch.ones(10).is_pinned()
    assert x.to("xpu", non_blocking=True).sum().item() == 10.0
    assert torch.ones(4, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(4, device="xpu").pin_memory()


def test_data_loader_with_workers_and_pinning() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat([batch.to("xpu") for batch in batches]).sum().item() == 28.0


def test_fake_tensors_and_export() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(1 << 20, 1 << 20, device="xpu")
        assert (fake @ fake).device == torch.device("xpu:0")
    module = torch.nn.Linear(3, 2).to("xpu")
    program = torch.export.export(module, (torch.ones(1, 3, device="xpu"),))
    x = torch.rand(1, 3, device="xpu")
    torch.testing.assert_close(program.module()(x), module(x))


def test_custom_operator() -> None:
    @torch.library.custom_op("xe_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert twice(torch.ones(2, device="xpu")).tolist() == [2.0, 2.0]


def test_dispatch_mode_sees_device_operators() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Record():
        torch.ones(2, 2, device="xpu") @ torch.ones(2, 2, device="xpu")
    assert "aten.mm.default" in seen


def test_inference_mode() -> None:
    x = torch.ones(2, device="xpu", requires_grad=True)
    with torch.inference_mode():
        y = x * 2
        assert y.is_inference()
        assert y.add_(1).view(2, 1)[0].item() == 3.0


def test_sparse_is_refused_in_one_sentence() -> None:
    with pytest.raises(NotImplementedError, match=r"strided tensors only|SparseXPU"):
        torch.eye(3, device="xpu").to_sparse()


def test_profiler_shows_kernels_and_operators_with_device_times() -> None:
    from torch.profiler import ProfilerActivity, profile

    triton = pytest.importorskip("triton")
    tl = triton.language

    def noted(out, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), tl.arange(0, N))

    globals()["tl"] = tl
    kernel = triton.jit(noted)
    out = torch.empty(16, dtype=torch.int32, device="xpu")
    kernel[(1,)](out, N=16)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as seen:
        for _ in range(3):
            kernel[(1,)](out, N=16)
        out.float() @ out.float()
    on_device = {event.key: event for event in seen.key_averages() if event.device_time_total > 0}
    assert on_device["noted"].count == 3
    assert on_device["aten::dot"].device_time_total > 0


def test_properties_that_torch_has_for_cuda_only() -> None:
    properties = torch.xpu.get_device_properties()
    with pytest.raises(AttributeError, match="on xpu it is 'gpu_subslice_count'"):
        properties.multi_processor_count  # noqa: B018
    assert getattr(properties, "regs_per_multiprocessor", 7) == 7
    if hasattr(properties, "uuid"):  # torch 2.8 has none
        assert len(properties.uuid.bytes) == 16
        assert str(properties.uuid).count("-") == 4
    else:
        assert torch.__version__ < "2.9"


def test_properties_are_those_of_torchs_class() -> None:
    """Torch's own stub lists them, also where torch has no XPU."""
    stub = ast.parse((Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text())
    (theirs,) = (node for node in stub.body
                 if isinstance(node, ast.ClassDef) and node.name == "_XpuDeviceProperties")
    names = {node.target.id for node in theirs.body
             if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    ours = set(vars(torch.xpu.get_device_properties())) - {"target_name"}
    assert names <= ours
    assert "multi_processor_count" not in names
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13):  # older ones list fewer
        assert ours == names


def test_target_table_is_the_source(tmp_path: Path) -> None:
    from triton_xe.runtime.torch_xpu.properties import properties_of

    pvc = properties_of(target("pvc"), 1)
    assert pvc.total_memory == 48 << 30
    assert pvc.architecture == 12 << 22 | 60 << 14
    assert not properties_of(target("dg2"), 0).has_subgroup_2d_block_io
    assert properties_of(target("lnl"), 0).is_integrated_gpu


def test_attention_is_exported_in_inference_mode(xpu: None) -> None:
    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    q, mask = torch.randn(1, 2, 8, 4), torch.ones(8, 8, dtype=torch.bool).tril()
    with torch.inference_mode():
        made = torch.export.export(Attention(), (q.to("xpu"), mask.to("xpu")), strict=True)
        got = made.module()(q.to("xpu"), mask.to("xpu"))
    torch.testing.assert_close(got.cpu(), Attention()(q, mask), rtol=1e-4, atol=1e-5)


def test_memory_that_nobody_wrote_is_filled_where_algorithms_are_deterministic(xpu: None) -> None:
    def made() -> list[list[float]]:
        x = torch.ones(2, device="xpu")
        return [each.tolist() for each in (
            torch.empty(3, device="xpu"), torch.empty_like(x), x.new_empty_strided((2,), (1,)),
            x.clone().resize_(4)[2:], torch.ops.aten.resize(x, (5,))[2:])]

    torch.use_deterministic_algorithms(True)
    try:
        assert all(value != value for values in made() for value in values)
        assert torch.ones(2, device="xpu").resize_(3)[:2].tolist() == [1, 1]
    finally:
        torch.use_deterministic_algorithms(False)
