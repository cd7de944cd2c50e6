// SPDX-License-Identifier: Apache-2.0
#include "envelope/trace_buffer.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <unistd.h>
#include <utility>

namespace sluice::detail {
namespace {

using clock = std::chrono::steady_clock;

// The most records that a launch tries to overwrite while they are in flight.
constexpr int max_attempts = 16;
// The most buckets of the index. It holds only launches whose hooks have not all run.
constexpr std::size_t max_buckets = 4096;
// The index has 32 bits for the number of a record.
constexpr std::size_t max_records = 0xffff'fffe;

clock::rep ticks_of(clock::time_point t) noexcept {
  return t.time_since_epoch().count();
}
clock::time_point time_of(clock::rep ticks) noexcept {
  return clock::time_point(clock::duration(ticks));
}
std::optional<clock::time_point> known_time(clock::rep ticks) noexcept {
  return ticks == 0 ? std::nullopt : std::optional(time_of(ticks));
}

}  // namespace

trace_buffer::trace_buffer(std::size_t capacity, bool overwrites)
    : overwrites_(overwrites),
      records_(capacity <= max_records ? capacity : throw std::bad_alloc()),
      index_(std::bit_ceil(std::clamp<std::size_t>(capacity / 2, 1, max_buckets))) {}

void trace_buffer::record::write(const traced_launch::description& launch) noexcept {
  using description = traced_launch::description;
  std::array<std::uint64_t, words> buffer{};
  std::memcpy(buffer.data(), &launch, sizeof launch);
  constexpr auto word = sizeof(std::uint64_t);
  const auto store = [&](std::size_t offset, std::size_t bytes) {
    for (auto i = offset / word; i < (offset + bytes + word - 1) / word; ++i) {
      info_words[i].store(buffer[i], std::memory_order_release);
    }
  };
  store(0, offsetof(description, library));
  const auto store_text = [&](std::size_t offset, const char* text) {
    store(offset, std::strlen(text) + 1);
  };
  store_text(offsetof(description, library), launch.library.text);
  store_text(offsetof(description, operation), launch.operation.text);
  store_text(offsetof(description, label), launch.label.text);
  store_text(offsetof(description, tag), launch.tag.text);
  store_text(offsetof(description, steps), launch.steps.text);
}

trace_buffer::bucket& trace_buffer::bucket_of(std::uint64_t launch_id) noexcept {
  // Fibonacci hashing with the highest bits of the product spreads consecutive ids evenly.
  const auto mixed = launch_id * 0x9e3779b97f4a7c15U;
  return index_[std::rotl(mixed, std::countr_zero(index_.size())) & (index_.size() - 1)];
}

trace_buffer::record* trace_buffer::claim() noexcept {
  if (!overwrites_) {
    // Loading first keeps the line of a full buffer unmodified, so all threads can share it.
    if (next_.load(std::memory_order_relaxed) >= records_.size()) return nullptr;
    const auto number = next_.fetch_add(1, std::memory_order_relaxed);
    if (number >= records_.size()) return nullptr;
    records_[number].state.store(state_of(number, in_flight), std::memory_order_relaxed);
    return &records_[number];
  }
  if (records_.empty()) return nullptr;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    const auto number = next_.fetch_add(1, std::memory_order_relaxed);
    auto& r = records_[number % records_.size()];
    if (overwrite(r, number)) return &r;
  }
  return nullptr;
}

bool trace_buffer::overwrite(record& r, std::uint64_t number) noexcept {
  auto state = r.state.load(std::memory_order_relaxed);
  const auto old_phase = phase_of(state);
  if (old_phase == in_flight || old_phase == timing) return false;
  const auto old = r.launch_id();  // valid only if the exchange below succeeds
  if (!r.state.compare_exchange_strong(state, state_of(number, in_flight),
                                       std::memory_order_relaxed)) {
    return false;
  }
  if (old_phase != unused) count_left_out();
  if (old_phase == complete_untimed) {
    if (const auto previous = find(old)) leave(*previous.place);
    settled_.fetch_add(1, std::memory_order_relaxed);
  }
  return true;
}

