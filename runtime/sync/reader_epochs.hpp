// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// Epoch-based reclamation: tells when the last of the current readers has left.
///
///     // reader                                // reclaimer, one thread at a time
///     const epoch_reader reading(epochs);      // make the object unreachable for new readers
///     // look the object up, use it            epochs.begin_grace();
///                                             // retry until epochs.grace_over(), then reclaim
///
/// Entering establishes no order. The lock or the ticket under which a reader finds the object must
/// therefore order the reader before or after the reclaimer's change.
class reader_epochs {
 public:
  /// Enters, and returns the epoch for `leave`.
  [[nodiscard]] unsigned enter() noexcept {
    const auto epoch = epoch_.load(std::memory_order_relaxed);
    entries_[epoch].fetch_add(1, std::memory_order_relaxed);
    return epoch;
  }
  void leave(unsigned epoch) noexcept {
    departures_[epoch].fetch_add(1, std::memory_order_release);
  }

  /// Begins a grace period. Only for the reclaimer, which is one thread at a time.
  void begin_grace() noexcept { turned_ = false; }
  /// Whether every reader that entered before `begin_grace` has left. Only for the reclaimer.
  [[nodiscard]] bool grace_over() noexcept {
    // A reader delayed in `enter` may count in the next epoch, so that one must be empty before it
    // begins.
    if (!earlier_left()) return false;
    if (!turned_) {
      epoch_.store(1 - epoch_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      turned_ = true;
    }
    return earlier_left();
  }
  /// Whether `grace_over` would make progress. Callable from any thread.
  [[nodiscard]] bool earlier_left() const noexcept {
    const auto epoch = 1 - epoch_.load(std::memory_order_relaxed);
    const auto departures = departures_[epoch].load(std::memory_order_acquire);
    return entries_[epoch].load(std::memory_order_relaxed) == departures;
  }

 private:
  // Readers enter on one thread and often leave on another one, hence the two cache lines.
  alignas(64) std::array<std::atomic<std::uint64_t>, 2> entries_{};
  std::atomic<unsigned> epoch_{0};
  bool turned_ = false;
  alignas(64) std::array<std::atomic<std::uint64_t>, 2> departures_{};
};

/// A scope that enters an epoch and leaves it.
class epoch_reader {
 public:
  explicit epoch_reader(reader_epochs& epochs) noexcept : epochs_(epochs), epoch_(epochs.enter()) {}
  epoch_reader(const epoch_reader&) = delete;
  epoch_reader& operator=(const epoch_reader&) = delete;
  ~epoch_reader() { epochs_.leave(epoch_); }

 private:
  reader_epochs& epochs_;
  const unsigned epoch_;
};

}  // namespace sluice::detail
