// Device memory: host memory (addresses.cpp) with guard bytes around it, counted and limited like a GPU's.
//
// The block map knows every live block, so that the simulator can tell a wild access from a good one.
// Freed blocks are held back for a while: until they are used again or given back, no other memory
// of the process can have their addresses.
#include "shim.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>

namespace triton_xe {
namespace {

constexpr std::size_t kAlign = 256;
constexpr std::size_t kGuard = 256;
constexpr unsigned char kGuardByte = 0xA5;
constexpr unsigned char kUnwritten = 0xFF;
constexpr std::size_t kSmallPool = 1 << 20;
constexpr std::size_t kRetiredBytes = std::size_t{1} << 28;
constexpr std::size_t kRetiredBlocks = 4096;

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using Stats = c10::CachingDeviceAllocator::DeviceStats;

struct Entry {
  std::size_t size;
  c10::DeviceIndex device;
  int users;
  bool guarded;
  std::shared_ptr<unsigned char[]> unwritten{};
};

// A freed block whose memory is still here: the allocator's own, or an adopted storage's.
struct Retired {
  std::uintptr_t base;
  std::size_t size;
  c10::DeviceIndex device;
  c10::Storage owner;
};

struct Heap {
  std::mutex& mutex = mutex_of(Lock::kHeap);
  std::map<std::uintptr_t, Entry> blocks;
  std::deque<Retired> retired;
  std::size_t retired_bytes = 0;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::array<Stats, kMaxDevices> stats{};
  std::array<std::size_t, kMaxDevices> capacity{};
  std::int64_t violations = 0;
  bool tracks_writes = false;
};

Heap& heap() {
  static auto* only = new Heap;
  return *only;
}

template <typename F>
void each_pool(StatArray& stat, std::size_t block, F update) {
  update(stat[static_cast<std::size_t>(StatType::AGGREGATE)]);
  auto pool = block < kSmallPool ? StatType::SMALL_POOL : StatType::LARGE_POOL;
  update(stat[static_cast<std::size_t>(pool)]);
}

template <typename F>
void each_stat(Stats& stats, F update) {
  for (auto* stat : {&stats.allocation, &stats.segment, &stats.active}) {
    update(*stat, false);
  }
  for (auto* stat : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                     &stats.requested_bytes}) {
    update(*stat, true);
  }
}

std::size_t used(const Stats& stats) {
  auto all = static_cast<std::size_t>(StatType::AGGREGATE);
  return static_cast<std::size_t>(stats.allocated_bytes[all].current);
}

// As c10::CachingAllocator::format_size, whose stream crashes beside a libtorch with its own
// libstdc++.
std::string format_size(std::size_t size) {
  static constexpr std::array<const char*, 4> kUnits = {"bytes", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(size);
  std::size_t unit = 0;
  for (; unit + 1 < kUnits.size() && value > 1024; ++unit) {
    value /= 1024;
  }
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", unit == 0 ? 0 : 2, value, kUnits[unit]);
  return text.data();
}

[[noreturn]] void out_of_memory(c10::DeviceIndex index, std::size_t size, std::size_t in_use,
                                std::size_t limit, const char* why) {
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "XPU out of memory. Tried to allocate ", format_size(size),
      ". Simulated device ", std::to_string(index), " has a total capacity of ",
      format_size(limit), " of which ", format_size(limit > in_use ? limit - in_use : 0),
      " is free", why, ".");
}

// Fails, and changes nothing, when the device has too little memory left.
void reserve(c10::DeviceIndex index, std::size_t size) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto& stats = heap().stats[index];
  auto limit = heap().capacity[index];
  auto in_use = used(stats);
  if (in_use + size > limit || in_use + size < size) {
    ++stats.num_ooms;
    out_of_memory(index, size, in_use, limit, "");
  }
  each_stat(stats, [&](StatArray& stat, bool bytes) {
    each_pool(stat, size, [&](auto& one) { one.increase(bytes ? size : 1); });
  });
  ++stats.num_device_alloc;
}

void give_back(c10::DeviceIndex index, std::size_t size) {
  auto& stats = heap().stats[index];
  each_stat(stats, [&](StatArray& stat, bool bytes) {
    each_pool(stat, size, [&](auto& one) { one.decrease(bytes ? size : 1); });
  });
  ++stats.num_device_free;
}

std::size_t back_guard(std::size_t size) {
  return kGuard + (kAlign - size % kAlign) % kAlign;
}

bool is_intact(const unsigned char* guard, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    if (guard[i] != kGuardByte) {
      return false;
    }
  }
  return true;
}

