// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/timelines/cross_runtime_dependency.hpp"

#include <sluice/runtime/launch_errors.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <memory>
#include <span>

namespace sluice::detail {

/// The dependencies of a launch, between its recorder's preflight and commit.
class launch_dependencies {
 public:
  /// The unfinished points whose failure makes the launch fail.
  [[nodiscard]] static std::span<const timeline_point> of(const launch_recorder& recorder) noexcept;
  /// Has preflight look whether the launch has a hazard with an unfinished launch of its group of
  /// streams. Not for launches that are preflighted together.
  static void look_for_unfinished(launch_recorder& recorder) noexcept;
  /// Whether preflight has found one.
  [[nodiscard]] static bool follow_unfinished(const launch_recorder& recorder) noexcept;
  /// Adds a ticket of another runtime. A recorder holds at most one.
  static void add(launch_recorder& recorder,
                  std::unique_ptr<cross_runtime_dependency> upstream) noexcept;
  /// States the error word of the launch. `errors`, which outlives the commit, loses the word to
  /// the timeline when the launch takes its ticket.
  static void find_errors(launch_recorder& recorder, launch_errors_owner& errors) noexcept;
};

}  // namespace sluice::detail
