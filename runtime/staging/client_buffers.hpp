// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/staging/pinned_pool.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace sluice::detail {

/// The pinned memory that clients of one runtime own. It has a pool of its own: a client that holds
/// all of it while it waits for an upload keeps no transfer from its slots. Thread-safe.
class client_buffers {
 public:
  explicit client_buffers(std::shared_ptr<pinned_pool> pool);
  client_buffers(const client_buffers&) = delete;
  client_buffers& operator=(const client_buffers&) = delete;
  ~client_buffers();

  /// Memory of `bytes` bytes. It returns to the pool with its last owner, on any thread, and may
  /// outlive the runtime.
  /// @throws error `over_budget` if the limit is reached
  /// @throws error `out_of_memory`
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes);
  /// Pins memory of others. The registration ends with the last owner of the result, and then
  /// `memory` is released, on the reclaim thread.
  /// @throws error `invalid_argument` if a part of it is in a buffer
  /// @throws error `out_of_memory`, `library_failure`, `device_lost`
  /// @throws std::bad_alloc
  [[nodiscard]] std::shared_ptr<void> add(std::shared_ptr<void> memory, std::size_t bytes);
  /// Whether a range of memory lies in one buffer.
  [[nodiscard]] bool contain(const void* first, std::size_t bytes) const noexcept;

  [[nodiscard]] pinned_pool& pool() noexcept { return *pool_; }

 private:
  /// The buffers that have owners.
  struct registry {
    std::mutex mutex;
    std::map<const std::byte*, std::size_t, std::less<>> sizes;
    std::atomic<std::size_t> count{0};
  };
  class buffer;
  class registered_memory;

  const std::shared_ptr<pinned_pool> pool_;
  const std::shared_ptr<registry> registry_ = std::make_shared<registry>();
};

}  // namespace sluice::detail
