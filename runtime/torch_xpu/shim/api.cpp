// What Python calls, through ctypes; indices are checked on the Python side.
#include "shim.h"

#include <torch/library.h>

using triton_xe::Block;

namespace {

auto& last_error = *new std::string;

at::Generator default_generator(std::int64_t index) {
  return triton_xe::default_generator(static_cast<c10::DeviceIndex>(index));
}

torch::Library& library(torch::Library::Kind kind, const char* name,
                        std::optional<c10::DispatchKey> key) {
  return *new torch::Library(kind, name, key, __FILE__, __LINE__);
}

// 0, or -1 with the reason in `last_error`.
template <typename F>
int attempt(F action) {
  try {
    action();
    return 0;
  } catch (const c10::Error& error) {
    last_error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return -1;
}

void start(int count, const std::uint64_t* capacities) {
  using c10::DispatchKey;
  using torch::Library;
  auto& xpu = library(Library::IMPL, "aten", DispatchKey::XPU);
  auto& autograd = library(Library::IMPL, "aten", DispatchKey::AutogradXPU);
  triton_xe::register_kernels(xpu);
  triton_xe::register_contractions(xpu);
  triton_xe::register_batch_norm(xpu);
  triton_xe::register_group_norm(xpu);
  auto& nested = library(Library::IMPL, "aten", DispatchKey::NestedTensorXPU);
  triton_xe::register_composites(
      xpu, autograd, nested, library(Library::IMPL, "aten", DispatchKey::AutogradNestedTensor));
  triton_xe::register_collectives(library(Library::IMPL, "c10d", DispatchKey::XPU));
  triton_xe::set_libraries(xpu, nested);
  triton_xe::hold_results();
  library(Library::DEF, "triton_xe", std::nullopt)
      .def("_default_generator(int index) -> Generator?", default_generator);
  for (int i = 0; i < count; ++i) {
    triton_xe::set_capacity(static_cast<c10::DeviceIndex>(i), capacities[i]);
  }
  triton_xe::set_device_count(count);
  triton_xe::register_profiler();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Called once, before the first tensor: `capacities` holds the bytes of memory of each device.
// 0, or -1: see xe_last_error.
int xe_start(int count, const std::uint64_t* capacities) {
  return attempt([&] {
    triton_xe::retire_idle_cuda();
    triton_xe::replace_hooks();
    start(count, capacities);
    triton_xe::start_missing_backward_threads();
  });
}

// Before the first tensor; the first allocation does it too, for programs that no Python starts.
int xe_register_operators() {
  return attempt([] { triton_xe::register_operators(); });
}

const char* xe_last_error() {
  return last_error.c_str();
}

void* xe_graph_new() {
  return triton_xe::new_graph();
}

int xe_graph_begin(void* graph) {
  return attempt([&] { triton_xe::begin_capture(static_cast<triton_xe::Graph*>(graph)); });
}

int xe_graph_end(void* graph) {
  return attempt([&] { triton_xe::end_capture(static_cast<triton_xe::Graph*>(graph)); });
}

std::uint64_t xe_graph_size(void* graph) {
  return triton_xe::size_of(static_cast<triton_xe::Graph*>(graph));
}

int xe_graph_replay(void* graph, std::uint64_t from, std::uint64_t to) {
  return attempt([&] { triton_xe::replay(static_cast<triton_xe::Graph*>(graph), from, to); });
}

void xe_graph_drop(void* graph) {
  triton_xe::drop(static_cast<triton_xe::Graph*>(graph));
}

int xe_capturing() {
  return triton_xe::capturing();
}

void xe_note_kernel(const char* name, std::int64_t start, std::int64_t end, int device) {
  triton_xe::note_kernel(name, start, end, static_cast<c10::DeviceIndex>(device));
}

int xe_get_device() {
  return triton_xe::current_device();
}

void xe_set_device(int index) {
  triton_xe::set_current_device(static_cast<c10::DeviceIndex>(index));
}

std::int64_t xe_get_stream(int index) {
  return triton_xe::current_stream(static_cast<c10::DeviceIndex>(index)).id();
}

void xe_set_stream(int index, std::int64_t id) {
  c10::Device device(triton_xe::kXPU, static_cast<c10::DeviceIndex>(index));
  triton_xe::exchange_stream(c10::Stream(c10::Stream::UNSAFE, device, id));
}

std::uint64_t xe_stream_handle(int index, std::int64_t id) {
  c10::Device device(triton_xe::kXPU, static_cast<c10::DeviceIndex>(index));
  return triton_xe::stream_handle(c10::Stream(c10::Stream::UNSAFE, device, id));
}

// The devices, a bit each, whose operators may multiply floats in TF32.
void xe_set_tf32(std::uint64_t devices) {
  triton_xe::set_devices_in_tf32(devices);
}

std::int64_t xe_timestamp() {
  return triton_xe::timestamp();
}

// Fills the fields of Traffic, in their order.
void xe_take_traffic(int index, std::int64_t* values) {
  auto taken = triton_xe::take_traffic(static_cast<c10::DeviceIndex>(index));
  values[0] = taken.operators;
  values[1] = taken.read;
  values[2] = taken.written;
  values[3] = taken.narrow_products;
  values[4] = taken.wide_products;
}

// Fills base, size and device of the live (or, where asked, freed) block that contains `pointer`;
// 0 when there is none.
int xe_find_block(std::uint64_t pointer, int freed, std::uint64_t* base, std::uint64_t* size,
                  int* device) {
  Block block;
  auto find = freed ? triton_xe::find_freed_block : triton_xe::find_block;
  if (!find(pointer, &block)) {
    return 0;
  }
  *base = block.base;
  *size = block.size;
  *device = block.device;
  return 1;
}

// The blocks allocated from now on tell which of their bytes nothing has written.
void xe_track_writes() {
  triton_xe::track_writes();
}

// The map of what is unwritten in the live block that contains `pointer`, and where the block
// begins and ends; 0 when there is none.
std::uint64_t xe_unwritten(std::uint64_t pointer, std::uint64_t* base, std::uint64_t* size) {
  Block block;
  auto* map = triton_xe::unwritten(pointer, &block);
  *base = block.base;
  *size = block.size;
  return reinterpret_cast<std::uint64_t>(map);
}

// Takes all of the block that contains `pointer` as written.
void xe_mark_block(std::uint64_t pointer) {
  Block block;
  if (triton_xe::find_block(pointer, &block)) {
    triton_xe::mark_written(reinterpret_cast<const void*>(block.base), block.size);
  }
}

// How many blocks have such a map.
std::int64_t xe_maps() {
  return triton_xe::unwritten_maps();
}

std::int64_t xe_guard_violations() {
  return triton_xe::guard_violations();
}

void xe_set_capacity(int index, std::uint64_t bytes) {
  triton_xe::set_capacity(static_cast<c10::DeviceIndex>(index), bytes);
}

std::uint64_t xe_capacity(int index) {
  return triton_xe::capacity(static_cast<c10::DeviceIndex>(index));
}

// 7 statistics x 3 pools (all, small, large) x (current, peak, allocated, freed), then
// out-of-memory errors, allocations and frees.
void xe_memory_stats(int index, std::int64_t* values) {
  auto stats = triton_xe::allocator()->getDeviceStats(static_cast<c10::DeviceIndex>(index));
  for (auto* stat : {&stats.allocation, &stats.segment, &stats.active, &stats.allocated_bytes,
                     &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    for (auto& pool : *stat) {
      for (auto value : {pool.current, pool.peak, pool.allocated, pool.freed}) {
        *values++ = value;
      }
    }
  }
  *values++ = stats.num_ooms;
  *values++ = stats.num_device_alloc;
  *values++ = stats.num_device_free;
}

void xe_reset_peak_stats(int index) {
  triton_xe::allocator()->resetPeakStats(static_cast<c10::DeviceIndex>(index));
}

void xe_reset_accumulated_stats(int index) {
  triton_xe::allocator()->resetAccumulatedStats(static_cast<c10::DeviceIndex>(index));
}

}  // extern "C"
#pragma GCC visibility pop
