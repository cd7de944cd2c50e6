// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/repository_entry.hpp"

namespace sluice::service {

std::string_view to_string(serving_state state) noexcept {
  switch (state) {
    case serving_state::ready:
      return "READY";
    case serving_state::loading:
      return "LOADING";
    case serving_state::unavailable:
      break;
  }
  return "UNAVAILABLE";
}

}  // namespace sluice::service
