// Random number generators: a seed and an offset, as a GPU's have, of which each operator's numbers
// are made by a CPU generator of its own.
#include "shim.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>

#include <cstring>
#include <string>

namespace triton_xe {
namespace {

// By how much an operator moves the offset on; a GPU's moves by multiples of it.
constexpr std::uint64_t kDrawStep = 4;
constexpr std::int64_t kStateBytes = 2 * sizeof(std::uint64_t);

// A well-known mixer of 64 bits (splitmix64).
std::uint64_t mix(std::uint64_t& state) {
  auto z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

at::mt19937 engine_at(std::uint64_t seed, std::uint64_t offset) {
  std::uint64_t state = seed;
  state = mix(state) ^ offset;
  at::mt19937_data_pod data{};
  data.seed_ = seed;
  data.seeded_ = true;
  data.left_ = 1;
  for (auto& word : data.state_) {
    word = static_cast<std::uint32_t>(mix(state) >> 32);
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

class XeGenerator final : public c10::GeneratorImpl {
 public:
  XeGenerator(c10::DeviceIndex index, at::Generator inner)
      : c10::GeneratorImpl(c10::Device(kXPU, index), c10::DispatchKeySet(c10::DispatchKey::XPU)),
        inner_(std::move(inner)) {}

  // The CPU generator, set to what the next operator draws.
  const at::Generator& draw() {
    auto* cpu = at::check_generator<at::CPUGeneratorImpl>(inner_);
    cpu->set_engine(engine_at(seed_, offset_));
    cpu->set_next_float_normal_sample(std::nullopt);
    cpu->set_next_double_normal_sample(std::nullopt);
    offset_ += kDrawStep;
    return inner_;
  }

  void set_current_seed(std::uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  std::uint64_t current_seed() const override { return seed_; }
  std::uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(true));
    return seed_;
  }
  void set_offset(std::uint64_t offset) override {
    TORCH_CHECK(offset % kDrawStep == 0, "offset must be a multiple of 4");
    offset_ = offset;
  }
  std::uint64_t get_offset() const override { return offset_; }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.numel() == kStateBytes && state.dtype() == caffe2::TypeMeta::Make<std::uint8_t>(),
                "the state of an XPU generator is ", std::to_string(kStateBytes), " bytes, its seed and its offset.");
    std::uint64_t parts[2];
    std::memcpy(parts, state.data(), sizeof(parts));
    seed_ = parts[0];
    set_offset(parts[1]);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto made = at::detail::empty_cpu({kStateBytes}, at::kByte);
    const std::uint64_t parts[] = {seed_, offset_};
    std::memcpy(made.mutable_data_ptr(), parts, sizeof(parts));
    return made.getIntrusivePtr();
  }

 private:
  XeGenerator* clone_impl() const override {
    auto* made = new XeGenerator(device_.index(), inner_.clone());
    made->seed_ = seed_;
    made->offset_ = offset_;
    return made;
  }

  at::Generator inner_;
  std::uint64_t seed_ = c10::default_rng_seed_val;
  std::uint64_t offset_ = 0;
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
  return impl->draw();
}

}  // namespace triton_xe
