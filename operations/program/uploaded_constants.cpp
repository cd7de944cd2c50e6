// SPDX-License-Identifier: Apache-2.0
#include "operations/program/uploaded_constants.hpp"

#include "operations/parts_of_launch.hpp"
#include "operations/program/folded_launches.hpp"
#include "operations/program/planner_launch.hpp"
#include "operations/program/program_graph.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/host_transfer.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace sluice::operations {
namespace {

/// The constants of a program in host memory, one after the other, because each transfer of its own
/// would take pinned memory.
std::shared_ptr<std::vector<std::byte>> gathered_constants(const detail::program_graph& graph) {
  auto gathered = std::make_shared<std::vector<std::byte>>(graph.host_constants_bytes());
  for (const auto& constant : graph.constants()) {
    if (!constant.on_host || constant.on_host.bytes() == 0) continue;
    std::memcpy(gathered->data() + constant.offset, constant.on_host.data().get(),
                constant.on_host.bytes());
  }
  return gathered;
}

/// The launch that writes the block. It may outlive the call that waits for it, if the device is
/// lost.
struct upload_launch {
  std::shared_ptr<host_transfer> transfer{};
  folded_launches steps;
};

/// Whether a program works without the results that could not be computed. After other errors,
/// nothing works.
bool works_without_results(const error& reason) noexcept {
  return reason.code() != errc::device_lost && reason.code() != errc::shutting_down;
}

}  // namespace

uploaded_constants::uploaded_constants(const detail::program_graph& graph,
                                       const program_inference& inferred, const folding& folded,
                                       lane_libraries& libraries,
                                       std::span<const std::size_t> spare_sizes)
    : folded_(folded) {
  const auto work = std::make_shared<upload_launch>(
      upload_launch{.steps = folded_launches(folded, graph, inferred)});
  const auto prepare = [&](lane_libraries& own_libraries) {
    work->steps.prepare(own_libraries);
    const auto gathered = gathered_constants(graph);
    work->transfer = host_transfer::upload(own_libraries.stream(), {gathered, gathered->data()},
                                           gathered->size());
  };
  const auto enqueue = [&](lane_libraries& own_libraries, void* address) {
    auto* const memory = static_cast<std::byte*>(address);
    parts_of_launch parts;
    parts.enqueue([&] { work->transfer->enqueue(memory); });
    if (folded.steps.empty()) return;
    parts.enqueue([&] {
      if (own_libraries.runtime().device().id().kind != device_kind::host) {
        return work->steps.enqueue(own_libraries, memory);
      }
      submit_host_task(own_libraries.stream(), [work, memory] { work->steps.compute(memory); });
    });
  };
  block_ = written_block(
      libraries,
      {.bytes = folded.bytes, .spare_sizes = spare_sizes, .tag = "constants of a program"},
      {.owner = work, .prepare = prepare, .enqueue = enqueue});
}

std::shared_ptr<const uploaded_constants> constants_on_devices::find(device_runtime& runtime) {
  const auto serial = detail::runtime_core::of(runtime)->serial();
  const std::lock_guard lock(mutex_);
  const auto place = constants_.find(serial);
  return place == constants_.end() ? nullptr : place->second.lock();
}

std::shared_ptr<const uploaded_constants> constants_on_devices::upload(
    lane_libraries& libraries, const detail::program_graph& graph,
    const program_inference& inferred, const folding& folded,
    std::span<const std::size_t> spare_sizes) {
  // Another thread may have made them since the caller looked. Nobody waits for another device.
  if (auto found = find(libraries.runtime())) return found;
  std::shared_ptr<const uploaded_constants> result;
  if (!folded.steps.empty()) {
    try {
      result = std::make_shared<const uploaded_constants>(graph, inferred, folded, libraries,
                                                          spare_sizes);
    } catch (...) {
      if (!works_without_results(current_error())) throw;
    }
  }
  if (!result) {
    result = std::make_shared<const uploaded_constants>(graph, inferred, unfolded(graph), libraries,
                                                        std::span<const std::size_t>());
  }
  const auto serial = detail::runtime_core::of(libraries.runtime())->serial();
  const std::lock_guard lock(mutex_);
  std::erase_if(constants_, [](const auto& entry) { return entry.second.expired(); });
  auto& kept = constants_[serial];
  if (auto found = kept.lock()) return found;
  kept = result;
  return result;
}

}  // namespace sluice::operations