void report_damage(std::uintptr_t base, const Entry& entry, bool front) {
  ++heap().violations;
  std::fprintf(
      stderr,
      "triton-xe: a kernel wrote %s the block of %zu bytes at 0x%zx on xpu:%d (out of bounds); "
      "TRITON_XE_SANITIZE=1 finds the access.\n",
      front ? "just before" : "just after", entry.size, static_cast<std::size_t>(base),
      static_cast<int>(entry.device));
}

std::size_t whole_size(std::size_t size) {
  return kGuard + size + back_guard(size);
}

void give_to_host(const Retired& block) {
  if (!block.owner) {
    give_memory(reinterpret_cast<unsigned char*>(block.base) - kGuard);
  }
}

// Holds a block back.  Returns those that give way to it, for the caller to give to the host
// without the lock: an adopted storage runs its owner's code.
std::vector<Retired> retire(Retired block) {
  std::vector<Retired> leaving;
  auto& held = heap().retired;
  heap().retired_bytes += block.size;
  held.push_back(std::move(block));
  while (heap().retired_bytes > kRetiredBytes || held.size() > kRetiredBlocks) {
    heap().retired_bytes -= held.front().size;
    leaving.push_back(std::move(held.front()));
    held.pop_front();
  }
  return leaving;
}

// Whether launches are checked: that begins and ends with a variable that the program itself may set.
bool is_checked() {
  const char* asked = std::getenv("TRITON_XE_SANITIZE");
  return heap().tracks_writes || (asked != nullptr && *asked != 0 && std::string_view(asked) != "0");
}

// The memory of a block of this size; null when none is held back.  Of the one that was freed last,
// for that is in the host's caches; of the first while launches are checked, so that pointers to
// freed blocks are found for long.
unsigned char* reuse(std::size_t size) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto& held = heap().retired;
  auto fits = [size](const Retired& block) {
    return !block.owner && whole_size(block.size) == whole_size(size);
  };
  auto found = held.end();
  if (is_checked()) {
    found = std::find_if(held.begin(), held.end(), fits);
  } else if (auto last = std::find_if(held.rbegin(), held.rend(), fits); last != held.rend()) {
    found = std::prev(last.base());
  }
  if (found == held.end()) {
    return nullptr;
  }
  auto* memory = reinterpret_cast<unsigned char*>(found->base) - kGuard;
  heap().retired_bytes -= found->size;
  held.erase(found);
  return memory;
}

void empty_retired() {
  std::deque<Retired> leaving;
  {
    std::lock_guard<std::mutex> lock(heap().mutex);
    leaving.swap(heap().retired);
    heap().retired_bytes = 0;
  }
  for (auto& block : leaving) {
    give_to_host(block);
  }
}

unsigned char* host_memory(std::size_t size) {
  auto* found = reuse(size);
  if (found == nullptr) {
    found = static_cast<unsigned char*>(take_memory(whole_size(size)));
  }
  if (found == nullptr) {
    empty_retired();
    found = static_cast<unsigned char*>(take_memory(whole_size(size)));
  }
  return found;
}

void free_block(void* pointer) {
  if (free_after_graph([pointer] { free_block(pointer); })) {
    return;
  }
  auto base = reinterpret_cast<std::uintptr_t>(pointer);
  auto* bytes = static_cast<unsigned char*>(pointer);
  std::vector<Retired> leaving;
  {
    std::lock_guard<std::mutex> lock(heap().mutex);
    auto found = heap().blocks.find(base);
    if (found == heap().blocks.end()) {
      return;
    }
    auto entry = found->second;
    bool front = is_intact(bytes - kGuard, kGuard);
    if (!front || !is_intact(bytes + entry.size, back_guard(entry.size))) {
      report_damage(base, entry, !front);
    }
    heap().blocks.erase(found);
    give_back(entry.device, entry.size);
    leaving = retire({base, entry.size, entry.device, {}});
  }
  for (auto& block : leaving) {
    give_to_host(block);
  }
}

std::atomic<std::int64_t> maps{0};

// The map of a fresh block, while launches are checked.
std::shared_ptr<unsigned char[]> unwritten_map(std::size_t size) {
  if (!is_checked()) {
    return nullptr;
  }
  ++maps;
  auto* memory = static_cast<unsigned char*>(
      std::aligned_alloc(kAlign, (size + kAlign - 1) / kAlign * kAlign));
  std::shared_ptr<unsigned char[]> map(memory, [](unsigned char* freed) {
    std::free(freed);
    --maps;
  });
  std::memset(map.get(), kUnwritten, size);
  return map;
}

