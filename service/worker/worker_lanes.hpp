// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/wake_event.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/request_options.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sluice::service {

/// The executors of a worker, each with a lane. They are made when a model needs them. One thread
/// calls the functions.
class worker_lanes {
 public:
  /// A run that has been given to a lane, until it has been answered.
  class place {
   public:
    explicit place(std::shared_ptr<std::atomic<std::size_t>> runs) noexcept
        : runs_(std::move(runs)) {
      runs_->fetch_add(1, std::memory_order_relaxed);
    }
    place(place&& other) noexcept = default;
    place& operator=(place&&) = delete;
    ~place() {
      if (runs_) runs_->fetch_sub(1, std::memory_order_relaxed);
    }

   private:
    std::shared_ptr<std::atomic<std::size_t>> runs_;
  };

  /// One of the executors.
  class lane {
   public:
    lane(const std::shared_ptr<device_service>& service, const std::shared_ptr<wake_event>& wake,
         const std::function<bool()>& has_more);
    [[nodiscard]] sluice::executor& executor() noexcept { return executor_; }
    [[nodiscard]] place take_place() const { return place(runs_); }
    [[nodiscard]] std::size_t runs() const noexcept {
      return runs_->load(std::memory_order_relaxed);
    }

   private:
    sluice::executor executor_;
    const std::shared_ptr<std::atomic<std::size_t>> runs_ =
        std::make_shared<std::atomic<std::size_t>>(0);
  };

  /// `wake` is signaled when `work` has to be called. `has_more` tells whether further requests are
  /// at hand, see `executor::on_more`.
  worker_lanes(std::shared_ptr<device_service> service, std::shared_ptr<wake_event> wake,
               std::function<bool()> has_more) noexcept
      : service_(std::move(service)), wake_(std::move(wake)), has_more_(std::move(has_more)) {}

  [[nodiscard]] device_service& service() const noexcept { return *service_; }
  /// The lane with the fewest runs among the first `count`.
  /// @throws error as `executor`
  [[nodiscard]] lane& choose(std::size_t count);
  /// Calls the function of this name of all executors.
  ///@{
  void work() noexcept;
  void cancel(request_sender sender, std::uint64_t id) noexcept;
  ///@}

 private:
  const std::shared_ptr<device_service> service_;
  const std::shared_ptr<wake_event> wake_;
  const std::function<bool()> has_more_;
  std::vector<std::unique_ptr<lane>> lanes_;
};

}  // namespace sluice::service
