// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/completion_engine.hpp>
#include <sluice/runtime/user_code_scope.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

namespace {

using clock = std::chrono::steady_clock;

// How long the engine's destructor and a synchronous launch wait for quiescent streams of a lost
// device.
constexpr auto rest_limit = std::chrono::seconds(1);
// The items that the thread releases at a time. Between two replies it releases more if the last
// reply added more.
constexpr std::size_t released_between_replies = 32;
// Between two replies the thread releases items only if the backlog exceeds the pending launches by
// more than this.
constexpr std::size_t backlog_allowance = 512;
// The replies of one stream before those of the next one: a large batch keeps no other lane
// waiting.
constexpr std::size_t replies_in_turn = 16;

}  // namespace

struct completion_engine::state {
  state(std::shared_ptr<detail::runtime_core> c, completion_strategy s, wait_policy w)
      : core(std::move(c)), strategy(s), waiting(w) {}

  std::shared_ptr<detail::runtime_core> core;
  completion_strategy strategy;
  wait_policy waiting;
  std::atomic<continuation*> inbox{nullptr};  // newest first
  std::atomic<std::size_t> pending{0};
  std::atomic<bool> stopping{false};
  std::thread thread;

  /// The state that host functions share: they may run late, and must not hold the runtime's core.
  struct alarm {
    std::atomic<std::uint64_t> wakes{0};  // the number of host functions that have run
    detail::one_way_signal changed;
  };
  std::shared_ptr<alarm> wake = std::make_shared<alarm>();

  // Only the completion thread uses these:
  struct queue {
    detail::timeline* timeline = nullptr;
    continuation* oldest = nullptr;
    continuation* newest = nullptr;
    std::uint64_t watermark = 0;  // the last one that was acquired
  };
  std::vector<queue> queues;
  continuation* unreleased = nullptr;  // answered after a loss; their streams may not be quiescent

  /// Turns a list around: the oldest continuation comes first.
  [[nodiscard]] static continuation* oldest_first(continuation* newest) noexcept {
    continuation* oldest = nullptr;
    while (newest != nullptr) {
      auto* const next = std::exchange(newest->next_, oldest);
      oldest = std::exchange(newest, next);
    }
    return oldest;
  }

  void take_inbox() noexcept {
    auto* oldest = oldest_first(inbox.exchange(nullptr, std::memory_order_acquire));
    while (oldest != nullptr) {
      auto* next = std::exchange(oldest->next_, nullptr);
      append(oldest);
      oldest = next;
    }
  }

  void append(continuation* item) noexcept {
    for (auto& q : queues) {
      if (q.timeline == item->timeline_) {
        // Threads may submit in an order different from that of their tickets.
        insert_in_order(q, item);
        return;
      }
    }
    std::erase_if(queues,
                  [](const queue& q) { return q.oldest == nullptr && q.timeline->retired(); });
    queues.push_back({item->timeline_, item, item});
  }

  static void insert_in_order(queue& q, continuation* item) noexcept {
    if (q.oldest == nullptr) {
      q.oldest = q.newest = item;
    } else if (q.newest->ticket_ <= item->ticket_) {
      q.newest = q.newest->next_ = item;
    } else {
      auto** link = &q.oldest;
      while ((*link)->ticket_ <= item->ticket_) link = &(*link)->next_;
      item->next_ = *link;
      *link = item;
    }
  }

  /// Completes continuations whose tickets have completed, or any after a loss, of each stream at
  /// most those of one turn. Returns whether there was one.
  bool complete_ready() noexcept {
    bool any = false;
    const bool lost = core->device().lost();
    for (auto& q : queues) {
      if (q.oldest == nullptr) continue;
      if (q.oldest->ticket_ > q.watermark) {
        const auto completed = q.timeline->advance();
        if (q.oldest->ticket_ <= completed) q.timeline->acquire(q.watermark = completed);
      }
      for (std::size_t n = 0;
           n < replies_in_turn && q.oldest != nullptr && (q.oldest->ticket_ <= q.watermark || lost);
           ++n) {
        auto* item = q.oldest;
        q.oldest = item->next_;
        if (q.oldest == nullptr) q.newest = nullptr;
        const auto backlog = core->releases().size();
        complete(item, item->ticket_ <= q.watermark);
        bound_backlog(backlog);
        any = true;
      }
    }
    return any;
  }

  /// Keeps the backlog below twice the launches in flight plus 1024. `before` is the backlog before
  /// the last reply.
  void bound_backlog(std::size_t before) noexcept {
    const auto now = core->releases().size();
    if (now <= pending.load(std::memory_order_relaxed) + backlog_allowance) return;
    const auto added = now - std::min(now, before);
    core->releases().drain_some(std::max(released_between_replies, added));
  }

