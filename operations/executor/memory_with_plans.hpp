// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/plan_cache.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace sluice::operations {

/// The device memory of an executor, which the plans in its cache give up when something else needs
/// it. Only the owner of the executor calls it.
class memory_with_plans {
 public:
  memory_with_plans(device_runtime& runtime, plan_cache& plans)
      : runtime_(runtime), plans_(plans), physical_(memory_of(runtime.device())) {}

  /// The physical memory of the device in bytes; the largest number if the device has been lost.
  [[nodiscard]] std::size_t physical() const noexcept { return physical_; }
  /// Whether an allocation is to be tried again, because plans have given up their memory. A
  /// request that can never succeed costs others no plans.
  [[nodiscard]] bool frees(std::size_t bytes, const error& why) noexcept {
    if (why.code() != errc::over_budget && why.code() != errc::out_of_memory) return false;
    is_short_ = true;
    if (plans_.drop_obsolete()) return true;
    const auto plan_bytes = plans_.device_bytes();
    if (plan_bytes == 0) return false;
    const auto other_bytes = bytes - std::min(bytes, plan_bytes);
    if (other_bytes > physical_ ||
        other_bytes > detail::runtime_core::of(runtime_)->resource().max_obtainable()) {
      return false;
    }
    plans_.drop_device_memory();
    return true;
  }
  /// Whether an allocation has found no memory since the last call.
  [[nodiscard]] bool take_shortage() noexcept { return std::exchange(is_short_, false); }
  /// Calls `allocate`, and again if there is memory once no plan is kept.
  template <class Allocate>
  auto use(std::size_t bytes, const Allocate& allocate) {
    try {
      return allocate();
    } catch (const error& why) {
      if (!frees(bytes, why)) throw;
    }
    return allocate();
  }

 private:
  [[nodiscard]] static std::size_t memory_of(const device& device) noexcept {
    try {
      return device.info().memory_bytes;
    } catch (...) {
      return std::numeric_limits<std::size_t>::max();
    }
  }

  device_runtime& runtime_;
  plan_cache& plans_;
  const std::size_t physical_;
  bool is_short_ = false;
};

}  // namespace sluice::operations
