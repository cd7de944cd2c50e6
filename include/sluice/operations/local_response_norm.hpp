// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// X divided by a power of the squares of neighbouring channels:
/// X / (bias + alpha / size · sum)^beta, with the sum of the squares at the same position in the
/// channels from c − ⌊(size − 1) / 2⌋ to c + ⌈(size − 1) / 2⌉ of which there are such. LRN of ONNX;
/// Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural
/// networks", 2012.
///
///     local_response_norm{.x = images, .size = 5}
///
/// X has the shape (N, C, …). Types: f16, bf16, f32 and f64. f64 is computed in f64 and the others
/// in f32, with sums in f32 or f64; each result is rounded once. X and Y share no bytes. They have
/// any strides; if more than four dimensions beside the channels do not merge, the launch uses
/// copies without gaps. The result is Y, a new tensor without gaps if it is not given, whose
/// dimensions lie in the order of those of X.
struct local_response_norm {
  operand x{};            ///< X
  std::int64_t size = 0;  ///< channels of a sum, at least 1
  double alpha = 1e-4;    ///< finite, as are beta and bias
  double beta = 0.75;     ///< the exponent
  double bias = 1;        ///< added to the sum
  operand y{};            ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &local_response_norm::x), parameter("size", &local_response_norm::size),
        parameter("alpha", &local_response_norm::alpha),
        parameter("beta", &local_response_norm::beta),
        parameter("bias", &local_response_norm::bias), output("y", &local_response_norm::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<local_response_norm>);

}  // namespace sluice
