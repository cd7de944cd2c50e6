// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/export/attribute_reader.hpp"
#include "models/export/attribute_writer.hpp"
#include "models/export/enumerator_names.hpp"

#include <sluice/operations.hpp>
#include <sluice/runtime/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace sluice::models {

namespace detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <>
inline constexpr bool is_optional<optional_extents> = true;

/// Whether a member states which function of a family an operation is. The name of the operator
/// says it.
template <class T>
inline constexpr bool is_function = std::is_same_v<T, std::optional<unary_function>> ||
                                    std::is_same_v<T, std::optional<binary_function>>;

/// Calls `visit(name, part)` for each part of a parameter that consists of several.
///@{
template <class Geometry, class Visit>
requires(std::is_same_v<std::remove_const_t<Geometry>, conv2d_geometry>) void for_each_part(
    Geometry& geometry, const Visit& visit) {
  visit("padding", geometry.padding);
  visit("padding_after", geometry.padding_after);
  visit("stride", geometry.stride);
  visit("dilation", geometry.dilation);
  visit("groups", geometry.groups);
}
template <class Options, class Visit>
requires(std::is_same_v<std::remove_const_t<Options>, decibel_options>) void for_each_part(
    Options& options, const Visit& visit) {
  visit("amin", options.amin);
  visit("top_db", options.top_db);
}
///@}
template <class T>
concept has_parts = requires(T& value) {
  for_each_part(value, [](auto&&...) {});
};
/// A number along the height and one along the width.
template <class T>
concept is_pair =
    std::is_same_v<T, conv2d_geometry::widths> || std::is_same_v<T, conv2d_geometry::steps>;

}  // namespace detail

/// Writes a parameter as attributes: one, none if it is optional and not given, or one for each of
/// its parts.
template <class T>
void write_parameter(attribute_writer& attributes, std::string_view name, const T& value) {
  if constexpr (detail::is_optional<T>) {
    if (value) write_parameter(attributes, name, *value);
  } else if constexpr (detail::has_parts<const T>) {
    detail::for_each_part(
        value, [&](std::string_view part, const auto& x) { write_parameter(attributes, part, x); });
  } else if constexpr (std::is_same_v<T, scalar>) {
    attributes.add_scalar(name, value);
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t>) {
    attributes.add_integer(name, value);
  } else if constexpr (std::is_same_v<T, double>) {
    attributes.add_real(name, value);
  } else if constexpr (std::is_same_v<T, extents>) {
    attributes.add_integers(name, {value.begin(), value.size()});
  } else if constexpr (detail::is_pair<T>) {
    attributes.add_integers(name, std::array{value.h, value.w});
  } else if constexpr (std::is_same_v<T, resize::numbers>) {
    attributes.add_reals(name, value);
  } else {
    static_assert(std::is_enum_v<T>, "the type has no form in a file");
    constexpr auto names = enumerator_names(T());
    const auto number = static_cast<std::size_t>(value);
    if (number >= names.size()) throw invalid_argument(name, "is not an enumerator");
    attributes.add_text(name, names[number]);
  }
}

/// Reads a parameter. Without the attribute it stays as it is.
/// @throws error `invalid_argument` with the name of an attribute that is not valid
template <class T>
void read_parameter(attribute_reader& attributes, std::string_view name, T& value) {
  const auto set = [&](const auto& read) {
    if (read) value = *read;
  };
  if constexpr (detail::is_optional<T>) {
    typename T::value_type number{};
    read_parameter(attributes, name, number);
    if (attributes.is_given(name)) value = number;
  } else if constexpr (detail::has_parts<T>) {
    detail::for_each_part(
        value, [&](std::string_view part, auto& x) { read_parameter(attributes, part, x); });
  } else if constexpr (std::is_same_v<T, scalar>) {
    set(attributes.number(name));
  } else if constexpr (std::is_same_v<T, bool>) {
    set(attributes.boolean(name));
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    set(attributes.integer(name));
  } else if constexpr (std::is_same_v<T, double>) {
    set(attributes.real(name));
  } else if constexpr (std::is_same_v<T, extents>) {
    set(attributes.integers(name));
  } else if constexpr (detail::is_pair<T>) {
    const auto numbers = attributes.integers(name);
    if (!numbers) return;
    if (numbers->size() != 2) throw invalid_argument(name, "has not 2 numbers");
    value = {.h = (*numbers)[0], .w = (*numbers)[1]};
  } else if constexpr (std::is_same_v<T, resize::numbers>) {
    (void)attributes.reals(name, value);
  } else {
    static_assert(std::is_enum_v<T>, "the type has no form in a file");
    if (const auto number = attributes.enumerator(name, enumerator_names(T())))
      value = static_cast<T>(*number);
  }
}

/// Writes the parameters of an operation, and the numbers that stand for operands.
template <class Operation>
void write_parameters(const Operation& operation, onnx::NodeProto& message) {
  attribute_writer attributes(message);
  const auto write = [&](const auto& member) {
    const auto& value = operation.*member.pointer;
    using type = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<type, operand_or_number>) {
      write_parameter(attributes, member.name, value.number());
    } else if constexpr (!std::is_same_v<type, operand> &&
                         !std::is_same_v<type, std::vector<operand>> &&
                         !detail::is_function<type>) {
      write_parameter(attributes, member.name, value);
    }
  };
  std::apply([&](const auto&... member) { (write(member), ...); }, Operation::members());
}

/// Reads what `write_parameters` has written.
/// @throws error `invalid_argument` with the name of an attribute that is not valid, or that the
/// operation does not have
template <class Operation>
void read_parameters(const attribute_map& all, std::string_view name, Operation& operation) {
  attribute_reader attributes(all);
  const auto read = [&](const auto& member) {
    auto& value = operation.*member.pointer;
    using type = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<type, operand_or_number>) {
      read_parameter(attributes, member.name, value.number());
    } else if constexpr (!std::is_same_v<type, operand> &&
                         !std::is_same_v<type, std::vector<operand>> &&
                         !detail::is_function<type>) {
      read_parameter(attributes, member.name, value);
    }
  };
  std::apply([&](const auto&... member) { (read(member), ...); }, Operation::members());
  attributes.require_no_other(name);
}

}  // namespace sluice::models
