// Gradients of group norm: torch hands a GPU's kernel tensors of any strides, and the CPU's those of
// its memory format.
#include "../shim.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace triton_xe {
namespace {

// The first two arguments are the gradient of what it returned and its input.
void backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto first = stack->end() - op.schema().arguments().size();
  auto input = first[1].toTensor();
  auto format = input.suggest_memory_format();
  first[0] = first[0].toTensor().contiguous(format);
  first[1] = input.contiguous(format);
  run_on_cpu(op, stack);
}

}  // namespace

void register_group_norm(torch::Library& xpu) {
  for (auto name : {"native_group_norm_backward", "native_group_norm_backward.out"}) {
    xpu.impl(name, torch::CppFunction::makeFromBoxedFunction<&backward>());
  }
}

}  // namespace triton_xe
