// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/stream.hpp>

#include <cstdint>
#include <memory>
#include <thread>

namespace sluice::test {

/// Blocks streams of any device until the test opens it. Thread-safe.
///
/// The destructor opens the gate, so that a failed test ends. Declare the gate after the runtime
/// whose streams it blocks.
///
/// Work after the gate is ordered after everything that the opening thread did before. The opening
/// thread is not ordered after any work, so ThreadSanitizer learns no order from a gate.
///
/// On a GPU the stream waits for a word of host memory. The wait occupies neither a multiprocessor
/// nor the driver's thread for host functions. Loading a kernel may synchronize the GPU, so every
/// kernel that is launched behind a closed gate must have been launched before.
class gate {
 public:
  gate();
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  ~gate() { open(); }

  /// Work enqueued on `stream` from now on waits until the gate is open.
  void hold(stream_ref stream);
  void open() noexcept;
  /// Returns when `streams` streams have reached the gate. Synchronizes with nothing else.
  void wait_until_reached(int streams = 1) const noexcept;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

/// Waits for the work queued on `stream` by querying the device, even if the timeline knows that it
/// has completed.
///
/// Under compute-sanitizer, synchronizing a stream also waits for other streams.
void rest(stream_ref stream);

/// Waits until `condition()` returns true. The test's time limit ends an endless wait.
template <class Condition>
void await(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

/// Yields `yields` times, to widen a window in which other threads can act. Stops after some
/// milliseconds: on a loaded machine each yield lasts as long as the time slices of other threads.
void let_others_run(std::uint64_t yields);

}  // namespace sluice::test
