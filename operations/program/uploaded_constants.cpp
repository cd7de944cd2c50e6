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

/// The stream on which one lane brings constants to its device. Only the planner uses it: the owner
/// of the lane may launch on the stream of the lane meanwhile.
struct upload_stream {
  upload_stream(device_runtime& runtime, stream_ref)
      : owner(std::make_shared<const sluice::stream>(runtime.create_stream())) {}

  std::shared_ptr<const sluice::stream> owner;
};

/// One transfer. The reclaim thread destroys it once it has ended.
class single_transfer final : public detail::deferred {
 public:
  explicit single_transfer(std::shared_ptr<const sluice::stream> owner)
      : stream_(std::move(owner)) {}

  /// Launches the transfer of `bytes` bytes from `source` to `target`.
  void launch(std::shared_ptr<const void> source, std::size_t bytes, const block_ref& target) {
    transfer_ = host_transfer::upload(stream(), std::move(source), bytes);
    auto recorder = launch_recorder::strict(stream());
    recorder.use(target, access_kind::write, true);
    recorder.preflight();
    std::optional<error> failure;
    try {
      transfer_->enqueue(target.address());
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
  /// Waits until the transfer has ended.
  /// @throws error its failure
  void wait() {
    stream().synchronize();
    if (const auto failure = detail::timeline::of(stream())->failure_of(ticket_)) throw *failure;
  }

 private:
  [[nodiscard]] stream_ref stream() const noexcept { return stream_->ref(); }
  [[nodiscard]] bool ready(detail::reclaim_thread&) noexcept override {
    return stream().completed(ticket_) || detail::timeline::of(stream())->quiescent();
  }
  [[nodiscard]] bool ends_first() const noexcept override { return true; }

  std::shared_ptr<const sluice::stream> stream_;
  std::shared_ptr<host_transfer> transfer_;
  std::uint64_t ticket_ = 0;
};

}  // namespace

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
  auto& runtime = libraries.runtime();
  const auto& stream = libraries.get<upload_stream>().owner;
  auto transfer = std::make_unique<single_transfer>(stream);
  block_ = runtime.allocate_bytes(folded.bytes, *stream, "constants of a program");
  const auto end = [&] {
    detail::runtime_core::of(runtime)->reclaim_later(std::move(transfer));
  };
  try {
    transfer->launch({gathered, gathered->data()}, bytes, block_);
    transfer->wait();
  } catch (...) {
    end();
    throw;
  }
  end();
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
