// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/batch_trace.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/executor.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::test {

/// An executor that records its batches, and that can be told to wait for further requests.
class gathering_executor {
 public:
  gathering_executor(std::shared_ptr<device_service> service, std::function<void()> wake,
                     executor_options options = {})
      : executor_(std::move(service), trace_, options) {
    executor_.on_wake(std::move(wake));
    executor_.on_more([this] { return gathers_; });
  }

  [[nodiscard]] executor& get() noexcept { return executor_; }
  /// Until `launch_gathered`, the executor is told that further requests follow.
  void gather() noexcept { gathers_ = true; }
  void launch_gathered() {
    gathers_ = false;
    executor_.work();
  }
  /// Lets `launched` begin here.
  void begin() { begun_ = trace_->batches().size(); }
  /// The sizes of the batches since `begin`.
  [[nodiscard]] std::vector<std::size_t> launched() const {
    const auto all = trace_->batches();
    return {all.begin() + static_cast<std::ptrdiff_t>(begun_), all.end()};
  }
  [[nodiscard]] const batch_trace& trace() const noexcept { return *trace_; }

 private:
  std::shared_ptr<batch_trace> trace_ = std::make_shared<batch_trace>();
  bool gathers_ = false;
  std::size_t begun_ = 0;
  executor executor_;
};

}  // namespace sluice::test
