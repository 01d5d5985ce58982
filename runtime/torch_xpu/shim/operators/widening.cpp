// Kernels that the CPU has for numbers of 32 bits and more only, and a GPU for halves too; sums of
// halves, which the CPU rounds at each addition; and products of matrices of halves, for which a CPU
// without instructions for them takes up to three hundred times as long as for floats.
//
// A GPU, too, computes these in 32 bits and rounds the result once.
#include "widening.h"

#include <algorithm>
#include <array>

#include <ATen/MemoryOverlap.h>
#include <ATen/native/TypeProperties.h>

namespace triton_xe {
namespace {

using c10::IValue;

// By the beginning of the name; transforms are of no BFloat16.
constexpr std::string_view kTransforms = "aten::_fft_";
constexpr std::array<std::string_view, 24> kHalves = {
    kTransforms, "aten::avg_pool3d", "aten::_upsample_bilinear2d_aa", "aten::multi_margin_loss",
    "aten::multilabel_margin_loss", "aten::rrelu_with_noise", "aten::embedding_dense_backward",
    "aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward",
    "aten::avg_pool2d_backward", "aten::max_pool2d_with_indices_backward",
    "aten::max_pool3d_with_indices_backward", "aten::reflection_pad", "aten::replication_pad",
    "aten::grid_sampler_", "aten::_unsafe_masked_index_put_accumulate", "aten::_adaptive_avg_pool",
    "aten::col2im", "aten::index_add", "aten::nll_loss", "aten::segment_reduce",
    "aten::_segment_reduce_backward", "aten::upsample_linear1d", "aten::upsample_trilinear3d"};

// A kernel of torch-xpu-ops returns what it measured in 32 bits, and sums gradients of weights in
// them (src/ATen/native/xpu/LayerNorm.cpp).
constexpr std::string_view kLayerNorm = "aten::native_layer_norm";
constexpr std::string_view kLayerNormBackward = "aten::native_layer_norm_backward";

// Products, by the name without its last underscore.
constexpr std::array<std::string_view, 10> kProducts = {
    "aten::mm", "aten::bmm", "aten::mv", "aten::addmm", "aten::baddbmm", "aten::addbmm",
    "aten::addmv", "aten::_addmm_activation", "aten::convolution", "aten::convolution_backward"};

// With `accumulate` a kernel of torch-xpu-ops sorts the indices and sums in 32 bits
// (src/ATen/native/xpu/sycl/Indexing.cpp, IndexPutDeterministicKernelFunctor).
constexpr std::array<std::string_view, 4> kPuts = {
    "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put"};

// By the name without its last underscore: those whose kernels in torch-xpu-ops
// (src/ATen/native/xpu/sycl) take ComplexHalf; trace is a sum there.
constexpr std::array<std::string_view, 28> kComplexHalves = {
    "aten::acos", "aten::acosh", "aten::angle", "aten::asin", "aten::asinh", "aten::atan",
    "aten::atanh", "aten::cos", "aten::cosh", "aten::div", "aten::equal", "aten::exp",
    "aten::lerp", "aten::log", "aten::logaddexp", "aten::pow", "aten::prod", "aten::rsqrt",
    "aten::sigmoid", "aten::sigmoid_backward", "aten::sin", "aten::sinh", "aten::sqrt",
    "aten::sum", "aten::tan", "aten::tanh", "aten::tanh_backward", "aten::trace"};

bool starts_with(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

bool takes_widened_halves(const c10::OperatorName& name) {
  return name.overload_name.empty() &&
      std::any_of(kHalves.begin(), kHalves.end(),
                  [&](auto prefix) { return starts_with(name.name, prefix); });
}

bool adds_to_halves(const c10::OperatorName& name, const IValue* arguments) {
  if (std::find(kPuts.begin(), kPuts.end(), name.name) == kPuts.end() ||
      !name.overload_name.empty() || !arguments[3].toBool()) {
    return false;
  }
  const auto& self = arguments[0].toTensor();
  return self.scalar_type() == arguments[2].toTensor().scalar_type() &&
      at::has_internal_overlap(self) == at::MemOverlap::No;
}

// Whether a layer norm's input and weights have one type, as that kernel asks for.
bool normalizes_halves(const c10::FunctionSchema& schema, const IValue* arguments) {
  bool is_norm = schema.name() == kLayerNorm || schema.name() == kLayerNormBackward;
  if (!is_norm || !schema.overload_name().empty()) {
    return false;
  }
  auto type = arguments[*schema.argumentIndexWithName("input")].toTensor().scalar_type();
  for (const char* name : {"weight", "bias"}) {
    auto index = schema.argumentIndexWithName(name);
    if (index && arguments[*index].isTensor() && arguments[*index].toTensor().defined() &&
        arguments[*index].toTensor().scalar_type() != type) {
      return false;
    }
  }
  return true;
}

bool is_half(at::ScalarType type) {
  return at::isReducedFloatingType(type);
}

// A product of halves in a type of 16 bits, if it asks for any.
bool multiplies_halves(const c10::FunctionSchema& schema, const IValue* arguments) {
  if (schema.name() != "aten::prod" || !is_half(arguments[0].toTensor().scalar_type())) {
    return false;
  }
  auto type = schema.argumentIndexWithName("dtype");
  return type && (arguments[*type].isNone() || is_half(arguments[*type].toScalarType()));
}

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  if (name.back() == '_') {
    name.remove_suffix(1);
  }
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A product of matrices that are all halves of one type, and so is its result.
bool multiplies_matrices_of_halves(const c10::FunctionSchema& schema, const IValue* arguments) {
  bool same_type = schema.overload_name().empty() || schema.overload_name() == "out";
  if (!same_type || !is_among(kProducts, schema.name())) {
    return false;
  }
  auto type = arguments[0].toTensor().scalar_type();
  return is_half(type) &&
      std::all_of(arguments, arguments + schema.arguments().size(), [&](const IValue& each) {
        return !each.isTensor() || !each.toTensor().defined() || each.toTensor().scalar_type() == type;
      });
}

bool is_type(const IValue& value, const c10::Argument& argument) {
  return value.isInt() && argument.name() == "dtype";
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

}  // namespace

Widening::Widening(const c10::OperatorHandle& op, torch::jit::Stack* stack)
    : op_(op), stack_(stack), first_(stack->size() - op.schema().arguments().size()) {
  const auto& name = op.operator_name();
  auto arguments = stack->data() + first_;
  if (normalizes_halves(op.schema(), arguments) ||
      multiplies_matrices_of_halves(op.schema(), arguments)) {
    widen(is_half);
  } else if (multiplies_halves(op.schema(), arguments)) {
    widen(is_half);
    widen_types(at::kFloat);
  } else if (takes_widened_halves(name) || adds_to_halves(name, arguments)) {
    bool transforms = starts_with(name.name, kTransforms);
    widen([&](at::ScalarType type) {
      return type == at::kHalf || type == at::kComplexHalf || (type == at::kBFloat16 && !transforms);
    });
  } else if (is_among(kComplexHalves, name.name) && computes_complex_halves()) {
    widen([](at::ScalarType type) { return type == at::kComplexHalf; });
    widen_types(at::kComplexFloat);
  }
}

// Whether the arguments that are read have this type in common.
bool Widening::computes_complex_halves() const {
  at::native::ResultTypeState state;
  for (auto i = first_; i < stack_->size(); ++i) {
    const auto& value = (*stack_)[i];
    const auto& argument = op_.schema().arguments()[i - first_];
    if (is_type(value, argument)) {
      return value.toScalarType() == at::kComplexHalf;
    }
    if (value.isTensor() && value.toTensor().defined() && !argument.is_out()) {
      state = at::native::update_result_type_state(value.toTensor(), state);
    }
  }
  return at::native::result_type(state) == at::kComplexHalf;
}

void Widening::widen(const std::function<bool(at::ScalarType)>& is_narrow) {
  for (auto i = first_; i < stack_->size(); ++i) {
    auto& value = (*stack_)[i];
    if (!value.isTensor() || !value.toTensor().defined() ||
        !is_narrow(value.toTensor().scalar_type())) {
      continue;
    }
    auto narrow = value.toTensor();
    bool is_complex = narrow.is_complex();
    narrow_ = is_complex ? at::kHalf : narrow.scalar_type();
    value = narrow.to(is_complex ? at::kComplexFloat : at::kFloat);
    if (is_written(op_.schema().arguments()[i - first_])) {
      at::assert_no_internal_overlap(narrow);
      written_.emplace_back(narrow, value.toTensor());
    }
  }
}

void Widening::widen_types(at::ScalarType wide) {
  for (auto i = first_; i < stack_->size(); ++i) {
    auto& value = (*stack_)[i];
    if (is_type(value, op_.schema().arguments()[i - first_])) {
      narrow_ = c10::toRealValueType(value.toScalarType());
      value = wide;
    }
  }
}

void Widening::narrow_results() {
  for (auto& [narrow, wide] : written_) {
    if (narrow.sizes() != wide.sizes()) {
      narrow.resize_(wide.sizes());
    }
    narrow.copy_(wide);
  }
  const auto& results = op_.schema().returns();
  auto count = op_.schema().name() == kLayerNorm ? 1 : results.size();
  for (std::size_t i = 0; narrow_ && i < count; ++i) {
    narrow_result((*stack_)[stack_->size() - results.size() + i], results[i].alias_info() != nullptr);
  }
}

void Widening::narrow_result(IValue& value, bool is_argument) {
  for (auto& [narrow, wide] : written_) {
    if (value.isTensor() && wide.is_same(value.toTensor())) {
      value = narrow;
      return;
    }
  }
  if (is_argument || !value.isTensor()) {
    return;
  }
  if (value.toTensor().is_complex()) {
    value = value.toTensor().to(at::kComplexHalf);
  } else if (value.toTensor().is_floating_point()) {
    value = value.toTensor().to(*narrow_);
  }
}

}  // namespace triton_xe
