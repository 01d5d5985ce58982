// Every other operator: run the CPU kernel on CPU twins of the arguments, without a copy.
//
// Results keep the argument's identity (in place), its storage (views), or take over the memory the
// kernel allocated (everything else).
#include "shim.h"
#include "operators/widening.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string_view>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

namespace triton_xe {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

// Operators that take some arguments from the CPU on purpose: indices, lengths, step counters.
constexpr std::array<std::string_view, 10> kMixedDevices = {
    "aten::index", "aten::index.Tensor", "aten::index.Tensor_out", "aten::index_put_",
    "aten::index_put", "aten::_index_put_impl_", "aten::_unsafe_index.Tensor",
    "aten::_unsafe_index_put", "aten::_pack_padded_sequence", "aten::_pad_packed_sequence"};

// Of these the sizes of batches, or lengths, the second result, are on the CPU, whatever the device.
constexpr std::array<std::string_view, 2> kPacking = {
    "aten::_pack_padded_sequence", "aten::_pad_packed_sequence"};

// Products of matrices; those that add to their first argument first.
constexpr std::array<std::string_view, 8> kProducts = {
    "aten::addmm", "aten::baddbmm", "aten::addmv", "aten::mm", "aten::bmm", "aten::mv",
    "aten::_scaled_mm", "aten::_int_mm"};
constexpr int kAddingProducts = 3;
constexpr std::string_view kScaledProducts = "aten::_scaled_mm";

// What the CPU's kernels for nested tensors do in terms of other operators, whatever the device, or
// answer from sizes, which are the CPU's.
constexpr std::array<std::string_view, 7> kOfAnyDevice = {
    "aten::_to_copy", "aten::copy_", "aten::empty_like", "aten::_nested_tensor_size",
    "aten::_nested_tensor_strides", "aten::_nested_tensor_storage_offsets", "aten::is_same_size"};

bool starts_with(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

bool allows_mixed_devices(const c10::OperatorHandle& op) {
  auto name = c10::toString(op.operator_name());
  return starts_with(name, "aten::_nested_") || std::find(kMixedDevices.begin(), kMixedDevices.end(), name) != kMixedDevices.end();
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

// A list of tensors, of tensors and Nones, or of such lists.
bool holds_tensors(const IValue& value) {
  if (!value.isList()) {
    return false;
  }
  for (const IValue& inner : value.toListRef()) {
    if (inner.isTensor() || holds_tensors(inner)) {
      return true;
    }
  }
  return false;
}

// A new list of what `change` makes of the elements.
template <typename F>
IValue each_of(const IValue& list, F change) {
  auto old = list.toList();
  c10::impl::GenericList made(old.elementType());
  made.reserve(old.size());
  for (const IValue& element : list.toListRef()) {
    IValue inner = element;
    change(inner);
    made.push_back(std::move(inner));
  }
  return made;
}

std::int64_t clock_ns() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

bool ends_with(std::string_view name, std::string_view suffix) {
  return name.size() >= suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
}

// One operator call: what its arguments were, and their twins.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack* stack)
      : op_(op), stack_(stack), first_(stack->size() - op.schema().arguments().size()) {}

  void run() {
    find_device();
    run(multiplies_in_tf32(device_));
  }

  // As in a capture, whatever is allowed now.
  void replay(bool in_tf32) {
    find_device();
    run(in_tf32);
  }

  c10::DeviceIndex device() const { return device_; }

 private:
  void run(bool in_tf32) {
    const auto& arguments = op_.schema().arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      replace_argument((*stack_)[first_ + i], arguments[i]);
    }
    auto begin = xe_profiling ? clock_ns() : 0;
    if (in_tf32) {
      round_to_tf32(op_, stack_);
    }
    Widening widening(op_, stack_);
    invoke();
    widening.narrow_results();
    if (xe_profiling) {
      note_kernel(op_.operator_name().name, begin, clock_ns(), device_);
    }
    for (auto& twin : twins_) {
      update_original(twin);
      if (twin.written) {
        mark_written(twin.original);
      }
    }
    const auto& name = op_.operator_name().name;
    bool packs = std::find(kPacking.begin(), kPacking.end(), name) != kPacking.end();
    auto count = op_.schema().returns().size();
    for (auto i = stack_->size() - count; i < stack_->size() - packs; ++i) {
      replace_result((*stack_)[i]);
    }
    count_products();
    count_traffic(device_, traffic_);
  }

  struct Twin {
    at::Tensor original;
    at::Tensor cpu;
    std::size_t storage;
    bool written = false;
  };
  struct TwinStorage {
    c10::Storage original;
    c10::Storage cpu;
    bool fresh = false;
  };

  // The device of the first XPU tensor, else of the device argument.
  void find_device() {
    for (auto i = first_; i < stack_->size(); ++i) {
      const auto& value = (*stack_)[i];
      bool is_read = !op_.schema().arguments()[i - first_].is_out();
      note_tensors(value, is_read);
      if (value.isDevice() && value.toDevice().is_xpu() && device_ < 0) {
        device_ = checked_device(value.toDevice().index());
      } else if (value.isGenerator() && device_ < 0 && value.toGenerator().device().is_xpu()) {
        generator_device_ = value.toGenerator().device().index();
      }
    }
    if (device_ < 0) {
      device_ = generator_device_ < 0 ? current_device() : generator_device_;
    }
  }

  void note_tensors(const IValue& value, bool is_read) {
    if (value.isTensor()) {
      note_tensor(value.toTensor(), is_read);
    } else if (value.isList()) {
      for (const IValue& inner : value.toListRef()) {
        note_tensors(inner, is_read);
      }
    }
  }

  void note_tensor(const at::Tensor& tensor, bool is_read) {
    if (!tensor.defined()) {
      return;
    }
    if (is_read) {
      traffic_.read += bytes_of(tensor);
    }
    auto device = tensor.device();
    if (device.is_cpu() && tensor.dim() == 0) {
      return;
    }
    if (!seen_) {
      seen_ = device;
    } else if (*seen_ != device && !allows_mixed_devices(op_)) {
      bool xpu_first = seen_->is_xpu();
      TORCH_CHECK(
          false, "Expected all tensors to be on the same device, but found at least two devices, ",
          xpu_first ? *seen_ : device, " and ", xpu_first ? device : *seen_,
          "! (when calling ", op_.operator_name(), ")");
    }
    if (device.is_xpu() && device_ < 0) {
      device_ = device.index();
    }
  }

  // What operators that are not torch's own do to their arguments, nobody tells.
  bool writes(const c10::Argument& argument) const {
    auto* alias = argument.alias_info();
    return (alias != nullptr && alias->isWrite()) || op_.operator_name().getNamespace() != "aten";
  }

  void replace_argument(IValue& value, const c10::Argument& argument) {
    writes_ = writes(argument);
    if (value.isTensor()) {
      replace_tensor(value);
    } else if (holds_tensors(value)) {
      value = each_of(value, [&](IValue& inner) { replace_argument(inner, argument); });
    } else if (value.isDevice() && value.toDevice().is_xpu()) {
      value = at::Device(at::kCPU);
    } else if (value.isGenerator()) {
      value = inner_generator(value.toGenerator());
      has_generator_ = true;
    } else if (value.isNone() && takes_generator(argument)) {
      value = inner_generator(default_generator(device_));
      has_generator_ = true;
    }
  }

  static bool takes_generator(const c10::Argument& argument) {
    auto* type = argument.type()->castRaw<c10::OptionalType>();
    return type && type->getElementType()->kind() == c10::TypeKind::GeneratorType;
  }

  void replace_tensor(IValue& value) {
    const auto& tensor = value.toTensor();
    if (tensor.defined() && tensor.is_xpu()) {
      value = twin_of(tensor);
    }
  }

  at::Tensor twin_of(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_xpu()) {
      return tensor;
    }
    for (auto& twin : twins_) {
      if (twin.original.is_same(tensor)) {
        twin.written = twin.written || writes_;
        return twin.cpu;
      }
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        tensor.layout() == at::kStrided && tensor.has_storage(), op_.operator_name(),
        ": the simulated xpu device holds strided tensors only, not layout ", tensor.layout(), ".");
    auto storage = twin_storage_of(tensor.storage());
    twins_.push_back({tensor, twin_tensor(tensor, storages_[storage].cpu), storage, writes_});
    key_ = tensor.is_nested() ? DispatchKey::NestedTensorCPU : key_;
    return twins_.back().cpu;
  }

