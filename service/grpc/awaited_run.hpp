// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace sluice::service {

/// Counts the results that are being passed on, so that the server can wait for them.
class delivery_count {
 public:
  void begin() {
    const std::scoped_lock lock(mutex_);
    ++count_;
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    if (--count_ == 0) changed_.notify_all();
  }
  void wait_until_none() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::size_t count_ = 0;
};

/// A run whose result a call waits for. Either the result is passed to the call, once, or `cancel`
/// returns true, whatever the order of the threads. It outlives the call while the backend has it.
class awaited_run : public std::enable_shared_from_this<awaited_run> {
 public:
  /// @param receive  gets the result on any thread; it must not throw or block. It is destroyed
  /// once it has been called or the run is cancelled.
  awaited_run(model_backend& backend, std::shared_ptr<delivery_count> deliveries,
              std::function<void(run_result)> receive)
      : backend_(backend), deliveries_(std::move(deliveries)), receive_(std::move(receive)) {}

  /// Submits the run, unless it is cancelled. Called once.
  /// @throws what the backend throws; then no result is passed on, and `cancel` returns false
  void submit(run_request request, std::unique_ptr<input_memory> inputs);
  /// Loads or unloads a model instead, which `cancel` leaves alone.
  /// @throws as `submit`
  ///@{
  void load(std::string model);
  void unload(std::string model);
  ///@}
  /// Cancels the run. Returns whether that prevents that a result is passed on.
  [[nodiscard]] bool cancel() noexcept;

 private:
  template <class Begin>
  void begin(Begin begin);
  void deliver(run_result result);
  /// Returns the receiver to the first caller.
  [[nodiscard]] std::function<void(run_result)> take_receiver() noexcept;

  model_backend& backend_;
  const std::shared_ptr<delivery_count> deliveries_;
  std::mutex mutex_{};
  std::function<void(run_result)> receive_;        ///< guarded by mutex_
  std::optional<model_backend::number> number_{};  ///< guarded by mutex_
  bool is_cancelled_ = false;                      ///< guarded by mutex_
};

}  // namespace sluice::service
