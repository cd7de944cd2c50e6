// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/wake_event.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/executor.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace sluice::service {

/// Finds out whether the device computes, by launches of one element on a stream of its own. One
/// thread calls the functions.
class device_check {
 public:
  /// `wake` is signaled when `work` has to be called.
  device_check(std::shared_ptr<device_service> service, std::shared_ptr<wake_event> wake) noexcept
      : service_(std::move(service)), wake_(std::move(wake)) {}

  /// Begins the check with this number, which is greater than those before.
  /// @throws error if the device has no stream left
  void start(std::uint64_t number);
  void work() noexcept;
  /// The number of the last check, once the device has answered it and until it is taken. An error
  /// is an answer, except for the loss of the device.
  [[nodiscard]] std::optional<std::uint64_t> take() noexcept;

 private:
  class receiver;

  const std::shared_ptr<device_service> service_;
  const std::shared_ptr<wake_event> wake_;
  const std::shared_ptr<std::atomic<std::uint64_t>> answered_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::uint64_t taken_ = 0;
  std::unique_ptr<executor> executor_;
};

}  // namespace sluice::service
