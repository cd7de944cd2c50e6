// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/byte_index.hpp"
#include "operations/executor/chain.hpp"
#include "operations/executor/hazard_search.hpp"
#include "operations/executor/queue_account.hpp"
#include "operations/executor/request_lines.hpp"
#include "operations/executor/waiting_request.hpp"

#include <sluice/operations/lane_choice.hpp>
#include <sluice/operations/operation_request.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/operations/request_options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

namespace sluice::operations {

/// The requests that wait in front of a lane, bounded in number and in bytes, in all and for each
/// sender. Not thread-safe.
///
/// A request waits for its plan, for room on the lane, or for an earlier request with which it has
/// a hazard. Only these hold it back: it passes all other requests.
///
/// Senders take turns: after a request of one of them, those of the others are next. Requests of
/// one sender keep their order as far as their hazards and plans allow.
///
/// A request that nothing holds back is found at once, however many are held back: `next` visits
/// only those that may be launched, and examines a bounded number of those whose blocker has left.
class request_queue {
 public:
  using pointer = detail::owner_pointer<detail::operation_request>;
  using item = waiting_request;
  using list = request_list;
  explicit request_queue(const queue_limits& limits) : account_(limits, memory_) {}

  /// As `queue_account::on_change`.
  void on_change(detail::lane_choice::lane& lane) noexcept { account_.on_change(lane); }
  /// The memory of the requests that wait. It must outlive every request that has been taken.
  [[nodiscard]] detail::owner_memory& memory() noexcept { return memory_; }

  /// Checks that there is room for a request, whose size is `bytes`.
  /// @throws error `overloaded` if there is none
  void require_room(const detail::operation_request& r, std::size_t bytes) const {
    account_.require_room(r, bytes);
  }
  /// Adds a request at the end. Takes it only if nothing is thrown.
  /// @throws std::bad_alloc if there is no memory
  void add(pointer& r);
  /// The place of a request in the queue. Valid until the queue changes.
  struct place {
    request_list* list = nullptr;  ///< nullptr: no request
    request_list::iterator position{};
    [[nodiscard]] explicit operator bool() const noexcept { return list != nullptr; }
    [[nodiscard]] const detail::operation_request& operator*() const noexcept { return **position; }
  };
  /// The next request that may be launched, of the sender whose turn it is; without `batches`, of
  /// those that are launched alone.
  [[nodiscard]] place next(bool batches = true) noexcept;
  /// Takes a request.
  [[nodiscard]] pointer take(const place& p) noexcept;
  /// Takes the request at `p` and up to `max_requests` - 1 others that may be launched together
  /// with it: those for which `joins(founder, request)` is true and which may pass every earlier
  /// request that waits or is taken. They come in the order of their priority and arrival. Of those
  /// that wait, a bounded number is visited, and of those that may not pass a smaller one.
  template <class Joins>
  [[nodiscard]] list take_batch(const place& p, std::size_t max_requests,
                                const Joins& joins) noexcept {
    list batch(memory_);
    const auto& founder = *p;
    batch.splice(batch.end(), *p.list, p.position);
    takes_batch_ = true;
    std::size_t visits = visited_for_batch * max_requests;
    std::size_t refusals = max_held_back_of_batch;
    for (auto* requests = p.list; requests <= &ready_.back(); ++requests) {
      for (auto next = requests->begin();
           next != requests->end() && batch.size() < max_requests && visits != 0; --visits) {
        const auto r = next++;
        if (!joins(founder, **r)) continue;
        if (may_pass(*r)) {
          batch.splice(batch.end(), *requests, r);
        } else if (--refusals == 0) {
          visits = 1;
        }
      }
    }
    takes_batch_ = false;
    for (auto& r : batch) forget(r);
    return batch;
  }
  /// The number of requests for which `joins(founder, request)` is true, with the founder at `p`;
  /// at most `max_requests`. A bounded number is visited.
  template <class Joins>
  [[nodiscard]] std::size_t count(const place& p, std::size_t max_requests,
                                  const Joins& joins) const noexcept {
    std::size_t result = 1;
    std::size_t visits = visited_for_batch * max_requests;
    for (const auto& requests : ready_) {
      for (auto r = requests.begin(); r != requests.end() && result < max_requests && visits != 0;
           ++r, --visits) {
        if (r != p.position && joins(*p, **r)) ++result;
      }
    }
    return result;
  }
  // These two visit no other requests that wait for a plan than those of the job.
  /// Gives its plan to each request that waits for `job`.
  void give_plan(const void* job, const std::shared_ptr<const operation_plan>& plan) noexcept;
  /// Takes the requests that wait for `job`.
  [[nodiscard]] list take_waiting_for(const void* job) noexcept;
  /// Takes all requests.
  [[nodiscard]] list take_all() noexcept;
  // These visit no other requests than those that they take.
  /// Takes all requests of a sender with an id.
  [[nodiscard]] list take_with_id(request_sender sender, std::uint64_t id) noexcept;
  /// Takes the requests of a sender that are to be dropped if it ends.
  [[nodiscard]] list take_ended(request_sender sender) noexcept;
  /// Takes the requests whose deadline has come.
  [[nodiscard]] list take_expired(timer::time_point now) noexcept;

