// SPDX-License-Identifier: Apache-2.0
#include "models/value_view.hpp"

#include <cstddef>

namespace sluice::models {

program_value value_view::apply(const program_value& x) const {
  switch (what) {
    case function::reshape:
      return x.reshape(numbers);
    case function::permute:
      return x.permute(numbers);
    case function::transposed:
      break;
    case function::slice:
      return x.slice(static_cast<std::size_t>(numbers[0]), numbers[1], numbers[2], numbers[3]);
    case function::select:
      return x.select(static_cast<std::size_t>(numbers[0]), numbers[1]);
    case function::unsqueeze:
      return x.unsqueeze(static_cast<std::size_t>(numbers[0]));
    case function::broadcast_to:
      return x.broadcast_to(numbers);
    case function::reinterpret:
      return x.reinterpret(type);
  }
  return x.transposed();
}

}  // namespace sluice::models