  std::size_t twin_storage_of(const c10::Storage& storage) {
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      if (storages_[i].original.is_alias_of(storage)) {
        return i;
      }
    }
    storages_.push_back({storage, twin_storage(storage)});
    return storages_.size() - 1;
  }

  // Draws from the device's generator also where the kernel uses the CPU's default one (dropout).
  void invoke() {
    c10::impl::ExcludeDispatchKeyGuard below(
        c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset);
    ResultScope device_memory;
    std::optional<WithoutOneDnn> in_floats;
    if (starts_with(op_.operator_name().name, kScaledProducts)) {
      in_floats.emplace();
    }
    if (has_generator_ || !op_.hasTag(at::Tag::nondeterministic_seeded)) {
      op_.redispatchBoxed(DispatchKeySet(key_), stack_);
      return;
    }
    SwappedGenerators swapped(device_);
    op_.redispatchBoxed(DispatchKeySet(key_), stack_);
  }

  class SwappedGenerators {
   public:
    explicit SwappedGenerators(c10::DeviceIndex device)
        : cpu_(at::detail::getDefaultCPUGenerator()),
          xpu_(inner_generator(default_generator(device))) {
      swap();
    }
    ~SwappedGenerators() { swap(); }

   private:
    void swap() {
      std::scoped_lock lock(cpu_.mutex(), xpu_.mutex());
      auto* cpu = at::check_generator<at::CPUGeneratorImpl>(cpu_);
      auto* xpu = at::check_generator<at::CPUGeneratorImpl>(xpu_);
      auto engine = cpu->engine();
      cpu->set_engine(xpu->engine());
      xpu->set_engine(engine);
      auto single = cpu->next_float_normal_sample();
      cpu->set_next_float_normal_sample(xpu->next_float_normal_sample());
      xpu->set_next_float_normal_sample(single);
      auto pair = cpu->next_double_normal_sample();
      cpu->set_next_double_normal_sample(xpu->next_double_normal_sample());
      xpu->set_next_double_normal_sample(pair);
    }

    at::Generator cpu_;
    at::Generator xpu_;
  };

  // Carries a resize of an argument (`out=`) over to the XPU tensor.
  void update_original(Twin& twin) {
    auto& storage = storages_[twin.storage];
    auto* impl = twin.original.unsafeGetTensorImpl();
    if (!twin.cpu.storage().is_alias_of(storage.cpu)) {
      impl->set_storage_keep_dtype(device_storage(twin.cpu.storage()));
    } else if (storage.cpu.data() != storage.original.data()) {
      take_over(storage);
    }
    if (twin.original.is_nested()) {
      return;
    }
    bool same = impl->sizes() == twin.cpu.sizes() && impl->strides() == twin.cpu.strides() &&
        impl->storage_offset() == twin.cpu.storage_offset();
    if (!same) {
      impl->set_sizes_and_strides(
          twin.cpu.sizes(), twin.cpu.strides(), twin.cpu.storage_offset());
    }
    take_bits(twin.cpu, twin.original);  // linalg.lu_solve leaves out= conjugated
  }

  // Moves what a kernel wrote into memory it allocated itself to proper device memory.
  void take_over(TwinStorage& storage) {
    DeviceScope scope(storage.original.device().index());
    auto size = storage.cpu.nbytes();
    auto memory = allocator()->allocate(size);
    if (size > 0) {
      std::memcpy(memory.get(), storage.cpu.data(), size);
      mark_written(memory.get(), size);
    }
    auto* original = storage.original.unsafeGetStorageImpl();
    original->set_data_ptr_noswap(std::move(memory));
    original->set_nbytes(size);
    storage.cpu.set_data_ptr_noswap(
        c10::DataPtr(original->mutable_data(), at::Device(at::kCPU)));
  }

  void replace_result(IValue& value) {
    if (value.isTensor()) {
      value = result_of(value.toTensor());
    } else if (holds_tensors(value)) {
      value = each_of(value, [&](IValue& inner) { replace_result(inner); });
    }
  }

  at::Tensor result_of(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.device().is_cpu()) {
      return tensor;
    }
    traffic_.written += bytes_of(tensor);
    for (auto& twin : twins_) {
      if (twin.cpu.is_same(tensor)) {
        return twin.original;
      }
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_quantized(),
        op_.operator_name(), ": the simulated xpu device holds strided tensors only, and the result"
        " has layout ", tensor.layout(), tensor.is_quantized() ? " and is quantized" : "",
        "; use .cpu() first.");
    if (tensor.is_nested()) {
      return nested_over(tensor, original_of(tensor.storage()), DispatchKey::XPU);
    }
    for (auto& twin : twins_) {
      if (storages_[twin.storage].cpu.is_alias_of(tensor.storage()) && !twin.original.is_nested()) {
        return like(tensor, at::detail::make_tensor<c10::TensorImpl>(
            c10::TensorImpl::VIEW, c10::Storage(storages_[twin.storage].original),
            twin.original.key_set(), tensor.dtype()));
      }
    }
    return like(tensor, at::detail::make_tensor<c10::TensorImpl>(
        original_of(tensor.storage()), DispatchKeySet(DispatchKey::XPU), tensor.dtype()));
  }

  // An argument's storage, or that of memory which the kernel allocated.
  c10::Storage original_of(const c10::Storage& cpu) {
    for (auto& known : storages_) {
      if (known.cpu.is_alias_of(cpu)) {
        return known.original;
      }
    }
    return device_storage(cpu);
  }

  // Products of matrices: two operations for each element of the result and of the inner dimension.
  void count_products() {
    auto found = std::find(kProducts.begin(), kProducts.end(), op_.operator_name().name);
    if (found == kProducts.end() || twins_.empty() || !stack_->back().isTensor()) {
      return;
    }
    // a tensor that is several arguments has one twin
    bool adds = found - kProducts.begin() < kAddingProducts && twins_.size() > 1;
    const auto& left = twins_[adds ? 1 : 0].cpu;
    if (left.dim() > 0) {
      auto count = 2 * stack_->back().toTensor().numel() * left.size(-1);
      (left.element_size() <= 2 ? traffic_.narrow_products : traffic_.wide_products) += count;
    }
  }

  static at::Tensor like(const at::Tensor& from, at::Tensor made) {
    made.unsafeGetTensorImpl()->set_sizes_and_strides(
        from.sizes(), from.strides(), from.storage_offset());
    take_bits(from, made);
    return made;
  }

  // Whether it reads as conjugated, or negated.
  static void take_bits(const at::Tensor& from, const at::Tensor& to) {
    if (from.is_conj() != to.is_conj()) {
      to._set_conj(from.is_conj());
    }
    if (from.is_neg() != to.is_neg()) {
      to._set_neg(from.is_neg());
    }
  }

  // The XPU storage of a CPU storage that the kernel made; one for all results that share it.
  c10::Storage device_storage(const c10::Storage& cpu) {
    for (auto& known : storages_) {
      if (known.fresh && known.cpu.is_alias_of(cpu)) {
        return known.original;
      }
    }
    c10::Storage made(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), cpu.nbytes(), adopt(cpu, device_), allocator(),
        /*resizable=*/true));
    storages_.push_back({made, cpu, true});
    return made;
  }

  const c10::OperatorHandle& op_;
  Stack* stack_;
  std::size_t first_;
  c10::DeviceIndex device_ = -1;
  c10::DeviceIndex generator_device_ = -1;
  std::optional<at::Device> seen_;
  Traffic traffic_{1, 0, 0};
  bool has_generator_ = false;
  bool writes_ = false;
  DispatchKey key_ = DispatchKey::CPU;
  c10::SmallVector<Twin, 4> twins_;
  c10::SmallVector<TwinStorage, 4> storages_;
};

