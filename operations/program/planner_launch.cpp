// SPDX-License-Identifier: Apache-2.0
#include "operations/program/planner_launch.hpp"

#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::operations {
namespace {

/// The stream on which the planner of a lane writes memory, and its library objects.
struct planner_lane {
  explicit planner_lane(device_runtime& runtime)
      : stream(runtime.create_stream()), libraries(runtime, stream.ref()) {}

  sluice::stream stream;
  lane_libraries libraries;
};
struct planner_lane_of_lane {
  planner_lane_of_lane(device_runtime& runtime, stream_ref)
      : owner(std::make_shared<planner_lane>(runtime)) {}

  std::shared_ptr<planner_lane> owner;
};

/// One launch. The reclaim thread destroys it once it has ended.
class planner_launch final : public detail::deferred {
 public:
  planner_launch(std::shared_ptr<planner_lane> lane, std::shared_ptr<const void> owner)
      : lane_(std::move(lane)), owner_(std::move(owner)) {}

  template <class Enqueue>
  void launch(std::span<const block_ref> targets, const Enqueue& enqueue) {
    auto& device = stream().device();
    auto recorder = launch_recorder::strict(stream());
    for (const auto& target : targets) recorder.use(target, access_kind::write, true);
    recorder.preflight();
    // As in the envelope: the exit of the process waits for the launch.
    const detail::library_call call(device.id());
    std::optional<error> failure;
    bool is_cancelled = false;
    {
      const current_device_scope current(device);
      try {
        device.require_usable();
        enqueue();
      } catch (const nothing_enqueued& e) {
        failure = e;
        is_cancelled = true;
      } catch (...) {
        failure = current_error();
      }
    }
    if (is_cancelled) {
      recorder.cancel();
      throw error(*failure);
    }
    try {
      ticket_ = recorder.commit(failure).ticket;
    } catch (...) {
      // Without a loss, the work has ended.
      if (device.lost()) ticket_ = std::numeric_limits<std::uint64_t>::max();
      throw;
    }
    if (failure) throw error(*failure);
  }
  /// Waits until the launch has ended.
  /// @throws error its failure
  void wait() {
    stream().synchronize();
    if (const auto failure = detail::timeline::of(stream())->failure_of(ticket_)) throw *failure;
  }

 private:
  [[nodiscard]] stream_ref stream() const noexcept { return lane_->stream.ref(); }
  [[nodiscard]] bool ready(detail::reclaim_thread&) noexcept override {
    return stream().completed(ticket_) || detail::timeline::of(stream())->quiescent();
  }
  [[nodiscard]] bool ends_first() const noexcept override { return true; }

  std::shared_ptr<planner_lane> lane_;
  std::shared_ptr<const void> owner_;
  std::uint64_t ticket_ = 0;
};

/// Allocates a block if there is memory for those of its `spare_sizes`, too.
block_ref allocate_beside(device_runtime& runtime, const planner_block& block, stream_ref stream) {
  const auto& [bytes, spare_sizes, tag] = block;
  if (spare_sizes.empty()) return runtime.allocate_bytes(bytes, stream, tag);
  std::vector<std::size_t> sizes(spare_sizes.begin(), spare_sizes.end());
  sizes.push_back(bytes);
  // A budget refuses all of them at once. The device itself may have less memory.
  auto reservation = runtime.reserve_memory(sizes);
  std::vector<block_ref> spare_blocks;
  spare_blocks.reserve(spare_sizes.size());
  for (const auto size : spare_sizes) {
    spare_blocks.push_back(runtime.allocate_bytes(size, stream, "spare memory", reservation));
  }
  return runtime.allocate_bytes(bytes, stream, tag, reservation);
}

}  // namespace

lane_libraries& planner_libraries(lane_libraries& libraries) {
  return libraries.get<planner_lane_of_lane>().owner->libraries;
}

std::vector<block_ref> planner_blocks(lane_libraries& libraries, std::span<const std::size_t> sizes,
                                      allocation_tag tag) {
  auto& runtime = libraries.runtime();
  const auto stream = planner_libraries(libraries).stream();
  auto reservation = runtime.reserve_memory(sizes);
  std::vector<block_ref> blocks;
  blocks.reserve(sizes.size());
  for (const auto size : sizes) {
    blocks.push_back(runtime.allocate_bytes(size, stream, tag, reservation));
  }
  return blocks;
}

void write_blocks(lane_libraries& libraries, std::span<const block_ref> targets,
                  std::shared_ptr<const void> owner, const std::function<void()>& enqueue) {
  auto launch = std::make_unique<planner_launch>(libraries.get<planner_lane_of_lane>().owner,
                                                 std::move(owner));
  const auto end = [&] {
    detail::runtime_core::of(libraries.runtime())->reclaim_later(std::move(launch));
  };
  try {
    launch->launch(targets, enqueue);
    launch->wait();
  } catch (...) {
    end();
    throw;
  }
  end();
}

block_ref written_block(lane_libraries& libraries, const planner_block& block,
                        const planner_work& work) {
  auto& planner = planner_libraries(libraries);
  if (work.prepare) work.prepare(planner);
  block_ref target = allocate_beside(libraries.runtime(), block, planner.stream());
  write_blocks(libraries, std::span(&target, 1), work.owner,
               [&] { work.enqueue(planner, target.address()); });
  return target;
}

}  // namespace sluice::operations
