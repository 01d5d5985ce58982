"""The generated launch code: what reaches the driver for every type, and what is refused."""

from __future__ import annotations

import importlib.util
import math
import struct
from typing import Any

import numpy as np
import pytest

from triton_xe.backend.launcher import make_direct
from triton_xe.conditions import Table
from triton_xe.errors import DeviceError
from triton_xe.runtime import native
from triton_xe.runtime.level_zero import launcher, raw
from triton_xe.runtime.level_zero.device import open_devices
from triton_xe.runtime.level_zero.errors import LevelZeroError
from triton_xe.runtime.native.arguments import make_direct_launcher, read_tensors
from triton_xe.runtime.versions import Versions
from triton_xe.tools.sample_kernel import to_spirv, vector_add

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch  # before there is a fake GPU, so that it gets the simulated device
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
HIGH = 0xFFFF_8000_0000_0000
"""Where no plain memory of a process can be."""


class Tensor:
    """Anything with data_ptr() may stand for a pointer."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer

    def data_ptr(self) -> Any:
        return self.pointer


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def path(request: pytest.FixtureRequest) -> None:
    """Every test runs in C and in Python, unless it is about what only C does."""
    Launch.in_python = request.param == "plain"
    if Launch.in_python and request.node.get_closest_marker("compiled"):
        pytest.skip("what Python does not do")
    if not Launch.in_python and native.launch is None:
        pytest.skip("launch.c was not built")


class Launch:
    """A launch function of given types on the fake driver."""

    in_python = False

    def __init__(self, *types: str) -> None:
        self.device = launcher.device_state(in_python=self.in_python)
        self.device.list, self.device.context, self.device.device = 7, 8, 2
        self.state = launcher.kernel_state(self.device, 5, types)
        self.call = launcher.make_launcher(self.device, self.state, "k", types)

    def __call__(self, *values: Any, grid: tuple[Any, ...] = (3, 2, 1), stream: int = 0) -> int:
        """0, or the code of Level Zero."""
        try:
            self.call(stream, *grid, *values)
        except LevelZeroError as error:
            return error.code
        return 0

    def why(self, *values: Any, **options: Any) -> str:
        with pytest.raises(DeviceError) as raised:
            self(*values, **options)
        return str(raised.value)


@pytest.mark.parametrize(
    ("kind", "value", "packed"),
    [
        ("i1", True, b"\1"), ("i1", 0, b"\0"), ("i8", -128, b"\x80"), ("i8", 255, b"\xff"),
        ("i16", -2, b"\xfe\xff"), ("i32", -1, b"\xff" * 4), ("i32", 2**32 - 1, b"\xff" * 4),
        ("i64", -(2**63), bytes(7) + b"\x80"), ("i64", 2**64 - 1, b"\xff" * 8),
        ("i32", np.int64(7), struct.pack("<i", 7)), ("i64", -1, b"\xff" * 8),
        ("f64", 0.1, struct.pack("<d", 0.1)), ("f32", 0.1, struct.pack("<f", 0.1)),
        ("f32", -1.0, struct.pack("<f", -1.0)), ("f32", 3, struct.pack("<f", 3.0)),
        ("f32", 1e300, struct.pack("<f", math.inf)), ("f16", 0.1, struct.pack("<e", 0.1)),
        ("f16", -1.0, struct.pack("<e", -1.0)), ("bf16", 1.0, b"\x80\x3f"),
        ("bf16", 1.00390625, b"\x80\x3f"), ("bf16", 1.01171875, b"\x82\x3f"),
        ("bf16", math.inf, b"\x80\x7f"), ("bf16", math.nan, b"\xc0\x7f"),
        ("ptr", 0x123456789AB, struct.pack("<Q", 0x123456789AB)), ("ptr", None, bytes(8)),
        ("ptr", 0, bytes(8)), ("ptr", 2**64 - 4096, struct.pack("<Q", 2**64 - 4096)),
        ("ptr", Tensor(0x8000), struct.pack("<Q", 0x8000)), ("slm", 1024, None),
    ],
)
def test_packing(fake: Any, kind: str, value: Any, packed: bytes | None) -> None:
    assert Launch(kind)(value) == 0
    assert fake.arguments == {0: packed}
    assert fake.launches == [(3, 2, 1)]


def test_many_arguments_arrive_in_order_at_their_index(fake: Any) -> None:
    types = ("ptr", "i32", "f32", "i64") * 8
    values = [v for n in range(8) for v in (4096 * (n + 1), n, n / 2, -n)]
    assert Launch(*types)(*values) == 0
    layouts = {"ptr": "<Q", "i32": "<i", "f32": "<f", "i64": "<q"}
    assert [fake.arguments[n] for n in range(32)] == [
        struct.pack(layouts[kind], value) for kind, value in zip(types, values, strict=True)
    ]


def test_positions_skip_values_that_are_no_arguments(fake: Any) -> None:
    no = "constexpr"
    launch = Launch(no, "i32", no, no, "i32", no)
    assert launch("block", 11, object(), None, 22, "more") == 0
    assert fake.arguments == {0: struct.pack("<i", 11), 1: struct.pack("<i", 22)}
    assert "argument 4 (" in launch.why("block", 11, None, None, 1 << 40, "more")


@pytest.mark.compiled
def test_only_changed_numbers_and_all_pointers_are_set_again(fake: Any) -> None:
    launch = Launch("ptr", "i32", "i32")
    assert launch(4096, 1, 2) == 0
    assert launch(4096, 1, 3) == 0
    assert fake.sets == [0, 1, 2, 0, 2]
    fake.codes["zeKernelSetArgumentValue"] = 0x70000003
    assert launch(4096, 9, 3) == 0x70000003
    del fake.codes["zeKernelSetArgumentValue"]
    fake.sets.clear()
    assert launch(4096, 9, 3) == 0
    assert fake.sets == [0, 1, 2]


def asked(fake: Any) -> int:
    """How often the driver was asked what an address is, since the last time."""
    count = fake.calls.count("zeMemGetAllocProperties")
    fake.calls.clear()
    return int(count)


@pytest.mark.compiled
def test_an_allocation_of_a_device_is_asked_about_once(fake: Any) -> None:
    launch = Launch("ptr", "ptr")
    fake.memory_range = lambda pointer: (HIGH, 1 << 20)
    assert launch(HIGH + 512, HIGH) == 0
    assert launch(HIGH + 1024, HIGH + (1 << 20) - 1) == 0
    assert asked(fake) == 1
    fake.memory_range = lambda pointer: (HIGH + (1 << 20), 64)
    assert launch(HIGH + (1 << 20), HIGH) == 0
    assert asked(fake) == 1
    fake.codes["zeMemGetAddressRange"] = 0x70000003
    for _ in range(2):
        assert launch(HIGH + (2 << 20), HIGH) == 0
    assert asked(fake) == 2


@pytest.mark.parametrize("kind", [raw.HOST_MEMORY, raw.SHARED_MEMORY, raw.DEVICE_MEMORY])
def test_memory_where_plain_memory_could_be_is_asked_about_each_time(fake: Any, kind: int) -> None:
    launch = Launch("ptr")
    fake.memory_type = lambda pointer: kind
    fake.memory_range = lambda pointer: (4096, 1 << 20)
    assert launch(4096) == launch(4096) == launch((1 << 47) - 8) == 0
    assert asked(fake) == 3
    fake.memory_type = lambda pointer: raw.UNKNOWN_MEMORY
    assert "plain host memory" in launch.why(4096)


@pytest.mark.compiled
def test_memory_of_the_runtime_is_known_until_it_is_freed(fake: Any) -> None:
    (device,) = open_devices()
    kernel = device.load(to_spirv(vector_add()), "vector_add")
    memory, other = device.allocate(64, kind="host"), device.allocate(64)
    p = memory.pointer
    fake.calls.clear()
    device.launch(kernel, (1, 1, 1), (p, p + 63, other.pointer, 7))
    assert asked(fake) == 0
    memory.free()
    fake.memory_type = lambda pointer: raw.UNKNOWN_MEMORY
    with pytest.raises(DeviceError, match=r"argument 0 .* plain host memory"):
        device.launch(kernel, (1, 1, 1), (p, other.pointer, other.pointer, 7))
    assert asked(fake) > 0
    device.launch(kernel, (1, 1, 1), (other.pointer,) * 3 + (7,))
    assert asked(fake) == 0
    device.forget_pointers()
    with pytest.raises(DeviceError, match="plain host memory"):
        device.launch(kernel, (1, 1, 1), (other.pointer,) * 3 + (7,))


def test_an_empty_grid_launches_nothing(fake: Any) -> None:
    launch = Launch("i32")
    for grid in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (65536, 65536, 0)):
        assert launch(1, grid=grid) == 0
    assert fake.launches == []
    assert launch(1, grid=(65536, 65536, 2)) == 0
    assert fake.launches == [(65536, 65536, 2)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("i1", 2), ("i1", -1), ("i8", 256), ("i8", -129), ("i16", 65536), ("i32", 2**32),
     ("i32", -(2**31) - 1)],
)
def test_integers_that_do_not_fit(fake: Any, kind: str, value: int) -> None:
    assert Launch("i32", kind).why(0, value) == (
        f"cannot launch kernel 'k': argument 1 ({value}) does not fit the type of the parameter"
    )
    assert fake.launches == []


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("i32", 1.5, TypeError), ("i64", 2**64, OverflowError), ("i64", "1", TypeError),
        ("f32", "x", TypeError), ("f16", 1e6, OverflowError), ("ptr", "x", TypeError),
        ("ptr", Tensor("y"), TypeError), ("ptr", 2**64, OverflowError),
        ("i32", 2**64, OverflowError),
    ],
)
def test_wrong_python_types_raise(fake: Any, kind: str, value: Any, error: type) -> None:
    launch = Launch(kind)
    with pytest.raises(error):
        launch(value)
    assert fake.launches == []


def test_refused_memory(fake: Any) -> None:
    launch = Launch("i32", "ptr")
    fake.memory_type = lambda pointer: raw.UNKNOWN_MEMORY
    assert "argument 1 (0x1000) points to plain host memory" in launch.why(0, 4096)
    assert "argument 1 (ndarray) points to plain host memory" in launch.why(0, np.zeros(8))
    for kind in (raw.HOST_MEMORY, raw.SHARED_MEMORY, raw.IMPORTED_MEMORY, raw.DEVICE_MEMORY):
        fake.memory_type = lambda pointer, kind=kind: kind
        assert launch(0, 4096 * (kind + 2)) == 0
    fake.memory_owner = 3
    assert "argument 1 points to the memory of another GPU" in launch.why(0, 1 << 20)
    fake.codes["zeMemGetAllocProperties"] = 0x70000001
    assert launch(0, 1 << 21) == 0x70000001


def test_wrong_counts_grids_and_closed_kernels(fake: Any) -> None:
    launch = Launch("i32")
    assert launch.why() == "cannot launch kernel 'k': it takes 1 arguments, got 0"
    assert launch(1, grid=(2**31 - 1, 1, 1)) == 0
    fake.launches.clear()
    assert "the grid (1, 2147483648, 1) is not of three" in launch.why(1, grid=(1, 2**31, 1))
    assert "the grid (1, 1, -1) is not" in launch.why(1, grid=(1, 1, -1))
    assert "the grid (1, 1, 1.0) is not" in launch.why(1, grid=(1, 1, 1.0))
    launch.device.list = 0
    assert "closed" in launch.why(1, stream=9)
    launch.device.list, launch.state.handle = 7, 0
    assert "closed" in launch.why(1)
    assert fake.launches == []


def test_bad_signatures_are_refused(fake: Any) -> None:
    with pytest.raises(DeviceError, match="type 'i128'"):
        Launch("i128")


def test_a_kernel_of_very_many_parameters_can_be_launched(fake: Any) -> None:
    assert Launch(*["i32"] * 300)(*range(300)) == 0
    assert fake.arguments == {n: struct.pack("<i", n) for n in range(300)}


def test_references_are_kept_in_balance(fake: Any) -> None:
    import sys

    launch, tensor, big = Launch("ptr", "i64"), Tensor(2**60 + 12345), 2**62 + 17
    before = (sys.getrefcount(tensor), sys.getrefcount(tensor.pointer), sys.getrefcount(big))
    for _ in range(100):
        assert launch(tensor, big) == 0
    assert before == (
        sys.getrefcount(tensor), sys.getrefcount(tensor.pointer), sys.getrefcount(big)
    )


class Handle:
    """What Triton would hand over as the loaded kernel."""

    def __init__(self, launch_state: Any) -> None:
        self.launch_state = launch_state


class Hooks:
    def __init__(self, *calls: Any) -> None:
        self.calls = list(calls)


class Direct:
    """A direct launcher of (pointer, constant, i32) on the fake driver, and what it leaves over."""

    types = ("ptr", "i32")

    def __init__(self, kernel_types: tuple[str, ...] = types) -> None:
        launch = Launch(*kernel_types)
        self.device, self.state = launch.device, launch.state
        self.left: list[tuple[Any, ...]] = []
        self.handle = Handle(self.state)
        types = (self.types[0], "constexpr", self.types[1])
        self.call = make_direct_launcher(types, lambda *given: self.left.append(given))

    def __call__(
        self, *values: Any, grid: Any = (2, 3, 4), stream: int = 0, hooks: Any = (None, None),
        handle: Any = None,
    ) -> Any:
        function = self.handle if handle is None else handle
        return self.call(*grid, stream, function, None, {}, *hooks, *values)


@pytest.mark.compiled
def test_a_direct_launch_takes_tritons_arguments(fake: Any) -> None:
    direct = Direct()
    assert direct(Tensor(0x100), "constant", -5) is None
    assert fake.launches == [(2, 3, 4)]
    assert fake.arguments == {0: struct.pack("<Q", 0x100), 1: struct.pack("<i", -5)}
    direct(None, 0, 7, grid=(0, 1, 1), hooks=(Hooks(), Hooks()))
    assert (len(fake.launches), direct.left) == (1, [])


@pytest.mark.compiled
def test_a_repeated_launch_asks_the_driver_for_no_more_than_it_must(fake: Any) -> None:
    direct = Direct()
    for number in (1, 2, 2):
        fake.calls.clear()
        direct(HIGH, 0, number)
    assert fake.calls == ["zeKernelSetArgumentValue", "zeCommandListAppendLaunchKernel"]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ((0x100, 0, 2**40), {}),
        ((0x100, 0, "text"), {}),
        ((object(), 0, 1), {}),
        ((0x100, 0), {}),
        ((0x100, 0, 1), {"grid": (-1, 1, 1)}),
        ((0x100, 0, 1), {"grid": (1, "x", 1)}),
        ((0x100, 0, 1), {"stream": 77}),
        ((0x100, 0, 1), {"handle": 5}),
        ((0x100, 0, 1), {"handle": Handle(5)}),
        ((0x100, 0, 1), {"hooks": (Hooks(print), None)}),
        ((0x100, 0, 1), {"hooks": (None, Hooks(print))}),
        ((0x100, 0, 1), {"hooks": (5, None)}),
    ],
)
def test_unusual_direct_launches_are_left_over(
    values: Any, options: dict[str, Any], fake: Any
) -> None:
    direct = Direct()
    assert direct(*values, **options) is None
    assert fake.launches == []
    assert [left[9:] for left in direct.left] == [values]


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["i1", "u1", "i8", "u64", "fp16", "bf16", "fp32", "fp64", "*fp16"])
def test_every_scalar_and_pointer_can_be_launched_directly(kind: str, fake: Any) -> None:
    def general(*given: Any) -> None: ...

    assert make_direct((kind, "constexpr"), general) is not general
    assert make_direct((kind, ("i32",)), general) is general


@pytest.mark.compiled
def test_direct_launches_follow_the_state(fake: Any) -> None:
    other = Direct(("ptr", "i64"))
    other(0x100, 0, 1)
    direct = Direct()
    direct.device.stream, direct.device.stream_list = 77, 99
    direct(0x100, 0, 1, stream=77)
    assert (len(fake.launches), len(other.left), direct.left) == (1, 1, [])
    fake.codes["zeCommandListAppendLaunchKernel"] = 0x70000001
    direct(0x100, 0, 1)
    direct.state.handle = 0
    direct(0x100, 0, 1)
    assert len(direct.left) == 2


@needs_torch
def test_torch_tensors_are_read_through_dlpack(fake: Any) -> None:
    direct = Launch("ptr")
    tensor, parameter = torch.zeros(8), torch.nn.Parameter(torch.zeros(8))
    read_tensors(torch.Tensor, torch.nn.Parameter)
    complex_part = torch.zeros(8, dtype=torch.complex64).conj()
    for value in (tensor, tensor[3:], parameter, torch.zeros(0), complex_part):
        assert direct(value) == 0
        assert fake.arguments[0] == struct.pack("<Q", value.data_ptr())
    read_tensors(Tensor, Tensor)


@needs_torch
@pytest.mark.compiled
def test_torch_tells_where_its_xpu_tensors_are(fake: Any) -> None:
    launch, here = Launch("ptr"), torch.zeros(8, device="xpu")
    read_tensors(torch.Tensor, torch.nn.Parameter)
    fake.memory_type = lambda pointer: raw.UNKNOWN_MEMORY
    assert "plain host memory" in launch.why(here)
    asked(fake)
    launcher.trust_device_of(launch.device, here)
    assert (launch.device.dlpack_type, launch.device.dlpack_id) == (14, here.device.index)
    assert launch(here) == launch(here[3:]) == launch(torch.nn.Parameter(here)) == 0
    assert asked(fake) == 0
    assert "plain host memory" in launch.why(torch.zeros(8))
    launch.device.dlpack_id += 1
    fake.memory_type, fake.memory_owner = lambda pointer: raw.DEVICE_MEMORY, 3
    assert "the memory of another GPU" in launch.why(here)
    assert native.launch.device_of(b"") == (0, 0)


@pytest.mark.compiled
def test_compiled_and_plain_launches_share_a_kernel(fake: Any) -> None:
    """What Python set, C sets again; and C keeps off while Python sets."""
    launch = Launch("ptr", "i32")
    plain = launcher.PlainLaunch(launch.device, launch.state, "k", ("ptr", "i32"))
    assert launch(4096, 1) == 0
    plain(0, 1, 1, 1, 4096, 2)
    assert launch(4096, 1) == 0
    assert fake.arguments[1] == struct.pack("<i", 1)
    launch.state.is_busy, fake.sets[:] = 1, []
    assert launch(4096, 1) == 0
    assert (fake.sets, launch.state.is_busy) == ([0, 1], 0)


class Other:
    """A loaded general version."""

    def __init__(self, device: Any, handle: int, types: tuple[str, ...]) -> None:
        self.launch_state = launcher.kernel_state(device, handle, types)


def test_launches_that_fail_a_condition_take_another_version(fake: Any) -> None:
    launch, loaded = Launch("ptr", "i32"), []
    table = Table()
    table.require("multiple", table.step("address", 0), 4, what="the base is aligned")
    covered = table.step("multiply", table.step("programs", 0), table.constant(32))
    table.require("at_least", covered, table.step("argument", 1, 0, 32), what="all is covered")

    def load() -> Any:
        loaded.append(Other(launch.device, 6, ("ptr", "i32")))
        return loaded[0]

    launcher.assume(launch.state, Versions("k", table, load))
    cases = [(4096, 96, 5), (4096, 97, 6), (4104, 96, 6), (4096, -1, 5), (4112, 96, 5)]
    for pointer, size, kernel in cases * 2:
        fake.arguments.clear()
        assert launch(pointer, size) == 0
        assert fake.kernels[-1] == kernel
        assert launch(Tensor(pointer), size, grid=(0, 1, 1)) == 0  # not launched, not compiled
    assert fake.kernels == [kernel for *_, kernel in cases] * 2
    assert len(loaded) == 1


def test_without_a_general_version_a_launch_is_refused(fake: Any) -> None:
    launch, table = Launch("i64"), Table()
    table.require("at_least", table.step("argument", 0), table.constant(0), what="it is positive")
    launcher.assume(launch.state, Versions("k", table, None))
    assert launch(0) == 0
    assert launch.why(-1).endswith(
        "it does not hold that it is positive; compile it with guards='kernel'")
