// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace sluice::test {

/// Records the batch of each launch, in the order of the launches.
class batch_trace final : public kernel_trace {
 public:
  void before_enqueue(const kernel_info& info) override {
    const std::lock_guard lock(mutex_);
    sizes_.push_back(info.batch);
  }
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    (outcome.failure == nullptr ? completed_ : failed_).push_back(std::string(info.tag));
  }
  /// The sizes of the batches.
  [[nodiscard]] std::vector<std::size_t> batches() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < sizes_.size(); i += sizes_[i]) all.push_back(sizes_[i]);
    return all;
  }
  [[nodiscard]] std::vector<std::string> failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> completed_;
  std::vector<std::string> failed_;
};

}  // namespace sluice::test
