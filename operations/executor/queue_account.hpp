// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/request_lines.hpp"
#include "operations/executor/waiting_request.hpp"

#include <sluice/operations/lane_choice.hpp>
#include <sluice/operations/operation_request.hpp>
#include <sluice/operations/owner_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace sluice::operations {

/// The largest queue. A request that exceeds `bytes` alone is taken if no other one waits; one that
/// exceeds `bytes_of_sender` alone, if no other one of its sender waits. What requests share counts
/// once, and as a quarter of `bytes_of_sender` at most.
struct queue_limits {
  std::size_t requests;
  std::size_t bytes;
  std::size_t requests_of_sender;  ///< of each sender with an id
  std::size_t bytes_of_sender;     ///< of each sender with an id
};

/// Counts the requests in a queue and their bytes, in all and for each sender. Not thread-safe.
class queue_account {
 public:
  queue_account(const queue_limits& limits, detail::owner_memory& memory)
      : limits_(limits),
        senders_(memory),
        shared_(memory),
        shared_of_sender_(memory),
        memory_(memory) {}

  /// Tells `lane` of each request that is added or removed. The limits in all are then those of all
  /// lanes of the choice together.
  void on_change(detail::lane_choice::lane& lane) noexcept { lane_ = &lane; }
  /// Checks that there is room for a request, whose size is `bytes`.
  /// @throws error `overloaded` if there is none
  void require_room(const detail::operation_request& request, std::size_t bytes) const;
  /// Counts `request`, whose place in the queue is `r`, and sets its share.
  /// @throws std::bad_alloc if there is no memory; nothing is counted then
  void add(waiting_request& r, const detail::operation_request& request);
  void remove(waiting_request& r) noexcept;
  /// Charges further bytes of host memory to a request. `publish` then tells the lane.
  void charge(waiting_request& r, std::size_t bytes) noexcept;
  /// Tells the lane how much of `queue_limits::bytes` is taken.
  void publish() noexcept;

  [[nodiscard]] std::size_t requests() const noexcept { return requests_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  /// Memory that requests share, which is counted once.
  struct shared_share {
    std::size_t requests = 0;
    std::size_t bytes = 0;   ///< in all
    std::size_t charge = 0;  ///< of `queue_limits::bytes`, or of the sender's share
  };
  template <class Key, class Share>
  using shares =
      std::map<Key, Share, std::less<>, detail::owner_allocator<std::pair<const Key, Share>>>;

  /// What a request of `bytes` takes of `queue_limits::bytes`: no more than the share of its
  /// sender, so that one large request leaves room for other senders.
  [[nodiscard]] std::size_t charge_of(const detail::operation_request& request,
                                      std::size_t bytes) const noexcept;
  /// What requests that share `bytes` take of their limits together: at most a quarter of a
  /// sender's share, so that runs of a large program can wait.
  [[nodiscard]] std::size_t charge_of_shared(std::size_t bytes) const noexcept;
  [[nodiscard]] sender_share& add_to_sender(const detail::operation_request& request);
  void remove_from_sender(const detail::operation_request& request, sender_share& share) noexcept;
  /// Counts what a request shares, for its sender and in all. What it has counted before an
  /// exception is in `r.shared`.
  /// @throws std::bad_alloc if there is no memory
  void add_shared(waiting_request& r, const detail::operation_request& request);
  void remove_shared(waiting_request& r, const detail::operation_request& request) noexcept;
  /// Drops the entries of senders of whom nothing waits, if there are many.
  void forget_senders() noexcept;

  const queue_limits limits_;
  detail::lane_choice::lane* lane_ = nullptr;
  std::size_t requests_ = 0;
  std::size_t bytes_ = 0;
  std::size_t charge_ = 0;            // of `queue_limits::bytes`
  std::size_t published_charge_ = 0;  // that the lane knows of
  shares<std::uint64_t, sender_share> senders_;
  // The share of the sender of the last request; nullptr if it may have been dropped.
  sender_share* last_share_ = nullptr;
  std::uint64_t last_sender_ = 0;
  shares<const void*, shared_share> shared_;
  shares<std::pair<std::uint64_t, const void*>, shared_share> shared_of_sender_;
  std::size_t idle_senders_ = 0;  // those of whom nothing waits
  detail::owner_memory& memory_;
};

}  // namespace sluice::operations
