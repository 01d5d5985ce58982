// The addresses of device memory: a range of their own.
//
// A kernel that writes far outside of its arrays, as far as an index of 32 bits reaches, meets device
// memory or addresses without memory (a fault, which the launch reports), as on a GPU, and never
// the heap of the process.
#include "shim.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include <c10/core/CPUAllocator.h>

namespace triton_xe {
namespace {

constexpr std::size_t kUnit = 256;
constexpr std::size_t kStep = std::size_t{32} << 20;
constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargestRange = std::size_t{1} << 40;
constexpr std::size_t kSmallestRange = std::size_t{1} << 34;
// Where the range begins if that is free: far below all that the host maps on its own.  In the
// middle of that it would tear apart what must lie within 2 GiB, the parts of compiled code.
constexpr std::uintptr_t kPreferred = std::uintptr_t{1} << 45;

std::size_t rounded(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

// Nothing is mapped before the first block: the middle half holds blocks, the rest stays empty.
struct Range {
  std::mutex& mutex = mutex_of(Lock::kRange);
  std::uintptr_t low = 0;
  std::uintptr_t mapped = 0;  // all below it, from the first block on, is memory
  std::uintptr_t end = 0;
  std::map<std::uintptr_t, std::size_t> holes;
  std::set<std::pair<std::size_t, std::uintptr_t>> by_size;
  std::map<std::uintptr_t, std::size_t> taken;

  // Where the process may not have so many addresses (`ulimit -v`), low stays 0.
  Range() {
    for (auto size = kLargestRange; low == 0 && size >= kSmallestRange; size /= 2) {
      auto* found = ::mmap(reinterpret_cast<void*>(kPreferred), size, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (found != MAP_FAILED) {
        low = reinterpret_cast<std::uintptr_t>(found);
        mapped = rounded(low + size / 4, kStep);
        end = low + size / 4 * 3;
      }
    }
  }

  void add_hole(std::uintptr_t from, std::size_t size) {
    auto next = holes.lower_bound(from);
    if (next != holes.end() && next->first == from + size) {
      size += next->second;
      next = drop(next);
    }
    if (next != holes.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == from) {
        from = before->first;
        size += before->second;
        drop(before);
      }
    }
    holes[from] = size;
    by_size.insert({size, from});
  }

  std::map<std::uintptr_t, std::size_t>::iterator drop(
      std::map<std::uintptr_t, std::size_t>::iterator hole) {
    by_size.erase({hole->second, hole->first});
    return holes.erase(hole);
  }

  bool grow(std::size_t size) {
    auto more = rounded(size, kStep);
    if (low == 0 || more < size || more > end - mapped ||
        ::mprotect(reinterpret_cast<void*>(mapped), more, PROT_READ | PROT_WRITE) != 0) {
      return false;
    }
    ::madvise(reinterpret_cast<void*>(mapped), more, MADV_HUGEPAGE);  // or it stays as it is
    add_hole(mapped, more);
    mapped += more;
    return true;
  }

  void* take(std::size_t size) {
    size = rounded(std::max(size, std::size_t{1}), kUnit);
    auto found = by_size.lower_bound({size, 0});
    if (found == by_size.end()) {
      if (!grow(size)) {
        return nullptr;
      }
      found = by_size.lower_bound({size, 0});
    }
    auto [whole, from] = *found;
    drop(holes.find(from));
    if (whole > size) {
      add_hole(from + size, whole - size);
    }
    taken[from] = size;
    return reinterpret_cast<void*>(from);
  }

  // Pages of large blocks go back to the host.
  void give(std::uintptr_t from) {
    auto block = taken.find(from);
    auto size = block->second;
    taken.erase(block);
    auto first = rounded(from, kPage);
    auto last = (from + size) / kPage * kPage;
    if (size >= kLarge && last > first) {
      ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }
    add_hole(from, size);
  }
};

Range& range() {
  static auto* only = new Range;
  return *only;
}

thread_local int results_wanted = 0;

at::Allocator* host_allocator = nullptr;

void* take_from_range(std::size_t size) {
  std::lock_guard<std::mutex> lock(range().mutex);
  return range().take(size);
}

bool give_to_range(void* memory) {
  std::lock_guard<std::mutex> lock(range().mutex);
  auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (range().taken.count(address) == 0) {
    return false;
  }
  range().give(address);
  return true;
}

void free_host_or_device(void* memory) {
  if (!give_to_range(memory)) {
    host_allocator->raw_deleter()(memory);
  }
}

// The host's allocator, but for operators that compute results of the device.
struct ResultAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t size) override {
    auto* memory = results_wanted > 0 && size > 0 ? take_from_range(size) : nullptr;
    if (memory == nullptr) {
      return host_allocator->allocate(size);
    }
    return {memory, memory, &free_host_or_device, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_host_or_device; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }
};

}  // namespace

void* take_memory(std::size_t size) {
  auto* memory = take_from_range(size);
  return memory != nullptr ? memory : std::aligned_alloc(kUnit, rounded(size, kUnit));
}

void give_memory(void* memory) {
  if (!give_to_range(memory)) {
    std::free(memory);
  }
}

void hold_results() {
  if (host_allocator == nullptr) {
    host_allocator = c10::GetCPUAllocator();
    c10::SetCPUAllocator(new ResultAllocator);
  }
}

ResultScope::ResultScope() {
  ++results_wanted;
}

ResultScope::~ResultScope() {
  --results_wanted;
}

}  // namespace triton_xe
