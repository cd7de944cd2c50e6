// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/models/program_cache.hpp"
#include "operations/models/served_source.hpp"
#include "operations/models/waiting_count.hpp"

#include <sluice/envelope/planner.hpp>
#include <sluice/operations/models.hpp>

#include <memory>
#include <string>
#include <utility>

namespace sluice::detail {

/// A model that has or had a name. Requests that wait for one of its programs keep it.
struct served_model {
  /// @throws error as `load_model` states
  served_model(const load_model& request, std::shared_ptr<waiting_count> waiting_requests)
      : name(request.name),
        source(request.source, request.options, request.buckets),
        programs(request.max_programs),
        waiting(std::move(waiting_requests)) {}

  const std::string name;
  const served_source source;
  program_cache programs;
  const std::shared_ptr<waiting_count> waiting;  ///< shared with other models of the name
  bool is_making = false;                        ///< whether a program is being made
  planner::job_length last_length = planner::job_length::long_job;  ///< of an attempt
};

}  // namespace sluice::detail
