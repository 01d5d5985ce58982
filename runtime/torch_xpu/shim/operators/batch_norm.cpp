// Batch norm as a GPU has it, and the parts of SyncBatchNorm, which the CPU lacks.
//
// A GPU keeps the statistics of halves as floats, and returns what it normalized with in evaluation,
// too; the CPU keeps halves, and returns nothing then.
#include "../shim.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/var_mean.h>
#include <torch/library.h>

namespace triton_xe {
namespace batch_norm {
namespace {

using at::Tensor;
using c10::IValue;
using std::optional;
using torch::jit::Stack;

bool is_defined(const IValue& value) {
  return value.isTensor() && value.toTensor().defined();
}

at::ScalarType statistics_type(const Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// -- the operators that the CPU has, too ----------------------------------------------------------

constexpr std::array<std::string_view, 7> kParameters{
    "weight", "bias", "running_mean", "running_var", "save_mean", "save_invstd", "save_var"};

// An operator's arguments, by their names.
struct Arguments {
  Arguments(const c10::FunctionSchema& schema, const Stack& stack)
      : schema(schema), values(stack.end() - schema.arguments().size(), stack.end()) {}

  optional<Tensor> tensor(const std::string& name) const {
    auto index = schema.argumentIndexWithName(name);
    return index && is_defined(values[*index]) ? optional(values[*index].toTensor()) : std::nullopt;
  }

  // Whether the statistics are given ones.
  bool evaluates() const {
    if (auto index = schema.argumentIndexWithName("training")) {
      return !values[*index].toBool();
    }
    std::string_view name = schema.name();
    return name.find("no_training") != name.npos || name.find("no_update") != name.npos;
  }

  double epsilon() const {
    return values[*schema.argumentIndexWithName("eps")].toDouble();
  }

  const c10::FunctionSchema& schema;
  Stack values;
};

// With floats for parameters the CPU computes halves as a GPU does.
void widen_parameters(const Arguments& of, Stack* stack) {
  auto input = *of.tensor("input");
  if (!at::isReducedFloatingType(input.scalar_type())) {
    return;
  }
  bool has_some = false;
  auto first = stack->end() - of.values.size();
  for (std::size_t i = 0; i < of.values.size(); ++i) {
    const auto& name = of.schema.arguments()[i].name();
    if (std::find(kParameters.begin(), kParameters.end(), name) != kParameters.end() &&
        is_defined(first[i])) {
      has_some = true;
      first[i] = first[i].toTensor().to(at::kFloat);
    }
  }
  if (!has_some) {
    first[*of.schema.argumentIndexWithName("weight")] =
        at::ones({input.size(1)}, input.options().dtype(at::kFloat));
  }
}

void forward(const c10::OperatorHandle& op, Stack* stack) {
  Arguments given(op.schema(), *stack);
  widen_parameters(given, stack);
  Arguments taken(op.schema(), *stack);
  run_on_cpu(op, stack);
  auto mean = given.tensor("running_mean");
  auto variance = given.tensor("running_var");
  if (!mean || !variance) {
    return;
  }
  if (given.evaluates()) {
    auto type = statistics_type(*given.tensor("input"));
    auto results = stack->end() - op.schema().returns().size();
    results[1] = mean->to(type, /*non_blocking=*/false, /*copy=*/true);
    results[2] = variance->to(type).add(given.epsilon()).rsqrt_();
  } else if (!taken.tensor("running_mean")->is_same(*mean)) {
    mean->copy_(*taken.tensor("running_mean"));
    variance->copy_(*taken.tensor("running_var"));
  }
}

void backward(const c10::OperatorHandle& op, Stack* stack) {
  Arguments given(op.schema(), *stack);
  widen_parameters(given, stack);
  run_on_cpu(op, stack);
  auto weight = given.tensor("weight");
  for (auto result = stack->end() - 2; weight && result != stack->end(); ++result) {
    if (is_defined(*result)) {
      *result = result->toTensor().to(weight->scalar_type());
    }
  }
}

// Of an operator that writes to given tensors: the one that returns new ones, and copies.
void written(const c10::OperatorHandle& op, Stack* stack) {
  auto count = op.schema().returns().size();
  Stack outs(stack->end() - count, stack->end());
  torch::jit::drop(*stack, count);
  auto without = op.schema().overload_name() == "no_stats_out" ? "no_stats" : "";
  c10::Dispatcher::singleton().findSchemaOrThrow(op.schema().name().c_str(), without).callBoxed(stack);
  auto results = stack->end() - count;
  for (std::size_t i = 0; i < count; ++i) {
    auto out = outs[i].toTensor();
    if (is_defined(results[i])) {
      at::native::resize_output(out, results[i].toTensor().sizes());
      out.copy_(results[i].toTensor());
    }
    results[i] = out;
  }
}

// -- the parts of SyncBatchNorm -------------------------------------------------------------------

at::DimVector all_but_channels(const Tensor& input) {
  at::DimVector dimensions{0};
  for (std::int64_t i = 2; i < input.dim(); ++i) {
    dimensions.push_back(i);
  }
  return dimensions;
}

Tensor per_channel(const Tensor& values, const Tensor& input) {
  at::DimVector shape(input.dim(), 1);
  shape[1] = input.size(1);
  return values.to(statistics_type(input)).view(shape);
}

Tensor centered(const Tensor& input, const Tensor& mean) {
  return input - per_channel(mean, input);
}

std::tuple<Tensor, Tensor> statistics(const Tensor& input, double epsilon) {
  auto [variance, mean] = at::var_mean(
      input.to(statistics_type(input)), all_but_channels(input), /*correction=*/at::Scalar(0));
  return {mean, variance.add(epsilon).rsqrt_()};
}

Tensor normalized(const Tensor& input, const optional<Tensor>& weight, const optional<Tensor>& bias,
                  const Tensor& mean, const Tensor& scale, double) {
  auto result = centered(input, mean) * per_channel(scale, input);
  if (weight && weight->defined()) {
    result = result * per_channel(*weight, input);
  }
  if (bias && bias->defined()) {
    result = result + per_channel(*bias, input);
  }
  return result.to(input.scalar_type());
}

void move_towards(const optional<Tensor>& running, const Tensor& measured, double momentum) {
  if (running && running->defined()) {
    running->copy_(running->to(at::kDouble).mul(1 - momentum).add(measured, momentum));
  }
}

// One row of `mean` and `scale` for each process, of `counts` numbers in a channel.
std::tuple<Tensor, Tensor> gathered_by_counts(
    const Tensor& input, const Tensor& mean, const Tensor& scale, const optional<Tensor>& running_mean,
    const optional<Tensor>& running_variance, double momentum, double epsilon, const Tensor& counts) {
  auto weights = counts.to(at::kDouble).view({-1, 1});
  auto total = weights.sum();
  auto means = mean.to(at::kDouble);
  auto center = (means * weights).sum(0) / total;
  auto variances = scale.to(at::kDouble).pow(-2).sub(epsilon);
  auto squares = ((variances + (means - center).square()) * weights).sum(0);
  move_towards(running_mean, center, momentum);
  move_towards(running_variance, squares / (total - 1), momentum);
  auto type = statistics_type(input);
  return {center.to(type), (squares / total).add(epsilon).rsqrt().to(type)};
}

std::tuple<Tensor, Tensor> gathered(
    const Tensor& input, const Tensor& mean, const Tensor& scale, const optional<Tensor>& running_mean,
    const optional<Tensor>& running_variance, double momentum, double epsilon, std::int64_t count) {
  auto counts = at::full({mean.size(0)}, count, mean.options().dtype(at::kDouble));
  return gathered_by_counts(
      input, mean, scale, running_mean, running_variance, momentum, epsilon, counts);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_sums(
    const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& scale,
    const optional<Tensor>& weight, bool of_input, bool of_weight, bool of_bias) {
  auto wide = gradient.to(statistics_type(input));
  auto sum = wide.sum(all_but_channels(input));
  auto product = (wide * centered(input, mean)).sum(all_but_channels(input));
  auto asked = [&](bool wanted, const Tensor& of) {
    return wanted && weight && weight->defined() ? of.to(weight->scalar_type()) : Tensor();
  };
  return {of_input ? sum : Tensor(), of_input ? product : Tensor(),
          asked(of_weight, product * scale), asked(of_bias, sum)};
}

Tensor backward_elements(
    const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& scale,
    const optional<Tensor>& weight, const Tensor& sum, const Tensor& product, const Tensor& counts) {
  auto total = counts.sum().to(statistics_type(input));
  auto slope = per_channel(scale.square() * product / total, input);
  auto result = gradient - per_channel(sum / total, input) - centered(input, mean) * slope;
  result = result * per_channel(scale, input);
  if (weight && weight->defined()) {
    result = result * per_channel(*weight, input);
  }
  return result.to(input.scalar_type());
}

template <c10::BoxedKernel::BoxedKernelFunction* function>
void register_if_known(torch::Library& xpu, const char* name, const char* overload) {
  if (c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, overload})) {
    auto full = *overload ? std::string(name) + "." + overload : std::string(name);
    xpu.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<function>());
  }
}

}  // namespace
}  // namespace batch_norm

void register_batch_norm(torch::Library& xpu) {
  using namespace batch_norm;
  for (auto name : {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_no_update",
                    "_native_batch_norm_legit_no_training", "_batch_norm_with_update"}) {
    register_if_known<&forward>(xpu, name, "");
    register_if_known<&written>(xpu, name, "out");
  }
  register_if_known<&forward>(xpu, "_native_batch_norm_legit", "no_stats");
  register_if_known<&written>(xpu, "_native_batch_norm_legit", "no_stats_out");
  register_if_known<&backward>(xpu, "native_batch_norm_backward", "");
  register_if_known<&written>(xpu, "native_batch_norm_backward", "out");
  register_if_known<&backward>(xpu, "batch_norm_backward", "");
  register_if_known<&written>(xpu, "batch_norm_elemt", "out");
  xpu.impl("batch_norm_stats", statistics);
  xpu.impl("batch_norm_elemt", normalized);
  xpu.impl("batch_norm_gather_stats_with_counts", gathered_by_counts);
  xpu.impl("batch_norm_gather_stats", gathered);
  xpu.impl("batch_norm_backward_reduce", backward_sums);
  xpu.impl("batch_norm_backward_elemt", backward_elements);
}

}  // namespace triton_xe
