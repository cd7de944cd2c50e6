// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// Which keys a query of number i of N may see, of M keys.
enum class causal_mask : std::uint8_t {
  none,          ///< all
  top_left,      ///< those up to number i, as PyTorch's `is_causal` and Attention of ONNX
  bottom_right,  ///< those up to number i + M − N: the last query sees all keys
};

/// Y = softmax(Q · Kᵀ · scale + mask) · V, scaled dot-product attention, for each batch and head.
/// Vaswani et al., "Attention is all you need", 2017, and Attention of ONNX (opset 23).
///
///     attention{.q = queries, .k = keys, .v = values, .causal = causal_mask::top_left}
///
/// Q has the shape (B, H, N, D), K (B, G, M, D), V (B, G, M, E) and Y (B, H, N, E): batch, heads,
/// elements of a sequence, elements of a head. G divides H: H/G neighbouring heads of Q share a
/// head of K and V. Sequences of the shape (B, N, H, D) are `permute({0, 2, 1, 3})` of it.
///
/// The mask can be broadcast to (B, H, N, M). Of type boolean, it is true where a query sees a key.
/// Of the type of Q, it is added, and -infinity hides a key. With `causal`, a query sees a key only
/// if both allow it. A query that sees no key has the result 0. A hidden key has the weight 0, but
/// a NaN or an infinity among its elements or values may make the result NaN.
///
/// Types: f16, bf16 and f32, one for Q, K, V and Y. Computed in f32, and rounded once. A GPU rounds
/// the weights of 16-bit numbers to their type. The N · M scores are never stored. All operands
/// have any strides. Y shares no bytes with the others. The result is Y, a new row-major tensor if
/// it is not given.
struct attention {
  operand q{};       ///< Q, the queries
  operand k{};       ///< K, the keys
  operand v{};       ///< V, the values
  operand mask{};    ///< which keys a query sees, or what is added to their scores; optional
  double scale = 0;  ///< of the scores; 0: 1/√D
  causal_mask causal = causal_mask::none;  ///< hides keys that follow a query
  operand y{};                             ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("q", &attention::q), input("k", &attention::k),
                           input("v", &attention::v), input("mask", &attention::mask),
                           parameter("scale", &attention::scale),
                           parameter("causal", &attention::causal), output("y", &attention::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<attention>);

}  // namespace sluice