bool trace_buffer::enter(std::uint64_t launch_id, const record& r) noexcept {
  const auto number = static_cast<std::uint64_t>(&r - records_.data()) + 1;
  for (auto& place : bucket_of(launch_id).places) {
    std::uint64_t expected = 0;
    if (place.load(std::memory_order_relaxed) == 0 &&
        place.compare_exchange_strong(expected, launch_id << 32U | number,
                                      std::memory_order_relaxed)) {
      if (!overwrites_) placed_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

trace_buffer::found trace_buffer::find(std::uint64_t launch_id) noexcept {
  if (!overwrites_ && placed_.load(std::memory_order_relaxed) == 0) return {};
  for (auto& place : bucket_of(launch_id).places) {
    const auto entry = place.load(std::memory_order_relaxed);
    if (entry >> 32U != (launch_id & 0xffff'ffffU)) continue;
    const auto number = entry & 0xffff'ffffU;
    if (number == 0) continue;
    auto& r = records_[number - 1];
    if (r.launch_id() == launch_id) return {&place, &r};
  }
  return {};
}

void trace_buffer::leave(std::atomic<std::uint64_t>& place) noexcept {
  // Release orders earlier accesses before those of the launch that takes the place next.
  place.store(0, std::memory_order_release);
  if (!overwrites_) placed_.fetch_sub(1, std::memory_order_relaxed);
}

void trace_buffer::count_left_out() noexcept {
  static std::atomic<std::size_t> threads{0};
  thread_local const auto thread_number = threads.fetch_add(1, std::memory_order_relaxed);
  omissions_[thread_number % omissions_.size()].value.fetch_add(1, std::memory_order_relaxed);
}

void trace_buffer::begin(const kernel_info& info) noexcept {
  auto* const r = claim();
  if (r == nullptr) {
    count_left_out();
    return;
  }
  if (!enter(info.launch_id, *r)) {
    // The bucket is full. The record stays unused until it is overwritten.
    const auto number = number_of(r->state.load(std::memory_order_relaxed));
    r->state.store(state_of(number, unused), std::memory_order_release);
    count_left_out();
    return;
  }
  traced_launch::description description;
  description.launch_id = info.launch_id;
  description.library = info.library;
  description.operation = info.operation;
  description.label = info.label;
  description.tag = info.tag;
  description.steps = info.steps;
  description.type = info.type;
  description.device = info.device;
  description.stream = info.stream;
  description.sizes = info.sizes;
  description.batch = info.batch;
  thread_local const auto thread = static_cast<std::uint64_t>(::gettid());
  description.thread = thread;
  description.enqueue_begin = clock::now();
  r->write(description);
  r->enqueue_end.store(ticks_of(description.enqueue_begin), std::memory_order_release);
  r->begun.store(0, std::memory_order_release);
  r->ended.store(0, std::memory_order_release);
  r->failure.store(0, std::memory_order_release);
  r->step_count.store(0, std::memory_order_release);
}

void trace_buffer::enqueued(std::uint64_t launch_id) noexcept {
  if (const auto launch = find(launch_id)) {
    launch.entry->enqueue_end.store(ticks_of(clock::now()), std::memory_order_release);
  }
}

void trace_buffer::completed(std::uint64_t launch_id, const error* failure, bool more) noexcept {
  const auto launch = find(launch_id);
  if (!launch) return;
  auto& r = *launch.entry;
  r.detected.store(ticks_of(clock::now()), std::memory_order_release);
  if (failure != nullptr) {
    r.failure.store(static_cast<int>(failure->code()), std::memory_order_release);
  }
  const auto number = number_of(r.state.load(std::memory_order_relaxed));
  if (more) {
    untimed_.fetch_add(1, std::memory_order_release);
  } else {
    leave(*launch.place);
  }
  r.state.store(state_of(number, more ? complete_untimed : complete), std::memory_order_release);
}

void trace_buffer::timed(std::uint64_t launch_id, const kernel_times& times) noexcept {
  const auto launch = find(launch_id);
  if (!launch) return;
  auto& r = *launch.entry;
  auto state = r.state.load(std::memory_order_acquire);
  const auto number = number_of(state);
  // Another launch may own the record by now; the exchange succeeds only if it is in the same
  // state.
  if (phase_of(state) != complete_untimed || r.launch_id() != launch_id ||
      !r.state.compare_exchange_strong(state, state_of(number, timing),
                                       std::memory_order_relaxed)) {
    return;
  }
  r.detected.store(ticks_of(times.detected), std::memory_order_release);
  if (times.begun) r.begun.store(ticks_of(*times.begun), std::memory_order_release);
  if (times.ended) r.ended.store(ticks_of(*times.ended), std::memory_order_release);
  r.steps_begun.store(ticks_of(times.steps_begun), std::memory_order_release);
  for (std::size_t i = 0; i < times.step_count; ++i) {
    r.step_ends[i].store(ticks_of(times.step_ends[i]), std::memory_order_release);
  }
  r.step_count.store(times.step_count, std::memory_order_release);
  leave(*launch.place);
  r.state.store(state_of(number, complete), std::memory_order_release);
  settled_.fetch_add(1, std::memory_order_release);
}

std::vector<traced_launch> trace_buffer::launches() const {
  std::vector<traced_launch> copies;
  for (const auto& r : records_) {
    const auto state = r.state.load(std::memory_order_acquire);
    if (phase_of(state) == unused || phase_of(state) == in_flight) continue;
    traced_launch copy;
    std::array<std::uint64_t, words> buffer{};
    for (std::size_t i = 0; i < words; ++i)
      buffer[i] = r.info_words[i].load(std::memory_order_acquire);
    std::memcpy(static_cast<void*>(&copy.info), buffer.data(), sizeof copy.info);
    copy.enqueue_end = time_of(r.enqueue_end.load(std::memory_order_acquire));
    copy.detected = time_of(r.detected.load(std::memory_order_acquire));
    if (const auto failure = r.failure.load(std::memory_order_acquire); failure != 0) {
      copy.failure = static_cast<errc>(failure);
    }
    if (phase_of(state) == complete) {
      copy.begun = known_time(r.begun.load(std::memory_order_acquire));
      copy.ended = known_time(r.ended.load(std::memory_order_acquire));
      copy.steps_begun = time_of(r.steps_begun.load(std::memory_order_acquire));
      const auto steps = r.step_count.load(std::memory_order_acquire);
      for (std::size_t step = 0; step < steps; ++step) {
        copy.step_ends.push_back(time_of(r.step_ends[step].load(std::memory_order_acquire)));
      }
    }
    // A different number means that the record was overwritten during the copy.
    if (number_of(r.state.load(std::memory_order_relaxed)) == number_of(state)) {
      copies.push_back(std::move(copy));
    }
  }
  return copies;
}

std::uint64_t trace_buffer::left_out() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& c : omissions_) sum += c.value.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace sluice::detail
