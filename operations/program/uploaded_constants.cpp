// SPDX-License-Identifier: Apache-2.0
#include "operations/program/uploaded_constants.hpp"

#include "operations/program/program_graph.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/host_transfer.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::operations {
namespace {

/// A transfer on a stream of its own. The reclaim thread destroys it once it has ended.
class single_transfer final : public detail::deferred {
 public:
  explicit single_transfer(device_runtime& runtime) : stream_(runtime.create_stream()) {}

  [[nodiscard]] stream_ref stream() const noexcept { return stream_.ref(); }
  /// Launches the transfer of `bytes` bytes from `source` to `target`.
  void launch(std::shared_ptr<const void> source, std::size_t bytes, const block_ref& target) {
    moved_ = host_transfer::upload(stream(), std::move(source), bytes);
    auto recorder = launch_recorder::strict(stream());
    recorder.use(target, access_kind::write, true);
    recorder.preflight();
    std::optional<error> failure;
    try {
      moved_->enqueue(target.address());
    } catch (...) {
      failure = current_error();
    }
    try {
      ticket_ = recorder.commit(failure).ticket;
    } catch (...) {
      // Without a loss, the work has ended.
      if (stream().device().lost()) ticket_ = std::numeric_limits<std::uint64_t>::max();
      throw;
    }
    if (failure) throw error(*failure);
  }
  /// Waits until the transfer to `target` has ended.
  /// @throws error `upstream_failed` if it has failed
  void wait(const block_ref& target) {
    stream().synchronize();
    auto reading = launch_recorder::strict(stream());
    reading.use(target, access_kind::read, false);
    reading.preflight();
    reading.cancel();
  }

 private:
  [[nodiscard]] bool ready(detail::reclaim_thread&) noexcept override {
    return stream().completed(ticket_) || detail::timeline::of(stream())->quiescent();
  }
  [[nodiscard]] bool ends_first() const noexcept override { return true; }

  sluice::stream stream_;
  std::shared_ptr<host_transfer> moved_;
  std::uint64_t ticket_ = 0;
};

}  // namespace

uploaded_constants::uploaded_constants(const detail::program_graph& of, std::size_t bytes,
                                       device_runtime& runtime) {
  // Gathered, because each transfer of its own would take pinned memory.
  const auto gathered = std::make_shared<std::vector<std::byte>>(bytes);
  for (const auto& one : of.constants()) {
    if (!one.on_host || one.on_host.bytes() == 0) continue;
    std::memcpy(gathered->data() + one.offset, one.on_host.data().get(), one.on_host.bytes());
  }
  // Not the stream of the lane: its owner may launch on it meanwhile.
  auto moved = std::make_unique<single_transfer>(runtime);
  block_ = runtime.allocate_bytes(bytes, moved->stream(), "constants of a program");
  const auto end = [&] {
    detail::runtime_core::of(runtime)->reclaim_later(std::move(moved));
  };
  try {
    moved->launch({gathered, gathered->data()}, bytes, block_);
    moved->wait(block_);
  } catch (...) {
    end();
    throw;
  }
  end();
}

std::shared_ptr<const uploaded_constants> constants_on_devices::on(device_runtime& runtime,
                                                                   const detail::program_graph& of,
                                                                   std::size_t bytes) {
  const auto serial = detail::runtime_core::of(runtime)->serial();
  {
    const std::lock_guard lock(mutex_);
    if (auto found = made_[serial].lock()) return found;
  }
  // Another device does not wait meanwhile; this one has one planner.
  auto made = std::make_shared<const uploaded_constants>(of, bytes, runtime);
  const std::lock_guard lock(mutex_);
  std::erase_if(made_, [](const auto& one) { return one.second.expired(); });
  made_[serial] = made;
  return made;
}

}  // namespace sluice::operations
