// Products of floats in TF32, where `torch.backends.mkldnn.allow_tf32` allows it.
//
// oneDNN's kernels for a GPU then read matrices, and what is convolved, with ten bits of mantissa;
// sums and what is added stay floats.
#include "../shim.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

namespace triton_xe {
namespace {

// Bit k stands for device k.
std::atomic<std::uint64_t> devices_in_tf32{0};

struct Product {
  std::string_view name;
  std::size_t first;
  std::size_t end;
};

constexpr std::array<Product, 11> kProductsOfFloats = {{
    {"aten::mm", 0, 2}, {"aten::bmm", 0, 2}, {"aten::mv", 0, 2}, {"aten::addmm", 1, 3},
    {"aten::baddbmm", 1, 3}, {"aten::addbmm", 1, 3}, {"aten::addmv", 1, 3},
    {"aten::_addmm_activation", 1, 3}, {"aten::convolution", 0, 2}, {"aten::_convolution", 0, 2},
    {"aten::convolution_backward", 0, 3}}};

const Product* product_of(std::string_view name) {
  if (name.back() == '_') {
    name.remove_suffix(1);
  }
  auto* found = std::find_if(kProductsOfFloats.begin(), kProductsOfFloats.end(),
                             [&](const Product& each) { return each.name == name; });
  return found == kProductsOfFloats.end() ? nullptr : found;
}

// To the nearest, ties to even; infinities and NaN stay.
float rounded(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  constexpr std::uint32_t kExponent = 0x7f800000, kDropped = 0x1fff;
  if ((bits & kExponent) != kExponent) {
    bits = (bits + (kDropped >> 1) + ((bits >> 13) & 1)) & ~kDropped;
  }
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

at::Tensor rounded(const at::Tensor& from) {
  auto made = from.clone();  // dense, whatever the strides were
  auto* data = made.data_ptr<float>();
  std::transform(data, data + made.numel(), data, [](float each) { return rounded(each); });
  return made;
}

}  // namespace

void set_devices_in_tf32(std::uint64_t devices) { devices_in_tf32 = devices; }

bool multiplies_in_tf32(c10::DeviceIndex device) { return devices_in_tf32 >> device & 1; }

void round_to_tf32(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack) {
  auto* product = product_of(op.operator_name().name);
  if (product == nullptr) {
    return;
  }
  auto first = stack->size() - op.schema().arguments().size();
  for (auto i = first + product->first; i < first + product->end; ++i) {
    auto& value = (*stack)[i];
    if (value.isTensor() && value.toTensor().defined() &&
        value.toTensor().scalar_type() == at::kFloat) {
      value = rounded(value.toTensor());
    }
  }
}

}  // namespace triton_xe
