// Operators that torch writes in terms of others but with a branch for GPUs: our own bodies.
//
// Made of differentiable operators and registered for autograd too, so gradients come by themselves.
#include "../shim.h"

#include <limits>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
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

// Of nested tensors; those of other devices go to torch's own, which asks a CPU build about xpu.
void nested_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto first = stack->size() - op.schema().arguments().size();
  if (!(*stack)[first].toTensor().is_xpu()) {
    c10::Dispatcher::singleton().callBoxedForDispatchKey(
        op, c10::DispatchKey::CompositeImplicitAutograd, stack);
    return;
  }
  auto at = [&](std::size_t i) -> const c10::IValue& { return (*stack)[first + i]; };
  auto result = attention(
      at(0).toTensor(), at(1).toTensor(), at(2).toTensor(), at(3).toOptional<Tensor>(),
      at(4).toDouble(), at(5).toBool(), at(6).toOptional<double>(), at(7).toBool());
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->emplace_back(std::move(result));
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

// The CPU has no histogram of integers; a GPU counts them in integer arithmetic.
Tensor histc(const Tensor& self, std::int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  if (!at::isIntegralType(self.scalar_type(), /*includeBool=*/false)) {
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::histc", "");
    std::vector<c10::IValue> stack{self, bins, min, max};
    run_on_cpu(op, &stack);
    return stack.back().toTensor();
  }
  TORCH_CHECK(bins > 0, "bins must be > 0");
  auto values = self.to(at::kLong).flatten();
  auto low = min.to<std::int64_t>();
  auto high = max.to<std::int64_t>();
  if (low == high && values.numel() > 0) {
    low = values.min().item<std::int64_t>();
    high = values.max().item<std::int64_t>();
  }
  if (low == high) {
    --low;
    ++high;
  }
  TORCH_CHECK(low < high, "max must be larger than min");
  auto inside = (values >= low).logical_and(values <= high);
  auto bin = ((values - low) * bins).div(high - low, "floor").clamp(0, bins - 1);
  auto counts = at::zeros({bins}, values.options());
  return counts.scatter_add(0, bin, inside.to(at::kLong)).to(self.scalar_type());
}

Tensor& histc_out(const Tensor& self, std::int64_t bins, const at::Scalar& min,
                  const at::Scalar& max, Tensor& out) {
  auto counts = histc(self, bins, min, max);
  return out.resize_(counts.sizes()).copy_(counts);
}

// Products of 16-bit matrices with results in another type: the CPU has none; wide products are exact.
Tensor mm_typed(const Tensor& left, const Tensor& right, at::ScalarType type) {
  return left.to(type).mm(right.to(type));
}

Tensor bmm_typed(const Tensor& left, const Tensor& right, at::ScalarType type) {
  return left.to(type).bmm(right.to(type));
}

Tensor addmm_typed(const Tensor& self, const Tensor& left, const Tensor& right, at::ScalarType type,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  return self.to(type).addmm(left.to(type), right.to(type), beta, alpha);
}

Tensor baddbmm_typed(const Tensor& self, const Tensor& left, const Tensor& right,
                     at::ScalarType type, const at::Scalar& beta, const at::Scalar& alpha) {
  return self.to(type).baddbmm(left.to(type), right.to(type), beta, alpha);
}

// The CPU sums no complex numbers without those that are NaN; a GPU does.
Tensor nansum(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
              optional<at::ScalarType> type) {
  if (self.is_complex()) {
    return self.masked_fill(self.isnan(), 0).sum(dim, keepdim, type);
  }
  static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::nansum", "");
  std::vector<c10::IValue> stack{self, dim, keepdim, type};
  run_on_cpu(op, &stack);
  return stack.back().toTensor();
}

Tensor& nansum_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                   optional<at::ScalarType> type, Tensor& out) {
  auto sum = nansum(self, dim, keepdim, type ? *type : out.scalar_type());
  return out.resize_(sum.sizes()).copy_(sum);
}

