// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/device_service.hpp>
#include <sluice/runtime/stream.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace sluice {

/// How a `lane` is made.
struct lane_options {
  /// Launches in flight above which `full` answers true. 0: the service's (see
  /// `device_service_options`).
  std::size_t most_in_flight = 0;
};

namespace detail {
/// What continuations share with their lane: they own nothing else of it.
struct lane_load {
  std::atomic<std::size_t> in_flight{0};
  std::size_t most_in_flight = 0;
  /// Device commands of these launches. With one more launch of most commands, a transfer, the
  /// stream's queue in the driver, which takes about a thousand, is not full yet.
  std::atomic<std::size_t> commands{0};
  static constexpr std::size_t most_commands = 800;
  [[nodiscard]] bool full() const noexcept {
    return in_flight.load(std::memory_order_seq_cst) >= most_in_flight ||
           commands.load(std::memory_order_seq_cst) >= most_commands;
  }
  /// Set while somebody wants to know that there is room again; called once, from the completion
  /// thread.
  std::atomic<bool> wanted{false};
  std::function<void()> room;  // set before the first launch
};
}  // namespace detail

/// A stream and what belongs to it: a library handle, its workspace, its plans. Owned by exactly
/// one library actor (or thread), which alone launches on it. Destroying a lane gives back its
/// stream and what it keeps behind its last launch.
class lane {
 public:
  /// @throws error as `device_runtime::create_stream`
  explicit lane(std::shared_ptr<device_service> service, lane_options options = {})
      : service_(std::move(service)), stream_(service_->runtime().create_stream()) {
    load_->most_in_flight =
        options.most_in_flight != 0 ? options.most_in_flight : service_->most_in_flight();
  }
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane();

  /// The service that the lane shares.
  [[nodiscard]] device_service& service() const noexcept { return *service_; }
  /// The service's runtime.
  [[nodiscard]] device_runtime& runtime() const noexcept { return service_->runtime(); }
  /// The service's completion engine.
  [[nodiscard]] completion_engine& engine() const noexcept { return service_->engine(); }
  /// The lane's stream. Only the owner of the lane launches on it.
  [[nodiscard]] stream_ref stream() const noexcept { return stream_.ref(); }

  /// Keeps a library object until the lane's last launch has completed, or the device is lost and
  /// nothing of the lane runs any more; then it is destroyed on the runtime's reclaim thread, since
  /// the end of a library's handle waits for the whole device. The runtime's end waits for that
  /// within its time, and may be over then: the destructor may use the lane's stream, but not the
  /// `device_runtime`. It asks `device::lost()` before it destroys a handle of a GPU's library:
  /// after a fault that can crash in the driver.
  void keep(std::shared_ptr<void> library) { kept_ = std::move(library); }

  /// Launches that have not completed.
  [[nodiscard]] std::size_t in_flight() const noexcept {
    return load_->in_flight.load(std::memory_order_acquire);
  }
  /// Whether another launch should wait.
  [[nodiscard]] bool full() const noexcept { return load_->full(); }
  /// Calls `room` (set once, before the first launch) from the completion thread when a launch
  /// completes after `full` lanes asked for it with `want_room`; the last time perhaps when the
  /// lane has gone, so that it owns what it uses.
  void on_room(std::function<void()> room) { load_->room = std::move(room); }
  /// Asks for one call of `room`. False when there is room already and no call will come.
  [[nodiscard]] bool want_room() noexcept {
    load_->wanted.store(true, std::memory_order_seq_cst);
    // Sequentially consistent against the completion, which counts down and then looks at `wanted`.
    return load_->full() || !load_->wanted.exchange(false, std::memory_order_seq_cst);
  }

 private:
  friend class kernel_envelope;
  std::shared_ptr<device_service> service_;
  sluice::stream stream_;
  std::shared_ptr<void> kept_;
  std::shared_ptr<detail::lane_load> load_ = std::make_shared<detail::lane_load>();
};

}  // namespace sluice
