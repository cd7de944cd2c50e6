// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/wire_reader.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace sluice::service {

/// A value of the message `InferParameter`.
using infer_value =
    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string>;

/// An entry of a map of parameters.
struct infer_parameter {
  std::string name{};
  infer_value value{};

  /// @throws request_error `invalid_argument`, which names the parameter, if it has another type
  ///@{
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::uint64_t count() const;  ///< an integer that is not negative
  /// A text or an integer as its digits. The integer 0 is the empty text.
  [[nodiscard]] std::string identifier() const;
  ///@}
};

/// Reads an entry.
/// @throws request_error `invalid_argument` if the bytes are malformed
[[nodiscard]] infer_parameter read_parameter(wire_reader entry);

}  // namespace sluice::service
