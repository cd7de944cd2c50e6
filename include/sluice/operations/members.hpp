// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operand.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace sluice {

/// What a member of an operation is for.
enum class member_role : std::uint8_t {
  input,      ///< an operand that is read
  output,     ///< an operand that is written; allocated if it is not given
  parameter,  ///< a value
};

/// One member of an operation.
template <class Operation, class T>
struct operation_member {
  std::string_view name;  ///< name in errors and traces
  T Operation::*pointer;  ///< the member
  member_role role;       ///< what it is for
};

/// Describes a member of an operation. An operation lists all of its members in a static function:
///
///     struct scale {
///       operand x;
///       scalar factor = 1;
///       operand y;
///       static constexpr auto members() {
///         return std::make_tuple(input("x", &scale::x), parameter("factor", &scale::factor),
///                                output("y", &scale::y));
///       }
///     };
///
/// The executor and programs find the operands through the list.
///@{
template <class Operation>
[[nodiscard]] constexpr auto input(std::string_view name, operand Operation::*pointer) {
  return operation_member<Operation, operand>{name, pointer, member_role::input};
}
template <class Operation>
[[nodiscard]] constexpr auto output(std::string_view name, operand Operation::*pointer) {
  return operation_member<Operation, operand>{name, pointer, member_role::output};
}
template <class Operation, class T>
[[nodiscard]] constexpr auto parameter(std::string_view name, T Operation::*pointer) {
  return operation_member<Operation, T>{name, pointer, member_role::parameter};
}
///@}

/// An operand of an operation, with its name and role.
struct named_operand {
  std::string_view name;                  ///< name in errors and traces
  operand* value = nullptr;               ///< the member of the operation
  member_role role = member_role::input;  ///< `input` or `output`
};

namespace detail {
template <class Operation>
[[nodiscard]] constexpr std::size_t operand_count() {
  return std::apply(
      [](const auto&... member) {
        return (std::size_t{0} + ... +
                (member.role == member_role::parameter ? std::size_t{0} : std::size_t{1}));
      },
      Operation::members());
}

/// The operand members of an operation, in order.
template <class Operation>
[[nodiscard]] constexpr auto operand_members() {
  std::array<operand Operation::*, operand_count<Operation>()> pointers{};
  std::size_t count = 0;
  const auto add = [&](const auto& member) {
    if constexpr (std::is_same_v<decltype(member.pointer), operand Operation::*>) {
      pointers[count++] = member.pointer;
    }
  };
  std::apply([&](const auto&... member) { (add(member), ...); }, Operation::members());
  return pointers;
}

/// The operands of `operation`, in the order of its members.
template <class Operation>
[[nodiscard]] auto operands_of(Operation& operation) noexcept {
  std::array<named_operand, operand_count<Operation>()> operands;
  std::size_t count = 0;
  const auto add = [&](const auto& member) {
    if constexpr (std::is_same_v<decltype(member.pointer), operand Operation::*>) {
      operands[count++] = {member.name, &(operation.*member.pointer), member.role};
    }
  };
  std::apply([&](const auto&... member) { (add(member), ...); }, Operation::members());
  return operands;
}
}  // namespace detail

}  // namespace sluice
