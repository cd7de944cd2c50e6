// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_id.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace sluice::cli {

/// The conditions under which a mode of `sluice bench` measures, for its report. Not thread-safe.
class bench_conditions {
 public:
  /// The clock of the multiprocessors of an NVIDIA GPU at one time.
  struct sm_clock {
    unsigned megahertz = 0;
    unsigned long long reasons = 0;  ///< bits of NVML: why it is not higher
  };

  explicit bench_conditions(device_id measured);

  /// Notes the threads of the process and the clock of the GPU. Modes call it when they are warm,
  /// and after each round.
  void note();
  /// Notes so many rounds of a mode that keeps all of them.
  void note_rounds(std::size_t measured) { rounds_ += measured; }
  /// Notes so many rounds, of which `disturbed` have been left out.
  void note_rounds(std::size_t measured, std::size_t disturbed) {
    rounds_ += measured;
    disturbed_ = disturbed_.value_or(0) + disturbed;
  }

  [[nodiscard]] nlohmann::ordered_json json() const;
  /// Lines of text.
  [[nodiscard]] std::string text() const;

 private:
  std::function<std::optional<sm_clock>()> read_clock_;  // null without NVML
  std::size_t threads_ = 0;                              // the most
  std::size_t rounds_ = 0;
  std::optional<std::size_t> disturbed_;  // without a value if none is looked for
  std::optional<unsigned> first_megahertz_;
  unsigned last_megahertz_ = 0;
  unsigned long long reasons_ = 0;  // of all times
};

}  // namespace sluice::cli
