// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/folding.hpp"
#include "operations/program/fusion.hpp"
#include "operations/program/program_graph.hpp"

#include <cstdint>
#include <vector>

namespace sluice::operations {

/// The value that is the first result of a step.
[[nodiscard]] inline std::uint32_t first_result_of(const detail::program_graph& graph,
                                                   std::uint32_t step) {
  return graph.results()[graph.steps()[step].first_result].value;
}

/// Which steps of a program may be computed together with a step that reads their result. The
/// program and its inference must outlive it.
class following_steps {
 public:
  following_steps(const detail::program_graph& graph, const program_inference& inferred,
                  const folding& folded);

  /// Whether a step is in no group.
  [[nodiscard]] bool is_apart(std::uint32_t step) const { return is_apart_[step]; }
  /// The only step that reads a value, if nothing else needs it and it can be in a group, but is in
  /// none of `groups`; `fusion::none` otherwise.
  [[nodiscard]] std::uint32_t only_reader_of(std::uint32_t value, const fusion& groups) const;
  /// Whether what the steps read is as it was when they are computed in the place of `last`, and is
  /// not kept much longer because of that.
  [[nodiscard]] bool may_wait(const std::vector<std::uint32_t>& steps, std::uint32_t last) const;
  /// Whether a value is in memory that step `last`, or one before it, writes. `fusion::none` is no
  /// value.
  [[nodiscard]] bool is_overwritten(std::uint32_t value, std::uint32_t last) const;

 private:
  const detail::program_graph& graph_;
  const program_inference& inferred_;
  std::vector<std::vector<std::uint32_t>> readers_;  // by value: steps, in order
  std::vector<std::uint32_t> overwriters_;           // by input: the step that writes there
  std::vector<bool> is_apart_;                       // by step
};

}  // namespace sluice::operations
