// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"

#include <cstdint>

namespace sluice::service {

/// A new eventfd that never blocks.
/// @throws std::system_error if the kernel refuses
[[nodiscard]] file_descriptor make_wake_descriptor();

/// Wakes a peer by an eventfd, and only if it wants to be woken: a flag in shared memory.
///
///     sender:   S1 store the tail of the ring   S2 load the flag; if set, clear it and write
///     sleeper:  C1 set the flag                 C2 load the tail; if it is old, poll the eventfd
///
/// All four are sequentially consistent. If S2 misses the flag, it precedes C1, so C2 finds the
/// entry of S1. If S2 finds the flag, it writes, so the poll returns. A wake-up can be superfluous
/// but not lost. A sender that has found the flag may clear it later, when the sleeper has set it
/// anew: the sleeper sets it again after each wake-up, before it looks for entries. While the peer
/// is awake the sender calls no function of the kernel.
class wake_signal {
 public:
  /// The flag and the eventfd must outlive the signal.
  wake_signal(std::uint64_t* flag, int descriptor) noexcept
      : flag_(flag), descriptor_(descriptor) {}

  /// Wakes the peer if it wants to be woken. For the sender, after it wrote. Thread-safe.
  void notify() const noexcept;
  /// Wakes the peer even if it does not want to be woken. Thread-safe.
  void force() const noexcept;

  /// Says that the sleeper wants to be woken. It must look for entries after this.
  void arm() const noexcept;
  /// Says that the sleeper is awake.
  void disarm() const noexcept;
  /// Makes the eventfd unreadable.
  void clear() const noexcept;

 private:
  std::uint64_t* flag_;
  int descriptor_;
};

}  // namespace sluice::service
