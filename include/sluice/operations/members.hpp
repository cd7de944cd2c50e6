// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/operations/operand_or_number.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

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
/// The executor and programs find the operands through the list. An input may be an
/// `operand_or_number`; `infer` then also takes its number. One of the inputs may be a
/// `std::vector<operand>`, for an operation that takes any number of them. In errors, its operands
/// have names such as "x[2]". The executor answers an operation with several outputs with
/// `tensors`.
///@{
template <class Operation>
[[nodiscard]] constexpr auto input(std::string_view name, operand Operation::*pointer) {
  return operation_member<Operation, operand>{name, pointer, member_role::input};
}
template <class Operation>
[[nodiscard]] constexpr auto input(std::string_view name, operand_or_number Operation::*pointer) {
  return operation_member<Operation, operand_or_number>{name, pointer, member_role::input};
}
template <class Operation>
[[nodiscard]] constexpr auto input(std::string_view name,
                                   std::vector<operand> Operation::*pointer) {
  return operation_member<Operation, std::vector<operand>>{name, pointer, member_role::input};
}
template <class Operation>
[[nodiscard]] constexpr auto output(std::string_view name, operand Operation::*pointer) {
  return operation_member<Operation, operand>{name, pointer, member_role::output};
}
template <class Operation, class T>
[[nodiscard]] constexpr auto parameter(std::string_view name, T Operation::*pointer) {
  static_assert(!std::is_base_of_v<operand, T> && !std::is_same_v<T, std::vector<operand>>,
                "an operand is an input or an output, and no parameter");
  return operation_member<Operation, T>{name, pointer, member_role::parameter};
}
///@}

/// An operand of an operation, with its name and role.
struct named_operand {
  std::string_view name;                  ///< name in errors and traces
  operand* value = nullptr;               ///< the member of the operation
  member_role role = member_role::input;  ///< `input` or `output`
};

/// The largest number of operands of an operation.
inline constexpr std::size_t max_operands = 64;

