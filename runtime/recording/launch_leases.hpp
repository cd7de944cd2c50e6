// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "runtime/recording/recorded_use.hpp"
#include "runtime/sync/lease_holder.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::detail {

/// Thrown if a launch uses a block that has been freed.
struct stale_block {
  const recorded_use& use;
};

/// The leases of one launch: all of its blocks or none. Not thread-safe.
///
///     leases.begin(core, uses);
///     if (leases.take(true)) {
///       // queue the waits, enqueue the work
///       leases.give_all();
///     }
class launch_leases {
 public:
  /// Begins a launch with these uses, which must be sorted whenever leases are taken.
  void begin(runtime_core& core, recorded_uses& uses) noexcept {
    core_ = &core;
    uses_ = &uses;
    step_callback_ = core.step_called();
  }

  /// Takes the leases. With `waits`, waits at a conflict. Otherwise returns false there and holds
  /// nothing.
  /// @throws stale_block
  /// @throws error `stream_misuse` if the thread would wait while it holds other leases
  [[nodiscard]] bool take(bool waits);
  /// Returns all leases.
  void give_all() noexcept;

  /// Returns the lease of one use. The caller has locked the uses of the block, and calls
  /// `all_given` after the last one.
  void unlock_and_give(const recorded_use& u) noexcept {
    auto& lease = u.record->lease;
    const bool last = u.access == access_kind::read ? lease.unlock_and_release_shared()
                                                    : lease.unlock_and_release_exclusive();
    if (last) core_->complete_free(*u.record);
  }
  /// Removes the leases from the counter of the thread that took them. In a child of `fork()`, this
  /// is all that happens to leases of the parent.
  void all_given() noexcept { holder_->remove(static_cast<std::uint32_t>(uses_->size())); }

  /// Calls the function of a test.
  void at(launch_step step) const {
    if (step_callback_ != nullptr) (*step_callback_)(step);
  }

 private:
  [[nodiscard]] const recorded_use* try_all(lease_request request);
  [[nodiscard]] bool take_together();
  void take_in_turn();
  [[nodiscard]] lease_answer try_lease(const recorded_use& u, lease_request request) const;
  void wait_for(const recorded_use& u, lease_request request) const;
  void give_first(std::size_t count) noexcept;

  runtime_core* core_ = nullptr;
  recorded_uses* uses_ = nullptr;
  lease_holder* holder_ = nullptr;  // of the thread that took the leases
  const runtime_core::step_function* step_callback_ = nullptr;  // of a test
};

}  // namespace sluice::detail
