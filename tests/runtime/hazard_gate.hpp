#pragma once

#include "runtime/one_way_signal.hpp"

#include <sluice/runtime/stream.hpp>

#include <atomic>
#include <memory>
#include <thread>

namespace sluice::test {

/// A gate that streams stand behind until the test opens it, on every device. Copies are the same
/// gate. Opening orders what comes behind the gate after what the opener did before, and nothing
/// the other way round, so that ThreadSanitizer learns nothing of a stream from it.
class gate {
 public:
  gate() : state_(std::make_shared<state>()) {}

  /// Everything queued on `stream` from now on waits until the gate is open.
  void close(stream_ref stream) const {
    stream.device().notify(stream.native(), [s = state_] {
      s->reached.fetch_add(1, std::memory_order_relaxed);
      s->opened.wait([&] { return s->open.load(std::memory_order_acquire); });
    });
  }
  /// Returns when `streams` streams stand before the gate, having learnt nothing else of them.
  void await(int streams) const noexcept {
    while (state_->reached.load(std::memory_order_relaxed) < streams) std::this_thread::yield();
  }
  void open() const noexcept {
    state_->open.store(true, std::memory_order_release);
    state_->opened.raise();
  }

 private:
  struct state {
    std::atomic<bool> open{false};
    std::atomic<int> reached{0};
    detail::one_way_signal opened;
  };
  std::shared_ptr<state> state_;
};

/// Opens a gate at the end of a scope, also when the test leaves it early: a device cannot be
/// closed while one of its streams stands behind a gate.
class open_at_exit {
 public:
  explicit open_at_exit(gate g) : gate_(std::move(g)) {}
  open_at_exit(const open_at_exit&) = delete;
  open_at_exit& operator=(const open_at_exit&) = delete;
  ~open_at_exit() { gate_.open(); }

 private:
  gate gate_;
};

}  // namespace sluice::test
