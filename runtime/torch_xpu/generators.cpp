// Random number generators: an XPU generator wraps the CPU generator that makes its numbers.
#include "shim.h"

#include <ATen/CPUGeneratorImpl.h>

namespace triton_xe {
namespace {

class XeGenerator final : public c10::GeneratorImpl {
 public:
  XeGenerator(c10::DeviceIndex index, at::Generator inner)
      : c10::GeneratorImpl(c10::Device(kXPU, index), c10::DispatchKeySet(c10::DispatchKey::XPU)),
        inner_(std::move(inner)) {}

  const at::Generator& inner() const { return inner_; }

  void set_current_seed(std::uint64_t seed) override { impl()->set_current_seed(seed); }
  std::uint64_t current_seed() const override { return impl()->current_seed(); }
  std::uint64_t seed() override { return impl()->seed(); }
  void set_offset(std::uint64_t offset) override { impl()->set_offset(offset); }
  std::uint64_t get_offset() const override { return impl()->get_offset(); }
  void set_state(const c10::TensorImpl& state) override { impl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return impl()->get_state(); }

 private:
  XeGenerator* clone_impl() const override {
    return new XeGenerator(device_.index(), inner_.clone());
  }
  c10::GeneratorImpl* impl() const { return inner_.unsafeGetGeneratorImpl(); }

  at::Generator inner_;
};

at::Generator make(c10::DeviceIndex index) {
  return at::make_generator<XeGenerator>(index, at::detail::createCPUGenerator());
}

}  // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  return make(index);
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* all = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < kMaxDevices; ++i) {
      made->push_back(make(static_cast<c10::DeviceIndex>(i)));
    }
    return made;
  }();
  return (*all)[index];
}

const at::Generator& inner_generator(const at::Generator& generator) {
  auto* impl = dynamic_cast<XeGenerator*>(generator.unsafeGetGeneratorImpl());
  TORCH_CHECK(
      impl != nullptr, "Expected a 'xpu' device type for generator but found '",
      generator.device().type(), "'");
  return impl->inner();
}

}  // namespace triton_xe
