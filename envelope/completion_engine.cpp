// SPDX-License-Identifier: Apache-2.0
#include "envelope/completion_thread.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/completion_engine.hpp>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <utility>

namespace sluice {

struct completion_engine::state : detail::completion_work {
  using detail::completion_work::completion_work;

  std::atomic<std::uint64_t> turns{0};  // of the streams

  /// The thread that completes the launches of a stream.
  [[nodiscard]] detail::completion_thread& thread_of(stream_ref stream) noexcept {
    if (threads.size() == 1) return *threads.front();
    return *threads[detail::timeline::of(stream)->turn(turns) % threads.size()];
  }
};

namespace {

/// @throws error `invalid_argument` unless the options are enumerators, and the number of threads
/// is possible
void require_options(completion_strategy strategy, wait_policy policy, std::size_t threads) {
  if (strategy > completion_strategy::synchronous) {
    throw error(errc::invalid_argument, "completion: is no completion_strategy");
  }
  if (policy > wait_policy::frugal) {
    throw error(errc::invalid_argument, "waiting: is no wait_policy");
  }
  if (threads == 0 || threads > completion_engine::most_threads) {
    throw error(errc::invalid_argument, "threads: is " + std::to_string(threads) +
                                            ", but must be between 1 and " +
                                            std::to_string(completion_engine::most_threads));
  }
}

}  // namespace

completion_engine::completion_engine(device_runtime& runtime, completion_strategy strategy,
                                     wait_policy policy, std::size_t threads)
    : state_((require_options(strategy, policy, threads),
              std::make_shared<state>(detail::runtime_core::of(runtime), strategy, policy))) {
  const bool synchronous = strategy == completion_strategy::synchronous;
  state_->threads.resize(synchronous ? 1 : threads);
  for (auto& t : state_->threads) t = std::make_unique<detail::completion_thread>(*state_);
  state_->core->start_reclaiming();
  if (synchronous) return;
  try {
    for (auto& t : state_->threads) t->start(state_);
  } catch (...) {
    end();
    throw;
  }
}

completion_engine::~completion_engine() {
  if (state_->core->device().inherited()) {
    detail::leave_to_parent(new (std::nothrow) std::shared_ptr<state>(state_));
    return;
  }
  end();
}

void completion_engine::end() noexcept {
  state_->stopping.store(true, std::memory_order_release);
  for (auto& t : state_->threads) t->wake();
  // A continuation may have dropped the last owner of this engine on one of its threads, which can
  // neither join itself nor wait for the others: they wait for the end of that continuation.
  const bool on_own_thread =
      std::ranges::any_of(state_->threads, [](const auto& t) { return t->is_current(); });
  for (auto& t : state_->threads) {
    if (on_own_thread) {
      t->detach();
    } else {
      t->join();
    }
  }
}

completion_strategy completion_engine::strategy() const noexcept {
  return state_->strategy;
}
std::size_t completion_engine::threads() const noexcept {
  return strategy() == completion_strategy::synchronous ? 0 : state_->threads.size();
}
std::size_t completion_engine::pending() const noexcept {
  return state_->pending();
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
  const auto count = std::exchange(works.count_, 0);
  const auto shared = state_;  // the reply may destroy the engine
  auto& thread = shared->thread_of(stream);
  if (shared->strategy == completion_strategy::synchronous) {
    thread.complete_here(newest, count);
  } else {
    thread.submit(stream, newest, oldest, count);
  }
}

}  // namespace sluice
