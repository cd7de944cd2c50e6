// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/model_source.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace sluice::models {

/// The extents that inputs have for the symbols of a model.
class symbol_extents {
 public:
  /// @throws error `invalid_argument` if another input has another extent for a symbol
  void add(const model_value& input, const extents& shape);

 private:
  std::map<std::string, std::pair<std::int64_t, std::string>> extents_;
};

}  // namespace sluice::models
