// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/models/model.hpp>

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace sluice::service {

/// A step of a chain that is to be loaded.
struct load_step {
  std::string name{};                            ///< in errors
  std::string path{};                            ///< of the file
  std::map<std::string, std::string> inputs{};   ///< as `chain_step` has them
  std::map<std::string, std::string> outputs{};  ///< likewise
};

/// Where a model comes from: a file, or those of the steps of a chain.
struct load_source {
  std::string path{};                  ///< of the file; empty: the model is a chain
  std::vector<std::string> inputs{};   ///< of the chain
  std::vector<load_step> steps{};      ///< likewise
  std::vector<std::string> outputs{};  ///< likewise
};

/// The source that an order states; `worker_loop` has the form.
/// @throws nlohmann::json::exception if it states none
[[nodiscard]] load_source parse_source(const nlohmann::json& source);

/// Reads the files of a source. Steps with the same path share a model.
/// @param name  of a chain, in errors
/// @throws error why there is no model, with the name of the step and without a path, also if a
/// node cannot be computed for any inputs
[[nodiscard]] model open_source(const load_source& source, const std::string& name);

}  // namespace sluice::service
