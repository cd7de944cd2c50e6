// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/hostile/mutation.hpp"

#include <optional>
#include <string>

namespace sluice::test {

/// Adds wrong values of the parameter `shape` of an operation that makes a tensor of it.
template <class Operation>
void add_shapes(mutations_of<Operation>& mutations) {
  const auto add = [&](const std::string& description, const std::optional<extents>& shape) {
    mutations.add(description, errc::invalid_argument, "shape",
                  [shape](Operation& operation, bench&) {
                    operation.y = {};
                    operation.shape = shape;
                    // As many bytes would not overflow.
                    if constexpr (requires { operation.type; }) operation.type = element_type::f64;
                  });
  };
  add("neither a shape nor y", std::nullopt);
  for (const auto extent : {std::int64_t{-1}, -most, least}) {
    add("a shape of " + std::to_string(extent), extents{extent});
    add("2 times " + std::to_string(extent), extents{2, extent});
    add("0 times " + std::to_string(extent), extents{extent, 0});
  }
  add("a shape of 2^63 - 1", extents{most});
  add("a shape of 2^62", extents{std::int64_t{1} << 62U});
  add("2^32 times 2^32", extents{std::int64_t{1} << 32U, std::int64_t{1} << 32U});
  add("2^31 times 2^31", extents{std::int64_t{1} << 31U, std::int64_t{1} << 31U});
  add("2^8 times, 8 times over", extents{256, 256, 256, 256, 256, 256, 256, 256});
  mutations.add("a new y of 2^50 elements", errc::out_of_memory, "y",
                [](Operation& operation, bench&) {
                  operation.y = {};
                  operation.shape = extents{1 << 20, 1 << 30};
                });
  mutations.add("a negative shape beside y", errc::invalid_argument, "shape",
                [](Operation& operation, bench&) { operation.shape = extents{-1}; });
}

/// Adds types that are none, as values of the parameter `type`.
template <class Operation>
void add_no_types(mutations_of<Operation>& mutations) {
  for (const int value : {static_cast<int>(element_type::c128) + 1, 255}) {
    const auto type = static_cast<element_type>(value);
    mutations.value(&Operation::type, "type " + std::to_string(value), "type", type);
    mutations.add("type " + std::to_string(value) + " of a new y", errc::invalid_argument, "type",
                  [type](Operation& operation, bench&) {
                    operation.type = type;
                    operation.y = {};
                  });
  }
}

}  // namespace sluice::test
