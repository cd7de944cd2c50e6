// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace sluice {

/// A shape or a list of dimensions that may be left out: `{2, 3}`, or nothing. The shape of one
/// element without dimensions is `extents{}`.
struct optional_extents : std::optional<extents> {
  using std::optional<extents>::optional;
  /// The numbers `values`.
  // NOLINTNEXTLINE(google-explicit-constructor): `.shape = {2, 3}` in a request.
  optional_extents(std::initializer_list<std::int64_t> values) : optional(extents(values)) {}
  /// The numbers of `values`, or nothing.
  // NOLINTNEXTLINE(google-explicit-constructor)
  optional_extents(const std::optional<extents>& values) : optional(values) {}
};

}  // namespace sluice
