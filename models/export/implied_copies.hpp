// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/seam.hpp"

#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::models {

/// Copies that make a value row-major, and that the import of a model adds by itself: of outputs,
/// and of values that no view reshapes. ONNX knows no order of elements in memory.
class implied_copies {
 public:
  using program_graph = sluice::detail::program_graph;

  /// `specs` has the properties of each value, or nothing. Both arguments must live as long as
  /// this.
  implied_copies(const program_graph& graph, const std::vector<std::optional<tensor_spec>>& specs);

  /// Whether a step is such a copy.
  [[nodiscard]] bool is_implied(const program_graph::step& step, std::uint32_t result) const;
  /// The name of the implied copy that a view needs; empty if it needs none.
  [[nodiscard]] std::string step_of(std::uint32_t view) const;

 private:
  /// What reads a value directly.
  struct readers {
    std::size_t count = 0;
    std::size_t outputs = 0;                   ///< of them
    std::uint32_t view = program_graph::none;  ///< one of them
  };

  /// Whether a value has another order than row-major, or may not be an output as it is.
  [[nodiscard]] bool is_copied_as_output(std::uint32_t value) const;
  [[nodiscard]] bool is_copied_for(const sluice::detail::program_view& view,
                                   std::uint32_t value) const;

  const program_graph& graph_;
  const std::vector<std::optional<tensor_spec>>& specs_;
  std::vector<readers> readers_;  // by value
};

}  // namespace sluice::models
