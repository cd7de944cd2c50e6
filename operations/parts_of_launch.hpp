// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/runtime/error.hpp>

namespace sluice::operations {

/// The parts of one launch. After the first one, the launch is on the stream.
class parts_of_launch {
 public:
  /// Calls `work`, which enqueues a part.
  /// @throws nothing_enqueued only if no part has been enqueued
  template <class Work>
  void enqueue(const Work& work) {
    try {
      work();
    } catch (const nothing_enqueued& e) {
      if (!begun_) throw;
      throw error(e);
    }
    begun_ = true;
  }

 private:
  bool begun_ = false;
};

}  // namespace sluice::operations
