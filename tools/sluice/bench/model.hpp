// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/model_arguments.hpp"

#include <optional>

namespace sluice::cli {

/// What the suite `model` measures, and with which numbers of clients.
struct model_bench {
  model_arguments source{};
  std::vector<std::size_t> clients{1, 8, 64};
  model_precision precision = model_precision::original;
  std::optional<opened_model> opened{};
  double opening_us = 0;  ///< the time that `open` took

  /// Opens the model, and returns the files that the suite reads. @throws error as `open_model`
  [[nodiscard]] std::vector<named_file> open();
};

/// Adds the argument MODEL and the options that state the inputs and the clients.
void add_model_options(CLI::App& command, model_bench& bench);
/// Refuses these options for another suite, and the suite without a model.
/// @throws error `invalid_argument`
void require_model_options(const CLI::App& command, bool is_model_suite);

}  // namespace sluice::cli
