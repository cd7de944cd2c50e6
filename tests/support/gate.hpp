// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/stream.hpp>

#include <memory>
#include <thread>

namespace sluice::test {

/// Holds back streams until the test opens it, on every device. Opens itself when it goes, so that
/// a failed test ends: declare it after the runtime whose streams it holds.
///
/// Opening orders what comes behind the gate after what the opener did before, and nothing the
/// other way round, so that ThreadSanitizer learns nothing of a stream from it. On a GPU the stream
/// waits for a word of host memory: neither a kernel nor a host function stands in anybody's way.
/// A GPU may have to come to rest before it can load a kernel, though: launch beforehand once what
/// is going to be launched while a gate is closed. Thread-safe.
class gate {
 public:
  gate();
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  ~gate() { open(); }

  /// Everything queued on `stream` from now on waits until the gate is open.
  void hold(stream_ref stream);
  void open() noexcept;
  /// Returns when `streams` streams stand at the gate, having learnt nothing else of them.
  void wait_until_reached(int streams = 1) const noexcept;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

/// Waits for what is queued on `on` by asking the device, whatever its timeline knows:
/// compute-sanitizer makes a stream's `synchronize` wait for the other streams, too.
void rest(stream_ref on);

/// Returns once `condition()` is true. A condition that never becomes true ends by the test's time
/// limit.
template <class Condition>
void await(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

}  // namespace sluice::test