// A value that a replay can use again: numbers on the host keep what they were.
IValue frozen(const IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    bool number = tensor.defined() && tensor.device().is_cpu() && tensor.dim() == 0;
    return number ? tensor.clone() : same_tensor(tensor);
  }
  return holds_tensors(value) ? each_of(value, [](IValue& inner) { inner = frozen(inner); })
                              : value;
}

std::vector<IValue> frozen(const Stack& stack, std::size_t count) {
  std::vector<IValue> made;
  for (auto i = stack.size() - count; i < stack.size(); ++i) {
    made.push_back(frozen(stack[i]));
  }
  return made;
}

// Moves a result of a replay to where the capture's was.
void write_back(const IValue& to, const IValue& from) {
  if (holds_tensors(to)) {
    for (std::size_t i = 0; i < to.toListRef().size(); ++i) {
      write_back(to.toListRef()[i], from.toListRef()[i]);
    }
  } else if (to.isTensor() && to.toTensor().defined() && to.toTensor().is_xpu() &&
             !to.toTensor().storage().is_alias_of(from.toTensor().storage())) {
    at::AutoDispatchBelowADInplaceOrView below;
    twin_tensor(to.toTensor()).copy_(twin_tensor(from.toTensor()));
  }
}

void check_can_be_captured(const c10::OperatorHandle& op) {
  auto name = c10::toString(op.operator_name());
  if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) {
    refuse_in_capture(name);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      !starts_with(name, "c10d::"), name, ": the simulated xpu device captures no collectives.");
}