// The live block that contains an address; the caller holds the lock.
std::map<std::uintptr_t, Entry>::iterator block_of(std::uintptr_t pointer) {
  auto next = heap().blocks.upper_bound(pointer);
  if (next == heap().blocks.begin()) {
    return heap().blocks.end();
  }
  --next;
  return pointer - next->first < next->second.size ? next : heap().blocks.end();
}

// Marks the elements from dimension `dim` on, outermost first.
void mark_elements(const at::Tensor& tensor, std::int64_t dim, const char* data) {
  auto item = static_cast<std::int64_t>(tensor.element_size());
  if (dim == tensor.dim()) {
    mark_written(data, item);
    return;
  }
  auto count = tensor.size(dim), step = tensor.stride(dim) * item;
  if (dim == tensor.dim() - 1 && step == item) {
    mark_written(data, count * item);
    return;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    mark_elements(tensor, dim + 1, data + k * step);
  }
}

struct XeAllocator final : compat::DeviceAllocator {
  c10::DataPtr allocate(std::size_t size) override {
    register_operators();
    auto index = current_device();
    c10::Device device(kXPU, index);
    if (size == 0) {
      return {nullptr, nullptr, &free_block, device};
    }
    reserve(index, size);
    auto* block = host_memory(size);
    if (block == nullptr) {
      std::lock_guard<std::mutex> lock(heap().mutex);
      give_back(index, size);
      out_of_memory(index, size, used(heap().stats[index]), heap().capacity[index],
                    ", but the host has no memory left to hold it");
    }
    std::memset(block, kGuardByte, kGuard);
    std::memset(block + kGuard + size, kGuardByte, back_guard(size));
    auto* data = block + kGuard;
    std::lock_guard<std::mutex> lock(heap().mutex);
    heap().blocks[reinterpret_cast<std::uintptr_t>(data)] = {
        size, index, 1, true, unwritten_map(size)};
    return {data, data, &free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
    mark_written(to, size);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { empty_retired(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  Stats getDeviceStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> lock(heap().mutex);
    return heap().stats[checked_device(index)];
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> lock(heap().mutex);
    auto& stats = heap().stats[checked_device(index)];
    each_stat(stats, [](StatArray& stat, bool) {
      for (auto& one : stat) {
        one.reset_accumulated();
      }
    });
    stats.num_ooms = stats.num_device_alloc = stats.num_device_free = 0;
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> lock(heap().mutex);
    each_stat(heap().stats[checked_device(index)], [](StatArray& stat, bool) {
      for (auto& one : stat) {
        one.reset_peak();
      }
    });
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> lock(heap().mutex);
    index = checked_device(index);
    auto limit = heap().capacity[index];
    auto in_use = used(heap().stats[index]);
    return {limit > in_use ? limit - in_use : 0, limit};
  }
};

// Memory of a CPU storage that became device memory.
struct Adopted {
  c10::Storage owner;
  c10::DeviceIndex device;
  std::size_t size;
};

void release_adopted(void* context) {
  if (free_after_graph([context] { release_adopted(context); })) {
    return;
  }
  std::unique_ptr<Adopted> adopted(static_cast<Adopted*>(context));
  std::vector<Retired> leaving;
  {
    std::lock_guard<std::mutex> lock(heap().mutex);
    auto found = heap().blocks.find(reinterpret_cast<std::uintptr_t>(adopted->owner.data()));
    give_back(adopted->device, adopted->size);
    if (found != heap().blocks.end() && --found->second.users == 0) {
      auto [base, entry] = *found;
      heap().blocks.erase(found);
      leaving = retire({base, entry.size, entry.device, std::move(adopted->owner)});
    }
  }
  for (auto& block : leaving) {
    give_to_host(block);
  }
}

void free_pinned(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(heap().mutex);
    heap().pinned.erase(reinterpret_cast<std::uintptr_t>(pointer));
  }
  std::free(pointer);
}

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(std::size_t size) override {
    c10::Device cpu(c10::DeviceType::CPU);
    if (size == 0) {
      return {nullptr, nullptr, &free_pinned, cpu};
    }
    auto* data = std::aligned_alloc(kAlign, (size + kAlign - 1) / kAlign * kAlign);
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "cannot pin ", std::to_string(size), " bytes.");
    std::lock_guard<std::mutex> lock(heap().mutex);
    heap().pinned[reinterpret_cast<std::uintptr_t>(data)] = size;
    return {data, data, &free_pinned, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

XeAllocator* const the_allocator = new XeAllocator;
PinnedAllocator* const the_pinned_allocator = new PinnedAllocator;
REGISTER_ALLOCATOR(kXPU, the_allocator)
REGISTER_HOST_ALLOCATOR(kXPU, the_pinned_allocator)

}  // namespace

compat::DeviceAllocator* allocator() {
  return the_allocator;
}

c10::Allocator* pinned_allocator() {
  return the_pinned_allocator;
}

bool is_pinned(const void* pointer) {
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto next = heap().pinned.upper_bound(address);
  if (next == heap().pinned.begin()) {
    return false;
  }
  auto& [base, size] = *--next;
  return address - base < size;
}

void set_capacity(c10::DeviceIndex index, std::size_t bytes) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  heap().capacity[index] = bytes;
}

std::size_t capacity(c10::DeviceIndex index) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  return heap().capacity[index];
}

