"""Which warps' copies of a loaded value matter, and what the checks make of it."""

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis.observers import observers

MODULE = """
define spir_kernel void @k(ptr addrspace(1) %p, ptr addrspace(3) %s) {
entry:
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %warp = call spir_func i32 @_Z16get_sub_group_idv()
  %copy = and i32 %warp, 2
  %owns = icmp eq i32 %copy, 0
  %stored = load i32, ptr addrspace(1) %p
  %sum = add i32 %stored, 1
  call void @llvm.genx.GenISA.PredicatedStore.p1.i32(ptr addrspace(1) %p, i32 %sum, i64 4, i1 %owns)
  %shared = load i32, ptr addrspace(1) %p
  store i32 %shared, ptr addrspace(3) %s
  %scalar = load i32, ptr addrspace(1) %p
  %thread = or i32 %lane, %warp
  %first = icmp eq i32 %thread, 0
  br i1 %first, label %then, label %done
then:
  store i32 %scalar, ptr addrspace(1) %p
  br label %done
done:
  %decides = load i32, ptr addrspace(1) %p
  %more = icmp eq i32 %decides, 0
  br i1 %more, label %done, label %end
end:
  %unused = load i32, ptr addrspace(1) %p
  ret void
}
"""


def test_copies_matter_where_they_are_stored_shared_or_decide():
    module = parse_module(MODULE)
    found = observers(module.functions["k"], 4)
    assert found["%stored"] == 0b0011
    assert found["%scalar"] == 0b0001
    assert found["%shared"] == found["%decides"] == 0b1111
    assert "%unused" not in found


@triton.jit
def scaled(x, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    value = tl.load(x + at)
    tl.store(out + at, value / tl.sum(value))


@triton.jit
def pairs(x, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    value = tl.load(x + at)
    tl.store(out + at, value + 1)
    tl.store(out + SIZE + at[:, None] * SIZE + at[None, :], value[:, None] + value[None, :])


@triton.jit
def added(x, out, total, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    value = tl.load(x + at)
    tl.atomic_add(total + at, value, sem="relaxed")
    tl.store(out + at, value * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_copies_that_are_not_added_to_memory_matter_not(dtype):
    x = torch.arange(16).to(dtype)
    device, total = x.to("xpu"), torch.zeros(16, dtype=dtype, device="xpu")
    added[(1,)](device, device, total, 16, num_warps=4, sanitize=True)
    assert torch.equal(device.cpu(), x * 2)
    assert torch.equal(total.cpu(), x)


@triton.jit
def added_twice(x, out, total, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    value = tl.load(x + at)
    tl.atomic_add(total + at[:, None] + 0 * at[None, :], value[:, None] + 0 * at[None, :])
    tl.store(out + at, value * 2)


@pytest.mark.parametrize("size", [4, 16, 32])
def test_kernels_in_place_with_fewer_elements_than_threads_are_right(size):
    x = torch.rand(size)
    device = x.to("xpu")
    scaled[(1,)](device, device, size, num_warps=4, sanitize=True)
    torch.testing.assert_close(device.cpu(), x / x.sum())


def test_copies_that_are_used_race():
    x = torch.rand(16 + 16 * 16).to("xpu")
    with pytest.raises(SimulatorTrap, match=r"data race: load .* argument 'x'"):
        pairs[(1,)](x, x, 16, num_warps=4, sanitize=True)


def test_copies_that_are_added_to_memory_race():
    x, total = torch.ones(16).to("xpu"), torch.zeros(16, device="xpu")
    with pytest.raises(SimulatorTrap, match=r"data race: .* argument 'x'"):
        added_twice[(1,)](x, x, total, 16, num_warps=4, sanitize=True)