void capture(const c10::OperatorHandle& op, Stack* stack) {
  check_can_be_captured(op);
  auto arguments = frozen(*stack, op.schema().arguments().size());
  Call call(op, stack);
  call.run();
  auto results = frozen(*stack, op.schema().returns().size());
  bool in_tf32 = multiplies_in_tf32(call.device());
  record([op, arguments, results, in_tf32, device = current_device()] {
    DeviceScope scope(device);
    Stack again(arguments);
    Call(op, &again).replay(in_tf32);
    for (std::size_t i = 0; i < results.size(); ++i) {
      write_back(results[i], again[again.size() - results.size() + i]);
    }
  });
}

// Whether its lists hold tensors of several devices, which a GPU, too, then takes one at a time; or
// what it does to each is an operator of our own.
bool takes_one_at_a_time(const c10::OperatorHandle& op, const Stack& stack) {
  std::optional<at::Device> seen;
  bool several = starts_with(op.operator_name().name, "aten::_foreach_addc");
  bool is_foreach = starts_with(op.operator_name().name, "aten::_foreach_");
  for (auto i = stack.size() - op.schema().arguments().size(); is_foreach && i < stack.size(); ++i) {
    if (!stack[i].isTensorList()) {
      continue;
    }
    for (const at::Tensor& each : stack[i].toTensorVector()) {
      several = several || (seen && *seen != each.device());
      seen = each.device();
    }
  }
  return several;
}

