// SPDX-License-Identifier: Apache-2.0
#include "operations/program/uploaded_constants.hpp"

#include "operations/program/planner_launch.hpp"
#include "operations/program/program_graph.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/host_transfer.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::operations {
uploaded_constants::uploaded_constants(const detail::program_graph& graph,
                                       const program_inference& inferred, const folding& folded,
                                       lane_libraries& libraries) {
  const auto bytes = graph.host_constants_bytes();
  // Gathered, because each transfer of its own would take pinned memory.
  const auto gathered = std::make_shared<std::vector<std::byte>>(bytes);
  for (const auto& constant : graph.constants()) {
    if (!constant.on_host || constant.on_host.bytes() == 0) continue;
    std::memcpy(gathered->data() + constant.offset, constant.on_host.data().get(),
                constant.on_host.bytes());
  }
  const auto kept = std::make_shared<std::shared_ptr<host_transfer>>();
  block_ = written_block(
      libraries, folded.bytes, {}, "constants of a program", kept,
      [&](lane_libraries& own_libraries, void* address) {
        *kept = host_transfer::upload(own_libraries.stream(), {gathered, gathered->data()}, bytes);
        (*kept)->enqueue(address);
      });
  if (!folded.steps.empty()) {
    compute(folded, graph, inferred, static_cast<std::byte*>(block_.address()));
  }
}

std::shared_ptr<const uploaded_constants> constants_on_devices::on(
    lane_libraries& libraries, const detail::program_graph& graph,
    const program_inference& inferred, const folding& folded) {
  const auto serial = detail::runtime_core::of(libraries.runtime())->serial();
  {
    const std::lock_guard lock(mutex_);
    if (auto existing = constants_[serial].lock()) return existing;
  }
  // Another device does not wait meanwhile; this one has one planner.
  auto result = std::make_shared<const uploaded_constants>(graph, inferred, folded, libraries);
  const std::lock_guard lock(mutex_);
  std::erase_if(constants_, [](const auto& entry) { return entry.second.expired(); });
  constants_[serial] = result;
  return result;
}

}  // namespace sluice::operations
