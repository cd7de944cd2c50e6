// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/byte_index.hpp"
#include "operations/executor/chain.hpp"

#include <sluice/operations/lane_choice.hpp>
#include <sluice/operations/operation_request.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
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
  struct sender_share;

 public:
  using pointer = detail::owner_pointer<detail::operation_request>;
  struct item;
  /// Requests by their number.
  using numbered = std::map<std::uint64_t, item*, std::less<>,
                            detail::owner_allocator<std::pair<const std::uint64_t, item*>>>;
  /// What is known of the earlier requests that wait.
  enum class standing : std::uint8_t {
    runnable,    ///< none has a hazard with it; this does not change any more
    blocked,     ///< `blocker` has
    parked,      ///< one may have; it is compared with them again later
    unexamined,  ///< its blocker has left, and it has not been compared with the others yet
  };
  /// A request in a list.
  struct item {
    pointer request{};
    std::list<item, detail::owner_allocator<item>>* in = nullptr;  // while it waits
    std::list<item, detail::owner_allocator<item>>::iterator at{};
    detail::small_vector<byte_index::entry*, 4> used{};
    standing state = standing::unexamined;
    item* blocker = nullptr;
    chain<item> blocked{};             // those whose blocker it is
    std::uint64_t look_again_at = 0;   // while it is parked: when so many have been taken
    numbered::node_type late_place{};  // for `line::late`; none if it was runnable when it came
    bool is_late = false;              // in `line::late`
    sender_share* share = nullptr;     // of its sender
    std::array<detail::shared_memory, 2> shared{};
    // Among those of its blocker, those that are parked, or those of its sender that are
    // unexamined, or runnable and not late.
    item* next = nullptr;
    item* previous = nullptr;
    [[nodiscard]] detail::operation_request* operator->() const noexcept { return request.get(); }
    [[nodiscard]] detail::operation_request& operator*() const noexcept { return *request; }
  };
  using list = std::list<item, detail::owner_allocator<item>>;

  /// The largest queue. A request that exceeds `bytes` alone is taken if no other one waits; one
  /// that exceeds `bytes_of_sender` alone, if no other one of its sender waits. What requests share
  /// counts once, and as a quarter of `bytes_of_sender` at most.
  struct limits {
    std::size_t requests;
    std::size_t bytes;
    std::size_t requests_of_sender;  ///< of each sender with an id
    std::size_t bytes_of_sender;     ///< of each sender with an id
  };
  explicit request_queue(limits most) noexcept : limits_(most) {}

  /// Tells `of` of each request that is added or leaves. Its limits in all are then those of all
  /// lanes of the choice together.
  void on_change(detail::lane_choice::lane& of) noexcept { lane_ = &of; }
  /// The memory of the requests that wait. It must outlive every request that has been taken.
  [[nodiscard]] detail::owner_memory& memory() noexcept { return memory_; }

  /// Checks that there is room for a request, whose size is `bytes`.
  /// @throws error `overloaded` if there is none
  void require_room(const detail::operation_request& r, std::size_t bytes) const;
  /// Adds a request at the end. Takes it only if nothing is thrown.
  /// @throws std::bad_alloc if there is no memory
  void add(pointer& r);
  /// The place of a request in the queue. Valid until the queue changes.
  struct place {
    list* in = nullptr;  ///< nullptr: no request
    list::iterator at{};
    [[nodiscard]] explicit operator bool() const noexcept { return in != nullptr; }
    [[nodiscard]] const detail::operation_request& operator*() const noexcept { return **at; }
  };
  /// The next request that may be launched, of the sender whose turn it is; without `batches`, of
  /// those that are launched alone.
  [[nodiscard]] place next(bool batches = true) noexcept;
  /// Takes a request.
  [[nodiscard]] pointer take(const place& from) noexcept;
  /// Takes the request `from` and up to `most` - 1 others that may be launched together with it:
  /// those for which `joins(founder, request)` is true and which may pass every earlier request
  /// that waits or is taken. They come in the order of their priority and arrival. Of those that
  /// wait, a bounded number is visited, and of those that may not pass a smaller one.
  template <class Joins>
  [[nodiscard]] list take_batch(const place& from, std::size_t most, const Joins& joins) noexcept {
    list taken(memory_);
    const auto& founder = *from;
    taken.splice(taken.end(), *from.in, from.at);
    takes_batch_ = true;
    std::size_t left = visited_for_batch * most;
    std::size_t refused_left = max_held_back_of_batch;
    for (auto* in = from.in; in <= &ready_.back(); ++in) {
      for (auto at = in->begin(); at != in->end() && taken.size() < most && left != 0; --left) {
        const auto here = at++;
        if (!joins(founder, **here)) continue;
        if (may_pass(*here)) {
          taken.splice(taken.end(), *in, here);
        } else if (--refused_left == 0) {
          left = 1;
        }
      }
    }
    takes_batch_ = false;
    for (auto& r : taken) forget(r);
    return taken;
  }
  // These two visit no other requests that wait for a plan than those of the job.
  /// Gives its plan to each request that waits for the job `by`.
  void give_plan(const void* by, const std::shared_ptr<const operation_plan>& plan) noexcept;
  /// Takes the requests that wait for the job `by`.
  [[nodiscard]] list take_planned_by(const void* by) noexcept;
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
  /// added after the one with the number `after`.
  void charge_later(request_sender sender, std::uint64_t after, std::size_t bytes) noexcept;

  /// Whether requests wait for others that wait, so that these should not wait for company.
  [[nodiscard]] bool holds_back() const noexcept { return blocked_ != 0; }
  /// The number of requests that have a plan.
  [[nodiscard]] std::size_t planned() const noexcept { return planned_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] queue_status status(timer::time_point now) const noexcept;
  /// The number of requests that have been examined, freed of their blocker, given a plan or passed
  /// on the way to the place of one with a plan, since the beginning.
  [[nodiscard]] std::uint64_t visits() const noexcept { return visits_; }

 private:
  /// The requests of one sender with one priority that are ready and runnable: those that are
  /// launched alone, or those that join batches.
  struct line {
    explicit line(detail::owner_memory& memory) : late(memory) {}
    [[nodiscard]] bool empty() const noexcept { return in_order.empty() && late.empty(); }
    /// The one that arrived first, of a line that is not empty.
    [[nodiscard]] item& first() const noexcept;
    void add(item& r) noexcept;
    void remove(item& r) noexcept;

    chain<item> in_order{};  ///< in the order of arrival
    numbered late;           ///< those that became runnable after later ones of `in_order`
    std::uint64_t turn = 0;  ///< the sender with the lowest one is next
    line* next = nullptr;
    line* previous = nullptr;
  };
  /// The requests of one sender with one priority that are ready and unexamined.
  struct examination {
    chain<item> requests{};
    examination* next = nullptr;
    examination* previous = nullptr;
  };
  /// What is ready of one sender with one priority.
  struct ready_requests {
    explicit ready_requests(detail::owner_memory& memory) : lines{line(memory), line(memory)} {}
    std::array<line, 2> lines;  ///< alone, and in batches
    examination unexamined{};
  };
  /// What waits of one sender.
  struct sender_share {
    explicit sender_share(detail::owner_memory& memory)
        : ready{ready_requests(memory), ready_requests(memory), ready_requests(memory)} {}
    std::size_t requests = 0;
    std::size_t bytes = 0;
    std::array<ready_requests, 3> ready;  ///< by priority
  };
  class hazard_search;
  /// Memory that requests share, which is counted once.
  struct shared_share {
    std::size_t requests = 0;
    std::size_t bytes = 0;   ///< in all
    std::size_t charge = 0;  ///< of `limits::bytes`, or of the sender's share
  };
  /// Requests by a property and their number.
  template <class... Property>
  using index = std::map<
      std::tuple<Property..., std::uint64_t>, item*, std::less<>,
      detail::owner_allocator<std::pair<const std::tuple<Property..., std::uint64_t>, item*>>>;

  static constexpr std::size_t visited_for_batch = 8;  // for each request of the largest batch
  static constexpr std::size_t max_held_back_of_batch = 8;

  /// What a request of `bytes` takes of `limits::bytes`: no more than the share of its sender, so
  /// that one large request leaves room for other senders.
  [[nodiscard]] std::size_t charge_of(const detail::operation_request& r,
                                      std::size_t bytes) const noexcept;
  [[nodiscard]] bool is_ready(const item& r) const noexcept { return r.in != &planning_; }
  [[nodiscard]] static ready_requests& ready_like(const item& r) noexcept;
  /// What requests that share `bytes` take of their limits together: at most a quarter of a
  /// sender's share, so that runs of a large program can wait.
  [[nodiscard]] std::size_t charge_of_shared(std::size_t bytes) const noexcept;
  /// Allocates what a request needs that becomes ready or runnable after later ones. Cold, because
  /// most requests are launched at once.
  /// @throws std::bad_alloc
  [[gnu::cold]] void prepare_late(item& r, const detail::operation_request& request);
  /// Puts a request that is ready, and runnable or unexamined, among those of its sender.
  void line_up(item& r) noexcept;
  /// Takes a request from those of its sender, its blocker or those that are parked. If it was
  /// runnable, the turn of its sender ends.
  void leave_line(item& r) noexcept;
  /// Puts a line behind all others.
  void end_turn(chain<line>& all, line& ended) noexcept;
  [[nodiscard]] sender_share& count_sender(const detail::operation_request& r);
  void uncount_sender(const detail::operation_request& r, sender_share& own) noexcept;
  /// Counts what a request shares, for its sender and in all.
  /// @throws std::bad_alloc; nothing is counted then
  void count_shared(item& r, const detail::operation_request& request);
  void uncount_shared(item& r, const detail::operation_request& request) noexcept;
  /// Drops the entries of senders of whom nothing waits, if there are many.
  void forget_senders() noexcept;
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
  /// The place of the request with `number` in the order of `in`, at `first` or later.
  [[nodiscard]] list::iterator place_in(list& in, list::iterator first,
                                        std::uint64_t number) noexcept;
  /// Moves a request to `to`.
  void move(item& r, list& to) noexcept;
  void add_to_indices(item& r, const detail::operation_request& request);
  void remove_from_indices(const detail::operation_request& request) noexcept;
  void forget(item& r) noexcept;
  /// Tells the lane how much of `limits::bytes` is taken.
  void note_charge() noexcept;

  detail::owner_memory memory_;
  limits limits_;
  detail::lane_choice::lane* lane_ = nullptr;
  list planning_{memory_};  // in the order of arrival
  // By priority; each in the order of arrival.
  std::array<list, 3> ready_{list(memory_), list(memory_), list(memory_)};
  // By priority, and alone or in batches; in the order of the turns of their senders.
  std::array<std::array<chain<line>, 2>, 3> lines_;
  std::array<chain<examination>, 3> unexamined_;  // by priority
  chain<item> parked_;                            // in the order of `item::look_again_at`
  std::uint64_t turns_ = 0;                       // since the beginning
  std::size_t count_ = 0;
  std::size_t blocked_ = 0;
  std::size_t planned_ = 0;
  std::uint64_t taken_ = 0;   // since the beginning
  std::uint64_t visits_ = 0;  // likewise
  // The members of a batch are in no list any more, but others must not pass them.
  bool takes_batch_ = false;
  std::size_t bytes_ = 0;
  std::size_t charged_ = 0;       // of `limits::bytes`
  std::size_t noted_charge_ = 0;  // that the lane knows of
  std::uint64_t last_number_ = 0;
  index<request_sender, std::uint64_t> by_id_{memory_};
  index<request_sender> while_alive_{memory_};
  index<const void*> by_job_{memory_};  // those of `planning_`
  index<timer::time_point> by_deadline_{memory_};
  using senders = std::map<std::uint64_t, sender_share, std::less<>,
                           detail::owner_allocator<std::pair<const std::uint64_t, sender_share>>>;
  senders of_sender_{memory_};
  // The share of the sender of the last request; nullptr if it may have been dropped.
  sender_share* last_share_ = nullptr;
  std::uint64_t last_sender_ = 0;
  template <class Key>
  using shares = std::map<Key, shared_share, std::less<>,
                          detail::owner_allocator<std::pair<const Key, shared_share>>>;
  shares<const void*> shared_{memory_};
  shares<std::pair<std::uint64_t, const void*>> shared_of_sender_{memory_};
  std::size_t idle_senders_ = 0;  // those of whom nothing waits
  byte_index used_{memory_};
};

}  // namespace sluice::operations
