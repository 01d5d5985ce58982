// What the parts of the simulated XPU device share.
//
// Everything that lives as long as the process is created with `new` and never destroyed: tensors
// may die after static destructors have run, and their memory goes back through these objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "compat.h"

namespace torch {
class Library;
}

namespace c10 {
class OperatorHandle;
}

// 1 while torch.profiler records what the device does.
extern "C" int xe_profiling;

namespace triton_xe {

constexpr int kMaxDevices = 64;
constexpr auto kXPU = c10::DeviceType::XPU;

// locks.cpp: see there ----------------------------------------------------------------------------
// A lock is held by itself, or before those below it.
enum class Lock { kOneDnn, kGraph, kHeap, kRange, kTraffic, kKernels, kCount };
std::mutex& mutex_of(Lock lock);

// devices.cpp -------------------------------------------------------------------------------------
c10::DeviceIndex device_count();
void set_device_count(int count);
// The calling thread's device.
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);
// `index`, or the current device for -1; an error when there is no such device.
c10::DeviceIndex checked_device(c10::DeviceIndex index);
c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream new_stream(c10::DeviceIndex index);
// The number that kernels are launched with: never 0, and different for each stream.
std::uintptr_t stream_handle(const c10::Stream& stream);
// Nanoseconds; later calls return larger numbers, without exception.
std::int64_t timestamp();
// Operators, the bytes of tensors that they read and wrote, and the operations of their products of
// matrices with elements of up to two bytes and of more, since the last time they were taken.
struct Traffic {
  std::int64_t operators = 0;
  std::int64_t read = 0;
  std::int64_t written = 0;
  std::int64_t narrow_products = 0;
  std::int64_t wide_products = 0;
};
void count_traffic(c10::DeviceIndex index, const Traffic& more);
Traffic take_traffic(c10::DeviceIndex index);

// Where a program asked torch for accelerators, or ran a backward pass, before there were any.
void replace_hooks();
void start_missing_backward_threads();
// In a CUDA build on a machine without a CUDA device: let torch take XPU for its one accelerator.
void retire_idle_cuda();

// Makes `index` the current device until the end of the scope.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex index) : previous_(current_device()) {
    set_current_device(index);
  }
  ~DeviceScope() { set_current_device(previous_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex previous_;
};

// generators.cpp ----------------------------------------------------------------------------------
const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);
// The CPU generator that makes the numbers of an XPU generator's next operator.
const at::Generator& inner_generator(const at::Generator& generator);

// addresses.cpp: see there ------------------------------------------------------------------------
// Memory for a block, from the range of device addresses or, where that is used up, from the heap;
// null when there is none.
void* take_memory(std::size_t size);
void give_memory(void* memory);
// From now on, CPU tensors made in a ResultScope lie in the range: they become device memory.
void hold_results();
class ResultScope {
 public:
  ResultScope();
  ~ResultScope();
  ResultScope(const ResultScope&) = delete;
  ResultScope& operator=(const ResultScope&) = delete;
};

// memory.cpp --------------------------------------------------------------------------------------
struct Block {
  std::uintptr_t base = 0;
  std::size_t size = 0;
  c10::DeviceIndex device = -1;
};

compat::DeviceAllocator* allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* pointer);
void set_capacity(c10::DeviceIndex index, std::size_t bytes);
std::size_t capacity(c10::DeviceIndex index);
// The live block that contains `pointer`; false when there is none.
bool find_block(std::uintptr_t pointer, Block* block);
// The freed block that contains `pointer` and whose memory is held back; false when there is none.
bool find_freed_block(std::uintptr_t pointer, Block* block);
// Keep a map of the bytes that nothing has written yet for blocks allocated from now on, as for
// those allocated while TRITON_XE_SANITIZE asks for checks.
void track_writes();
// The map of the live block that contains `pointer`, a byte for each byte: 0xff where nothing has
// been written; null where all has been, or there is no map.
unsigned char* unwritten(std::uintptr_t pointer, Block* block);
// How many such maps there are.
std::int64_t unwritten_maps();
// What was written: all elements of a tensor, or bytes.
void mark_written(const at::Tensor& tensor);
void mark_written(const void* data, std::size_t size);
// How many blocks were freed with damaged guard bytes.
std::int64_t guard_violations();
struct SavedBlock {
  std::uintptr_t base;
  std::vector<unsigned char> bytes;
};
// The contents of all live blocks.
std::vector<SavedBlock> save_blocks();
// Puts contents back, and fills the blocks that were made since with `byte`.
void restore_blocks(const std::vector<SavedBlock>& saved, int byte);
// Device memory that is owned by `storage`, a CPU storage.
c10::DataPtr adopt(c10::Storage storage, c10::DeviceIndex index);

