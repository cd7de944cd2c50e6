// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/tensor.hpp>

#include <utility>

namespace sluice {

/// What an operation reads or writes: nothing or a tensor.
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

  /// Whether the operand is given.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(value_); }
  /// The tensor; without a block if the operand is nothing.
  [[nodiscard]] const tensor& value() const noexcept { return value_; }
  /// Whether both are the same view of the same block, or nothing.
  [[nodiscard]] bool operator==(const operand&) const noexcept = default;

 private:
  tensor value_;
};

}  // namespace sluice
