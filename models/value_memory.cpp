// SPDX-License-Identifier: Apache-2.0
#include "models/value_memory.hpp"

#include <algorithm>
#include <limits>

namespace sluice::models {

namespace {

/// A sum of bytes, or the largest number there is.
std::size_t whole(double bytes) noexcept {
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  return bytes < static_cast<double>(most) ? static_cast<std::size_t>(bytes) : most;
}

}  // namespace

void value_memory::add_constant(const host_tensor& elements) {
  if (constants_.insert(elements.data().get()).second) {
    constant_bytes_ += static_cast<double>(elements.bytes());
  }
}

void value_memory::add_result(std::uint32_t value, std::size_t bytes) {
  blocks_of_values_.insert_or_assign(value, blocks_.size());
  blocks_.push_back({.bytes = bytes, .first = steps_, .last = steps_});
}

void value_memory::add_step(std::span<const std::uint32_t> values) {
  ++steps_;
  for (const auto value : values) {
    const auto found = blocks_of_values_.find(value);
    if (found != blocks_of_values_.end()) blocks_[found->second].last = steps_;
  }
}

void value_memory::count(std::span<const std::uint32_t> outputs, model_cost& cost) const {
  std::vector<bool> is_output(blocks_.size());
  for (const auto output : outputs) is_output[blocks_of_values_.at(output)] = true;
  // Bytes that begin to exist with a step, and those that its end releases.
  std::vector<double> added(steps_ + 1);
  std::vector<double> released(steps_ + 1);
  double all = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (is_output[i]) continue;
    const auto bytes = static_cast<double>(blocks_[i].bytes);
    added[blocks_[i].first] += bytes;
    released[blocks_[i].last] += bytes;
    all += bytes;
  }
  double live = 0;
  double most = 0;
  for (std::size_t step = 1; step <= steps_; ++step) {
    live += added[step];
    most = std::max(most, live);
    live -= released[step];
  }
  cost.constant_bytes = whole(constant_bytes_);
  cost.intermediate_bytes = whole(all);
  cost.live_bytes = whole(most);
}

}  // namespace sluice::models
