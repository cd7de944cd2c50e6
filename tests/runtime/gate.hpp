#pragma once

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/stream.hpp>

#include <atomic>
#include <memory>
#include <thread>

namespace sluice::test {

/// Holds back streams until the test opens it. Opens itself when it goes, so that a failed test
/// ends: declare it after the runtime whose streams it holds. Thread-safe.
class gate {
 public:
  gate() = default;
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  ~gate() { open(); }

  /// Work queued on `stream` from now on starts only once the gate is open. Works on any device.
  void hold(stream_ref stream) {
    stream.device().notify(stream.native(), [state = state_] {
      state->reached.fetch_add(1);
      state->reached.notify_all();
      state->open.wait(false);
    });
  }
  void open() noexcept {
    state_->open.store(true);
    state_->open.notify_all();
  }
  /// Blocks until `streams` streams stand at the gate.
  void wait_until_reached(int streams = 1) const noexcept {
    for (int seen = 0; (seen = state_->reached.load()) < streams;) state_->reached.wait(seen);
  }

 private:
  struct shared {
    std::atomic<bool> open{false};
    std::atomic<int> reached{0};
  };
  std::shared_ptr<shared> state_ = std::make_shared<shared>();
};

/// Returns once `condition()` is true. A condition that never becomes true ends by the test's time
/// limit.
template <class Condition>
void await(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

}  // namespace sluice::test