  /// Ends a launch: calls its hooks, passes it to `release`, and gives its reply. `finished` is
  /// false for a launch that may still run on a lost device.
  template <class Release>
  void complete(continuation* item, bool finished, Release release) noexcept {
    const detail::user_code_scope users;  // for hooks and the reply
    const auto failure = finished ? item->timeline_->failure_of(item->ticket_)
                                  : std::optional(core->device().loss());
    const auto* const why = failure ? &*failure : nullptr;
    item->withdraw();
    auto reply = item->complete(why);
    release(item);
    if (reply) reply->give(why);
    reply.reset();  // may hold the last reference to the answer
    pending.fetch_sub(1, std::memory_order_release);
  }
  void complete(continuation* item, bool finished) noexcept {
    complete(item, finished, [&](continuation* ended) {
      if (finished) {
        core->releases().push(ended);
      } else {
        ended->next_ = std::exchange(unreleased, ended);
      }
    });
  }

  /// After a loss: releases the owners of launches whose streams are quiescent.
  void release_quiescent() noexcept {
    for (auto** link = &unreleased; *link != nullptr;) {
      auto* item = *link;
      if (item->timeline_->quiescent()) {
        *link = item->next_;
        core->releases().push(item);
      } else {
        link = &item->next_;
      }
    }
  }

  /// Waits for a launch and completes it on the calling thread.
  void complete_here(continuation* item) noexcept {
    const auto push = [&](continuation* ended) {
      core->releases().push(ended);
    };
    try {
      item->timeline_->wait_until(item->ticket_);
      complete(item, true, push);
    } catch (const error&) {
      complete(item, false, [](continuation*) {});
      const auto limit = clock::now() + rest_limit;
      while (!item->timeline_->quiescent() && clock::now() < limit) std::this_thread::yield();
      if (item->timeline_->quiescent()) {
        push(item);
      } else {
        leave(item);
      }
    }
    core->releases().drain();
  }

  /// Owners of launches that may still run on a lost device. The reclaim thread destroys them once
  /// `ready` returns true.
  class kept final : public detail::deferred {
   public:
    explicit kept(continuation* items) noexcept : items_(items) {}
    ~kept() override {
      while (items_ != nullptr) delete std::exchange(items_, items_->next_);
    }

   private:
    [[nodiscard]] bool ready(detail::reclaim_thread&) noexcept override {
      for (auto* item = items_; item != nullptr; item = item->next_) {
        if (!item->timeline_->quiescent()) return false;
      }
      return true;
    }

    continuation* items_;
  };

  /// Passes answered launches to the reclaim thread, which destroys their owners once their streams
  /// are quiescent.
  void leave(continuation* items) noexcept {
    try {
      core->reclaim_later(std::make_unique<kept>(items));
    } catch (...) {
      detail::report("owners of launches on a lost device are leaked: out of host memory");
    }
  }

  [[nodiscard]] bool answered() const noexcept {
    for (const auto& q : queues) {
      if (q.oldest != nullptr) return false;
    }
    return true;
  }
};

namespace {

/// @throws error `invalid_argument` unless the options are enumerators
void require_options(completion_strategy strategy, wait_policy waiting) {
  if (strategy > completion_strategy::synchronous) {
    throw error(errc::invalid_argument, "completion: is no completion_strategy");
  }
  if (waiting > wait_policy::frugal) {
    throw error(errc::invalid_argument, "waiting: is no wait_policy");
  }
}

}  // namespace

completion_engine::completion_engine(device_runtime& runtime, completion_strategy strategy,
                                     wait_policy waiting)
    : state_((require_options(strategy, waiting),
              std::make_shared<state>(detail::runtime_core::of(runtime), strategy, waiting))) {
  state_->queues.reserve(64);
  state_->core->start_reclaiming();
  if (strategy != completion_strategy::synchronous) {
    state_->thread = std::thread([s = state_] { run(s); });
  }
}

completion_engine::~completion_engine() {
  if (state_->core->device().inherited()) {
    detail::leave_to_parent(new (std::nothrow) std::shared_ptr<state>(state_));
    return;
  }
  state_->stopping.store(true, std::memory_order_release);
  state_->wake->changed.raise();
  if (!state_->thread.joinable()) return;
  // A continuation may have dropped the last owner of this engine on the completion thread, which
  // cannot join itself.
  if (state_->thread.get_id() == std::this_thread::get_id()) {
    state_->thread.detach();
  } else {
    state_->thread.join();
  }
}

completion_strategy completion_engine::strategy() const noexcept {
  return state_->strategy;
}
std::size_t completion_engine::pending() const noexcept {
  return state_->pending.load(std::memory_order_acquire);
}

void continuation::withdraw() noexcept {
  if (std::exchange(announced_, false)) timeline_->outcome_readers().leave(outcome_epoch_);
}