namespace detail {
/// Whether a pointer to a member of an operation points to an operand.
template <class Pointer>
inline constexpr bool points_to_operand = false;
template <class Operation>
inline constexpr bool points_to_operand<operand Operation::*> = true;
template <class Operation>
inline constexpr bool points_to_operand<operand_or_number Operation::*> = true;

/// The number of operands of an operation that are members, without those of a list.
template <class Operation>
[[nodiscard]] constexpr std::size_t operand_count() {
  return std::apply(
      [](const auto&... member) {
        return (std::size_t{0} + ... +
                (points_to_operand<decltype(member.pointer)> ? std::size_t{1} : std::size_t{0}));
      },
      Operation::members());
}
/// The number of outputs of an operation.
template <class Operation>
[[nodiscard]] constexpr std::size_t output_count() {
  return std::apply(
      [](const auto&... member) {
        return (std::size_t{0} + ... +
                (member.role == member_role::output ? std::size_t{1} : std::size_t{0}));
      },
      Operation::members());
}
/// The number of lists of operands of an operation.
template <class Operation>
[[nodiscard]] constexpr std::size_t list_count() {
  return std::apply(
      [](const auto&... member) {
        return (std::size_t{0} + ... +
                (std::is_same_v<decltype(member.pointer), std::vector<operand> Operation::*>
                     ? std::size_t{1}
                     : std::size_t{0}));
      },
      Operation::members());
}
/// Whether an operation has a list of operands.
template <class Operation>
[[nodiscard]] constexpr bool has_operand_list() {
  static_assert(list_count<Operation>() <= 1, "an operation has at most one list of operands");
  return list_count<Operation>() != 0;
}
/// The number of operands in the list of an operation, which has one.
template <class Operation>
[[nodiscard]] std::size_t list_size(const Operation& operation) noexcept {
  std::size_t size = 0;
  const auto add = [&](const auto& member) {
    if constexpr (std::is_same_v<decltype(member.pointer), std::vector<operand> Operation::*>) {
      size = (operation.*member.pointer).size();
    }
  };
  std::apply([&](const auto&... member) { (add(member), ...); }, Operation::members());
  return size;
}

/// The size of a vector with a `T` for each operand of `operation`, in bytes.
template <class T, class Operation>
[[nodiscard]] std::size_t operand_bytes(const Operation& operation) noexcept {
  return (operand_count<Operation>() + list_size(operation)) * sizeof(T);
}

/// The number of a member among the operands of an operation, without its list.
template <class Operation, class T>
[[nodiscard]] constexpr std::size_t operand_index(T Operation::*pointer) {
  std::size_t index = 0;
  bool found = false;
  const auto compare = [&](const auto& member) {
    if constexpr (points_to_operand<decltype(member.pointer)>) {
      if constexpr (std::is_same_v<decltype(member.pointer), T Operation::*>) {
        found = found || member.pointer == pointer;
      }
      if (!found) ++index;
    }
  };
  std::apply([&](const auto&... member) { (compare(member), ...); }, Operation::members());
  return index;
}
/// The name of the operand member with this number, as `operand_index` counts; empty if there is
/// none.
template <class Operation>
[[nodiscard]] constexpr std::string_view operand_name(std::size_t number) noexcept {
  std::string_view name;
  std::size_t index = 0;
  const auto compare = [&](const auto& member) {
    if constexpr (points_to_operand<decltype(member.pointer)>) {
      if (index++ == number) name = member.name;
    }
  };
  std::apply([&](const auto&... member) { (compare(member), ...); }, Operation::members());
  return name;
}
/// The number of operand members before the list of an operation.
template <class Operation>
[[nodiscard]] constexpr std::size_t operands_before_list() {
  std::size_t count = 0;
  bool found = false;
  const auto add = [&](const auto& member) {
    if constexpr (points_to_operand<decltype(member.pointer)>) {
      if (!found) ++count;
    } else if constexpr (std::is_same_v<decltype(member.pointer),
                                        std::vector<operand> Operation::*>) {
      found = true;
    }
  };
  std::apply([&](const auto&... member) { (add(member), ...); }, Operation::members());
  return count;
}

/// The names of the operands of a list: "x[0]", "x[1]", … There are `max_operands` of them, which
/// live as long as the process. Thread-safe.
/// @throws std::bad_alloc if there is no memory
[[nodiscard]] SLUICE_EXPORT std::span<const std::string> names_of_list(std::string_view list);
/// @throws error `invalid_argument` if a list has so many operands that the operation has more than
/// `max_operands`
SLUICE_EXPORT void require_list_size(std::string_view list, std::size_t size, std::size_t others);

/// Calls `visit` for each operand of `operation`, in the order of its members, with the name of the
/// member and its role.
template <class Operation, class Visit>
void for_each_operand(Operation& operation, const Visit& visit) {
  const auto visit_member = [&](const auto& member) {
    if constexpr (points_to_operand<decltype(member.pointer)>) {
      visit(operation.*member.pointer, member.name, member.role);
    } else if constexpr (std::is_same_v<decltype(member.pointer),
                                        std::vector<operand> Operation::*>) {
      for (auto& value : operation.*member.pointer) visit(value, member.name, member.role);
    }
  };
  std::apply([&](const auto&... member) { (visit_member(member), ...); }, Operation::members());
}

/// The operands of `operation`, in the order of its members: an array, or a vector if it has a list
/// of operands.
/// @throws error `invalid_argument` if a list has too many operands
/// @throws std::bad_alloc with a list, if there is no memory
template <class Operation>
[[nodiscard]] auto operands_of(Operation& operation) noexcept(!has_operand_list<Operation>()) {
  if constexpr (has_operand_list<Operation>()) {
    std::vector<named_operand> operands;
    std::span<const std::string> names;
    const auto add = [&](const auto& member) {
      if constexpr (points_to_operand<decltype(member.pointer)>) {
        operands.push_back({member.name, &(operation.*member.pointer), member.role});
      } else if constexpr (std::is_same_v<decltype(member.pointer),
                                          std::vector<operand> Operation::*>) {
        auto& list = operation.*member.pointer;
        require_list_size(member.name, list.size(), operand_count<Operation>());
        names = names_of_list(member.name);
        for (std::size_t i = 0; i < list.size(); ++i) {
          operands.push_back({names[i], &list[i], member.role});
        }
      }
    };
    operands.reserve(operand_count<Operation>() + list_size(operation));
    std::apply([&](const auto&... member) { (add(member), ...); }, Operation::members());
    return operands;
  } else {
    std::array<named_operand, operand_count<Operation>()> operands;
    std::size_t count = 0;
    for_each_operand(operation, [&](operand& value, std::string_view name, member_role role) {
      operands[count++] = {name, &value, role};
    });
    return operands;
  }
}
}  // namespace detail

}  // namespace sluice
