// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/optional_extents.hpp>
#include <sluice/operations/scalar.hpp>

#include <memory>
#include <optional>
#include <tuple>

namespace sluice {

/// Brings the elements of `values` to the device: y = values.
///
///     upload{.values = host_tensor(std::vector<float>{1, 2, 3, 4}, {2, 2})}
///
/// Y has the type and the shape of `values`. It is a new tensor if it is not given. A Y that is not
/// contiguous is packed: the launch uses a copy in temporary memory. On a GPU the elements pass
/// through pinned memory; see `host_transfer`.
///
/// The launch keeps `values` alive. Do not write its elements before a reply that was sent when the
/// device had finished: after a reply on `enqueued`, after `deadline_exceeded` and after
/// `cancelled`, the transfer may still read them.
struct upload {
  host_tensor values{};  ///< the elements; required
  operand y{};           ///< where they go

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(parameter("values", &upload::values), output("y", &upload::y));
  }
};

/// Brings the elements of X to the process.
///
/// An X that is not contiguous is packed: the launch uses a copy in temporary memory.
///
/// An actor answers it with the `host_tensor` that `target` points to, or with a new one. An
/// executor answers with X after it has filled `target`; nobody else may use it until then. The
/// reply is always sent when the device has finished, unless it is `deadline_exceeded` or
/// `cancelled`: a launched transfer then still fills `target`, so give `target` up.
struct download {
  operand x{};  ///< the elements
  /// Where they go: a tensor of the type and shape of X, or no tensor, which becomes a new one when
  /// the request is launched. Required with an executor.
  std::shared_ptr<host_tensor> target{};

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &download::x), parameter("target", &download::target));
  }
};

/// Sets every element of Y to a number.
///
///     fill{.value = 1, .shape = {2, 3}}
///
/// Y is a new tensor of the given shape and type if it is not given. A Y that is not contiguous is
/// packed: the launch uses a copy in temporary memory.
struct fill {
  /// Exact in the type of Y, or rounded to it if that is real; then it may be infinite or NaN.
  scalar value = 0;
  optional_extents shape{};            ///< shape of Y; may be left out if Y is given
  std::optional<element_type> type{};  ///< type of Y; f32 if neither this nor Y is given
  operand y{};                         ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(parameter("value", &fill::value), parameter("shape", &fill::shape),
                           parameter("type", &fill::type), output("y", &fill::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<upload>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<download>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<fill>);
///@}

}  // namespace sluice
