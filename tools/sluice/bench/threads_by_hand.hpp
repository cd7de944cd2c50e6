// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/processors.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::cli {

/// Work by hand on several threads: each has calls of its own, on a stream of its own.
template <class Calls>
class threads_by_hand {
 public:
  /// `make(i)` makes the calls of thread `i`.
  template <class Make>
  threads_by_hand(std::size_t count, const Make& make) {
    for (std::size_t i = 0; i < count; ++i) all_.push_back(make(i));
  }

  /// Calls `work(calls, n)` on all threads, which share `count` pieces of work equally.
  template <class Work>
  void run(std::int64_t count, const Work& work) {
    std::vector<std::thread> running;
    running.reserve(all_.size());
    const auto share = count / static_cast<std::int64_t>(all_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      running.emplace_back([&work, &one = *all_[i], i, share] {
        const pinned_client here(i);
        work(one, share);
      });
    }
    for (auto& each : running) each.join();
  }

 private:
  std::vector<std::unique_ptr<Calls>> all_;
};

}  // namespace sluice::cli
