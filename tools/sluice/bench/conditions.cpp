// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/conditions.hpp"

#include "tools/sluice/bench/processors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

/// The threads of the process, from Linux.
std::size_t threads_of_process() {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Threads:")) return std::stoul(line.substr(line.find(':') + 1));
  }
  return 0;
}

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

/// NVML, from its initialization to its end. Null without it.
std::shared_ptr<void> open_nvml() {
  std::shared_ptr<void> opened(::dlopen("libnvidia-ml.so.1", RTLD_NOW), [](void* library) {
    if (library != nullptr) (void)::dlclose(library);
  });
  if (!opened) return nullptr;
  auto* const initialize = find<int()>(opened.get(), "nvmlInit_v2");
  auto* const shut_down = find<int()>(opened.get(), "nvmlShutdown");
  if (initialize == nullptr || shut_down == nullptr || initialize() != 0) return nullptr;
  return {opened.get(), [opened, shut_down](void*) {
            (void)shut_down();
          }};
}

/// Reads the clock of a GPU from NVML, which is opened at run time. Null if `measured` is no GPU,
/// or if there is no NVML.
std::function<std::optional<bench_conditions::sm_clock>()> make_sm_clock_reader(
    device_id measured) {
  if (measured.kind == device_kind::host) return nullptr;
  // The CUDA runtime is loaded where there is a GPU to measure.
  auto* const find_bus = find<int(char*, int, int)>(RTLD_DEFAULT, "cudaDeviceGetPCIBusId");
  std::array<char, 32> bus{};
  if (find_bus == nullptr || find_bus(bus.data(), bus.size(), measured.ordinal) != 0)
    return nullptr;
  const auto nvml = open_nvml();
  if (!nvml) return nullptr;
  // With the types of nvml.h.
  auto* const find_gpu =
      find<int(const char*, void**)>(nvml.get(), "nvmlDeviceGetHandleByPciBusId_v2");
  auto* const get_clock = find<int(void*, int, unsigned*)>(nvml.get(), "nvmlDeviceGetClockInfo");
  auto* const get_reasons = find<int(void*, unsigned long long*)>(
      nvml.get(), "nvmlDeviceGetCurrentClocksThrottleReasons");
  void* gpu = nullptr;
  if (find_gpu == nullptr || get_clock == nullptr || find_gpu(bus.data(), &gpu) != 0)
    return nullptr;
  // The captured library stays open.
  return [nvml, gpu, get_clock, get_reasons]() -> std::optional<bench_conditions::sm_clock> {
    constexpr int clock_of_multiprocessors = 1;  // NVML_CLOCK_SM
    bench_conditions::sm_clock now;
    if (get_clock(gpu, clock_of_multiprocessors, &now.megahertz) != 0) return std::nullopt;
    if (get_reasons == nullptr || get_reasons(gpu, &now.reasons) != 0) now.reasons = 0;
    return now;
  };
}

/// The names of the reasons that mean throttling: "sw_power_cap".
std::vector<std::string> throttling(unsigned long long reasons) {
  // nvmlClocksThrottleReason...; without those that mean an idle GPU or a setting.
  constexpr std::array<std::pair<unsigned long long, const char*>, 6> names{
      {{0x04, "sw_power_cap"},
       {0x08, "hw_slowdown"},
       {0x10, "sync_boost"},
       {0x20, "sw_thermal_slowdown"},
       {0x40, "hw_thermal_slowdown"},
       {0x80, "hw_power_brake_slowdown"}}};
  std::vector<std::string> found;
  for (const auto& [bit, name] : names) {
    if ((reasons & bit) != 0) found.emplace_back(name);
  }
  return found;
}

}  // namespace

bench_conditions::bench_conditions(device_id measured)
    : read_clock_(make_sm_clock_reader(measured)) {}

void bench_conditions::note() {
  threads_ = std::max(threads_, threads_of_process());
  if (!read_clock_) return;
  if (const auto now = read_clock_()) {
    if (!first_megahertz_) first_megahertz_ = now->megahertz;
    last_megahertz_ = now->megahertz;
    reasons_ |= now->reasons;
  }
}

nlohmann::ordered_json bench_conditions::json() const {
  nlohmann::ordered_json all = {{"threads", threads_},
                                {"processors", processors_of_process().size()},
                                {"pinned", pinned_client::enabled()},
                                {"rounds", {{"measured", rounds_}}}};
  if (disturbed_) all["rounds"]["disturbed"] = *disturbed_;
  if (first_megahertz_) {
    all["sm_clock"] = {{"megahertz_before", *first_megahertz_},
                       {"megahertz_after", last_megahertz_},
                       {"throttled_by", throttling(reasons_)}};
  }
  return all;
}

std::string bench_conditions::text() const {
  auto text = fmt::format("  threads of the process: {}; processors: {}{}\n", threads_,
                          processors_of_process().size(),
                          pinned_client::enabled() ? "; clients are pinned" : "");
  text +=
      disturbed_
          ? fmt::format("  rounds of all sections: {}, of which {} were disturbed and left out\n",
                        rounds_, *disturbed_)
          : fmt::format("  rounds: {}, none of which is left out\n", rounds_);
  if (first_megahertz_) {
    const auto reasons = throttling(reasons_);
    text += fmt::format("  SM clock: {} MHz before, {} MHz after; throttled by: {}\n",
                        *first_megahertz_, last_megahertz_,
                        reasons.empty() ? "nothing" : fmt::format("{}", fmt::join(reasons, ", ")));
  }
  return text;
}

}  // namespace sluice::cli
