// Collectives of one tensor for all processes: XCCL asks for its size alone, gloo for its shape, too.
#include "../shim.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace triton_xe {
namespace {

// The first two arguments are what is written and what is read.
void flat(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto first = stack->end() - op.schema().arguments().size();
  auto output = first[0].toTensor();
  auto input = first[1].toTensor();
  bool is_flat = output.is_contiguous() && input.is_contiguous();
  if (is_flat) {
    first[0] = output.view({-1});
    first[1] = input.view({-1});
  }
  run_on_cpu(op, stack);
  if (is_flat) {
    *(stack->end() - op.schema().returns().size()) = output;
  }
}

}  // namespace

void register_collectives(torch::Library& xpu) {
  for (auto name : {"_allgather_base_", "_reduce_scatter_base_"}) {
    xpu.impl(name, torch::CppFunction::makeFromBoxedFunction<&flat>());
  }
}

}  // namespace triton_xe
