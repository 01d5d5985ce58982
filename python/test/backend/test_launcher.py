"""The generated launch function: what reaches the device, and what is refused."""

from dataclasses import dataclass, field

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_xe.backend.launcher import make_launch
from triton_xe.errors import DeviceError
from triton_xe.hardware.rounding import bf16_bits


class Hooks:
    def __init__(self, *calls):
        self.calls = list(calls)

    def __call__(self, metadata):
        for call in self.calls:
            call(metadata)


NO_HOOK = Hooks()


@dataclass
class Recorder:
    """Stands for a device and for a loaded kernel on it."""

    index: int = 0
    kernel: str = "kernel"
    launches: list = field(default_factory=list)

    @property
    def device(self):
        return self

    def launch(self, kernel, grid, args, *, stream, **more):
        self.launches.append((kernel, grid, tuple(args), stream, *more.items()))


class Pointer:
    """A tensor of no framework."""

    def __init__(self, address):
        self.address = address

    def data_ptr(self):
        return self.address


def launched(signature, *args, grid=(1, 1, 1), names=None, hooks=(NO_HOOK, NO_HOOK), **scratch):
    names = names or tuple(f"x{i}" for i in range(len(signature)))
    device = Recorder()
    make_launch("k", names, signature, **scratch)(*grid, 7, device, None, "m", *hooks, *args)
    return device.launches


def test_one_launch_may_ask_for_the_sanitizer():
    (launch,) = launched(("i32",), 5, sanitize=True)
    assert launch == ("kernel", (1, 1, 1), (5,), 7, ("sanitize", True))


def test_constants_are_dropped_and_numbers_pass():
    signature = ("*fp32", "i32", "constexpr", "fp32", "u1")
    tensor = Pointer(64)
    (launch,) = launched(signature, tensor, 5, 128, 1.5, True, grid=(3, 2, 1))
    assert launch == ("kernel", (3, 2, 1), (64, 5, 1.5, 1), 7,
                      ("tensors", (((0, "x0"),), (tensor,))))


def test_tuples_are_taken_apart():
    signature = (("*fp32", "constexpr", ("i32", "*fp16")), "i64")
    (launch,) = launched(signature, (Pointer(64), 3, (4, Pointer(128))), 9)
    assert launch[2] == (64, 4, 128, 9)


def test_an_empty_grid_launches_nothing():
    for grid in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        assert launched(("i32",), 1, grid=grid) == []


def test_no_arguments():
    assert launched(()) == [("kernel", (1, 1, 1), (), 7)]


def test_bf16_scalars_travel_as_bits():
    (launch,) = launched(("bf16",), 1.0)
    assert launch[2] == (0x3F80,)
    values = torch.tensor([0.0, -0.0, 1.00390625, 3.3895e38, float("inf"), 1e-40, -2.7])
    expected = values.to(torch.bfloat16).view(torch.int16).tolist()
    assert [bf16_bits(v) for v in values.tolist()] == [x & 0xFFFF for x in expected]
    assert bf16_bits(float("nan")) & 0x7FFF > 0x7F80


def test_a_host_descriptor_becomes_its_fields():
    base = torch.empty(32, 64, dtype=torch.float16, device="meta")
    descriptor = TensorDescriptor(base, [32, 64], [64, 1], [16, 16])
    descriptor.base = Pointer(4096)
    (launch,) = launched(("tensordesc<fp16[16, 16]>", "i32"), descriptor, 3)
    assert launch[2] == (4096, 32, 64, 64, 1, 0, 0, 32, 64, 64, 1, 3)


def test_a_descriptor_of_another_rank_is_refused():
    base = torch.empty(32, 64, dtype=torch.float16, device="meta")
    descriptor = TensorDescriptor(base, [32, 64], [64, 1], [16, 16])
    with pytest.raises(ValueError, match=r"'d' has rank 2, but was compiled for rank 1"):
        launched(("tensordesc<fp16[16]>",), descriptor, names=("d",))


