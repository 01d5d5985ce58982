// CPU twins: the same bytes seen as a CPU tensor, so that CPU kernels compute on device memory.
//
// A twin storage keeps the XPU storage alive and uses the CPU allocator, so a kernel may resize it;
// the caller then moves the new memory over to the XPU storage.
#include "shim.h"

#include <ATen/NestedTensorImpl.h>
#include <c10/core/CPUAllocator.h>

namespace triton_xe {
namespace {

void release_original(void* context) {
  c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(context));
}

}  // namespace

c10::Storage twin_storage(const c10::Storage& storage) {
  auto original =
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl());
  auto* data = storage.mutable_data();
  c10::DataPtr alias(
      data, original.release(), &release_original, c10::Device(c10::DeviceType::CPU));
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(), std::move(alias),
      c10::GetCPUAllocator(), /*resizable=*/true));
}

at::Tensor nested_over(const at::Tensor& tensor, const c10::Storage& storage, c10::DispatchKey key) {
  auto* nested = at::native::get_nested_tensor_impl(tensor);
  auto buffer = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(key), tensor.dtype());
  buffer.unsafeGetTensorImpl()->set_sizes_contiguous(
      {static_cast<std::int64_t>(storage.nbytes() / tensor.element_size())});
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      buffer, nested->get_nested_sizes(), nested->get_nested_strides(),
      nested->get_storage_offsets());
}

at::Tensor twin_tensor(const at::Tensor& tensor, const c10::Storage& twin) {
  if (tensor.is_nested()) {
    return nested_over(tensor, twin, c10::DispatchKey::CPU);
  }
  auto* from = tensor.unsafeGetTensorImpl();
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(twin), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  if (from->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  if (tensor.is_conj()) {
    made._set_conj(true);
  }
  if (tensor.is_neg()) {
    made._set_neg(true);
  }
  return made;
}

at::Tensor twin_tensor(const at::Tensor& tensor) {
  return twin_tensor(tensor, twin_storage(tensor.storage()));
}

}  // namespace triton_xe
