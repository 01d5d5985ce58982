// Graphs: what is captured is recorded and not run, as on a GPU; a replay runs it, in the same memory.
//
// The shapes of results come from running the CPU's kernels, so operators do run while they are
// captured; what they did to memory is undone at the end, and what a capture allocated is filled with
// a pattern that no computation hides (NaN).  Launches of Triton's kernels are recorded by the
// caller, who replays operators up to each of them (xe_graph_replay).
#include "shim.h"

#include <cstring>
#include <mutex>
#include <vector>

namespace triton_xe {
namespace {

constexpr int kUnwritten = 0xFF;

Graph* active = nullptr;
// Autograd's threads record as well.
auto& lock = mutex_of(Lock::kGraph);

}  // namespace

struct Graph {
  std::vector<std::function<void()>> steps;
  // What was freed during the capture: a replay needs its memory.
  std::vector<std::function<void()>> frees;
  std::vector<SavedBlock> before;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> generators;
};

bool capturing() {
  return active != nullptr;
}

void record(std::function<void()> step) {
  std::scoped_lock hold(lock);
  active->steps.push_back(std::move(step));
}

bool free_after_graph(std::function<void()> free) {
  std::scoped_lock hold(lock);
  if (active == nullptr) {
    return false;
  }
  active->frees.push_back(std::move(free));
  return true;
}

void refuse_in_capture(const std::string& what) {
  TORCH_CHECK(
      !capturing(), what, " needs results that do not exist yet: the stream is being captured into"
      " a graph, and nothing runs before the replay.");
}

Graph* new_graph() {
  return new Graph;
}

void begin_capture(Graph* graph) {
  TORCH_CHECK(!capturing(), "a graph is being captured already; only one can be at a time.");
  graph->before = save_blocks();
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    auto generator = default_generator(i);
    graph->generators.emplace_back(generator.current_seed(), generator.get_offset());
  }
  active = graph;
}

void end_capture(Graph* graph) {
  TORCH_CHECK(active == graph, "capture_end without capture_begin of the same graph.");
  active = nullptr;
  restore_blocks(graph->before, kUnwritten);
  graph->before.clear();
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    auto generator = default_generator(i);
    generator.set_current_seed(graph->generators[i].first);
    generator.set_offset(graph->generators[i].second);
  }
  graph->generators.clear();
}

std::size_t size_of(const Graph* graph) {
  return graph->steps.size();
}

void replay(const Graph* graph, std::size_t from, std::size_t to) {
  TORCH_CHECK(!capturing(), "a graph cannot be replayed while one is being captured.");
  for (auto i = from; i < to && i < graph->steps.size(); ++i) {
    graph->steps[i]();
  }
}

void drop(Graph* graph) {
  if (active == graph) {
    active = nullptr;
  }
  graph->steps.clear();
  for (auto& free : graph->frees) {
    free();
  }
  delete graph;
}

at::Tensor same_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return tensor;
  }
  auto* from = tensor.unsafeGetTensorImpl();
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()), from->key_set() & c10::DispatchKeySet(
          {c10::DispatchKey::XPU, c10::DispatchKey::CPU, c10::DispatchKey::Conjugate,
           c10::DispatchKey::Negative}),
      tensor.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  if (from->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return made;
}

}  // namespace triton_xe