// twin.cpp: see there -----------------------------------------------------------------------------
c10::Storage twin_storage(const c10::Storage& storage);
at::Tensor twin_tensor(const at::Tensor& tensor, const c10::Storage& twin);
at::Tensor twin_tensor(const at::Tensor& tensor);
// A nested tensor of the same sizes over other memory, of XPU or CPU.
at::Tensor nested_over(const at::Tensor& tensor, const c10::Storage& storage, c10::DispatchKey key);

// capture.cpp: see there --------------------------------------------------------------------------
struct Graph;
Graph* new_graph();
void begin_capture(Graph* graph);
void end_capture(Graph* graph);
// How many operators the graph holds so far, and the replay of some of them.
std::size_t size_of(const Graph* graph);
void replay(const Graph* graph, std::size_t from, std::size_t to);
void drop(Graph* graph);
bool capturing();
void record(std::function<void()> step);
// Whether a graph is being captured, which then frees the memory when it is dropped.
bool free_after_graph(std::function<void()> free);
void refuse_in_capture(const std::string& what);
// A tensor of the same memory and shape, which in-place changes of the other's shape leave alone.
at::Tensor same_tensor(const at::Tensor& tensor);

// profiler.cpp ------------------------------------------------------------------------------------
// Times in nanoseconds of the system's clock.
void note_kernel(std::string name, std::int64_t start, std::int64_t end, c10::DeviceIndex device);
void register_profiler();

// What follows may throw, so it runs when Python asks for it and not while the library is loaded,
// where an exception would end the process.

// kernels.cpp, operators/: contractions, batch_norm, group_norm, composites, collectives ------------
void register_kernels(torch::Library& xpu);
void register_contractions(torch::Library& xpu);
void register_batch_norm(torch::Library& xpu);
void register_group_norm(torch::Library& xpu);
void register_composites(torch::Library& xpu, torch::Library& autograd, torch::Library& nested,
                         torch::Library& nested_autograd);
void register_collectives(torch::Library& xpu);

// operators/precision.cpp -------------------------------------------------------------------------
// The devices that may multiply floats in TF32; bit k stands for device k.
void set_devices_in_tf32(std::uint64_t devices);
bool multiplies_in_tf32(c10::DeviceIndex device);
// Puts rounded tensors for those that a product multiplies; other operators are left as they are.
void round_to_tf32(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

// Where a CPU has AMX but no FP8, oneDNN multiplies FP8 one number at a time; torch does in floats.
class WithoutOneDnn {
 public:
  WithoutOneDnn();
  ~WithoutOneDnn();
  WithoutOneDnn(const WithoutOneDnn&) = delete;
  WithoutOneDnn& operator=(const WithoutOneDnn&) = delete;

 private:
  static thread_local int depth_;
  bool before_ = true;
};

// fallback.cpp ------------------------------------------------------------------------------------
// Runs an operator of XPU tensors as the fallback does, for kernels that add to it.
void run_on_cpu(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);
// The fallback, and once more for each operator whose composite body must not run on XPU tensors.
// It changes the tables of all operators, so that not every `import torch` does it:
// `register_operators` does, the first time.  After register_kernels: operators with a kernel keep it.
void set_libraries(torch::Library& xpu, torch::Library& nested);
void register_operators();

}  // namespace triton_xe
