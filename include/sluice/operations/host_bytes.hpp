// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/members.hpp>

#include <cstddef>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>

namespace sluice::detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// The host memory that a parameter of an operation holds beyond its own size, in bytes.
///
/// That of a type with a function `bytes()` is what this returns. Known are also smart pointers and
/// `std::optional` of such types, strings, pairs, and the containers of the standard library. Other
/// types count as holding none.
template <class T>
[[nodiscard]] std::size_t host_bytes(const T& parameter) noexcept {
  // NOLINTNEXTLINE(bugprone-branch-clone): the others are tried in between.
  if constexpr (std::is_trivially_copyable_v<T> && !requires { parameter.bytes(); }) {
    return 0;
  } else if constexpr (requires { parameter.bytes(); }) {
    return parameter.bytes();
  } else if constexpr (requires { parameter->bytes(); }) {
    return parameter ? parameter->bytes() : 0;
  } else if constexpr (requires { parameter.c_str(); }) {
    return parameter.capacity() * sizeof(typename T::value_type);
  } else if constexpr (requires { std::begin(parameter), std::end(parameter); }) {
    using element = std::remove_cvref_t<decltype(*std::begin(parameter))>;
    std::size_t sum = 0;
    if constexpr (requires { parameter.get_allocator(), parameter.capacity(); }) {
      sum = parameter.capacity() * sizeof(element);
    } else if constexpr (requires { parameter.get_allocator(), parameter.size(); }) {
      constexpr std::size_t links = 4 * sizeof(void*);  // of a node
      sum = parameter.size() * (sizeof(element) + links);
    }
    if constexpr (!std::is_trivially_copyable_v<element>) {
      for (const auto& value : parameter) sum += host_bytes(value);
    }
    return sum;
  } else if constexpr (requires { static_cast<bool>(parameter), *parameter; }) {
    if (!parameter) return 0;
    return (is_optional<T> ? 0 : sizeof(*parameter)) + host_bytes(*parameter);
  } else if constexpr (requires { parameter.first, parameter.second; }) {
    return host_bytes(parameter.first) + host_bytes(parameter.second);
  } else {
    return 0;
  }
}

/// The host memory that all parameters and lists of an operation hold beyond its own size, in
/// bytes.
template <class Operation>
[[nodiscard]] std::size_t host_bytes_of(const Operation& operation) noexcept {
  const auto of_member = [&](const auto& member) -> std::size_t {
    if constexpr (points_to_operand<decltype(member.pointer)>) {
      return 0;
    } else {
      return host_bytes(operation.*member.pointer);
    }
  };
  return std::apply(
      [&](const auto&... member) { return (std::size_t{0} + ... + of_member(member)); },
      Operation::members());
}

}  // namespace sluice::detail
