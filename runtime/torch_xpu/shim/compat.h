// What differs between the versions of torch that the shim is compiled for, 2.8 to 2.15; everything
// else is written for the newest.  Each class below has what a version's own class lacks, so that
// one `override` in the shim is right for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <ATen/detail/XPUHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8,
              "the simulated xpu device is for torch 2.8 and later");

namespace c10 {
#if TORCH_VERSION_MINOR < 10
struct DeviceCapability {};
#endif
#if TORCH_VERSION_MINOR < 9
using MempoolId_t = std::pair<std::uint64_t, std::uint64_t>;
#endif
}  // namespace c10

namespace triton_xe::compat {

struct Guard : c10::impl::DeviceGuardImplInterface {
#if TORCH_VERSION_MINOR < 11
  virtual void* getStreamNativeHandle(const c10::Stream) const = 0;
#endif
#if TORCH_VERSION_MINOR < 10
  virtual c10::DeviceCapability getDeviceCapability(c10::Device) const = 0;
#endif
};

// Before 2.13 torch makes the hooks from an argument, which holds nothing.
struct Hooks : at::XPUHooksInterface {
#if TORCH_VERSION_MINOR < 13
  Hooks() = default;
  explicit Hooks(at::XPUHooksArgs) {}
#endif
};

#if TORCH_VERSION_MINOR < 9
struct DeviceAllocator : c10::Allocator {
  virtual bool initialized() = 0;
  virtual void emptyCache(c10::MempoolId_t) = 0;
  virtual void recordStream(const c10::DataPtr&, c10::Stream) = 0;
  virtual c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) = 0;
  virtual void resetAccumulatedStats(c10::DeviceIndex) = 0;
  virtual void resetPeakStats(c10::DeviceIndex) = 0;
  virtual std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) = 0;
};
#elif TORCH_VERSION_MINOR < 10
struct DeviceAllocator : c10::DeviceAllocator {
  virtual std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) = 0;
};
#else
using c10::DeviceAllocator;
#endif

}  // namespace triton_xe::compat
