// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/memory_with_plans.hpp"
#include "operations/executor/packing.hpp"
#include "operations/executor/planning.hpp"
#include "operations/executor/request_batch.hpp"
#include "operations/executor/request_queue.hpp"
#include "operations/workspace.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations/operation_request.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

namespace sluice::operations {

/// Launches requests on a lane, alone or together. Only the owner of the executor calls it.
class request_launcher {
 public:
  request_launcher(lane& lane, lane_libraries& libraries, memory_with_plans& memory,
                   planning& planning, std::shared_ptr<kernel_trace> trace)
      : lane_(lane),
        libraries_(libraries),
        memory_(memory),
        planning_(planning),
        trace_(std::move(trace)),
        workspace_(lane.runtime(), lane.stream(), "workspace of a lane") {}

  /// Launches a request alone, or answers it with the reason why that is not possible.
  void launch(detail::operation_request& r) noexcept;
  /// Launches requests with equal calls together. There is at least one.
  void launch_together(const request_queue::list& requests) noexcept;

 private:
  class operand_addresses;
  class operand_types;

  void enqueue(detail::operation_request& r);
  /// Adds a request to a batch. The envelope is that of all members; nullptr before the first one.
  void add(request_batch& batch, detail::operation_request& r, const kernel_envelope*& envelope);
  /// Has the planner improve a plan that wants it.
  void improve(const std::shared_ptr<const operation_plan>& plan) noexcept;
  [[nodiscard]] launch_options options_of(const detail::operation_request& r,
                                          const launch_facts& facts) const;
  /// The error word of a launch of `r`, if it needs one.
  [[nodiscard]] detail::launch_errors_owner errors_of(const detail::operation_request& r,
                                                      const launch_facts& facts) const;
  /// Makes the owners of a launch of the operands of `r`, and allocates its outputs and copies.
  void take_operands(detail::operation_request& r, operands& uses, operand_addresses& addresses,
                     std::unique_ptr<packing>& copies);
  [[nodiscard]] block_ref allocate(std::size_t bytes, allocation_tag tag);
  [[nodiscard]] const kernel_envelope& envelope_of(const launch_descriptor& descriptor,
                                                   element_type type);

  lane& lane_;
  lane_libraries& libraries_;
  memory_with_plans& memory_;
  planning& planning_;
  std::shared_ptr<kernel_trace> trace_;
  workspace workspace_;
  std::map<std::pair<const launch_descriptor*, element_type>, kernel_envelope> envelopes_;
  const decltype(envelopes_)::value_type* last_envelope_ = nullptr;  // the one that was used last
  batch_memory batch_memory_;
};

}  // namespace sluice::operations
