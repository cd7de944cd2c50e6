// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/element_functions.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

// Several functions of f32, one after the other, whose values stay in vector registers.
namespace sluice::host {

/// Where the operands of a binary function are: in registers, in memory, or a number.
enum class step_operands : std::uint8_t {
  registers_and_memory,
  memory_and_registers,
  registers_twice,
  registers_and_number,
  number_and_registers,
};
inline constexpr std::size_t step_operands_count = 5;

/// A step that changes the values in registers, of which there is one for each index, or that
/// stores them.
struct f32_step {
  enum class action : std::uint8_t {
    load,    ///< the values are a[i]
    store,   ///< y[i] = the values
    unary,   ///< a function that `is_arithmetic`, with the parameters `alpha` and `beta`
    binary,  ///< likewise of the values and a[i] or `alpha`
    affine,  ///< values · a[i] + b[i]; without them, nullptr, `alpha` and `beta` stand for them
  };
  action kind = action::load;
  unary_function unary{};
  binary_function binary{};
  step_operands operands{};
  /// Whether y, which no other step has, is stored past the caches. Other threads may read it after
  /// `finish_streams`.
  bool is_streamed = false;
  float alpha = 0;
  float beta = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
};

/// The most steps of a chain, and the most addresses that they may have together.
///@{
inline constexpr std::size_t max_f32_steps = 96;
inline constexpr std::size_t max_f32_addresses = 40;
///@}

/// Computes `steps` for each of `count` indices, with the bits of `unary_f32`, `binary_f32` and
/// `affine_f32`. The first step is a load. An address that a step
/// stores to may be that of another step.
void compute_chain(std::span<const f32_step> steps, std::int64_t count);

}  // namespace sluice::host
