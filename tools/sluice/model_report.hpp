// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/models/model.hpp>

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// What `sluice model` says about a model.
struct model_report {
  std::string path;
  model_summary summary{};
  std::vector<model_value> inputs{};
  std::vector<model_value> outputs{};
  std::vector<std::string> assumed{};       ///< the extents that are 1 because nothing states them
  std::map<std::string, extents> shapes{};  ///< of the inputs; empty if one is not known
  std::vector<std::string> bound{};         ///< the inputs that are bound by value
  std::optional<model_program> compiled{};  ///< nothing if there is none
  std::vector<model_refusal> refusals{};    ///< why there is none
  bool lists_optimizations = false;         ///< whether it says what has been optimised
};

/// The report in words, with a newline at the end.
[[nodiscard]] std::string report_text(const model_report& report);
[[nodiscard]] nlohmann::ordered_json report_json(const model_report& report);

}  // namespace sluice::cli
