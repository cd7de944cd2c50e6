// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

namespace sluice::cli {

/// The numbers of the processors that the process may use, as of the first call.
[[nodiscard]] const std::vector<int>& processors_of_process();

/// Lets the calling thread, and threads that it starts, run on all of these processors.
void use_all_processors() noexcept;

/// With `--pin`, lets the calling thread run on one processor only, until the end of the scope.
/// Client `number` gets the one with this number from the last one downwards. Threads that it
/// starts meanwhile are pinned, too.
class pinned_client {
 public:
  /// Has all later clients pinned. Call it before the first one.
  static void enable();
  /// Whether clients are pinned.
  [[nodiscard]] static bool enabled() noexcept;

  explicit pinned_client(std::size_t number) noexcept;
  pinned_client(const pinned_client&) = delete;
  pinned_client& operator=(const pinned_client&) = delete;
  /// On the thread of the constructor.
  ~pinned_client();
};

/// Calls `work(i)` on `count` threads, and waits until all have returned. They may run on the same
/// processors as the caller.
template <class Work>
void on_threads(std::size_t count, const Work& work) {
  std::vector<std::thread> running;
  running.reserve(count);
  for (std::size_t i = 0; i < count; ++i) running.emplace_back([&work, i] { work(i); });
  for (auto& thread : running) thread.join();
}

}  // namespace sluice::cli
