// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// X with pairs of its elements rotated by angles that depend on their positions in a sequence: the
/// pair (a, b) becomes (a · cos − b · sin, a · sin + b · cos). Su et al., "RoFormer: Enhanced
/// transformer with rotary position embedding", 2021, and RotaryEmbedding of ONNX (opset 23).
///
///     rotary_embedding{.x = queries, .cos = cos, .sin = sin}
///     rotary_embedding{.x = queries, .cos = cos_cache, .sin = sin_cache, .positions = positions,
///                      .heads = 32}
///
/// X has the shape (B, H, S, D): batch, heads, sequence, elements of a head. With three dimensions
/// it is (B, S, H · D), and `heads` is H. The first R elements of a head are rotated, with
/// R = `rotated`, and the others are copied. A pair are the elements i and i + R/2, or 2i and 2i +
/// 1 if they are interleaved; it has the angle i.
///
/// Without positions, cos and sin can be broadcast to (B, S, R/2). With positions, which can be
/// broadcast to (B, S), they have the shape (N, R/2), and a position selects one of the N rows. A
/// position that selects none makes the rotated elements NaN.
///
/// Types: f16, bf16, f32 and f64, all of X, cos, sin and Y the same; positions are i64. f64 is
/// computed in f64 and the others in f32; each result is rounded once. All operands have any
/// strides. Y may be the same view as X; otherwise it shares no bytes with the other operands. The
/// result is Y, a new row-major tensor if it is not given.
struct rotary_embedding {
  operand x{};               ///< X
  operand cos{};             ///< cosines of the angles
  operand sin{};             ///< sines of the angles
  operand positions{};       ///< of the elements of the sequence; optional
  std::int64_t heads = 0;    ///< H; 0 or H if X has four dimensions
  std::int64_t rotated = 0;  ///< R, an even number of at most D; 0: D
  bool interleaved = false;  ///< whether the elements of a pair are neighbours
  operand y{};               ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &rotary_embedding::x), input("cos", &rotary_embedding::cos),
                           input("sin", &rotary_embedding::sin),
                           input("positions", &rotary_embedding::positions),
                           parameter("heads", &rotary_embedding::heads),
                           parameter("rotated", &rotary_embedding::rotated),
                           parameter("interleaved", &rotary_embedding::interleaved),
                           output("y", &rotary_embedding::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<rotary_embedding>);

}  // namespace sluice
