// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_stream.hpp"

#include "runtime/host/annotations.hpp"

#include <chrono>
#include <thread>

namespace sluice::host {
namespace {

class anchor_task final : public host_task {
 public:
  anchor_task() noexcept : host_task(kind::marker) {}
  void run(host_stream&) override {}
};

/// A marker that calls a function of the stream.
class mark_task final : public host_task {
 public:
  using function = void (host_stream::*)() noexcept;
  explicit mark_task(function callback) noexcept : host_task(kind::marker), callback_(callback) {}
  void run(host_stream& stream) override { (stream.*callback_)(); }

 private:
  function callback_;
};

// Constructed in advance, for when the host has no memory for a text.
const error& failure_unknown =
    *new error(errc::library_failure, "the failure is no longer known");      // never destroyed
const error& scripted_loss = *new error(errc::device_lost, "scripted loss");  // never destroyed

thread_local host_stream* current_stream = nullptr;

// Vigna's splitmix64: sufficient for random delays.
std::uint64_t next_random(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15U;
  auto z = state;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace

void note_library_call(bool entered) noexcept {
  if (current_stream != nullptr) current_stream->note_library_call(entered);
}

void mark_time() noexcept {
  if (current_stream != nullptr) current_stream->mark_time();
}

void host_event::reach(std::uint64_t value, std::optional<error> failure) noexcept {
  const bool failed = failure.has_value();
  if (failed) failure_ = std::move(failure);
  reached_value_.store(value * 2 + (failed ? 1 : 0), std::memory_order_release);
  signal_.raise();
}

event_state host_event::state(std::uint64_t value) const noexcept {
  const auto value_reached = reached_value_.load(std::memory_order_relaxed);
  if (value_reached / 2 < value) return event_state::pending;
  return value_reached == value * 2 + 1 ? event_state::failed : event_state::complete;
}

void host_event::wait(std::uint64_t value, const device& owner) noexcept {
  signal_.wait(
      [&] { return reached_value_.load(std::memory_order_acquire) / 2 >= value || owner.lost(); });
}

bool host_event::wait_for(std::uint64_t value, const device& owner,
                          std::chrono::nanoseconds timeout) noexcept {
  const auto ready = [&] {
    return reached_value_.load(std::memory_order_acquire) / 2 >= value || owner.lost();
  };
  signal_.wait_for(timeout, ready);
  return ready();
}

error host_event::failure() const {
  acquire();
  return failure_.value_or(failure_unknown);
}

host_stream::host_stream(device& owner, std::uint64_t number, const host_device_options& options,
                         host_threads& threads)
    : owner_(owner),
      threads_(threads),
      jitter_(options.jitter),
      faults_(options.faults),
      random_state_(jitter_ ? jitter_->seed ^ (number * 0x9e3779b97f4a7c15U) : 0),
      end_(std::make_unique<mark_task>(&host_stream::leave)),
      quiescence_(std::make_unique<mark_task>(&host_stream::be_quiescent)),
      newest_(new anchor_task),
      oldest_(newest_.load(std::memory_order_relaxed)) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    delete oldest_;
    throw;
  }
}

host_stream::~host_stream() {
  thread_.join();
  if (last_stamp_ != nullptr) last_stamp_->let_go();
  while (oldest_ != nullptr) {
    auto* next = oldest_->next_.load(std::memory_order_acquire);
    delete oldest_;
    oldest_ = next;
  }
}

void host_stream::submit(host_task* task) noexcept {
  auto* previous = newest_.exchange(task, std::memory_order_acq_rel);
  previous->next_.store(task, std::memory_order_release);
  signal_.raise();
}

void host_stream::submit_counted(host_task* task, fault_target target) noexcept {
  if (faults_) {
    if (faults_->strikes(fault_target::loss)) {
      owner_.lose(scripted_loss);
    }
    task->fails_ = faults_->strikes(target);
  }
  submit(task);
}

host_stream* host_stream::of_this_thread() noexcept {
  return current_stream;
}

void host_stream::run() noexcept {
  current_stream = this;
  while (!leaving_) {
    host_task* task = oldest_->next_.load(std::memory_order_acquire);
    if (task == nullptr) {
      set_computing(false);
      signal_.wait([&] {
        task = oldest_->next_.load(std::memory_order_acquire);
        return task != nullptr;
      });
    }
    delete oldest_;
    oldest_ = task;
    execute(*task);
  }
  set_computing(false);
  quiescent_.store(true, std::memory_order_release);
  stopped_.store(true, std::memory_order_release);
}

void host_stream::execute(host_task& task) noexcept {
  if (task.kind_ == host_task::kind::marker) {
    task.run(*this);
    return;
  }
  if (owner_.lost()) return;
  if (jitter_) delay();
  set_computing(true);
  try {
    if (task.fails_) throw error(errc::library_failure, "scripted failure");
    task.run(*this);
  } catch (...) {
    if (!failure_) failure_ = current_error();
  }
}

void host_stream::delay() noexcept {
  const auto limit = static_cast<std::uint64_t>(jitter_->longest.count());
  const auto draw = next_random(random_state_);
  // Half of the tasks start at once, so that fast and slow streams mix.
  if (limit == 0 || (draw & 1U) == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds((draw >> 1U) % limit));
}

}  // namespace sluice::host
