// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// exp(X) divided by the sum of exp(X) along a dimension, without overflow.
///
///     softmax{.x = scores}              // along the last dimension
///     softmax{.x = images, .axis = 1}   // over the channels
///
/// A result is NaN if an element along the dimension is NaN or infinity, or all are -infinity.
///
/// The types of this operation and of the normalizations below are f16, bf16, f32 and f64. All
/// operands of a request have the type of X. f64 is computed in f64 and the other types in f32,
/// with sums in f32 or f64; each result is rounded once. X and Y have any strides. Y may be the
/// same view as X; otherwise it shares no bytes with the other operands. The result is Y, a new
/// tensor without gaps if it is not given, whose dimensions lie in the order of those of X. Scales,
/// biases, means and variances that have gaps or are broadcast are packed: the launch uses a copy
/// in temporary memory.
struct softmax {
  operand x{};             ///< X, with at least one dimension
  std::int64_t axis = -1;  ///< dimension; negative: from the last
  operand y{};             ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &softmax::x), parameter("axis", &softmax::axis),
                           output("y", &softmax::y));
  }
};

/// The logarithm of `softmax`, computed without its rounding: X - ln(sum of exp(X)).
///
/// Types, layouts and aliasing: see `softmax`.
struct log_softmax {
  operand x{};             ///< X, with at least one dimension
  std::int64_t axis = -1;  ///< dimension; negative: from the last
  operand y{};             ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &log_softmax::x), parameter("axis", &log_softmax::axis),
                           output("y", &log_softmax::y));
  }
};

/// X divided by its norm along a dimension: the sum of magnitudes with p = 1, or the root of the
/// sum of squares with p = 2. The result is 0 if all elements along the dimension are 0, or if the
/// reciprocal of their norm overflows. With p = 2, squares may overflow or underflow: on a GPU
/// those of f16, bf16 and f32 in f32, otherwise in f64.
///
///     lp_norm{.x = features}
///
/// LpNormalization of ONNX. Types, layouts and aliasing: see `softmax`.
struct lp_norm {
  operand x{};             ///< X, with at least one dimension
  std::int64_t axis = -1;  ///< dimension; negative: from the last
  std::int64_t p = 2;      ///< 1 or 2
  operand y{};             ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &lp_norm::x), parameter("axis", &lp_norm::axis),
                           parameter("p", &lp_norm::p), output("y", &lp_norm::y));
  }
};

/// (X - mean) / √(variance + epsilon) · scale + bias, with the mean and the variance of the
/// elements along the dimension `axis` and those after it.
///
///     layer_norm{.x = tokens, .scale = gamma, .bias = beta}
///
/// The variance is that of all elements: the sum of squared differences divided by their number.
/// Ba, Kiros and Hinton, "Layer normalization", 2016.
///
/// Types, layouts and aliasing: see `softmax`.
struct layer_norm {
  operand x{};             ///< X, with at least one dimension
  operand scale{};         ///< broadcast to the shape of X from `axis` on; 1 if not given
  operand bias{};          ///< broadcast to the shape of X from `axis` on; 0 if not given
  std::int64_t axis = -1;  ///< first dimension of the elements; negative: from the last
  double epsilon = 1e-5;   ///< at least 0; rounded to the type of the computation
  operand y{};             ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &layer_norm::x), input("scale", &layer_norm::scale),
                           input("bias", &layer_norm::bias), parameter("axis", &layer_norm::axis),
                           parameter("epsilon", &layer_norm::epsilon), output("y", &layer_norm::y));
  }
};

/// X / √(mean of X² + epsilon) · scale, with the mean along the dimension `axis` and those after
/// it. Zhang and Sennrich, "Root mean square layer normalization", 2019.
///
/// Types, layouts and aliasing: see `softmax`.
struct rms_norm {
  operand x{};             ///< X, with at least one dimension
  operand scale{};         ///< broadcast to the shape of X from `axis` on; 1 if not given
  std::int64_t axis = -1;  ///< first dimension of the elements; negative: from the last
  double epsilon = 1e-5;   ///< at least 0; rounded to the type of the computation
  operand y{};             ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &rms_norm::x), input("scale", &rms_norm::scale),
                           parameter("axis", &rms_norm::axis),
                           parameter("epsilon", &rms_norm::epsilon), output("y", &rms_norm::y));
  }
};

/// (X - mean) / √(variance + epsilon) · scale + bias, with the mean and the variance of each group
/// of channels of each image. As many groups as channels make an instance normalization.
///
///     group_norm{.x = images, .scale = gamma, .bias = beta, .groups = 32}
///
/// Wu and He, "Group normalization", 2018.
///
/// Types, layouts and aliasing: see `softmax`.
struct group_norm {
  operand x{};              ///< X, of the shape (N, C, …)
  operand scale{};          ///< one number for each channel, (C); 1 if not given
  operand bias{};           ///< one number for each channel, (C); 0 if not given
  std::int64_t groups = 1;  ///< divides C
  double epsilon = 1e-5;    ///< at least 0; rounded to the type of the computation
  operand y{};              ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &group_norm::x), input("scale", &group_norm::scale),
                           input("bias", &group_norm::bias),
                           parameter("groups", &group_norm::groups),
                           parameter("epsilon", &group_norm::epsilon), output("y", &group_norm::y));
  }
};

/// (X - mean) / √(variance + epsilon) · scale + bias, with a mean and a variance for each channel
/// that were found in training. Ioffe and Szegedy, "Batch normalization", 2015.
///
/// Types, layouts and aliasing: see `softmax`.
struct batch_norm {
  operand x{};            ///< X, of the shape (N, C, …)
  operand mean{};         ///< one number for each channel, (C)
  operand variance{};     ///< one number for each channel, (C)
  operand scale{};        ///< one number for each channel, (C); 1 if not given
  operand bias{};         ///< one number for each channel, (C); 0 if not given
  double epsilon = 1e-5;  ///< at least 0; rounded to the type of the computation
  operand y{};            ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &batch_norm::x), input("mean", &batch_norm::mean),
                           input("variance", &batch_norm::variance),
                           input("scale", &batch_norm::scale), input("bias", &batch_norm::bias),
                           parameter("epsilon", &batch_norm::epsilon), output("y", &batch_norm::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<softmax>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<log_softmax>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<lp_norm>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<layer_norm>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<rms_norm>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<group_norm>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<batch_norm>);
///@}

}  // namespace sluice
