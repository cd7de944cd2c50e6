// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/sm_clock.hpp"

#include <array>
#include <dlfcn.h>
#include <utility>

namespace sluice::cli {

/// The functions of NVML, with the types of nvml.h, and the handle of one GPU.
class sm_clock::library {
 public:
  explicit library(const char* pci_bus_id) : opened_(::dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
    if (opened_ == nullptr) return;
    const auto initialize = find<int()>("nvmlInit_v2");
    const auto find_device = find<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    clock_ = find<int(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
    reasons_ = find<int(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
    shut_down_ = find<int()>("nvmlShutdown");
    initialized_ = initialize != nullptr && shut_down_ != nullptr && initialize() == 0;
    if (!initialized_ || find_device == nullptr || find_device(pci_bus_id, &device_) != 0) {
      device_ = nullptr;
    }
  }
  library(const library&) = delete;
  library& operator=(const library&) = delete;
  ~library() {
    if (initialized_) (void)shut_down_();
    if (opened_ != nullptr) (void)::dlclose(opened_);
  }

  [[nodiscard]] std::optional<reading> read() const {
    constexpr int clock_of_multiprocessors = 1;  // NVML_CLOCK_SM
    reading now;
    if (device_ == nullptr || clock_ == nullptr) return std::nullopt;
    if (clock_(device_, clock_of_multiprocessors, &now.megahertz) != 0) return std::nullopt;
    if (reasons_ == nullptr || reasons_(device_, &now.reasons) != 0) now.reasons = 0;
    return now;
  }

 private:
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(opened_, name));
  }

  void* opened_;
  void* device_ = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
  int (*shut_down_)() = nullptr;
  bool initialized_ = false;
};

sm_clock::sm_clock(device_id of) {
  if (of.kind == device_kind::host) return;
  // The CUDA runtime is loaded where there is a GPU to measure.
  auto* const find_bus =
      reinterpret_cast<int (*)(char*, int, int)>(::dlsym(RTLD_DEFAULT, "cudaDeviceGetPCIBusId"));
  std::array<char, 32> bus{};
  if (find_bus == nullptr || find_bus(bus.data(), bus.size(), of.ordinal) != 0) return;
  library_ = std::make_unique<library>(bus.data());
}

sm_clock::~sm_clock() = default;

std::optional<sm_clock::reading> sm_clock::read() const {
  return library_ ? library_->read() : std::nullopt;
}

std::vector<std::string> sm_clock::throttling(unsigned long long reasons) {
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

}  // namespace sluice::cli
