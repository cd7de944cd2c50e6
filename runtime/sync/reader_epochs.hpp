// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// Epoch-based reclamation: tells when the last of the readers that were there has left.
///
/// A reader enters before it learns what it will look up, and leaves once it has looked. The
/// reclaimer first makes sure that no new reader can learn of what is to go, then begins a grace
/// period, and reclaims when that is over. Entering orders nothing: the lock, or the ticket, under
/// which a reader learns what to look up must order it before the reclaimer's change or after it.
class reader_epochs {
 public:
  /// Returns the epoch to leave.
  [[nodiscard]] unsigned enter() noexcept {
    const auto epoch = epoch_.load(std::memory_order_relaxed);
    entered_[epoch].fetch_add(1, std::memory_order_relaxed);
    return epoch;
  }
  void leave(unsigned epoch) noexcept { left_[epoch].fetch_add(1, std::memory_order_release); }

  /// The reclaimer's, which is one thread at a time.
  void begin_grace() noexcept { turned_ = false; }
  /// Whether every reader has left that entered before `begin_grace`.
  [[nodiscard]] bool grace_over() noexcept {
    // A reader that was delayed in `enter` may count in the epoch that is about to begin: so that
    // one must be empty, too, before it begins.
    if (!earlier_left()) return false;
    if (!turned_) {
      epoch_.store(1 - epoch_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      turned_ = true;
    }
    return earlier_left();
  }
  /// Whether `grace_over` would get on. Any thread may ask.
  [[nodiscard]] bool earlier_left() const noexcept {
    const auto earlier = 1 - epoch_.load(std::memory_order_relaxed);
    const auto left = left_[earlier].load(std::memory_order_acquire);
    return entered_[earlier].load(std::memory_order_relaxed) == left;
  }

 private:
  // Readers enter on one thread and often leave on another one.
  alignas(64) std::array<std::atomic<std::uint64_t>, 2> entered_{};
  std::atomic<unsigned> epoch_{0};
  bool turned_ = false;
  alignas(64) std::array<std::atomic<std::uint64_t>, 2> left_{};
};

/// A reader from its construction to its end.
class epoch_reader {
 public:
  explicit epoch_reader(reader_epochs& of) noexcept : of_(of), epoch_(of.enter()) {}
  epoch_reader(const epoch_reader&) = delete;
  epoch_reader& operator=(const epoch_reader&) = delete;
  ~epoch_reader() { of_.leave(epoch_); }

 private:
  reader_epochs& of_;
  const unsigned epoch_;
};

}  // namespace sluice::detail
