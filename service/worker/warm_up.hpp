// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"

#include <sluice/operations/models.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::service {

/// Runs of a model that precede the requests of clients, as the front asks for them.
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

/// The same with its inputs.
struct prepared_warm_up {
  std::string name{};
  std::uint64_t count = 1;
  std::map<std::string, run_input> inputs{};
};

/// Makes the inputs, at most 1 GiB in all.
/// @throws std::runtime_error if they are larger
/// @throws error `invalid_argument` if an extent is negative or a size overflows
/// @throws std::bad_alloc if there is no memory
[[nodiscard]] std::vector<prepared_warm_up> make_warm_ups(const std::vector<warm_up_order>& orders);

}  // namespace sluice::service
