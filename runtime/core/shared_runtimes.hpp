// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/fork_safe_mutex.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice::detail {

/// One runtime for each device, created on first use. Thread-safe.
class shared_runtimes {
 public:
  using device_opener = std::function<std::shared_ptr<device>(device_id)>;

  /// The shared runtimes of the process, which end at exit. The object itself is never destroyed,
  /// so later calls are still answered.
  [[nodiscard]] static shared_runtimes& instance();

  explicit shared_runtimes(device_opener open) : open_(std::move(open)) {}
  shared_runtimes(const shared_runtimes&) = delete;
  shared_runtimes& operator=(const shared_runtimes&) = delete;
  ~shared_runtimes() { end(); }

  /// See `device_runtime::get`.
  [[nodiscard]] device_runtime& get(device_id id);
  /// See `device_runtime::configure`.
  void configure(device_id id, std::function<runtime_options()> make_options);
  /// Ends all shared runtimes. From now on every call throws `shutting_down`, including calls that
  /// wait for a runtime being made and, at its end, the call that makes it. Destroys the runtimes,
  /// the newest first, then the functions passed to `configure`.
  void end() noexcept;

 private:
  static constexpr auto unused = ~std::uint32_t{0};

  struct entry {
    std::function<runtime_options()> make_options;
    device_runtime* runtime = nullptr;
    bool in_the_making = false;
  };

  // Under the mutex:
  void require_open(device_id id) const;
  /// The entry of `id`, once no thread makes its runtime. `lock` holds the mutex and may be
  /// unlocked meanwhile.
  /// @throws error `device_lost` in a child of `fork` whose parent made runtimes here
  /// @throws error `shutting_down` after `end`
  entry& settled_entry(device_id id, std::unique_lock<fork_safe_mutex>& lock);
  /// Whether, in a child of `fork`, the parent made runtimes here or was making one.
  [[nodiscard]] bool inherited() const noexcept;

  /// Ends the creation of a runtime. `runtime` is null if it failed.
  void finish(device_id id, std::function<runtime_options()>&& make_options,
              std::unique_ptr<device_runtime> runtime);

  const device_opener open_;
  fork_safe_mutex& mutex_ = *new fork_safe_mutex;  // not held while a runtime is made or destroyed
  // Its own mutex is not fork-safe. A child of `fork` does not use it: if a thread of the parent
  // waited, the parent was making a runtime.
  std::condition_variable_any changed_;
  std::uint32_t first_fork_depth_ = unused;  // the fork depth of the first `get`
  bool ended_ = false;
  std::map<device_id, entry> entries_;
  std::vector<std::unique_ptr<device_runtime>> runtimes_;  // in the order of creation
};

}  // namespace sluice::detail
