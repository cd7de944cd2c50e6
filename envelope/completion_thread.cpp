// SPDX-License-Identifier: Apache-2.0
#include "envelope/completion_thread.hpp"

#include <sluice/runtime/user_code_scope.hpp>

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

namespace sluice::detail {
namespace {

using clock = std::chrono::steady_clock;

// How long the engine's destructor and a synchronous launch wait for quiescent streams of a lost
// device.
constexpr auto rest_limit = std::chrono::seconds(1);
// The items that the thread releases at a time. Between two replies it releases more if more are
// too many.
constexpr std::size_t released_between_replies = 32;
// Between two replies the thread releases items only if the backlog exceeds the pending launches by
// more than this.
constexpr std::size_t backlog_allowance = 512;
// The replies of one stream before those of the next one: a large batch keeps no other lane
// waiting.
constexpr std::size_t replies_in_turn = 16;
// How often a thread without launches looks, while the engine ends, whether those of other threads
// have submitted more.
constexpr auto end_interval = std::chrono::milliseconds(1);
// How often a thread that a host function has woken looks for completed launches before it sleeps
// again. Another thread may just be advancing a stream on which a launch depends.
constexpr int looks_after_wake = 16;

/// How long launches take, as far as the one before tells. A thread that sleeps until a launch ends
/// is woken some ten microseconds later; one that spins around the time at which it is likely to
/// end is not.
class end_forecast {
 public:
  /// A launch has ended after this time of waiting.
  void note(clock::duration time) noexcept {
    // A short one ends before a thread sleeps.
    if (time < shortest) return;
    margin_ = std::min<clock::duration>(time / 8, longest_margin);
    is_steady_ = time > time_ - margin_ && time < time_ + margin_;
    time_ = time;
  }
  /// Whether a launch that has taken `elapsed` is likely to end soon. Never after launches that
  /// took different times.
  [[nodiscard]] bool is_near(clock::duration elapsed) const noexcept {
    return is_steady_ && elapsed > time_ - margin_ && elapsed < time_ + margin_;
  }
  /// How long a thread may pause after `elapsed`, at most `pause`.
  [[nodiscard]] clock::duration limit(clock::duration pause,
                                      clock::duration elapsed) const noexcept {
    const bool is_early = is_steady_ && elapsed < time_ - margin_;
    return is_early ? std::min(pause, time_ - margin_ - elapsed) : pause;
  }

 private:
  static constexpr auto shortest = std::chrono::microseconds(50);
  static constexpr auto longest_margin = std::chrono::microseconds(50);
  clock::duration time_{0};
  clock::duration margin_{0};
  bool is_steady_ = false;
};

/// Lets timeouts of this thread end on time. The kernel may delay them by 50 µs otherwise.
void use_precise_timeouts() noexcept {
  constexpr unsigned long slack_ns = 1000;
  (void)prctl(PR_SET_TIMERSLACK, slack_ns, 0UL, 0UL, 0UL);
}

}  // namespace

std::size_t completion_work::pending() const noexcept {
  // What has been completed is counted first. If as many have been submitted after that, none was
  // pending in between.
  std::size_t completed = 0;
  for (const auto& t : threads) completed += t->completed();
  std::size_t submitted = 0;
  for (const auto& t : threads) submitted += t->submitted();
  return submitted - completed;
}

class completion_thread::lost_launches final : public deferred {
 public:
  explicit lost_launches(continuation* items) noexcept : items_(items) {}
  ~lost_launches() override {
    while (items_ != nullptr) delete std::exchange(items_, items_->next_);
  }

 private:
  [[nodiscard]] bool ready(reclaim_thread&) noexcept override {
    for (auto* item = items_; item != nullptr; item = item->next_) {
      if (!item->timeline_->quiescent()) return false;
    }
    return true;
  }