Tensor& mm_typed_out(const Tensor& left, const Tensor& right, at::ScalarType type, Tensor& out) {
  return out.resize_({left.size(0), right.size(1)}).copy_(mm_typed(left, right, type));
}

Tensor& bmm_typed_out(const Tensor& left, const Tensor& right, at::ScalarType type, Tensor& out) {
  return out.resize_({left.size(0), left.size(1), right.size(2)})
      .copy_(bmm_typed(left, right, type));
}

// Weights of four bits: two in a byte, those of even columns in the low half, groups of columns with
// a scale and a zero point each.
Tensor pack_int4(const Tensor& weight, std::int64_t) {
  TORCH_CHECK(weight.dim() == 2 && weight.scalar_type() == at::kByte && weight.size(1) % 4 == 0,
              "_convert_weight_to_int4pack takes uint8 of two weights each, a multiple of 8 a row.");
  return weight.contiguous().view(at::kInt);
}

Tensor int4_mm(const Tensor& input, const Tensor& weight, std::int64_t group, const Tensor& scale,
               const Tensor& zeros) {
  TORCH_CHECK(weight.scalar_type() == at::kInt && weight.size(1) * 8 == input.size(1),
              "_weight_int4pack_mm: the weight must be int32, with an eighth of the input's columns.");
  auto bytes = weight.contiguous().view(at::kByte);
  auto codes = at::stack({bytes.bitwise_and(15), bytes.__rshift__(4)}, -1).flatten(1).to(at::kFloat);
  auto spread = [&](const Tensor& each) {
    return each.t().to(at::kFloat).repeat_interleave(group, 1);
  };
  auto values = (codes - spread(zeros)) * spread(scale);
  return input.mm(values.to(input.scalar_type()).t());
}

}  // namespace

// The setting is the whole process's, so one thread at a time; a thread's inner ones change nothing.
WithoutOneDnn::WithoutOneDnn() {
  if (depth_++ == 0) {
    mutex_of(Lock::kOneDnn).lock();
    before_ = at::globalContext().userEnabledMkldnn();
    at::globalContext().setUserEnabledMkldnn(false);
  }
}

WithoutOneDnn::~WithoutOneDnn() {
  if (--depth_ == 0) {
    at::globalContext().setUserEnabledMkldnn(before_);
    mutex_of(Lock::kOneDnn).unlock();
  }
}

thread_local int WithoutOneDnn::depth_ = 0;

void register_composites(torch::Library& xpu, torch::Library& autograd, torch::Library& nested,
                         torch::Library& nested_autograd) {
  for (auto* library : {&xpu, &autograd}) {
    library->impl("scaled_dot_product_attention", attention);
    library->impl("_thnn_fused_lstm_cell", lstm_cell);
    library->impl("_thnn_fused_gru_cell", gru_cell);
  }
  for (auto* library : {&nested, &nested_autograd}) {
    library->impl("scaled_dot_product_attention",
                  torch::CppFunction::makeFromBoxedFunction<&nested_attention>());
  }
  xpu.impl("mm.dtype", mm_typed);
  xpu.impl("mm.dtype_out", mm_typed_out);
  xpu.impl("bmm.dtype", bmm_typed);
  xpu.impl("bmm.dtype_out", bmm_typed_out);
  xpu.impl("addmm.dtype", addmm_typed);
  xpu.impl("baddbmm.dtype", baddbmm_typed);
  xpu.impl("_convert_weight_to_int4pack", pack_int4);
  xpu.impl("_weight_int4pack_mm_with_scales_and_zeros", int4_mm);
  xpu.impl("nansum", nansum);
  xpu.impl("nansum.out", nansum_out);
  xpu.impl("histc", histc);
  xpu.impl("histc.out", histc_out);
  xpu.impl("_fused_sdp_choice", attention_choice);
}

}  // namespace triton_xe
