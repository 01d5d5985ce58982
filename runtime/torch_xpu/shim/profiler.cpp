// What torch.profiler shows of the device: each kernel with its name, its time and its operator.
#include "shim.h"

#include <kineto/libkineto.h>
#include <kineto/output_base.h>

#include <mutex>
#include <vector>

extern "C" __attribute__((visibility("default"))) int xe_profiling = 0;

namespace triton_xe {
namespace {

using libkineto::ActivityType;

struct Range {
  std::string name;
  std::int64_t start;
  std::int64_t end;
  c10::DeviceIndex device;
  c10::StreamId stream;
  std::int32_t number;
  std::uint64_t operator_id;
};

struct Ranges {
  std::mutex& mutex = mutex_of(Lock::kKernels);
  std::vector<Range> all;
  std::int32_t made = 0;
};

auto& ranges = *new Ranges;
// The operators under way in this thread, by the number that the profiler gave them.
thread_local std::vector<std::uint64_t> operators;

struct Session final : libkineto::IActivityProfilerSession {
  void start() override {
    std::scoped_lock lock(ranges.mutex);
    ranges.all.clear();
    xe_profiling = 1;
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    xe_profiling = 0;
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }
  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](std::int32_t) { return nullptr; }, 0, 0);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback find,
                    std::int64_t start, std::int64_t end) override {
    std::scoped_lock lock(ranges.mutex);
    buffer_->span = libkineto::TraceSpan(start, end, "simulated xpu devices");
    for (const auto& range : ranges.all) {
      buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, range.name);
      auto& made = *buffer_->activities.back();
      made.startTime = range.start;
      made.endTime = range.end;
      made.id = range.number;
      made.device = range.device;
      made.resource = static_cast<std::int32_t>(range.stream);
      made.linked = range.operator_id ? find(static_cast<std::int32_t>(range.operator_id)) : nullptr;
      logger.handleGenericActivity(made);
    }
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }
  void pushCorrelationId(std::uint64_t id) override { operators.push_back(id); }
  void popCorrelationId() override {
    if (!operators.empty()) {
      operators.pop_back();
    }
  }

 private:
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ =
      std::make_unique<libkineto::CpuTraceBuffer>();
};

struct Profiler final : libkineto::IActivityProfiler {
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& wanted, const libkineto::Config&) override {
    if (wanted.count(ActivityType::CONCURRENT_KERNEL) == 0) {
      return nullptr;
    }
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      std::int64_t, std::int64_t, const std::set<ActivityType>& wanted,
      const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  std::string name_ = "triton-xe";
  std::set<ActivityType> activities_ = {ActivityType::CONCURRENT_KERNEL};
};

}  // namespace

void note_kernel(std::string name, std::int64_t start, std::int64_t end, c10::DeviceIndex device) {
  auto stream = current_stream(device).id();
  auto id = operators.empty() ? 0 : operators.back();
  std::scoped_lock lock(ranges.mutex);
  ranges.all.push_back({std::move(name), start, end, device, stream, ++ranges.made, id});
}

void register_profiler() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

}  // namespace triton_xe
