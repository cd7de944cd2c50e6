// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice::detail {

/// One runtime for each device, made when it is first asked for. Thread-safe.
class shared_runtimes {
 public:
  using device_opener = std::function<std::shared_ptr<device>(device_id)>;

  /// Those of the process, which end at exit. It is itself never destroyed, so that it can answer
  /// whoever asks later still.
  [[nodiscard]] static shared_runtimes& instance();

  explicit shared_runtimes(device_opener open) : open_(std::move(open)) {}
  shared_runtimes(const shared_runtimes&) = delete;
  shared_runtimes& operator=(const shared_runtimes&) = delete;
  ~shared_runtimes() { end(); }

  /// As `device_runtime::get`.
  [[nodiscard]] device_runtime& get(device_id id);
  /// As `device_runtime::configure`.
  void configure(device_id id, std::function<runtime_options()> make_options);
  /// Refuses everything with `shutting_down` from now on, whoever waits for a runtime that is being
  /// made included, and whoever makes it when it is done; destroys the runtimes, the one that was
  /// made last first; then forgets how others were to be made.
  void end() noexcept;

 private:
  static constexpr auto unused = ~std::uint32_t{0};

  struct entry {
    std::function<runtime_options()> make_options;
    device_runtime* runtime = nullptr;
    bool in_the_making = false;
  };

  /// Before the mutex is locked, which a thread of the parent's may have held at a fork.
  /// @throws error `device_lost`
  void require_own_process(device_id id) const;
  void require_open(device_id id) const;
  /// Once nobody makes its runtime. `lock` holds the mutex, and may let go of it meanwhile.
  entry& settled_entry(device_id id, std::unique_lock<std::mutex>& lock);
  /// Ends the making, of a runtime or of nothing.
  void finish(device_id id, std::function<runtime_options()>&& make_options,
              std::unique_ptr<device_runtime> runtime);

  /// In a child of `fork()`: whether the parent made runtimes here, or was making one.
  [[nodiscard]] bool inherited() const noexcept;

  const device_opener open_;
  std::atomic<std::uint32_t> used_at_{unused};  // the fork depth of the first `get`
  std::mutex mutex_;                            // not held while anything is made or destroyed
  std::condition_variable changed_;
  bool ended_ = false;
  std::map<device_id, entry> entries_;
  std::vector<std::unique_ptr<device_runtime>> made_;  // in the order of their making
};

}  // namespace sluice::detail
