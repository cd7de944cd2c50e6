// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <chrono>
#include <cstddef>
#include <optional>

namespace sluice::detail {

/// While it exists, the calling thread does not wait for memory that is on its way back to a
/// budget. For threads that serve others: owners of executors, actors, the planner.
class SLUICE_EXPORT no_room_wait_scope {
 public:
  no_room_wait_scope() noexcept;
  no_room_wait_scope(const no_room_wait_scope&) = delete;
  no_room_wait_scope& operator=(const no_room_wait_scope&) = delete;
  ~no_room_wait_scope();
  /// Whether the calling thread is in one.
  [[nodiscard]] static bool is_open() noexcept;
};

/// One allocation at the limit of a budget, which asks again while memory is on its way back.
///
///     room_wait waiting;
///     do {
///       make room; ask;
///     } while (waiting.asks_again(given));
class room_wait {
 public:
  /// Whether to ask again. `freed_bytes` is what the last attempt to make room returned, in bytes:
  /// if it is not 0, another thread may have taken that memory, and a bounded number of further
  /// attempts follow at once. Otherwise launches in flight still use the memory: the thread pauses,
  /// unless it must not wait or the time is over.
  [[nodiscard]] bool asks_again(std::size_t freed_bytes, bool may_wait) noexcept;

  /// The longest wait of an allocation.
  static constexpr std::chrono::milliseconds usual_limit{100};
  /// Sets another one. For tests.
  static void set_limit(std::chrono::milliseconds limit) noexcept;

 private:
  std::size_t attempts_ = 0;
  std::optional<std::chrono::steady_clock::time_point> end_;
  std::chrono::microseconds pause_{20};
};

}  // namespace sluice::detail
