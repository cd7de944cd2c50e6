// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/executable.hpp"
#include "operations/program/fusion.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/program_inference.hpp"
#include "operations/program/scratch_layout.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::operations {

/// Turns the inferred steps of a program into the actions of one form of an executable: makes their
/// plans, and gives each value a place. The arguments outlive it.
class executable::builder {
 public:
  /// All forms of an executable share `plans`. `kept` may be null; see `executable`.
  builder(executable& owner, form& target, const detail::program_graph& graph,
          const program_inference& inferred, const folding& folded, const fusion& groups,
          plans_by_key& plans, lane_libraries& libraries, kept_plans* kept);

  /// @throws error what a step refuses, with its name
  void add_steps();
  /// Leaves out the packing of constants of which the planner has made copies. Then no place
  /// changes any more.
  void settle_places();

 private:
  using located = program_inference::located;

  /// Memory that the launch writes; see `program_inference::written`.
  [[nodiscard]] place external(std::size_t number) const;
  [[nodiscard]] place new_buffer(std::size_t bytes);
  [[nodiscard]] place place_of(const located& value) const;
  /// Finds memory for a result, and copies there what the step updates.
  void place_result(const detail::program_graph::step_result& result);
  /// Whether a step that updates an operand in `result` may do so in its memory: the operand is a
  /// whole intermediate value that nothing else needs.
  [[nodiscard]] bool can_take_over(const detail::program_graph::step_result& result) const;

  [[nodiscard]] std::string label_of(const fused_group& group) const;
  /// Adds the operation of `step`, with the results of the step `last`: `step` itself, or the last
  /// one of its epilogue.
  void add_step(const program_inference::step& inferred, const std::vector<std::uint32_t>& operands,
                const detail::program_graph::step& step, const detail::program_graph::step& last);
  /// Adds the steps of a group as one action.
  ///@{
  void add_operation(const fused_group& group);
  void add_map(const fused_group& group);
  ///@}
  void add_copy(const place& source, const tensor_spec& source_spec, const place& target,
                const tensor_spec& target_spec);
  void add(action new_action);
  [[nodiscard]] std::shared_ptr<const operation_plan> plan_of(const action& new_action);

  void lay_out_scratch();
  /// The buffer of `location` is needed while action `number` runs.
  void keep(const place& location, std::size_t number);
  void settle(place& location) const;

  executable& owner_;
  form& target_;
  const detail::program_graph& graph_;
  const program_inference& inferred_;
  const folding& folded_;
  const fusion& groups_;
  plans_by_key& plans_;
  lane_libraries& libraries_;
  kept_plans* const kept_;
  const std::size_t memory_ = libraries_.runtime().device().info().memory_bytes;
  std::string label_;  // the step or the output that is being added
  std::uint32_t step_ = 0;
  std::vector<place> roots_;
  const std::size_t source_count_ = graph_.inputs().size() + graph_.constants().size();
  // By result: the number of the memory that it is written to, among those of
  // `program_inference::written`.
  std::vector<std::uint32_t> written_memory_ =
      std::vector<std::uint32_t>(graph_.results().size(), detail::program_graph::none);
  std::uint32_t next_varying_ = 0;
  std::uint32_t steps_without_action_ = 0;
  std::vector<scratch_buffer> buffers_;
};

}  // namespace sluice::operations
