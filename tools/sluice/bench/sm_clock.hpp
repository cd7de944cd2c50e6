// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_id.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// The clock of the multiprocessors of an NVIDIA GPU. NVML tells it, which is opened at run time.
/// Not thread-safe.
class sm_clock {
 public:
  /// The clock of `of`. It tells nothing if `of` is no GPU, or if there is no NVML.
  explicit sm_clock(device_id of);
  sm_clock(const sm_clock&) = delete;
  sm_clock& operator=(const sm_clock&) = delete;
  ~sm_clock();

  /// What the clock is at one time.
  struct reading {
    unsigned megahertz = 0;
    unsigned long long reasons = 0;  ///< bits of NVML: why it is not higher
  };
  /// The clock now; empty if NVML does not tell it.
  [[nodiscard]] std::optional<reading> read() const;
  /// The names of the reasons that mean throttling: "sw_power_cap".
  [[nodiscard]] static std::vector<std::string> throttling(unsigned long long reasons);

 private:
  class library;
  std::unique_ptr<library> library_;
};

}  // namespace sluice::cli
