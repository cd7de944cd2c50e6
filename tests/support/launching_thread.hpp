// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/followed_launch.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

namespace sluice::test {

/// A thread that preflights the registrations of `note`, waits for `commit`, then commits.
///
/// Its launch is observed if `followed_launch::allow` was called for the runtime.
class launching_thread {
 public:
  template <class Note>
  launching_thread(device_runtime& runtime, Note note)
      : owned_(runtime.create_stream()), stream_(owned_), thread_([this, note] { launch(note); }) {}
  template <class Note>
  launching_thread(stream_ref stream, Note note)
      : stream_(stream), thread_([this, note] { launch(note); }) {}
  launching_thread(const launching_thread&) = delete;
  launching_thread& operator=(const launching_thread&) = delete;
  ~launching_thread() {
    may_commit_.store(true);
    if (thread_.joinable()) thread_.join();
  }

  /// Waits until a lease of another launch blocks this one.
  void await_blocked() const {
    await([this] { return steps_.blocked(); });
  }
  void await_through() const {
    await([this] { return through_.load() || failed_.load(); });
  }
  [[nodiscard]] bool blocked() const { return steps_.blocked(); }
  [[nodiscard]] bool through() const { return through_.load(); }
  void commit() { may_commit_.store(true); }
  timeline_point join() {
    thread_.join();
    return point_;
  }
  [[nodiscard]] const std::optional<error>& failure() const { return failure_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }

 private:
  template <class Note>
  void launch(Note note) {
    const followed_launch::here here(steps_);
    try {
      auto recorder = launch_recorder::strict(stream_);
      note(recorder);
      recorder.preflight();
      through_.store(true);
      await([this] { return may_commit_.load(); });
      point_ = recorder.commit();
    } catch (const error& e) {
      failure_ = e;
      failed_.store(true);
    }
  }

  sluice::stream owned_;
  stream_ref stream_;
  followed_launch steps_;
  std::atomic<bool> through_{false};
  std::atomic<bool> may_commit_{false};
  std::atomic<bool> failed_{false};
  timeline_point point_;
  std::optional<error> failure_;
  std::thread thread_;
};

}  // namespace sluice::test
