// SPDX-License-Identifier: Apache-2.0
#include "operations/program/prepacked_constants.hpp"

#include "operations/program/planner_launch.hpp"

#include <sluice/runtime/host_task.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace sluice::operations {

std::shared_ptr<const prepacked_constant> prepacked_constants::find(const key& name) {
  const std::lock_guard lock(mutex_);
  const auto place = copies_.find(name);
  return place == copies_.end() ? nullptr : place->second.lock();
}

std::shared_ptr<const prepacked_constant> prepacked_constants::copy(
    lane_libraries& libraries, const prepacking_request& request, const block_ref& constants,
    std::size_t offset) {
  key name(offset, request.layout.identity);
  if (auto existing = find(name)) return existing;
  const std::array sizes{request.layout.bytes, request.spare_bytes};
  (void)libraries.runtime().reserve_memory(sizes);
  // The work outlives this call if the device is lost.
  struct packing {
    const operation_descriptor& descriptor;
    call_storage call;
    std::shared_ptr<const operation_plan> plan;
    block_ref constants;
    prepacking_memory memory;

    void run(lane_libraries& own_libraries) const {
      descriptor.prepack(own_libraries, call, memory);
    }
  };
  const auto* const source = static_cast<const std::byte*>(constants.address()) + offset;
  const auto work = std::make_shared<packing>(
      packing{request.descriptor,
              request.call,
              request.plan,
              constants,
              {.number = request.number, .source = source, .plan = request.plan.get()}});
  const auto write = [&](lane_libraries& own_libraries, void* address) {
    work->memory.copy = address;
    if (own_libraries.runtime().device().id().kind != device_kind::host) {
      return work->run(own_libraries);
    }
    submit_host_task(own_libraries.stream(), [work, &own_libraries] { work->run(own_libraries); });
  };
  auto block = written_block(libraries, request.layout.bytes, "prepacked constants of a program",
                             work, write);
  auto result = std::make_shared<const prepacked_constant>(std::move(block));
  const std::lock_guard lock(mutex_);
  std::erase_if(copies_, [](const auto& entry) { return entry.second.expired(); });
  auto& place = copies_[std::move(name)];
  // The planner of another lane may have made one meanwhile.
  if (auto existing = place.lock()) return existing;
  place = result;
  return result;
}

}  // namespace sluice::operations
