// SPDX-License-Identifier: Apache-2.0
#include "actors/lanes/actor_with_lanes.hpp"

#include <sluice/actors/spawn_operations.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::detail {
namespace {

/// Starts the actor of one lane.
[[nodiscard]] caf::actor spawn_lane(caf::actor_system& system, lane_of_actor lane) {
  return system.spawn<lane_actor<operation_state>, library_actor_options>(
      std::make_shared<lane_of_actor>(std::move(lane)));
}

}  // namespace

caf::actor spawn_lanes(caf::actor_system& system, const char* name,
                       const std::shared_ptr<device_service>& service,
                       const std::shared_ptr<kernel_trace>& trace,
                       std::vector<const operation_descriptor*> prepared,
                       const std::vector<request_type>& types) {
  const auto requests = std::make_shared<const request_table>(types);
  const auto ordinary = service->lanes_per_actor();
  const auto open = service->open_lanes_per_actor();
  const auto count = ordinary + service->high_priority_lanes();
  const auto choice =
      count == 1 ? nullptr
                 : std::make_shared<lane_choice>(count, service->high_priority_lanes(), open);
  const auto lane_at = [=](std::size_t i) {
    executor_options options;
    if (i >= ordinary) options.priority = stream_priority::high;
    // It is open only while the plans of all lanes fit into what the actor may keep.
    if (i >= open) options.max_plan_bytes /= 2;
    auto make = [=] {
      return std::make_unique<executor>(service, trace, options);
    };
    lane_of_actor lane{.name = name,
                       .requests = requests,
                       .executor = nullptr,
                       .prepared = prepared,
                       .lanes = choice,
                       .lane = i};
    if (i < open) {
      lane.executor = make();
    } else {
      lane.make_executor = make;
    }
    return lane;
  };
  // The executors first, so that a failure is an error of this function.
  std::vector<lane_of_actor> lanes;
  for (std::size_t i = 0; i < open; ++i) lanes.push_back(lane_at(i));
  if (count == 1) return spawn_lane(system, std::move(lanes.front()));
  // A message of high priority may go to its lane before that is open.
  std::vector<caf::actor> others(count - 1);
  for (std::size_t i = 1; i < count; ++i) {
    if (i >= open && i < ordinary) continue;
    others[i - 1] = spawn_lane(system, i < open ? std::move(lanes[i]) : lane_at(i));
  }
  actor_with_lanes::lane_spawner spawn;
  if (open != count) {
    spawn = [&system, lane_at](std::size_t i) {
      return spawn_lane(system, lane_at(i));
    };
  }
  return system.spawn<actor_with_lanes, library_actor_options>(
      std::make_shared<lane_of_actor>(std::move(lanes.front())), others, std::move(spawn));
}

}  // namespace sluice::detail
