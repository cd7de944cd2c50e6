// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/recycled_memory.hpp>
#include <sluice/export.hpp>
#include <sluice/runtime/stream.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace sluice {

/// Options of a `lane`.
struct lane_options {
  /// The number of launches in flight from which on `full` returns true. 0: the limit of the
  /// service (`device_service_options::max_in_flight`).
  std::size_t max_in_flight = 0;
  /// The largest number of device commands in flight; an idle lane takes any launch. 0: the limit
  /// of the service (`device_service_options::max_commands`).
  std::size_t max_commands = 0;
  /// The number of batches in flight while further requests for batches wait and make the next one
  /// larger. One request alone is a batch, too. At least 1.
  std::size_t max_batches = 2;
  stream_priority priority = stream_priority::normal;  ///< of the stream of the lane
};

namespace detail {
/// The load of a lane, and the memory of its launches, each a `launch_continuation`. They use
/// nothing else of the lane.
struct lane_load final : recycled_memory {
  /// A part of the load.
  struct part {
    std::size_t places = 0;    ///< of `max_in_flight`: a batch takes one
    std::size_t commands = 0;  ///< of the device
    std::size_t batches = 0;
  };
  // The owner of the lane and the completion thread write these.
  alignas(64) std::atomic<std::size_t> in_flight{0};
  std::atomic<std::size_t> occupied{0};  ///< places
  std::atomic<std::size_t> commands{0};
  std::atomic<std::size_t> batches{0};
  /// True while the lane's owner waits for room. The completion thread then calls `room` once.
  std::atomic<bool> wanted{false};
  // The owner of the lane alone uses it: the launches that had a hazard with an unfinished one.
  alignas(64) std::uint64_t dependent = 0;
  // Constant after the first launch.
  std::size_t max_in_flight = 0;
  std::size_t max_commands = 0;
  std::size_t max_batches = 0;
  std::function<void()> room;

  void add(std::size_t launches, const part& share) noexcept {
    in_flight.fetch_add(launches, std::memory_order_relaxed);
    if (share.places != 0) occupied.fetch_add(share.places, std::memory_order_relaxed);
    if (share.commands != 0) commands.fetch_add(share.commands, std::memory_order_relaxed);
    if (share.batches != 0) batches.fetch_add(share.batches, std::memory_order_relaxed);
  }
  /// Takes one launch out, and calls `room` if it made room that is wanted.
  void remove(const part& share) noexcept {
    if (share.batches != 0) batches.fetch_sub(share.batches, std::memory_order_seq_cst);
    if (share.commands != 0) commands.fetch_sub(share.commands, std::memory_order_seq_cst);
    if (share.places != 0) occupied.fetch_sub(share.places, std::memory_order_seq_cst);
    in_flight.fetch_sub(1, std::memory_order_seq_cst);
    if (share.places == 0 && share.commands == 0 && share.batches == 0) return;
    if (wanted.load(std::memory_order_seq_cst) &&
        wanted.exchange(false, std::memory_order_seq_cst) && room) {
      room();
    }
  }
  [[nodiscard]] bool full(std::size_t more) const noexcept {
    const auto place_count = occupied.load(std::memory_order_seq_cst);
    if (place_count == 0) return false;
    const auto command_count = commands.load(std::memory_order_seq_cst);
    return place_count >= max_in_flight || command_count >= max_commands ||
           more > max_commands - command_count;
  }
  [[nodiscard]] std::size_t room_for_commands() const noexcept {
    const auto command_count = commands.load(std::memory_order_seq_cst);
    return max_commands - std::min(command_count, max_commands);
  }
};
}  // namespace detail

/// A stream with its library handle, workspace and plans.
///
///     lane compute{service};
///     auto handle = std::make_shared<library_handle>(compute.stream());  // a class of yours
///     compute.keep(handle);
///
/// One library actor or one thread owns a lane, and only this owner launches on it. Destroying a
/// lane does not wait. Its stream and its library object are destroyed after its last launch.
///
/// docs/concepts/envelope_and_completion.md explains the limits of a lane.
class SLUICE_EXPORT lane {
 public:
  /// A lane with a new stream of the service's runtime.
  /// @throws error `invalid_argument` if `service` is null
  /// @throws error `shutting_down` if the runtime takes no more work
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if the stream cannot be created
  /// @throws error `unsupported` if the runtime has no stream ids left
  explicit lane(std::shared_ptr<device_service> service, lane_options options = {})
      : service_(service ? std::move(service)
                         : throw error(errc::invalid_argument, "service is null")),
        stream_(service_->runtime().create_stream(options.priority)) {
    load_->max_in_flight =
        options.max_in_flight != 0 ? options.max_in_flight : service_->max_in_flight();
    load_->max_commands =
        options.max_commands != 0 ? options.max_commands : service_->max_commands();
    load_->max_batches = std::max<std::size_t>(1, options.max_batches);
  }
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane();

