// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/command.hpp"
#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/model_shapes.hpp"

#include <sluice/models/model.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// The arguments of a command that state a model and its inputs.
struct model_arguments {
  std::string path;
  std::vector<std::string> shapes{};      ///< of --shape: "name=1,3", or "1,3"
  std::vector<std::string> dimensions{};  ///< of --dimension: "batch=4", or "4"
  std::vector<std::string> inputs{};      ///< of --input: "name=file", or "file"
};

/// Adds the argument MODEL.
CLI::Option* add_model_argument(CLI::App& command, model_arguments& arguments);
/// Adds `--dimension`, `--shape` and `--input`. The files of inputs state shapes.
void add_shape_options(CLI::App& command, model_arguments& arguments);

/// Adds `--precision`.
void add_precision_option(CLI::App& command, model_precision& precision);
/// Adds `--no-optimize`, which sets `optimize` to false.
void add_optimize_option(CLI::App& command, bool& optimize);
/// "f16"
[[nodiscard]] std::string_view name_of(model_precision precision);

/// A model that has been opened, and the files of its inputs, which have not.
struct opened_model {
  model network;
  std::vector<named_text> inputs;

  /// The files, for `require_distinct_files`.
  [[nodiscard]] std::vector<named_file> files(const model_arguments& arguments) const;
  /// Reads the files of inputs. @throws error as `parse_named`, `read_inputs`
  [[nodiscard]] stated_shapes read(const model_arguments& arguments) const;
};
/// Opens the model. @throws error as `model::open`, `parse_named_files`
[[nodiscard]] opened_model open_model(const model_arguments& arguments);

}  // namespace sluice::cli
