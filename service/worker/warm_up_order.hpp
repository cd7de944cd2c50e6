// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::service {

/// Runs of a model that precede the requests of clients.
struct warm_up_order {
  struct input {
    std::string name{};
    datatype type = datatype::fp32;
    std::vector<std::int64_t> shape{};
    bool is_random = false;  ///< floats in [0, 1), integers 0 or 1; otherwise zeros
  };

  std::string name{};  ///< for errors
  std::uint64_t count = 1;
  std::vector<input> inputs{};
};

}  // namespace sluice::service
