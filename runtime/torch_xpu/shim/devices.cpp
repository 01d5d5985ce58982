// Devices, streams and events: the guard that torch drives them through, and torch's XPU hooks.
//
// Everything runs on the calling thread, so a stream is only a name and an event a time.
#include "shim.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>

#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/csrc/autograd/engine.h>

namespace triton_xe {
namespace {

std::atomic<int> count{0};
std::atomic<std::int64_t> last_time{0};
std::atomic<std::int64_t> streams_made{0};
auto& traffic_lock = mutex_of(Lock::kTraffic);
std::array<Traffic, kMaxDevices> traffic;
thread_local c10::DeviceIndex current = 0;
thread_local std::array<c10::StreamId, kMaxDevices> current_streams{};

c10::Stream make_stream(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kXPU, index), id);
}

struct Event {
  std::atomic<std::int64_t> time{0};
};

}  // namespace

c10::DeviceIndex device_count() {
  return static_cast<c10::DeviceIndex>(count.load());
}

void set_device_count(int value) {
  count = value;
}

c10::DeviceIndex current_device() {
  return current;
}

c10::DeviceIndex checked_device(c10::DeviceIndex index) {
  if (index == -1) {
    return current;
  }
  TORCH_CHECK(
      index >= 0 && index < device_count(),
      "xpu:", std::to_string(index), " does not exist: there ",
      device_count() == 1 ? "is 1 simulated device" : "are ",
      device_count() == 1 ? "" : std::to_string(device_count()) + " simulated devices",
      "; TRITON_XE_DEVICE=sim:<name>,<name> makes several.");
  return index;
}

void set_current_device(c10::DeviceIndex index) {
  current = checked_device(index);
}

c10::Stream current_stream(c10::DeviceIndex index) {
  index = checked_device(index);
  return make_stream(index, current_streams[index]);
}

c10::Stream exchange_stream(c10::Stream stream) {
  auto index = checked_device(stream.device_index());
  return make_stream(index, std::exchange(current_streams[index], stream.id()));
}

c10::Stream new_stream(c10::DeviceIndex index) {
  index = checked_device(index);
  return make_stream(index, (std::int64_t{index} + 1) << 32 | ++streams_made);
}

std::uintptr_t stream_handle(const c10::Stream& stream) {
  auto fallback = (std::int64_t{stream.device_index()} + 1) << 32;
  return static_cast<std::uintptr_t>(stream.id() ? stream.id() : fallback);
}

void count_traffic(c10::DeviceIndex index, const Traffic& more) {
  std::scoped_lock lock(traffic_lock);
  auto& all = traffic[index];
  all.operators += more.operators;
  all.read += more.read;
  all.written += more.written;
  all.narrow_products += more.narrow_products;
  all.wide_products += more.wide_products;
}

Traffic take_traffic(c10::DeviceIndex index) {
  std::scoped_lock lock(traffic_lock);
  return std::exchange(traffic[index], {});
}

std::int64_t timestamp() {
  auto clock = std::chrono::steady_clock::now().time_since_epoch();
  auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(clock).count();
  auto last = last_time.load();
  while (!last_time.compare_exchange_weak(last, now > last ? now : last + 1)) {
  }
  return now > last ? now : last + 1;
}

namespace {

// Number formatting by std::ostringstream crashes beside a libtorch with its own libstdc++.
std::string hexadecimal(const void* pointer) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%p", pointer);
  return text.data();
}

struct Guard final : compat::Guard {
  c10::DeviceType type() const override { return kXPU; }

  c10::Device exchangeDevice(c10::Device device) const override {
    auto previous = getDevice();
    set_current_device(device.index());
    return previous;
  }
  c10::Device getDevice() const override { return {kXPU, current_device()}; }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < device_count()) {
      current = device.index();
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }
  void synchronizeDevice(c10::DeviceIndex index) const override { checked_device(index); }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return make_stream(checked_device(device.index()), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return new_stream(device.index());
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return new_stream(device.index());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return exchange_stream(stream);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream_handle(stream));
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}

  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) {
      *event = new Event;
    }
    static_cast<Event*>(*event)->time = timestamp();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  double elapsedTime(void* start, void* end, c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "Both events must be recorded before calculating elapsed time.");
    auto from = static_cast<Event*>(start)->time.load();
    return static_cast<double>(static_cast<Event*>(end)->time.load() - from) * 1e-6;
  }
};

C10_REGISTER_GUARD_IMPL(XPU, Guard)

}  // namespace

// torch finds this class by its name, which must be XPUHooks.
struct XPUHooks final : compat::Hooks {
  using compat::Hooks::Hooks;

  void init() const override {}
  bool hasXPU() const override { return device_count() > 0; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  std::string showConfig() const override { return "simulated XPU devices of triton-xe"; }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getNumGPUs() const override { return device_count(); }
  c10::DeviceIndex current_device() const override { return triton_xe::current_device(); }
  c10::DeviceIndex getCurrentDevice() const override { return triton_xe::current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    auto previous = triton_xe::current_device();
    set_current_device(index);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? triton_xe::current_device() : exchangeDevice(index);
  }
  void deviceSynchronize(c10::DeviceIndex index) const override { checked_device(index); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(checked_device(index));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(checked_device(index));
  }
  std::int32_t getGlobalIdxFromDevice(const c10::Device& device) const override {
    return checked_device(device.index());
  }
  c10::Device getDeviceFromPtr(void* pointer) const override {
    Block block;
    TORCH_CHECK(
        find_block(reinterpret_cast<std::uintptr_t>(pointer), &block),
        "The pointer ", hexadecimal(pointer), " is not memory of a simulated xpu device.");
    return {kXPU, block.device};
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
};

}  // namespace triton_xe

namespace at {
using triton_xe::XPUHooks;
REGISTER_XPU_HOOKS(XPUHooks)
}  // namespace at

namespace triton_xe {

// torch looks for hooks once, and asked before the library was loaded it made some without XPU; it
// holds that object by reference, so ours is made in its place.
void replace_hooks() {
  const at::XPUHooksInterface& hooks = at::detail::getXPUHooks();
  if (dynamic_cast<const XPUHooks*>(&hooks) != nullptr) {
    return;
  }
  static_assert(sizeof(XPUHooks) == sizeof(at::XPUHooksInterface));
  auto* place = const_cast<at::XPUHooksInterface*>(&hooks);
  place->~XPUHooksInterface();
  new (place) XPUHooks();
}

namespace {
struct Engine : torch::autograd::Engine {
  static void start_missing_threads(torch::autograd::Engine& engine) {
    bool started = (engine.*&Engine::thread_pool_shared_) != nullptr;
    if (started && (engine.*&Engine::device_ready_queues_).empty()) {
      (engine.*&Engine::start_device_threads)();
    }
  }
};
}  // namespace

// torch starts a thread for each device at its first backward pass, which may have been before.
void start_missing_backward_threads() {
  Engine::start_missing_threads(torch::autograd::Engine::get_default_engine());
}

namespace {
// The answers of a torch that was built without CUDA.
struct NoCuda final : at::CUDAHooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return false; }
};
}  // namespace

// torch refuses two accelerators and counts those it was built with, not those that are there; it
// holds its one hooks object by reference and offers no way to exchange it, so the object is made
// anew in its place.
void retire_idle_cuda() {
  const auto& hooks = at::detail::getCUDAHooks();
  if (!hooks.isBuilt() || hooks.deviceCount() > 0) {
    return;
  }
  auto* place = const_cast<at::CUDAHooksInterface*>(&hooks);
  place->~CUDAHooksInterface();
  new (place) NoCuda();
}

}  // namespace triton_xe
