// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/bar_chart.hpp"
#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/session.hpp"
#include "tools/sluice/spread.hpp"

#include <sluice/models/model.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::cli {

/// The times of a step that is run alone, on the device and in microseconds.
struct step_times {
  std::string name;       ///< of the node
  std::string operation;  ///< "conv2d"
  spread times{};
};

struct profile_options {
  std::size_t runs = 10;   ///< that are measured
  std::uint64_t seed = 0;  ///< of random inputs
};

/// The times of a program and of its steps, in microseconds.
struct model_profile {
  std::string device{};
  profile_options options{};
  spread program{};                 ///< of the whole program, with fused steps
  std::size_t fused_steps = 0;      ///< of the program
  std::string not_captured{};       ///< why it is no graph of the device; empty if it is one
  std::vector<step_times> steps{};  ///< in the order of the program
  double sum = 0;                   ///< of the medians of the steps
};

/// Measures a program and its steps, one by one. Inputs have the elements of `inputs`, or random
/// ones: from -1 to 1, or 0 and 1 of integers.
/// @throws error `invalid_argument` if there is no memory for all values; as the runs
[[nodiscard]] model_profile measure(session& current, const model& network,
                                    const model_program& compiled, const named_tensors& inputs,
                                    const named_specs& specs, const named_tensors& values,
                                    const model_options& making, const profile_options& options);

/// The longest steps first.
[[nodiscard]] std::string profile_text(const model_profile& profile);
[[nodiscard]] nlohmann::ordered_json profile_json(const model_profile& profile);
/// The longest steps.
[[nodiscard]] io::bar_chart profile_chart(const model_profile& profile, const std::string& path);

}  // namespace sluice::cli