void completion_engine::expect(stream_ref stream, continuation& work) noexcept {
  work.withdraw();
  work.timeline_ = detail::timeline::of(stream);
  work.outcome_epoch_ = work.timeline_->outcome_readers().enter();
  work.announced_ = true;
}

continuation_list::~continuation_list() {
  while (newest_ != nullptr) delete std::exchange(newest_, newest_->next_);
}

void continuation_list::add(std::uint64_t ticket, std::unique_ptr<continuation> work) noexcept {
  auto* const item = work.release();
  item->ticket_ = ticket;
  item->next_ = std::exchange(newest_, item);
  if (oldest_ == nullptr) oldest_ = item;
  ++count_;
}

void completion_engine::submit(stream_ref stream, std::uint64_t ticket,
                               std::unique_ptr<continuation> work) noexcept {
  if (work->timeline_ != detail::timeline::of(stream)) expect(stream, *work);
  continuation_list alone;
  alone.add(ticket, std::move(work));
  submit(stream, alone);
}

void completion_engine::submit(stream_ref stream, continuation_list& works) noexcept {
  if (works.count_ == 0) return;
  auto* const newest = std::exchange(works.newest_, nullptr);
  auto* const oldest = std::exchange(works.oldest_, nullptr);
  const auto shared = state_;  // the reply may destroy the engine
  auto& s = *shared;
  s.pending.fetch_add(std::exchange(works.count_, 0), std::memory_order_relaxed);

  if (s.strategy == completion_strategy::synchronous) {
    for (auto* item = state::oldest_first(newest); item != nullptr;) {
      auto* const next = std::exchange(item->next_, nullptr);
      s.complete_here(item);
      item = next;
    }
    return;
  }

  if (s.strategy == completion_strategy::host_function) {
    try {
      (void)detail::timeline::of(stream)->unless_retired([&](native_stream* native) {
        s.core->device().notify(native, [wake = s.wake] {
          wake->wakes.fetch_add(1, std::memory_order_release);
          wake->changed.raise();
        });
      });
    } catch (...) {
      // Only the early wake-up is lost: the thread also queries the event.
    }
  }
  oldest->next_ = s.inbox.load(std::memory_order_relaxed);
  while (!s.inbox.compare_exchange_weak(oldest->next_, newest, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  s.wake->changed.raise();
}

void completion_engine::run(const std::shared_ptr<state>& shared) noexcept {
  auto& s = *shared;
  s.core->device().prepare_own_thread();
  const detail::deferred_frees_scope frees_deferred(*s.core);
  const bool woken_early = s.strategy == completion_strategy::host_function;
  const auto shortest = std::chrono::microseconds(woken_early ? 500 : 10);
  const auto longest = std::chrono::microseconds(woken_early ? 20'000 : 250);
  const auto spin = woken_early ? std::chrono::microseconds(0) : detail::spin_time(s.waiting);
  auto waits_since = clock::now();
  std::optional<clock::time_point> rest_end;
  std::optional<detail::slow_wait> waiting;
  for (;;) {
    const auto wakes = s.wake->wakes.load(std::memory_order_acquire);
    s.take_inbox();
    if (s.complete_ready()) {
      waits_since = clock::now();
      continue;
    }
    if (s.core->device().lost()) s.release_quiescent();
    if (s.core->releases().drain_some(released_between_replies) != 0) continue;
    const auto changed = [&] {
      return s.inbox.load(std::memory_order_acquire) != nullptr ||
             s.stopping.load(std::memory_order_acquire);
    };
    const bool ending = s.answered() && s.stopping.load(std::memory_order_acquire) &&
                        s.inbox.load(std::memory_order_acquire) == nullptr;
    if (ending && s.unreleased != nullptr) {
      if (!rest_end) rest_end = clock::now() + rest_limit;
      if (clock::now() >= *rest_end) s.leave(std::exchange(s.unreleased, nullptr));
    }
    if (!s.answered() && s.stopping.load(std::memory_order_acquire)) {
      if (!waiting) waiting.emplace();
      waiting->look([&] {
        return "destroying the completion engine of " + to_string(s.core->id()) + ": waiting for " +
               std::to_string(s.pending.load(std::memory_order_relaxed)) + " launches";
      });
    }
    if (s.answered() && s.unreleased == nullptr) {
      if (ending) return;
      s.wake->changed.wait(changed);
      waits_since = clock::now();
    } else if (const auto waited = clock::now() - waits_since; waited < spin) {
      std::this_thread::yield();
    } else {
      // A launch is found to be complete at most this part of its time too late.
      const auto part = s.waiting == wait_policy::frugal ? 8 : 32;
      const auto pause = std::clamp<clock::duration>(waited / part, shortest, longest);
      s.wake->changed.wait_for(pause, [&] {
        return s.inbox.load(std::memory_order_acquire) != nullptr ||
               s.wake->wakes.load(std::memory_order_acquire) != wakes;
      });
    }
  }
}

}  // namespace sluice
