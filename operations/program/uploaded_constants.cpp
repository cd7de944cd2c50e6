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
#include <utility>
#include <vector>

namespace sluice::operations {
namespace {

/// The small constants of a program in host memory, one after the other, because each transfer of
/// its own would take pinned memory.
std::shared_ptr<std::vector<std::byte>> gathered_constants(const detail::program_graph& graph) {
  auto gathered = std::make_shared<std::vector<std::byte>>(graph.own_constants_bytes());
  for (const auto& constant : graph.constants()) {
    if (!constant.on_host || constant.on_host.bytes() == 0 || constant.place.block != 0) continue;
    std::memcpy(gathered->data() + constant.place.offset, constant.on_host.data().get(),
                constant.on_host.bytes());
  }
  return gathered;
}

/// The launch that writes the block. It may outlive the call that waits for it, if the device is
/// lost.
struct upload_launch {
  std::shared_ptr<host_transfer> transfer{};
  folded_launches steps;
  std::vector<std::byte*> addresses;
  std::vector<std::shared_ptr<const device_constant>> shared;  // which the steps read
};

/// Whether a program works without the results that could not be computed. After other errors,
/// nothing works.
bool works_without_results(const error& reason) noexcept {
  return reason.code() != errc::device_lost && reason.code() != errc::shutting_down;
}

}  // namespace

uploaded_constants::uploaded_constants(const detail::program_graph& graph,
                                       const program_inference& inferred, const folding& folded,
                                       std::vector<std::shared_ptr<const device_constant>> shared,
                                       lane_libraries& libraries,
                                       std::span<const std::size_t> spare_sizes)
    : folded_(folded), shared_(std::move(shared)), addresses_{nullptr} {
  for (const auto& constant : shared_) addresses_.push_back(constant->address());
  if (folded.bytes == 0) return;
  const auto work = std::make_shared<upload_launch>(
      upload_launch{.steps = folded_launches(folded, graph, inferred),
                    .addresses = addresses_,
                    .shared = shared_});
  const auto prepare = [&](lane_libraries& own_libraries) {
    work->steps.prepare(own_libraries);
    const auto gathered = gathered_constants(graph);
    work->transfer = host_transfer::upload(own_libraries.stream(), {gathered, gathered->data()},
                                           gathered->size());
  };
  const auto enqueue = [&](lane_libraries& own_libraries, void* address) {
    work->addresses.front() = static_cast<std::byte*>(address);
    parts_of_launch parts;
    parts.enqueue([&] { work->transfer->enqueue(address); });
    if (folded.steps.empty()) return;
    parts.enqueue([&] {
      if (own_libraries.runtime().device().id().kind != device_kind::host) {
        return work->steps.enqueue(own_libraries, work->addresses);
      }
      submit_host_task(own_libraries.stream(), [work] { work->steps.compute(work->addresses); });
    });
  };
  block_ = written_block(
      libraries,
      {.bytes = folded.bytes, .spare_sizes = spare_sizes, .tag = "constants of a program"},
      {.owner = work, .prepare = prepare, .enqueue = enqueue});
  addresses_.front() = static_cast<std::byte*>(block_.address());
  work->shared.clear();  // the reclaim thread destroys the work later
}

std::size_t uploaded_constants::bytes() const noexcept {
  auto sum = folded_.bytes;
  for (const auto& constant : shared_) sum += constant->bytes();
  return sum;
}

std::size_t uploaded_constants::share() const noexcept {
  auto sum = folded_.bytes;
  for (const auto& constant : shared_) {
    const auto owners = static_cast<std::size_t>(constant.use_count());
    sum += (constant->device_bytes() + owners - 1) / owners;
  }
  return sum;
}

std::shared_ptr<const constant_copy> uploaded_constants::copy(lane_libraries& libraries,
                                                              constant_copy_request request) const {
  copied_memory memory{.address = addresses_[request.key.block], .constants_bytes = bytes()};
  if (request.key.block == 0) {
    memory.owner = std::make_shared<const block_ref>(block_);
  } else {
    const auto& constant = shared_[request.key.block - 1];
    memory.owner = constant;
    memory.shared = constant.get();
  }
  return copies_.copy(libraries, std::move(request), memory);
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
  const auto shared = upload_shared_constants(libraries, graph.shared_constants());
  std::shared_ptr<const uploaded_constants> result;
  if (!folded.steps.empty()) {
    try {
      result = std::make_shared<const uploaded_constants>(graph, inferred, folded, shared,
                                                          libraries, spare_sizes);
    } catch (...) {
      if (!works_without_results(current_error())) throw;
    }
  }
  if (!result) {
    result = std::make_shared<const uploaded_constants>(graph, inferred, unfolded(graph), shared,
                                                        libraries, std::span<const std::size_t>());
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
