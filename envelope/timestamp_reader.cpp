// SPDX-License-Identifier: Apache-2.0
#include "envelope/timestamp_reader.hpp"

#include <sluice/runtime/user_code_scope.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <tuple>
#include <utility>

namespace sluice::detail {
namespace {

using clock = std::chrono::steady_clock;

// How long a comparison of the clocks stays valid: they drift apart by microseconds per second.
constexpr auto anchor_interval = std::chrono::seconds(1);
constexpr auto nap = std::chrono::milliseconds(1);
constexpr int max_idle = 16;  // naps without a launch before the thread sleeps until woken

}  // namespace

timestamp_reader::~timestamp_reader() {
  for (std::size_t i = 0; i < chunk_count_.load(std::memory_order_acquire); ++i) {
    destroy(*chunks_[i]);
  }
}

void timestamp_reader::start() {
  if (started_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(starting_);
  if (started_.load(std::memory_order_relaxed)) return;
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
  started_.store(true, std::memory_order_release);
}

std::unique_ptr<timed_launch> timestamp_reader::make(recycled_memory& memory) {
  device_->require_usable();
  std::unique_ptr<timed_launch> launch(new (memory) timed_launch(memory));
  start();
  launch->reader = shared_from_this();
  if (outstanding_.fetch_add(1, std::memory_order_relaxed) == 0) changed_.raise();
  return launch;
}

timed_launch::~timed_launch() {
  give_back();
  if (reader) reader->outstanding_.fetch_sub(1, std::memory_order_relaxed);
}

void timed_launch::take_pair() noexcept {
  pair = reader->take();
  if (pair != nullptr) use_of_pair = pair->times_taken.load(std::memory_order_relaxed);
}

void timed_launch::give_back() noexcept {
  // Release orders this thread's reads of the timestamps before their next records. `take` acquires
  // nothing, because a launching thread must not synchronize with completed launches.
  // The last of several users also releases the reads of the others.
  if (pair != nullptr && pair->users.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    pair->free->fetch_or(pair->bit, std::memory_order_release);
  }
  pair = nullptr;
}

void timed_launch::share(const timed_launch& other) noexcept {
  give_back();
  if (other.pair == nullptr) return;
  other.pair->users.fetch_add(1, std::memory_order_relaxed);
  pair = other.pair;
  use_of_pair = other.use_of_pair;
}

timestamp_pair* timestamp_reader::take() noexcept {
  for (;;) {
    const auto chunks = chunk_count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < chunks; ++i) {
      auto& free = chunks_[i]->free;
      for (auto bits = free.load(std::memory_order_relaxed); bits != 0;) {
        const auto bit = bits & (~bits + 1);
        // Relaxed, as explained in `timed_launch::give_back`.
        if (free.compare_exchange_weak(bits, bits & ~bit, std::memory_order_relaxed)) {
          auto& pair = chunks_[i]->pairs[static_cast<std::size_t>(std::countr_zero(bit))];
          pair.users.store(1, std::memory_order_relaxed);
          pair.times_taken.fetch_add(1, std::memory_order_relaxed);
          return &pair;
        }
      }
    }
    if (!grow(chunks)) return nullptr;
  }
}

bool timestamp_reader::grow(std::size_t chunk_count) noexcept {
  const std::lock_guard lock(starting_);
  if (chunk_count_.load(std::memory_order_relaxed) != chunk_count) return true;
  if (chunk_count == max_chunks) return false;
  std::unique_ptr<chunk> new_chunk;
  try {
    new_chunk = std::make_unique<chunk>();
    for (std::size_t i = 0; i < pairs_in_chunk; ++i) {
      auto& pair = new_chunk->pairs[i];
      pair.free = &new_chunk->free;
      pair.bit = std::uint64_t{1} << i;
      pair.begin = device_->create_timestamp();
      if (pair.begin == nullptr) return false;  // the device has no timestamps
      pair.end = device_->create_timestamp();
    }
  } catch (...) {
    if (new_chunk) destroy(*new_chunk);
    return false;
  }
  chunks_[chunk_count] = std::move(new_chunk);
  chunk_count_.store(chunk_count + 1, std::memory_order_release);
  return true;
}

void timestamp_reader::destroy(const chunk& c) noexcept {
  for (const auto& pair : c.pairs) {
    if (pair.begin != nullptr) device_->destroy_timestamp(pair.begin);
    if (pair.end != nullptr) device_->destroy_timestamp(pair.end);
  }
}

void timestamp_reader::hand_over(std::unique_ptr<timed_launch> launch) noexcept {
  auto* head = inbox_.load(std::memory_order_relaxed);
  do {
    if (head == closed()) {
      deliver(std::move(launch));
      return;
    }
    launch->next = head;
  } while (!inbox_.compare_exchange_weak(head, launch.get(), std::memory_order_release,
                                         std::memory_order_relaxed));
  (void)launch.release();
}

void timestamp_reader::stop() noexcept {
  {
    const std::lock_guard lock(starting_);
    if (!started_.load(std::memory_order_relaxed)) return;
  }
  stopping_.store(true, std::memory_order_release);
  changed_.raise();
  // A trace may have dropped the last owner of the service on this thread, which cannot join
  // itself.
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void timestamp_reader::run() noexcept {
  device_->prepare_own_thread();
  try {
    clock_ = device_->make_timestamp_clock();
  } catch (...) {
    // Without a clock all timestamps are missing.
  }
  // While launches are outstanding, the thread polls, so that neither launching nor completing
  // threads have to wake it.
  for (int idle = 0;;) {
    const bool stopping = stopping_.load(std::memory_order_acquire);
    if (read_inbox()) {
      idle = 0;
    } else if (stopping && close()) {
      break;
    } else if (++idle > max_idle && outstanding_.load(std::memory_order_relaxed) == 0) {
      changed_.wait([&] {
        return outstanding_.load(std::memory_order_relaxed) != 0 ||
               stopping_.load(std::memory_order_acquire);
      });
      idle = 0;
    }
    if (!stopping) std::this_thread::sleep_for(nap);
  }
  clock_.reset();
}

bool timestamp_reader::read_inbox() noexcept {
  timed_launch* oldest = nullptr;
  for (auto* l = inbox_.exchange(nullptr, std::memory_order_acquire); l != nullptr;) {
    auto* const next = std::exchange(l->next, oldest);
    oldest = std::exchange(l, next);
  }
  const bool any = oldest != nullptr;
  while (oldest != nullptr) {
    std::unique_ptr<timed_launch> launch(std::exchange(oldest, oldest->next));
    read(*launch);
    deliver(std::move(launch));
  }
  return any;
}

bool timestamp_reader::close() noexcept {
  timed_launch* head = nullptr;
  return inbox_.compare_exchange_strong(head, closed(), std::memory_order_relaxed);
}

void timestamp_reader::read(timed_launch& launch) noexcept {
  auto& times = launch.times;
  if (launch.pair != nullptr && clock_ && !device_->lost()) {
    if (const auto now = clock::now();
        anchored_ == clock::time_point{} || now - anchored_ >= anchor_interval) {
      (void)clock_->anchor();
      anchored_ = now;
    }
    if (launch.pair != last_read_.pair || launch.use_of_pair != last_read_.use) {
      last_read_ = {launch.pair, launch.use_of_pair};
      if (launch.ended) last_read_.ended = clock_->time_of(launch.pair->end);
      if (launch.begun) last_read_.begun = clock_->time_of(launch.pair->begin);
    }
    // The comparison of the clocks is accurate to microseconds only, so the order of the times is
    // enforced.
    times.ended = last_read_.ended;
    if (times.ended) times.ended = std::clamp(*times.ended, times.enqueued, times.detected);
    times.begun = last_read_.begun;
    if (times.begun) {
      times.begun = std::clamp(*times.begun, times.enqueued, times.ended.value_or(times.detected));
      if (!launch.info.steps.empty()) {
        std::array<clock::time_point, std::tuple_size_v<decltype(times.step_ends)> + 1> marks{};
        if (const auto count = clock_->copy_marks(launch.pair->begin, marks); count != 0) {
          times.steps_begun = marks[0];
          times.step_count = count - 1;
          std::copy_n(marks.begin() + 1, times.step_count, times.step_ends.begin());
        }
      }
    }
  }
}

void timestamp_reader::deliver(std::unique_ptr<timed_launch> launch) noexcept {
  launch->give_back();
  const user_code_scope users;  // for the hook and the trace's destructor
  call_trace(launch->trace.get(),
             [&](kernel_trace& trace) { trace.after_timestamps(launch->info, launch->times); });
  launch.reset();
}

}  // namespace sluice::detail
