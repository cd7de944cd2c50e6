// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/wire_reader.hpp"
#include "service/protocol/inference_request.hpp"

#include <cstdint>
#include <optional>
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
  [[nodiscard]] const std::string& text() const;
  /// A text or an integer as its digits. The integer 0 is the empty text.
  [[nodiscard]] std::string identifier() const;
  ///@}
};

/// The parameters of a tensor that place it in shared memory.
class region_parameters {
 public:
  /// Takes a parameter, if it is one of them.
  /// @throws request_error `invalid_argument`, which names it, if it has another type
  void take(const infer_parameter& parameter);
  /// The place, if there is one.
  /// @param subject  names the tensor in errors
  /// @throws request_error `invalid_argument` if a parameter is missing
  [[nodiscard]] std::optional<tensor_region> region(const std::string& subject) const;

 private:
  std::optional<std::string> name_{};
  std::optional<std::uint64_t> offset_{};
  std::optional<std::uint64_t> bytes_{};
};

/// Reads an entry.
/// @throws request_error `invalid_argument` if the bytes are malformed
[[nodiscard]] infer_parameter read_parameter(wire_reader entry);

}  // namespace sluice::service
