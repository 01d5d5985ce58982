// Products and quotients that are added: a GPU rounds `self + value * product` of floats once.
//
// The CPU rounds it twice. Inductor writes one rounding for GPUs, and its tests compare the two.
// Sums are taken in doubles, where `value * product` is exact.
#include "../shim.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

namespace triton_xe {
namespace {

using at::Tensor;

enum class Part { kProduct, kQuotient };

// The arguments of addcmul, addcdiv, and those of theirs that write: to `self`, or to a fifth one.
struct Arguments {
  explicit Arguments(const c10::IValue* first, std::size_t count)
      : self(first[0].toTensor()), left(first[1].toTensor()), right(first[2].toTensor()),
        value(first[3].toScalar()), out(count > 4 ? first[4].toTensor() : Tensor()) {}

  bool are_floats() const {
    auto is_float = [](const Tensor& tensor) {
      return tensor.is_xpu() && tensor.scalar_type() == at::kFloat;
    };
    return is_float(self) && is_float(left) && is_float(right) && !value.isComplex() &&
        (!out.defined() || is_float(out));
  }

  at::DimVector sizes() const {
    return at::infer_size_dimvector(
        self.sizes(), at::infer_size_dimvector(left.sizes(), right.sizes()));
  }

  Tensor self, left, right;
  at::Scalar value;
  Tensor out;
};

// A quotient is rounded by itself, and so is a product but for one that nothing scales.
template <Part kind>
Tensor sum(const Arguments& of) {
  auto factor = of.value.to<float>();
  Tensor part;
  if (kind == Part::kQuotient) {
    part = of.left.div(of.right);
  } else {
    part = (factor == 1 ? of.left.to(at::kDouble) : of.left).mul(of.right);
  }
  return part.to(at::kDouble).mul(factor).add(of.self).to(at::kFloat);
}

template <Part kind>
void added(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto count = op.schema().arguments().size();
  Arguments of(&(*stack)[stack->size() - count], count);
  bool in_place = op.schema().name().back() == '_';
  if (!of.are_floats() || (in_place && !of.self.sizes().equals(of.sizes()))) {
    run_on_cpu(op, stack);
    return;
  }
  Tensor result = sum<kind>(of);
  if (in_place || of.out.defined()) {
    Tensor written = in_place ? of.self : of.out;
    at::native::resize_output(written, result.sizes());
    at::assert_no_internal_overlap(written);
    result = written.copy_(result);
  }
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(result));
}

}  // namespace

void register_contractions(torch::Library& xpu) {
  for (auto name : {"addcmul", "addcmul_", "addcmul.out"}) {
    xpu.impl(name, torch::CppFunction::makeFromBoxedFunction<&added<Part::kProduct>>());
  }
  for (auto name : {"addcdiv", "addcdiv_", "addcdiv.out"}) {
    xpu.impl(name, torch::CppFunction::makeFromBoxedFunction<&added<Part::kQuotient>>());
  }
}

}  // namespace triton_xe
