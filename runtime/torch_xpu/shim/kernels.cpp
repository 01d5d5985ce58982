// The operators that make, copy, resize and alias XPU tensors.
#include "shim.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zero.h>
#include <torch/library.h>

namespace triton_xe {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using std::optional;

void check_options(optional<at::Layout> layout, optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(at::kStrided) == at::kStrided,
      "the simulated xpu device holds strided tensors only, not layout ", *layout, ".");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

c10::DeviceIndex index_of(optional<at::Device> device) {
  return checked_device(device ? device->index() : c10::DeviceIndex{-1});
}

// torch.utils.deterministic: memory that nobody has written is to read as NaN.
bool fills() {
  return at::globalContext().deterministicAlgorithms() &&
      at::globalContext().deterministicFillUninitializedMemory();
}

at::Tensor filled(at::Tensor made) {
  return fills() ? at::native::fill_empty_deterministic_(made) : made;
}

at::Tensor empty(at::IntArrayRef size, optional<at::ScalarType> dtype, optional<at::Layout> layout,
                 optional<at::Device> device, optional<bool> pin_memory,
                 optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  DeviceScope scope(index_of(device));
  return filled(at::detail::empty_generic(
      size, allocator(), DispatchKeySet(DispatchKey::XPU), c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         optional<at::ScalarType> dtype, optional<at::Layout> layout,
                         optional<at::Device> device, optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  DeviceScope scope(index_of(device));
  return filled(at::detail::empty_strided_generic(
      size, stride, allocator(), DispatchKeySet(DispatchKey::XPU), c10::dtype_or_default(dtype)));
}

// torch's version has no memory behind it, only a mark that few kernels know.
at::Tensor zeros(at::IntArrayRef size, optional<at::ScalarType> dtype, optional<at::Layout> layout,
                 optional<at::Device> device, optional<bool> pin_memory) {
  return empty(size, dtype, layout, device, pin_memory, std::nullopt).zero_();
}

at::Tensor on_cpu(const at::Tensor& tensor) {
  return tensor.is_xpu() ? twin_tensor(tensor) : tensor;
}

void copy_now(const at::Tensor& to, const at::Tensor& from) {
  at::AutoDispatchBelowADInplaceOrView below;
  on_cpu(to).copy_(on_cpu(from));
  mark_written(to);
  auto bytes = static_cast<std::int64_t>(to.nbytes());
  count_traffic((to.is_xpu() ? to : from).device().index(),
                {1, from.is_xpu() ? bytes : 0, to.is_xpu() ? bytes : 0});
}

void copy_bytes(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (!capturing()) {
    return copy_now(to, from);
  }
  if (to.is_xpu()) {
    copy_now(to, from);
  } else if (!non_blocking) {
    refuse_in_capture("a copy to the host");
  }
  record([to = same_tensor(to), from = same_tensor(from)] { copy_now(to, from); });
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (!self.is_same(source)) {
    copy_bytes(self, source, non_blocking);
  }
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  copy_bytes(to, self, non_blocking);
  return to;
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          optional<at::MemoryFormat> format) {
  DeviceScope scope(self.device().index());
  auto* before = self.storage().data();
  auto bytes = static_cast<std::int64_t>(self.storage().nbytes());
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), size, /*stride=*/std::nullopt);
  if (before != nullptr && self.storage().data() != before) {
    mark_written(self.storage().data(), self.storage().nbytes());
  }
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return fills() ? at::native::fill_resize_deterministic_(self, bytes) : self;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (to.sizes() != self.sizes()) {
    to.resize_(self.sizes());
  }
  copy_bytes(to, self, false);
  return to;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  refuse_in_capture("a value that is read by the host (`item()`, `if tensor:`)");
  at::AutoDispatchBelowADInplaceOrView below;
  return at::_local_scalar_dense(twin_tensor(self));
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  DeviceScope scope(self.device().index());
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, allocator(), /*resizable=*/true);
  return at::native::set_storage_cpu_(self, c10::Storage(std::move(storage)), 0, {0}, {});
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  return at::native::set_(self, std::move(source));
}

at::Tensor& set_storage_at(at::Tensor& self, at::Storage source, std::int64_t offset,
                           at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

void record_stream(at::Tensor&, at::Stream) {}

}  // namespace

void register_kernels(torch::Library& m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", zeros);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", resize_);
  m.impl("set_", set_to_nothing);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage_at);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("record_stream", record_stream);
}

}  // namespace triton_xe
