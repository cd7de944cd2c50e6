// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/chain.hpp"
#include "operations/executor/waiting_request.hpp"

#include <sluice/operations/owner_memory.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::operations {

/// The requests of one sender with one priority that are ready and runnable: those that are
/// launched alone, or those that join batches.
struct request_line {
  explicit request_line(detail::owner_memory& memory) : late(memory) {}
  [[nodiscard]] bool empty() const noexcept { return in_order.empty() && late.empty(); }
  /// The one that arrived first, of a line that is not empty.
  [[nodiscard]] waiting_request& first() const noexcept;
  void add(waiting_request& r) noexcept;
  void remove(waiting_request& r) noexcept;

  chain<waiting_request> in_order{};  ///< in the order of arrival
  numbered_requests late;             ///< those that became runnable after later ones of `in_order`
  std::uint64_t turn = 0;             ///< the sender with the lowest one is next
  request_line* next = nullptr;
  request_line* previous = nullptr;
};

/// The requests of one sender with one priority that are ready and unexamined.
struct unexamined_requests {
  chain<waiting_request> requests{};
  unexamined_requests* next = nullptr;
  unexamined_requests* previous = nullptr;
};

/// What is ready of one sender with one priority.
struct ready_requests {
  explicit ready_requests(detail::owner_memory& memory)
      : lines{request_line(memory), request_line(memory)} {}
  std::array<request_line, 2> lines;  ///< alone, and in batches
  unexamined_requests unexamined{};
};

/// What waits of one sender.
struct sender_share {
  explicit sender_share(detail::owner_memory& memory)
      : ready{ready_requests(memory), ready_requests(memory), ready_requests(memory)} {}
  std::size_t requests = 0;
  std::size_t bytes = 0;
  std::array<ready_requests, 3> ready;  ///< by priority
};

[[nodiscard]] inline std::size_t priority_of(const waiting_request& r) noexcept {
  return static_cast<std::size_t>(r->options.priority);
}

/// The lines of all senders with ready requests, in which the senders take turns. Not thread-safe.
class request_lines {
 public:
  /// Puts a ready request, if it is runnable or unexamined, among those of its sender.
  void add(waiting_request& r) noexcept;
  /// Takes a ready request from those of its sender. If it was runnable, the turn of its sender
  /// ends.
  void remove(waiting_request& r) noexcept;
  /// The next runnable request of a priority, of the sender whose turn it is; without `batches`, of
  /// those that are launched alone. nullptr if there is none.
  [[nodiscard]] waiting_request* next(std::size_t priority, bool batches) const noexcept;
  /// The next unexamined request of a priority; nullptr if there is none.
  [[nodiscard]] waiting_request* next_unexamined(std::size_t priority) const noexcept;
  /// Lets the other senders come first, because `r`, which was unexamined, has been examined.
  void end_examination(const waiting_request& r) noexcept;

 private:
  /// Puts a line behind all others.
  void end_turn(chain<request_line>& lines, request_line& line) noexcept;

  // By priority, and alone or in batches; in the order of the turns of their senders.
  std::array<std::array<chain<request_line>, 2>, 3> lines_;
  std::array<chain<unexamined_requests>, 3> unexamined_;  // by priority
  std::uint64_t turns_ = 0;                               // since the beginning
};

}  // namespace sluice::operations
