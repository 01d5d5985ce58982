// Operators that torch writes in terms of others but with a branch for GPUs: our own bodies.
//
// Made of differentiable operators and registered for autograd too, so gradients come by themselves.
#include "shim.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace triton_xe {
namespace {

using at::Tensor;
using std::optional;

// What a mask of truth values adds to the scores: 0 to keep, -inf to leave out.
optional<Tensor> additive(const optional<Tensor>& mask, at::ScalarType type) {
  if (!mask || !mask->defined() || mask->scalar_type() != at::kBool) {
    return mask;
  }
  auto zero = at::zeros_like(*mask, mask->options().dtype(type));
  return zero.masked_fill(mask->logical_not(), -std::numeric_limits<double>::infinity());
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const optional<Tensor>& mask, double dropout, bool is_causal,
                 optional<double> scale, bool enable_gqa) {
  return std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, additive(mask, query.scalar_type()), dropout, is_causal, std::nullopt, scale, enable_gqa));
}

// 0 stands for the mathematical definition, the only implementation here.
std::int64_t attention_choice(const Tensor&, const Tensor&, const Tensor&, const optional<Tensor>&,
                              double, bool, optional<double>, bool) {
  return 0;
}

Tensor with_bias(const Tensor& gates, const optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// The third result of the fused cells, which only their fused backward reads.
Tensor joined(std::vector<Tensor> parts) {
  return at::cat(parts, 1);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cell,
    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  auto gates = with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
  auto parts = gates.chunk(4, 1);
  auto input = parts[0].sigmoid();
  auto forget = parts[1].sigmoid();
  auto candidate = parts[2].tanh();
  auto output = parts[3].sigmoid();
  auto next_cell = forget * cell + input * candidate;
  auto next_hidden = output * next_cell.tanh();
  return {next_hidden, next_cell, joined({input, forget, candidate, output})};
}

std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  auto from_input = with_bias(input_gates, input_bias).chunk(3, 1);
  auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  auto reset = (from_input[0] + from_hidden[0]).sigmoid();
  auto update = (from_input[1] + from_hidden[1]).sigmoid();
  auto candidate = (from_input[2] + reset * from_hidden[2]).tanh();
  auto next = candidate + update * (hidden - candidate);
  return {next, joined({reset, update, candidate, hidden, from_hidden[2]})};
}

}  // namespace

void register_composites(torch::Library& xpu, torch::Library& autograd) {
  for (auto* library : {&xpu, &autograd}) {
    library->impl("scaled_dot_product_attention", attention);
    library->impl("_thnn_fused_lstm_cell", lstm_cell);
    library->impl("_thnn_fused_gru_cell", gru_cell);
  }
  xpu.impl("_fused_sdp_choice", attention_choice);
}

}  // namespace triton_xe