bool find_block(std::uintptr_t pointer, Block* block) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto found = block_of(pointer);
  if (found == heap().blocks.end()) {
    return false;
  }
  *block = {found->first, found->second.size, found->second.device};
  return true;
}

std::int64_t unwritten_maps() {
  return maps;
}

void track_writes() {
  std::lock_guard<std::mutex> lock(heap().mutex);
  heap().tracks_writes = true;
}

unsigned char* unwritten(std::uintptr_t pointer, Block* block) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto found = block_of(pointer);
  if (found == heap().blocks.end() || !found->second.unwritten) {
    return nullptr;
  }
  auto& entry = found->second;
  if (std::memchr(entry.unwritten.get(), kUnwritten, entry.size) == nullptr) {
    entry.unwritten.reset();
  }
  *block = {found->first, entry.size, entry.device};
  return entry.unwritten.get();
}

void mark_written(const void* data, std::size_t size) {
  auto pointer = reinterpret_cast<std::uintptr_t>(data);
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto found = block_of(pointer);
  if (found != heap().blocks.end() && found->second.unwritten) {
    auto offset = pointer - found->first;
    std::memset(found->second.unwritten.get() + offset, 0,
                std::min(size, found->second.size - offset));
  }
}

void mark_written(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_xpu() || !tensor.has_storage() || tensor.numel() == 0) {
    return;
  }
  auto* data = static_cast<const char*>(tensor.const_data_ptr());
  Block block;
  if (unwritten(reinterpret_cast<std::uintptr_t>(data), &block) == nullptr) {
    return;
  }
  if (tensor.is_non_overlapping_and_dense()) {
    mark_written(data, tensor.nbytes());
  } else {
    mark_elements(tensor, 0, data);
  }
}

bool find_freed_block(std::uintptr_t pointer, Block* block) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  for (const auto& one : heap().retired) {
    if (pointer >= one.base && pointer - one.base < one.size) {
      *block = {one.base, one.size, one.device};
      return true;
    }
  }
  return false;
}

std::vector<SavedBlock> save_blocks() {
  std::lock_guard<std::mutex> lock(heap().mutex);
  std::vector<SavedBlock> saved;
  for (const auto& [base, entry] : heap().blocks) {
    auto* bytes = reinterpret_cast<const unsigned char*>(base);
    saved.push_back({base, {bytes, bytes + entry.size}});
  }
  return saved;
}

void restore_blocks(const std::vector<SavedBlock>& saved, int byte) {
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto old = saved.begin();  // both are in the order of their addresses
  for (const auto& [base, entry] : heap().blocks) {
    while (old != saved.end() && old->base < base) {
      ++old;
    }
    auto* bytes = reinterpret_cast<void*>(base);
    if (old != saved.end() && old->base == base) {
      std::memcpy(bytes, old->bytes.data(), std::min(old->bytes.size(), entry.size));
    } else {
      std::memset(bytes, byte, entry.size);
    }
  }
}

std::int64_t guard_violations() {
  std::lock_guard<std::mutex> lock(heap().mutex);
  return heap().violations;
}

c10::DataPtr adopt(c10::Storage storage, c10::DeviceIndex index) {
  c10::Device device(kXPU, index);
  auto size = storage.nbytes();
  auto* data = storage.mutable_data();
  if (size == 0) {
    return {nullptr, nullptr, &free_block, device};
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      data != nullptr, "the simulated xpu device cannot hold a tensor that has no memory.");
  reserve(index, size);
  auto* adopted = new Adopted{std::move(storage), index, size};
  std::lock_guard<std::mutex> lock(heap().mutex);
  auto& entry = heap().blocks[reinterpret_cast<std::uintptr_t>(data)];
  entry = {std::max(size, entry.size), index, entry.users + 1, false};
  return {data, adopted, &release_adopted, device};
}

}  // namespace triton_xe
