// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/byte_index.hpp"
#include "operations/executor/chain.hpp"

#include <sluice/operations/operation_request.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <utility>

namespace sluice::operations {

struct sender_share;
struct waiting_request;

/// Requests in the order of their arrival.
using request_list = std::list<waiting_request, detail::owner_allocator<waiting_request>>;
/// Requests by their number.
using numbered_requests =
    std::map<std::uint64_t, waiting_request*, std::less<>,
             detail::owner_allocator<std::pair<const std::uint64_t, waiting_request*>>>;

/// What is known of the earlier requests that wait.
enum class standing : std::uint8_t {
  runnable,    ///< none has a hazard with it; this does not change any more
  blocked,     ///< `blocker` has
  parked,      ///< one may have; it is compared with them again later
  unexamined,  ///< its blocker has left, and it has not been compared with the others yet
};

/// A request in a `request_queue`.
struct waiting_request {
  detail::owner_pointer<detail::operation_request> request{};
  request_list* list = nullptr;  // while it waits
  request_list::iterator position{};
  detail::small_vector<byte_index::entry*, 4> uses{};
  operations::standing standing = operations::standing::unexamined;
  waiting_request* blocker = nullptr;
  chain<waiting_request> blocked{};          // those whose blocker it is
  std::uint64_t parked_until = 0;            // so many requests have left the queue
  numbered_requests::node_type late_node{};  // for `line::late`; none if it was runnable at once
  bool is_late = false;                      // in `line::late`
  sender_share* share = nullptr;             // of its sender
  std::array<detail::shared_memory, 2> shared{};
  // Among those of its blocker, those that are parked, or those of its sender that are
  // unexamined, or runnable and not late.
  waiting_request* next = nullptr;
  waiting_request* previous = nullptr;
  [[nodiscard]] detail::operation_request* operator->() const noexcept { return request.get(); }
  [[nodiscard]] detail::operation_request& operator*() const noexcept { return *request; }
};

}  // namespace sluice::operations
