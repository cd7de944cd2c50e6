// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gate.hpp"

#include "runtime/sync/one_way_signal.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/stream_words.hpp"

#include <sluice/runtime/device.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <vector>

namespace sluice::test {
namespace {

/// Whether the stream is a thread: a stream of a host device, or of a device that forwards to one.
bool runs_here(stream_ref stream) {
  const auto& device = stream.device();
  return device.id().kind == device_kind::host ||
         dynamic_cast<const forwarding_device*>(&device) != nullptr;
}

}  // namespace

struct gate::state {
  // For streams of the host device.
  std::atomic<bool> open{false};
  std::atomic<int> reached{0};
  sluice::detail::one_way_signal opened;
  // For GPU streams: one word that they wait for, and one that each writes when it reaches the
  // gate.
  mutable std::mutex mutex;
  std::vector<stream_word*> reached_words;
  stream_word* open_word = nullptr;
};

gate::gate() : state_(std::make_shared<state>()) {}

void gate::hold(stream_ref stream) {
  if (runs_here(stream)) {
    stream.device().notify(stream.native(), [s = state_] {
      s->reached.fetch_add(1, std::memory_order_relaxed);
      s->opened.wait([&] { return s->open.load(std::memory_order_acquire); });
    });
    return;
  }
  const std::lock_guard lock(state_->mutex);
  if (state_->open_word == nullptr) {
    state_->open_word = make_stream_word();
    if (state_->open.load()) state_->open_word->store(1);
  }
  state_->reached_words.push_back(make_stream_word());
  set_word_on(stream, *state_->reached_words.back());
  await_word_on(stream, *state_->open_word);
}

void gate::open() noexcept {
  state_->open.store(true, std::memory_order_release);
  state_->opened.raise();
  const std::lock_guard lock(state_->mutex);
  if (state_->open_word != nullptr) state_->open_word->store(1, std::memory_order_release);
}

void gate::wait_until_reached(int streams) const noexcept {
  await([&] {
    const auto on_host = state_->reached.load(std::memory_order_relaxed);
    const std::lock_guard lock(state_->mutex);
    return on_host + std::ranges::count_if(state_->reached_words,
                                           [](const stream_word* word) {
                                             return word->load(std::memory_order_relaxed) != 0;
                                           }) >=
           streams;
  });
}

void rest(stream_ref stream) {
  auto& device = stream.device();
  auto* const event = device.create_event();
  device.record(event, 1, stream.native());
  await([&] { return device.query(event, 1) != event_state::pending; });
  device.acquire(event, 1);
  device.destroy_event(event);
}

void let_others_run(std::uint64_t yields) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  for (; yields != 0 && std::chrono::steady_clock::now() < end; --yields) {
    std::this_thread::yield();
  }
}

}  // namespace sluice::test
