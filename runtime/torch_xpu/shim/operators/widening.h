// Computes in 32 bits what the CPU's kernels refuse in 16.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace triton_xe {

// One call: puts wider tensors for the arguments on the stack, and narrow ones for the results.
class Widening {
 public:
  Widening(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void narrow_results();

 private:
  bool computes_complex_halves() const;
  void widen(const std::function<bool(at::ScalarType)>& is_narrow);
  void widen_types(at::ScalarType wide);
  void narrow_result(c10::IValue& value, bool is_argument);

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  std::size_t first_;
  std::optional<at::ScalarType> narrow_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
};

}  // namespace triton_xe