// Those of the CPU's quantised layers, whose packed weights no other device has.
void check_not_quantized(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name().name;
  TORCH_CHECK_NOT_IMPLEMENTED(
      !starts_with(name, "quantized::"), "Could not run '", name,
      "' with arguments from the 'XPU' backend: torch has it for the CPU only; use .cpu().");
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  check_not_quantized(op);
  if (takes_one_at_a_time(op, *stack)) {
    op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  } else if (capturing()) {
    capture(op, stack);
  } else {
    Call(op, stack).run();
  }
}

void nested_fallback(const c10::OperatorHandle& op, Stack* stack) {
  const auto& name = op.operator_name().name;
  if (std::find(kOfAnyDevice.begin(), kOfAnyDevice.end(), name) == kOfAnyDevice.end()) {
    fallback(op, stack);
    return;
  }
  op.redispatchBoxed(DispatchKeySet(DispatchKey::NestedTensorCPU), stack);
}

// Composites that are right as they are: they only allocate, copy, alias or ask.
bool keeps_composite(std::string_view name) {
  for (auto prefix : {"new_", "empty", "lift", "resize", "_resize", "set_"}) {
    if (starts_with(name, prefix)) {
      return true;
    }
  }
  for (auto exact : {"_to_copy", "_to_cpu", "clone", "pin_memory", "_pin_memory", "is_pinned"}) {
    if (name == exact) {
      return true;
    }
  }
  return ends_with(name, "_like");
}

bool takes_tensor(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    auto type = argument.type()->str();
    if (type.find("Tensor") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// Takes a tensor, or is a factory whose composite body calls a kernel of the device.
bool may_run_kernels(const c10::OperatorHandle& op) {
  return takes_tensor(op.schema()) || starts_with(op.operator_name().name, "aten::kaiser_window");
}

bool returns_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.alias_info() && !result.alias_info()->isWrite()) {
      return true;
    }
  }
  return false;
}

bool needs_fallback(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name().name;
  if (!starts_with(name, "aten::") || op.hasKernelForDispatchKey(DispatchKey::XPU)) {
    return false;
  }
  bool has_body = false;
  for (auto key : {DispatchKey::CPU, DispatchKey::CompositeExplicitAutograd,
                   DispatchKey::CompositeExplicitAutogradNonFunctional}) {
    has_body = has_body || op.hasKernelForDispatchKey(key);
  }
  return has_body && !op.hasTag(at::Tag::inplace_view) && !keeps_composite(std::string_view(name).substr(6)) &&
      may_run_kernels(op) && !returns_view(op.schema());
}

torch::Library* xpu_library = nullptr;
torch::Library* nested_library = nullptr;

// For every operator of every library, also one that is defined later.
template <c10::BoxedKernel::BoxedKernelFunction* function>
void run_others(DispatchKey key) {
  auto& others = *new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFromBoxedFunction<function>());
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, std::vector<IValue>* stack) {
  fallback(op, stack);
}

void set_libraries(torch::Library& xpu, torch::Library& nested) {
  xpu_library = &xpu;
  nested_library = &nested;
}

void register_operators() {
  static std::once_flag once;
  std::call_once(once, [] {
    run_others<&fallback>(DispatchKey::XPU);
    run_others<&nested_fallback>(DispatchKey::NestedTensorXPU);
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      auto op = dispatcher.findSchema(name);
      if (op && needs_fallback(*op)) {
        xpu_library->impl(
            c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
      }
      if (op && op->hasKernelForDispatchKey(DispatchKey::NestedTensorCPU)) {
        nested_library->impl(c10::toString(name).c_str(),
                             torch::CppFunction::makeFromBoxedFunction<&nested_fallback>());
      }
    }
  });
}

}  // namespace triton_xe
