// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {

/// The arguments of one hook call.
struct hook_call {
  std::string hook;
  std::string library;
  std::string operation;
  std::string label;
  element_type type = element_type::f32;
  device_id device{};
  stream_id stream{};
  std::uint64_t launch_id = 0;
  std::array<std::int64_t, 4> sizes{};
  std::optional<errc> failure{};
  std::chrono::nanoseconds latency{};
};

/// Records the order of hook calls and of the test's own entries.
class recording_trace final : public kernel_trace {
 public:
  /// Called in each hook before the hook is recorded.
  std::function<void(const std::string& hook)> in_hook;

  void before_enqueue(const kernel_info& info) override { add("before_enqueue", info); }
  void after_enqueue(const kernel_info& info, const error* failure) override {
    add("after_enqueue", info, failure);
  }
  void before_complete(const kernel_info& info) override { add("before_complete", info); }
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override {
    add("after_complete", info, outcome.failure, outcome.latency);
  }
  void note(const std::string& hook) {
    const std::lock_guard lock(mutex_);
    calls_.emplace_back().hook = hook;
  }

  [[nodiscard]] std::vector<hook_call> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> events;
    for (const auto& call : calls()) events.push_back(call.hook);
    return events;
  }

 private:
  void add(const std::string& hook, const kernel_info& info, const error* failure = nullptr,
           std::chrono::nanoseconds latency = {}) {
    if (in_hook) in_hook(hook);
    hook_call call{hook,
                   std::string(info.library),
                   std::string(info.operation),
                   std::string(info.label),
                   info.type,
                   info.device,
                   info.stream,
                   info.launch_id,
                   info.sizes,
                   std::nullopt,
                   latency};
    if (failure != nullptr) call.failure = failure->code();
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }

  mutable std::mutex mutex_;
  std::vector<hook_call> calls_;
};

}  // namespace sluice::test
