// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstdint>
#include <utility>

namespace sluice {

/// Names a value of a program; see `program_value`.
struct value_reference {
  std::uint64_t program = 0;  ///< the program that is being built; 0: none
  std::uint32_t index = 0;    ///< the number of the value in it
  [[nodiscard]] bool operator==(const value_reference&) const noexcept = default;
};

/// What an operation reads or writes: nothing, a tensor, or a value of a program.
///
/// An operand that is nothing stands for "not given". An output that is not given is allocated.
class operand {
 public:
  operand() noexcept = default;
  /// The elements of `value`. The operand is nothing if `value` has no block.
  // NOLINTNEXTLINE(google-explicit-constructor): every tensor is an operand.
  operand(tensor value) noexcept : value_(std::move(value)) {}
  /// The elements of `ref`, in one dimension. The operand is nothing if `ref` is empty.
  template <element T>
  // NOLINTNEXTLINE(google-explicit-constructor): every reference is an operand.
  operand(const gpu_ref<T>& ref) noexcept : value_(ref) {}
  /// A value of a program.
  explicit operand(value_reference value) noexcept : reference_(value) {}

  /// Whether the operand is given.
  [[nodiscard]] explicit operator bool() const noexcept {
    return static_cast<bool>(value_) || reference_.program != 0;
  }
  /// The tensor; without a block if the operand is nothing or a value of a program.
  ///@{
  [[nodiscard]] const tensor& value() const& noexcept { return value_; }
  [[nodiscard]] tensor&& value() && noexcept { return std::move(value_); }
  ///@}
  /// The value of a program; `program` is 0 if the operand is none.
  [[nodiscard]] const value_reference& reference() const noexcept { return reference_; }
  /// Whether both are the same view of the same block, or nothing.
  [[nodiscard]] bool operator==(const operand&) const noexcept = default;

 private:
  tensor value_;
  value_reference reference_;
};

}  // namespace sluice
