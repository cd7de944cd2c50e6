// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::models {

/// What the import of one model may take. The loops and functions of a small file may stand for any
/// number of nodes; the limits end such an import after a few seconds. Models of 100,000 nodes fit,
/// of which up to 50,000 are computed during the import. The elements of initializers are not
/// limited.
class import_budget {
 public:
  /// Nodes, counted once for each call of a function and each turn of a loop.
  static constexpr std::uint64_t max_nodes = 200'000;
  /// Turns of loops.
  static constexpr std::uint64_t max_turns = 100'000;
  /// Values: inputs and outputs of nodes and graphs, operands and results of steps, and views.
  static constexpr std::uint64_t max_values = 2'000'000;
  /// The bytes of the inputs and results of one node that is computed during the import.
  static constexpr std::size_t max_bytes_of_node = std::size_t{1} << 20U;
  /// Those of all such nodes. A larger node becomes a step when they are used up.
  static constexpr std::size_t max_bytes = std::size_t{256} << 20U;
  /// The work of all such nodes, in the units of `request_limits`.
  static constexpr double max_work = 1e9;

  /// Each takes a part of the budget.
  /// @throws error `unsupported` with the limit that is exceeded
  ///@{
  void take_node();
  void take_turn();
  void take_values(std::size_t count);
  ///@}
  /// Takes the computation of a node, and returns whether it fits.
  /// @throws error `unsupported` if it does not fit, but is too small to be a step: shape
  /// arithmetic
  [[nodiscard]] bool take_computation(std::size_t bytes, double work);
  /// Whether a limit has been exceeded.
  [[nodiscard]] bool is_used_up() const noexcept { return used_up_; }

 private:
  /// The error that a limit is exceeded.
  [[nodiscard]] error excess(const std::string& text);
  [[nodiscard]] error excess(const char* what, std::uint64_t limit);

  std::uint64_t nodes_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t values_ = 0;
  std::size_t bytes_ = 0;
  double work_ = 0;
  bool used_up_ = false;
};

}  // namespace sluice::models
