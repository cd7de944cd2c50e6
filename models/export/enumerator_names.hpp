// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations.hpp>

#include <array>
#include <string_view>

namespace sluice::models {

/// The names that the enumerators of a type have in files, in their order. A name never changes,
/// because files have it.
///@{
[[nodiscard]] constexpr auto enumerator_names(activation) noexcept {
  return std::to_array<std::string_view>(
      {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"});
}
[[nodiscard]] constexpr auto enumerator_names(causal_mask) noexcept {
  return std::to_array<std::string_view>({"none", "top_left", "bottom_right"});
}
[[nodiscard]] constexpr auto enumerator_names(layout) noexcept {
  return std::to_array<std::string_view>({"row_major", "column_major"});
}
[[nodiscard]] constexpr auto enumerator_names(math_mode) noexcept {
  return std::to_array<std::string_view>({"f32", "tf32"});
}
[[nodiscard]] constexpr auto enumerator_names(cumulative_kind) noexcept {
  return std::to_array<std::string_view>({"sum", "product"});
}
[[nodiscard]] constexpr auto enumerator_names(fft_direction) noexcept {
  return std::to_array<std::string_view>({"forward", "inverse"});
}
[[nodiscard]] constexpr auto enumerator_names(out_of_range_policy) noexcept {
  return std::to_array<std::string_view>({"usual", "clamp", "error"});
}
[[nodiscard]] constexpr auto enumerator_names(grid_mode) noexcept {
  return std::to_array<std::string_view>({"nearest", "linear", "cubic"});
}
[[nodiscard]] constexpr auto enumerator_names(grid_padding) noexcept {
  return std::to_array<std::string_view>({"zeros", "border", "reflection"});
}
[[nodiscard]] constexpr auto enumerator_names(pad_mode) noexcept {
  return std::to_array<std::string_view>({"constant", "edge", "reflect", "wrap"});
}
[[nodiscard]] constexpr auto enumerator_names(pooling) noexcept {
  return std::to_array<std::string_view>({"maximum", "average", "lp"});
}
[[nodiscard]] constexpr auto enumerator_names(depth_order) noexcept {
  return std::to_array<std::string_view>({"dcr", "crd"});
}
[[nodiscard]] constexpr auto enumerator_names(recurrent_direction) noexcept {
  return std::to_array<std::string_view>({"forward", "reverse", "bidirectional"});
}
[[nodiscard]] constexpr auto enumerator_names(sequence_layout) noexcept {
  return std::to_array<std::string_view>({"time_major", "batch_major"});
}
[[nodiscard]] constexpr auto enumerator_names(gate_order) noexcept {
  return std::to_array<std::string_view>({"onnx", "pytorch"});
}
[[nodiscard]] constexpr auto enumerator_names(reduction) noexcept {
  return std::to_array<std::string_view>({"sum", "mean", "max", "min", "product", "any", "all",
                                          "l1", "l2", "sum_of_squares", "log_sum", "log_sum_exp",
                                          "variance", "argmax", "argmin"});
}
[[nodiscard]] constexpr auto enumerator_names(resize_mode) noexcept {
  return std::to_array<std::string_view>({"nearest", "linear", "cubic", "area"});
}
[[nodiscard]] constexpr auto enumerator_names(nearest_rounding) noexcept {
  return std::to_array<std::string_view>({"prefer_floor", "prefer_ceil", "floor", "ceil"});
}
[[nodiscard]] constexpr auto enumerator_names(resize_coordinates) noexcept {
  return std::to_array<std::string_view>({"half_pixel", "half_pixel_symmetric",
                                          "pytorch_half_pixel", "align_corners", "asymmetric",
                                          "crop"});
}
[[nodiscard]] constexpr auto enumerator_names(resize_policy) noexcept {
  return std::to_array<std::string_view>({"stretch", "not_larger", "not_smaller"});
}
[[nodiscard]] constexpr auto enumerator_names(roi_pooling) noexcept {
  return std::to_array<std::string_view>({"average", "maximum", "maximum_term"});
}
[[nodiscard]] constexpr auto enumerator_names(scatter_combine) noexcept {
  return std::to_array<std::string_view>({"set", "add", "multiply", "minimum", "maximum"});
}
[[nodiscard]] constexpr auto enumerator_names(element_type) noexcept {
  return std::to_array<std::string_view>({"bool", "u8", "i8", "u16", "i16", "i32", "u32", "i64",
                                          "u64", "e4m3", "e5m2", "f16", "bf16", "f32", "f64", "c64",
                                          "c128"});
}
///@}

}  // namespace sluice::models
