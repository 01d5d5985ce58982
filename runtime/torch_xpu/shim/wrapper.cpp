// What C++ that Inductor writes (cpp_wrapper, AOTInductor) links to on a simulated device: kernels,
// guards and streams, the runner of packages, and torch's C functions of operators.
//
// The functions of operators are generated from torch's own headers (c_shim_xpu.inc); each passes
// its arguments as slots, which are read by the operator's schema.

#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/irange.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <sycl/sycl.hpp>

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr auto kXPU = c10::DeviceType::XPU;
constexpr std::int64_t kMessageBytes = 4096;

// In Python; those that fail write why into the last arguments and return a negative number.
struct Callbacks {
  std::int64_t (*load)(const void*, std::int64_t, const char*, char*, std::int64_t);
  std::int64_t (*launch)(std::int64_t, const std::uint32_t*, void**, const void*, char*,
                         std::int64_t);
  void* (*stream)(int);
} callbacks;

template <class Call>
std::int64_t checked(Call call) {
  std::string message(kMessageBytes, '\0');
  auto result = call(message.data(), kMessageBytes);
  if (result < 0) throw std::runtime_error(message.c_str());
  return result;
}

int current_device() { return c10::impl::VirtualGuardImpl(kXPU).getDevice().index(); }

// operators ---------------------------------------------------------------------------------------

union Slot {
  const void* pointer;
  std::int64_t integer;
  double number;

  Slot(const void* value) : pointer(value) {}
  Slot(std::int64_t value) : integer(value) {}
  Slot(std::int32_t value) : integer(value) {}
  Slot(double value) : number(value) {}
};

const at::Tensor& tensor(const void* handle) { return *static_cast<const at::Tensor*>(handle); }

template <class T>
const T& at_pointer(const void* pointer, std::int64_t k = 0) {
  return static_cast<const T*>(pointer)[k];
}

template <class T, class Stored>
c10::IValue list_of(const void* values, std::int64_t size) {
  c10::List<T> list;
  for (auto k : c10::irange(size)) list.push_back(at_pointer<Stored>(values, k));
  return list;
}

// Reads the slots of one call, in order.
class Reader {
 public:
  explicit Reader(const Slot* slots) : next_(slots) {}

  // What an optional argument points to is there, or not.
  c10::IValue value(const c10::TypePtr& type) {
    auto optional = type->cast<c10::OptionalType>();
    if (!optional) return plain(type, *next_++, false);
    auto slot = *next_++;
    auto inner = optional->getElementType();
    if (slot.pointer) return plain(inner, slot, true);
    if (inner->cast<c10::ListType>() || inner->kind() == c10::TypeKind::DeviceObjType) ++next_;
    return {};
  }

  void* result() { return const_cast<void*>((next_++)->pointer); }

 private:
  c10::IValue plain(const c10::TypePtr& type, Slot slot, bool is_pointed_to) {
    using Kind = c10::TypeKind;
    auto handle = is_pointed_to && type->kind() != Kind::StringType
        ? at_pointer<const void*>(slot.pointer) : slot.pointer;
    auto integer = [&] {
      return is_pointed_to ? at_pointer<std::int64_t>(slot.pointer) : slot.integer;
    };
    auto small = [&]() -> std::int64_t {
      return is_pointed_to ? at_pointer<std::int32_t>(slot.pointer) : slot.integer;
    };
    auto number = [&] { return is_pointed_to ? at_pointer<double>(slot.pointer) : slot.number; };
    switch (type->kind()) {
      case Kind::TensorType: return tensor(handle);
      case Kind::IntType:
      case Kind::SymIntType: return integer();
      case Kind::FloatType: return number();
      case Kind::NumberType: return at::Scalar(number());
      case Kind::BoolType: return small() != 0;
      case Kind::ScalarTypeType:
      case Kind::LayoutType:
      case Kind::MemoryFormatType: return small();
      case Kind::StringType:
        return std::string(is_pointed_to ? at_pointer<const char*>(slot.pointer)
                                         : static_cast<const char*>(slot.pointer));
      case Kind::DeviceObjType:
        return c10::Device(static_cast<c10::DeviceType>(small()),
                           static_cast<c10::DeviceIndex>((next_++)->integer));
      case Kind::GeneratorType: return at_pointer<at::Generator>(handle);
      case Kind::ListType:
        return list(type->expectRef<c10::ListType>().getElementType(), handle,
                    (next_++)->integer);
      default: TORCH_CHECK(false, "an argument of type ", type->repr_str());
    }
  }

  static c10::IValue list(const c10::TypePtr& type, const void* values, std::int64_t size) {
    using Kind = c10::TypeKind;
    switch (type->kind()) {
      case Kind::IntType:
      case Kind::SymIntType: return list_of<std::int64_t, std::int64_t>(values, size);
      case Kind::BoolType: return list_of<bool, std::int32_t>(values, size);
      case Kind::FloatType: return list_of<double, double>(values, size);
      case Kind::TensorType: {
        c10::List<at::Tensor> list;
        for (auto k : c10::irange(size)) list.push_back(tensor(at_pointer<const void*>(values, k)));
        return list;
      }
      case Kind::OptionalType: {
        c10::List<std::optional<at::Tensor>> list;
        for (auto k : c10::irange(size)) {
          auto each = at_pointer<const void*>(values, k);
          list.push_back(each ? std::make_optional(tensor(at_pointer<const void*>(each)))
                              : std::nullopt);
        }
        return list;
      }
      default: TORCH_CHECK(false, "a list of ", type->repr_str());
    }
  }