  continuation* items_;
};

completion_thread::completion_thread(completion_work& work) : work_(work) {}

void completion_thread::start(const std::shared_ptr<completion_work>& work) {
  thread_ = std::thread([this, work] { run(); });
}

void completion_thread::submit(stream_ref stream, continuation* newest, continuation* oldest,
                               std::size_t count) noexcept {
  submitted_.fetch_add(count, std::memory_order_relaxed);
  if (work_.strategy == completion_strategy::host_function) {
    try {
      (void)timeline::of(stream)->unless_retired([&](native_stream* native) {
        work_.core->device().notify(native, [alarm = alarm_] {
          alarm->wakes.fetch_add(1, std::memory_order_release);
          alarm->changed.raise();
        });
      });
    } catch (...) {
      // Only the early wake-up is lost: the thread also queries the event.
    }
  }
  oldest->next_ = inbox_.load(std::memory_order_relaxed);
  while (!inbox_.compare_exchange_weak(oldest->next_, newest, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  alarm_->changed.raise();
}

void completion_thread::complete_here(continuation* newest, std::size_t count) noexcept {
  submitted_.fetch_add(count, std::memory_order_relaxed);
  for (auto* item = oldest_first(newest); item != nullptr;) {
    auto* const next = std::exchange(item->next_, nullptr);
    complete_one_here(item);
    item = next;
  }
}

continuation* completion_thread::oldest_first(continuation* newest) noexcept {
  continuation* oldest = nullptr;
  while (newest != nullptr) {
    auto* const next = std::exchange(newest->next_, oldest);
    oldest = std::exchange(newest, next);
  }
  return oldest;
}

void completion_thread::take_inbox() noexcept {
  auto* oldest = oldest_first(inbox_.exchange(nullptr, std::memory_order_acquire));
  while (oldest != nullptr) {
    auto* next = std::exchange(oldest->next_, nullptr);
    insert(oldest);
    oldest = next;
  }
}

void completion_thread::insert(continuation* item) noexcept {
  auto** link = &queues_;
  while (*link != nullptr && (*link)->timeline_ != item->timeline_) link = &(*link)->next_queue_;
  auto* const first = *link;
  if (first == nullptr) {
    *link = item->newest_ = item;
  } else if (item->ticket_ < first->ticket_) {
    item->next_ = first;
    put_first(link, item);
    first->newest_ = item;
  } else {
    // Threads may submit in an order different from that of their tickets, but nearly in that one.
    auto* predecessor = first->newest_;
    while (predecessor->ticket_ > item->ticket_) predecessor = predecessor->newest_;
    auto* const successor = std::exchange(predecessor->next_, item);
    item->next_ = successor;
    item->newest_ = predecessor;
    (successor != nullptr ? successor->newest_ : first->newest_) = item;
  }
}

void completion_thread::put_first(continuation** link, continuation* item) noexcept {
  const auto* const head = *link;
  item->newest_ = head->newest_;
  item->next_queue_ = head->next_queue_;
  item->watermark_ = head->watermark_;
  *link = item;
}

continuation* completion_thread::take_first(continuation** link) noexcept {
  auto* const first = *link;
  if (first->next_ != nullptr) {
    put_first(link, first->next_);
  } else {
    *link = first->next_queue_;
  }
  return first;
}

bool completion_thread::complete_ready() noexcept {
  bool any = false;
  const bool lost = work_.core->device().lost();
  for (auto** link = &queues_; *link != nullptr;) {
    auto* item = *link;
    if (item->ticket_ > item->watermark_) {
      const auto completed = item->timeline_->advance();
      if (item->ticket_ <= completed) item->timeline_->acquire(item->watermark_ = completed);
    }
    std::size_t replies = 0;
    bool has_next = true;
    while (has_next && replies < replies_in_turn && (item->ticket_ <= item->watermark_ || lost)) {
      has_next = item->next_ != nullptr;
      auto* const first = take_first(link);
      complete(first, first->ticket_ <= first->watermark_);
      bound_backlog();
      ++replies;
      item = *link;
    }
    any = any || replies != 0;
    if (has_next) link = &item->next_queue_;
  }
  return any;
}

void completion_thread::bound_backlog() noexcept {
  const auto backlog = work_.core->releases().size();
  if (backlog <= backlog_allowance) return;
  const auto allowed = work_.pending() + backlog_allowance;
  if (backlog <= allowed) return;
  work_.core->releases().drain_some(std::max(released_between_replies, backlog - allowed));
}

template <class Release>
void completion_thread::complete(continuation* item, bool finished, Release release) noexcept {
  const user_code_scope users;  // for hooks and the reply
  const auto failure = finished ? item->timeline_->failure_of(item->ticket_)
                                : std::optional(work_.core->device().loss());
  const auto* const cause = failure ? &*failure : nullptr;
  item->withdraw();
  auto reply = item->complete(cause);
  release(item);
  if (reply) reply->give(cause);
  reply.reset();  // may hold the last reference to the answer
  completed_.fetch_add(1, std::memory_order_release);
}

void completion_thread::complete(continuation* item, bool finished) noexcept {
  complete(item, finished, [&](continuation* work) {
    if (finished) {
      work_.core->releases().push(work);
    } else {
      work->next_ = std::exchange(unreleased_, work);
    }
  });
}

void completion_thread::complete_one_here(continuation* item) noexcept {
  const auto push = [&](continuation* work) {
    work_.core->releases().push(work);
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
  work_.core->releases().drain();
}

void completion_thread::release_quiescent() noexcept {
  for (auto** link = &unreleased_; *link != nullptr;) {
    auto* item = *link;
    if (item->timeline_->quiescent()) {
      *link = item->next_;
      work_.core->releases().push(item);
    } else {
      link = &item->next_;
    }
  }
}

void completion_thread::leave(continuation* items) noexcept {
  try {
    work_.core->reclaim_later(std::make_unique<lost_launches>(items));
  } catch (...) {
    report("owners of launches on a lost device are leaked: out of host memory");
  }
}

void completion_thread::run() noexcept {
  auto& core = *work_.core;
  core.device().prepare_own_thread();
  const deferred_frees_scope frees_deferred(core);
  const bool woken_early = work_.strategy == completion_strategy::host_function;
  const auto shortest = std::chrono::microseconds(woken_early ? 500 : 10);
  const auto longest_pause = std::chrono::microseconds(woken_early ? 20'000 : 250);
  const auto spin = woken_early ? std::chrono::microseconds(0) : spin_time(work_.policy);
  const auto stopping = [&] {
    return work_.stopping.load(std::memory_order_acquire);
  };
  const auto has_inbox = [&] {
    return inbox_.load(std::memory_order_acquire) != nullptr;
  };
  const bool predicts = !woken_early && spin.count() != 0;
  if (predicts) use_precise_timeouts();
  end_forecast forecast;
  auto waits_since = clock::now();
  std::uint64_t wakes = 0;
  int looks = 0;
  spin_turns turns;
  std::optional<clock::time_point> rest_end;
  std::optional<slow_wait> wait;
  for (;;) {
    const auto wake_count = alarm_->wakes.load(std::memory_order_acquire);
    if (std::exchange(wakes, wake_count) != wake_count) looks = looks_after_wake;
    take_inbox();
    if (complete_ready()) {
      const auto now = clock::now();
      forecast.note(now - waits_since);
      waits_since = now;
      continue;
    }
    if (core.device().lost()) release_quiescent();
    if (core.releases().drain_some(released_between_replies) != 0) continue;
    // A launch of another thread may submit further ones when it completes.
    const bool ending = stopping() && work_.pending() == 0;
    if (ending && unreleased_ != nullptr) {
      if (!rest_end) rest_end = clock::now() + rest_limit;
      if (clock::now() >= *rest_end) leave(std::exchange(unreleased_, nullptr));
    }
    if (!answered() && stopping()) {
      if (!wait) wait.emplace();
      wait->look([&] {
        return "destroying the completion engine of " + to_string(core.id()) + ": waiting for " +
               std::to_string(submitted() - completed()) + " launches";
      });
    }
    if (answered() && unreleased_ == nullptr) {
      if (ending) return;
      if (stopping()) {
        alarm_->changed.wait_for(end_interval, has_inbox);
      } else {
        const auto has_work = [&] {
          return has_inbox() || stopping();
        };
        // A client that has its reply may send the next request soon.
        if (woken_early || !spinners::of_process().spin(work_.policy, has_work)) {
          alarm_->changed.wait(has_work);
        }
      }
      waits_since = clock::now();
    } else if (const auto elapsed = clock::now() - waits_since;
               elapsed < spin || looks > 0 || (predicts && forecast.is_near(elapsed))) {
      --looks;
      turns.next();
    } else {
      // A launch is found to be complete at most this part of its time too late.
      const auto part = work_.policy == wait_policy::frugal ? 8 : 32;
      auto pause = std::clamp<clock::duration>(elapsed / part, shortest, longest_pause);
      if (predicts) pause = forecast.limit(pause, elapsed);
      alarm_->changed.wait_for(pause, [&] {
        return has_inbox() || alarm_->wakes.load(std::memory_order_acquire) != wakes;
      });
    }
  }
}

}  // namespace sluice::detail
