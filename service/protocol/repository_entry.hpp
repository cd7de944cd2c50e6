// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::service {

/// Whether a version of a model is served.
enum class serving_state : std::uint8_t {
  ready,
  loading,      ///< for the first time
  unavailable,  ///< for a reason
};

/// The name of a state in the protocol.
[[nodiscard]] std::string_view to_string(serving_state state) noexcept;

/// A version of a model in the index of the repository.
struct repository_entry {
  std::string model{};
  std::string version{};  ///< empty: the model has none that could be served
  serving_state state = serving_state::unavailable;
  std::string reason{};  ///< why it is not served
};

}  // namespace sluice::service
