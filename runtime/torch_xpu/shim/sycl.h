// What C++ that Inductor writes uses of SYCL and Level Zero, for a simulated device.
//
// Nothing is asynchronous: what is submitted has ended.  A queue has no state; its address is the
// number that kernels are launched with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace triton_xe {
// These throw std::runtime_error.
std::int64_t load_kernel(const void* module, std::size_t size, const char* name);
void launch_kernel(std::int64_t kernel, const std::uint32_t (&grid)[3], void** arguments,
                   const void* queue);
void* allocate(std::size_t size);
void release(void* memory);
}  // namespace triton_xe

enum ze_result_t { ZE_RESULT_SUCCESS = 0 };

namespace sycl {

namespace info {
enum class event_command_status { submitted, running, complete };
struct event {
  struct command_execution_status {};
};
}  // namespace info

struct event {
  void wait() {}
  void wait_and_throw() {}
  template <class Parameter>
  info::event_command_status get_info() const {
    return info::event_command_status::complete;
  }
};

struct queue {
  event memcpy(void* to, const void* from, std::size_t size) {
    std::memcpy(to, from, size);
    return {};
  }
  event ext_oneapi_submit_barrier() { return {}; }
  void wait() {}
  void wait_and_throw() {}
};

struct kernel {
  std::int64_t number;
};

inline void* malloc_device(std::size_t size, queue&) { return triton_xe::allocate(size); }
inline void free(void* memory, queue&) { triton_xe::release(memory); }

}  // namespace sycl

[[maybe_unused]] static std::unique_ptr<sycl::kernel> loadKernel(
    const void* start, const void* end, const std::string& name, std::uint32_t, bool = false) {
  auto size = static_cast<const char*>(end) - static_cast<const char*>(start);
  return std::make_unique<sycl::kernel>(
      sycl::kernel{triton_xe::load_kernel(start, size, name.c_str())});
}

[[maybe_unused]] static std::unique_ptr<sycl::kernel> loadKernel(
    std::string path, const std::string& name, std::uint32_t,
    const std::optional<std::string>& folder = std::nullopt) {
  if (folder) {
    path = (std::filesystem::path(*folder) / std::filesystem::path(path).filename()).string();
  }
  std::ifstream file(path, std::ios::binary);
  std::string module{std::istreambuf_iterator<char>(file), {}};
  return loadKernel(module.data(), module.data() + module.size(), name, 0);
}

[[maybe_unused]] static void launchKernel(
    std::unique_ptr<sycl::kernel>& kernel, std::uint32_t x, std::uint32_t y, std::uint32_t z,
    std::uint32_t, std::uint32_t, void** arguments, sycl::queue* queue) {
  triton_xe::launch_kernel(kernel->number, {x, y, z}, arguments, queue);
}