  /// The service that the lane shares.
  [[nodiscard]] device_service& service() const noexcept { return *service_; }
  /// The runtime of the service.
  [[nodiscard]] device_runtime& runtime() const noexcept { return service_->runtime(); }
  /// The completion engine of the service.
  [[nodiscard]] completion_engine& engine() const noexcept { return service_->engine(); }
  /// The stream of the lane. Only the owner of the lane launches on it.
  [[nodiscard]] stream_ref stream() const noexcept { return stream_.ref(); }

  /// Keeps a library object until the lane's last launch has completed. After a loss, the object
  /// stays until the lane's stream is quiescent.
  ///
  /// The runtime's reclaim thread then destroys the object, because destroying a library handle may
  /// synchronize the whole device. The end of the runtime waits for this within its timeout. The
  /// runtime may therefore be destroyed first: the object's destructor may use the lane's stream,
  /// but not the `device_runtime`.
  ///
  /// The destructor must query `device::lost()` before it destroys a library handle of a GPU,
  /// because after a fault the driver can crash.
  void keep(std::shared_ptr<void> library) { library_ = std::move(library); }

  /// The number of launches that have not completed.
  [[nodiscard]] std::size_t in_flight() const noexcept {
    return load_->in_flight.load(std::memory_order_acquire);
  }
  /// The number of launches that have not completed, where a batch counts as one.
  [[nodiscard]] std::size_t occupied() const noexcept {
    return load_->occupied.load(std::memory_order_relaxed);
  }
  /// The number of launches, without batches, that had a hazard with an unfinished launch of the
  /// lane or of another lane of its actor. Launches that find the lane idle are not looked at. Only
  /// the owner of the lane may call it.
  [[nodiscard]] std::uint64_t dependent_launches() const noexcept { return load_->dependent; }
  /// Whether another launch of `commands` device commands should wait: with it, the launches in
  /// flight or their device commands would exceed a limit. A batch counts as one launch. An idle
  /// lane takes any launch.
  [[nodiscard]] bool full(std::size_t commands = 1) const noexcept { return load_->full(commands); }
  /// The number of device commands up to which `full` returns false, launches in flight permitting.
  [[nodiscard]] std::size_t room_for_commands() const noexcept {
    return load_->room_for_commands();
  }
  /// The number of batches in flight.
  [[nodiscard]] std::size_t batches() const noexcept {
    return load_->batches.load(std::memory_order_seq_cst);
  }
  /// The number of batches in flight from which on another one should wait.
  [[nodiscard]] std::size_t max_batches() const noexcept { return load_->max_batches; }
  /// Sets the function that a completion thread calls for a successful `want_room`. Call it once,
  /// before the first launch.
  ///
  /// The last call of `room` may come after the lane has been destroyed. `room` must therefore own
  /// everything that it uses.
  void on_room(std::function<void()> room) { load_->room = std::move(room); }
  /// Requests one call of `room` when a launch completes. Returns false if there is room for
  /// `commands` already; `room` is then not called.
  [[nodiscard]] bool want_room(std::size_t commands = 1) noexcept {
    load_->wanted.store(true, std::memory_order_seq_cst);
    // Sequentially consistent with the completion thread, which decrements the load, then reads
    // `wanted`.
    return load_->full(commands) || !load_->wanted.exchange(false, std::memory_order_seq_cst);
  }
  /// Likewise, once fewer than `limit` batches are in flight.
  [[nodiscard]] bool want_room_for_batch(std::size_t limit) noexcept {
    load_->wanted.store(true, std::memory_order_seq_cst);
    return batches() >= limit || !load_->wanted.exchange(false, std::memory_order_seq_cst);
  }

 private:
  friend class kernel_envelope;
  std::shared_ptr<device_service> service_;
  sluice::stream stream_;
  std::shared_ptr<void> library_;
  detail::recycled_memory_owner<detail::lane_load> load_{new detail::lane_load};
  detail::recycled_memory_owner<> timings_{new detail::recycled_memory};  // `timed_launch` each
};

}  // namespace sluice