  /// The number of the request that was added last.
  [[nodiscard]] std::uint64_t last_number() const noexcept { return last_number_; }
  /// Charges `bytes` of host memory, in equal parts, to the requests of a sender that wait and were
  /// added after the one with this number.
  void charge_later(request_sender sender, std::uint64_t number, std::size_t bytes) noexcept;

  /// Whether requests wait for others that wait, so that these should not wait for company.
  [[nodiscard]] bool holds_back() const noexcept { return blocked_ != 0; }
  /// The number of requests that have a plan.
  [[nodiscard]] std::size_t planned() const noexcept { return planned_; }
  [[nodiscard]] bool empty() const noexcept { return account_.requests() == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return account_.requests(); }
  [[nodiscard]] queue_status status(timer::time_point now) const noexcept;
  /// The number of requests that have been examined, freed of their blocker, given a plan or passed
  /// on the way to the place of one with a plan, since the beginning.
  [[nodiscard]] std::uint64_t visits() const noexcept { return visits_; }

 private:
  /// Requests by a property and their number.
  template <class... Property>
  using index = std::map<
      std::tuple<Property..., std::uint64_t>, item*, std::less<>,
      detail::owner_allocator<std::pair<const std::tuple<Property..., std::uint64_t>, item*>>>;

  static constexpr std::size_t visited_for_batch = 8;  // for each request of the largest batch
  static constexpr std::size_t max_held_back_of_batch = 8;

  [[nodiscard]] bool is_ready(const item& r) const noexcept { return r.list != &planning_; }
  /// Allocates what a request needs that becomes ready or runnable after later ones. Cold, because
  /// most requests are launched at once.
  /// @throws std::bad_alloc
  [[gnu::cold]] void prepare_late(item& r, const detail::operation_request& request);
  /// Takes a request from those of its sender, its blocker or those that are parked.
  void detach(item& r) noexcept;
  /// Whether no earlier request has a hazard with `r`, as far as it is known or to be found now.
  [[nodiscard]] bool may_pass(item& r) noexcept;
  /// Compares `r` with earlier requests that are near it in memory, until one has a hazard with it.
  /// A bounded number is compared; beyond it, `r` is parked.
  void examine(item& r) noexcept;
  /// Gives `r`, which is in no line, the standing that a search has found.
  void settle(item& r, const hazard_search& search) noexcept;
  /// Examines a bounded number of requests of a priority. Senders take turns.
  void examine_some(std::size_t priority) noexcept;
  /// Lets a bounded number of parked requests be examined again whose time has come.
  void unpark_some() noexcept;
  /// Makes the oldest request of all runnable if it is ready.
  void free_oldest() noexcept;
  [[nodiscard]] bool is_oldest(const item& r) const noexcept;
  /// The place of the request with `number` in the order of `requests`, at `first` or later.
  [[nodiscard]] list::iterator place_in(list& requests, list::iterator first,
                                        std::uint64_t number) noexcept;
  /// Moves a request to the end of `target`.
  void move(item& r, list& target) noexcept;
  void add_to_indices(item& r, const detail::operation_request& request);
  void remove_from_indices(const detail::operation_request& request) noexcept;
  void forget(item& r) noexcept;

  detail::owner_memory memory_;
  queue_account account_;
  list planning_{memory_};  // in the order of arrival
  // By priority; each in the order of arrival.
  std::array<list, 3> ready_{list(memory_), list(memory_), list(memory_)};
  request_lines lines_;  // of `ready_`
  chain<item> parked_;   // in the order of `item::parked_until`
  std::size_t blocked_ = 0;
  std::size_t planned_ = 0;
  std::uint64_t removals_ = 0;  // since the beginning
  std::uint64_t visits_ = 0;    // likewise
  // The members of a batch are in no list any more, but others must not pass them.
  bool takes_batch_ = false;
  std::uint64_t last_number_ = 0;
  index<request_sender, std::uint64_t> by_id_{memory_};
  index<request_sender> while_alive_{memory_};
  index<const void*> by_job_{memory_};  // those of `planning_`
  index<timer::time_point> by_deadline_{memory_};
  byte_index index_{memory_};  // the uses of all requests
};

}  // namespace sluice::operations
