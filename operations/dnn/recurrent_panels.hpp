// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/recurrent_functions.hpp"
#include "operations/dnn/row_panels.hpp"

#include <cstddef>
#include <cstdint>

// The matrices of a layer in panels, in scratch memory or as prepacked copies of constants.
namespace sluice::host {

/// As many rows as `add_product_f32` multiplies at once.
inline constexpr std::int64_t row_group = 4;

/// The panels of W of one direction after the other.
struct input_panels {
  const operations::recurrent_layer_call& call;
  float* memory = nullptr;

  [[nodiscard]] row_panels of(std::int64_t direction) const noexcept {
    row_panels panels{memory, call.rows(), call.input};
    panels.first += direction * panels.size();
    return panels;
  }
  [[nodiscard]] std::size_t bytes() const noexcept;
  void pack(const void* w) const;
};

/// The panels of R of one direction after the other: of the first rows, then of the second ones.
struct state_panels {
  const operations::recurrent_layer_call& call;
  float* memory = nullptr;

  [[nodiscard]] row_panels of(std::int64_t direction, bool is_first) const noexcept {
    row_panels first{memory, first_rows(call).count, call.hidden};
    row_panels second{memory, second_rows(call).count, call.hidden};
    first.first += direction * (first.size() + second.size());
    second.first = first.first + first.size();
    return is_first ? first : second;
  }
  [[nodiscard]] std::size_t bytes() const noexcept;
  void pack(const void* r) const;
};

}  // namespace sluice::host
