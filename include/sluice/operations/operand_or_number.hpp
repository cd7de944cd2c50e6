// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operand.hpp>
#include <sluice/operations/scalar.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace sluice {

/// An input of an operation that is an operand or a number. The number stands for a tensor with
/// this one element; the operation states its type, and refuses a number that the type does not
/// hold.
///
///     multiply(x, 0.5)
///     where{.condition = mask, .a = x, .b = 0}
///
/// A number needs no memory of the device. It may be a `scalar` that each run of a program gives.
class operand_or_number : public operand {
 public:
  operand_or_number() noexcept = default;
  /// A tensor, a reference or a value of a program.
  template <class T>
  requires(std::is_convertible_v<T&&, operand> &&
           !std::is_base_of_v<operand_or_number, std::remove_cvref_t<T>>)
      // NOLINTNEXTLINE(*-explicit-constructor, bugprone-forwarding-*): every operand is one.
      operand_or_number(T&& value)
  noexcept : operand(std::forward<T>(value)) {}
  /// An integer, a real or a complex number.
  template <class T>
  requires(std::is_convertible_v<T&&, scalar> && !std::is_convertible_v<T&&, operand>)
      // NOLINTNEXTLINE(*-explicit-constructor, bugprone-forwarding-*): written as numbers are.
      operand_or_number(T&& value)
  noexcept : number_(scalar(std::forward<T>(value))) {}

  /// The number; nothing if there is none.
  ///@{
  [[nodiscard]] const std::optional<scalar>& number() const noexcept { return number_; }
  [[nodiscard]] std::optional<scalar>& number() noexcept { return number_; }
  ///@}

 private:
  std::optional<scalar> number_;
};

}  // namespace sluice