  const Slot* next_;
};

// The operator of a function's name, in which `_` also stands before the overload.
c10::OperatorHandle find(std::string name) {
  if (name.size() > 3 && name.compare(name.size() - 3, 2, "_v") == 0) name.resize(name.size() - 3);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (auto at = name.size(); at != std::string::npos && at > 0; at = name.rfind('_', at - 1)) {
    auto overload = at < name.size() ? name.substr(at + 1) : "";
    auto found = dispatcher.findSchema({"aten::" + name.substr(0, at), overload});
    if (found) return *found;
  }
  TORCH_CHECK(false, "torch has no operator aten::", name);
}

// views too; what was written to is the caller's own
bool is_result(const c10::Argument& result) {
  return !result.alias_info() || !result.alias_info()->isWrite();
}

void give(const c10::IValue& value, void* to) {
  if (!to) return;
  if (value.isTensor()) {
    *static_cast<at::Tensor**>(to) = new at::Tensor(value.toTensor());
  } else if (value.isInt()) {
    *static_cast<std::int64_t*>(to) = value.toInt();
  } else {
    *static_cast<double*>(to) = value.toDouble();
  }
}

AOTITorchError call(const c10::OperatorHandle& op, const Slot* slots) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    const auto& schema = op.schema();
    const auto& arguments = schema.arguments();
    Reader reader(slots);
    std::vector<c10::IValue> stack(arguments.size());
    for (bool out : {true, false}) {  // C functions take what is written to first
      for (auto k : c10::irange(arguments.size())) {
        if (arguments[k].is_out() == out) stack[k] = reader.value(arguments[k].real_type());
      }
    }
    op.callBoxed(stack);
    for (auto k : c10::irange(stack.size())) {
      if (is_result(schema.returns()[k])) give(stack[k], reader.result());
    }
  });
}

// packages ----------------------------------------------------------------------------------------

struct Runner : torch::inductor::AOTIModelContainerRunner {
  template <class... Given>
  explicit Runner(const Given&... given) : AOTIModelContainerRunner(given...) {}
};

std::unique_ptr<torch::inductor::AOTIModelContainerRunner> make_runner(
    const std::string& path, std::size_t models, const std::string& device,
    const std::string& folder, bool single_threaded) {
  return std::make_unique<Runner>(path, models, device, folder, single_threaded);
}

}  // namespace

namespace triton_xe {

EXPORT std::int64_t load_kernel(const void* module, std::size_t size, const char* name) {
  return checked([&](char* message, std::int64_t bytes) {
    return callbacks.load(module, static_cast<std::int64_t>(size), name, message, bytes);
  });
}

EXPORT void launch_kernel(std::int64_t kernel, const std::uint32_t (&grid)[3], void** arguments,
                          const void* queue) {
  checked([&](char* message, std::int64_t bytes) {
    return callbacks.launch(kernel, grid, arguments, queue, message, bytes);
  });
}

EXPORT void* allocate(std::size_t size) { return c10::GetAllocator(kXPU)->raw_allocate(size); }

EXPORT void release(void* memory) { c10::GetAllocator(kXPU)->raw_deallocate(memory); }

}  // namespace triton_xe

extern "C" {

EXPORT void xe_cpp_start(Callbacks given) {
  callbacks = given;
  torch::inductor::getAOTIModelRunnerRegistry()["xpu"] = make_runner;
}

EXPORT AOTITorchError aoti_torch_create_xpu_guard(std::int32_t index, void** guard) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *guard = new c10::DeviceGuard(c10::Device(kXPU, static_cast<c10::DeviceIndex>(index)));
  });
}

EXPORT AOTITorchError aoti_torch_delete_xpu_guard(void* guard) {
  delete static_cast<c10::DeviceGuard*>(guard);
  return AOTI_TORCH_SUCCESS;
}

EXPORT AOTITorchError aoti_torch_xpu_guard_set_index(void* guard, std::int32_t index) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    static_cast<c10::DeviceGuard*>(guard)->set_index(static_cast<c10::DeviceIndex>(index));
  });
}

// Work is over when it was submitted: of a stream, its device is what matters.
EXPORT AOTITorchError aoti_torch_create_xpu_stream_guard(
    void*, std::int32_t index, void** guard) {
  return aoti_torch_create_xpu_guard(index, guard);
}

EXPORT AOTITorchError aoti_torch_delete_xpu_stream_guard(void* guard) {
  return aoti_torch_delete_xpu_guard(guard);
}

EXPORT AOTITorchError aoti_torch_get_current_xpu_stream(std::int32_t index, void** stream) {
  *stream = callbacks.stream(index < 0 ? current_device() : index);
  return AOTI_TORCH_SUCCESS;
}

EXPORT AOTITorchError aoti_torch_get_current_sycl_queue(void** queue) {
  return aoti_torch_get_current_xpu_stream(-1, queue);
}

EXPORT AOTITorchError aoti_torch_get_current_xpu_device(std::int32_t* index) {
  *index = current_device();
  return AOTI_TORCH_SUCCESS;
}

EXPORT AOTITorchError aoti_torch_set_current_xpu_device(const std::int32_t& index) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    c10::impl::VirtualGuardImpl(kXPU).setDevice(
        c10::Device(kXPU, static_cast<c10::DeviceIndex>(index)));
  });
}

#include "c_shim_xpu.inc"

}  // extern "C"
