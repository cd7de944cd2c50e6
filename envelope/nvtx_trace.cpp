// SPDX-License-Identifier: Apache-2.0
#include "envelope/nvtx_range.hpp"

#include <sluice/envelope/nvtx_trace.hpp>

#include <mutex>
#include <string>
#include <unordered_map>

namespace sluice {

struct nvtx_trace::open_ranges {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::uint64_t> ranges;
};

nvtx_trace::nvtx_trace() : open_(std::make_unique<open_ranges>()) {}
nvtx_trace::~nvtx_trace() = default;
bool nvtx_trace::available() noexcept {
  return detail::nvtx_available();
}

void nvtx_trace::before_enqueue(const kernel_info& info) {
  if (!available()) return;
  const auto name = std::string(info.library) + " " + std::string(info.operation);
  const auto range =
      detail::nvtx_begin(info.label.empty() ? name.c_str() : std::string(info.label).c_str());
  const std::lock_guard lock(open_->mutex);
  open_->ranges.emplace(info.launch_id, range);
}

void nvtx_trace::after_complete(const kernel_info& info, const kernel_outcome&) {
  if (!available()) return;
  const std::lock_guard lock(open_->mutex);
  const auto position = open_->ranges.find(info.launch_id);
  if (position == open_->ranges.end()) return;
  detail::nvtx_end(position->second);
  open_->ranges.erase(position);
}

}  // namespace sluice