def test_a_cpu_tensor_is_refused_by_name():
    with pytest.raises(ValueError, match=r"kernel 'k': argument 'a_ptr' is a tensor on cpu.*\.to"):
        launched(("*fp32",), torch.ones(4), names=("a_ptr",))


def test_a_tensor_of_another_device_with_the_same_number_is_refused_by_name():
    """As one on cuda:0 is beside xpu:0; here those on the CPU have the number of the device."""
    other, device = torch.ones(4), Recorder(index=-1)
    assert other.get_device() == device.index
    launch = make_launch("k", ("a_ptr",), ("*fp32",))
    with pytest.raises(ValueError, match="argument 'a_ptr' is a tensor on cpu"):
        launch(1, 1, 1, 7, device, None, "m", NO_HOOK, NO_HOOK, other)


def test_an_empty_cpu_tensor_is_a_null_pointer_and_one_without_memory_is_refused():
    (launch,) = launched(("*fp32", "i32"), torch.empty(0), 3)
    assert launch[2] == (0, 3)
    with pytest.raises(ValueError, match="argument 'x' is a tensor on meta"):
        launched(("*fp32",), torch.empty(4, device="meta"), names=("x",))


def test_a_cpu_tensor_inside_a_tuple_is_refused_by_path():
    with pytest.raises(ValueError, match=r"argument 't\[1\]'"):
        launched((("i32", "*fp32"),), (1, torch.ones(4)), names=("t",))


class Strict(Recorder):
    """A GPU: takes tensors, refuses some."""

    def launch(self, kernel, grid, args, *, stream):
        if any(hasattr(arg, "data_ptr") and arg.data_ptr() % 64 for arg in args):
            raise DeviceError("argument 0 points to plain host memory")
        super().launch(kernel, grid, args, stream=stream)


def launched_on_gpu(*args):
    device = Strict()
    launch = make_launch("k", ("a", "n"), ("*fp32", "i32"), device_checks=True)
    launch(1, 1, 1, 7, device, None, "m", NO_HOOK, NO_HOOK, *args)
    return device.launches


def test_a_gpu_takes_tensors_as_they_are():
    tensor = Pointer(64)
    assert launched_on_gpu(tensor, 3)[0][2] == (tensor, 3)


def test_what_a_gpu_refuses_is_named_when_it_is_a_cpu_tensor():
    with pytest.raises(ValueError, match="argument 'a' is a tensor on cpu"):
        launched_on_gpu(torch.ones(64)[1:], 3)
    with pytest.raises(DeviceError, match="plain host memory"):
        launched_on_gpu(Pointer(65), 3)


def test_what_is_no_tensor_is_refused():
    with pytest.raises(ValueError, match="'x0' is str, neither a tensor nor an array"):
        launched(("*fp32",), "text")


def test_none_and_addresses_are_pointers():
    (launch,) = launched(("*fp32", "*fp32"), None, 4096)
    assert launch[2] == (0, 4096)


def test_hooks_run_around_the_launch_and_are_skipped_when_empty():
    seen = []
    enter, leave = Hooks(lambda m: seen.append(("in", m))), Hooks(lambda m: seen.append(("out", m)))
    assert len(launched(("i32",), 1, hooks=(enter, leave))) == 1
    assert seen == [("in", "m"), ("out", "m")]
    assert len(launched(("i32",), 1, hooks=(None, None))) == 1


def test_scratch_is_allocated_per_program_and_passed_last():
    import triton

    asked = []

    def allocate(size, align, stream):
        asked.append((size, align, stream))
        return Pointer(512)

    triton.set_allocator(allocate)
    (launch,) = launched(("i32",), 1, grid=(2, 3, 1), global_scratch=(128, 64))
    assert launch[2] == (1, 512)
    assert asked == [(6 * 128, 64, 7)]
