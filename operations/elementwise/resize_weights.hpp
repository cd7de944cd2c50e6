// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/resize_axis.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::host {

/// The weights of all results along an axis. Their sums are 1, and all elements are inside x: the
/// weights of elements beyond an edge are added to that of the edge.
template <class T>
class resize_weights {
 public:
  resize_weights(const operations::resize_axis& axis, const operations::resize_filter& filter) {
    const auto results = static_cast<std::size_t>(axis.result);
    first_.resize(results);
    count_.resize(results);
    begin_ = axis.extent;
    for (std::size_t i = 0; i < results; ++i) {
      const auto taps = taps_of<double>(axis, filter, static_cast<std::int64_t>(i));
      if (taps.count == 0) continue;
      first_[i] = axis.inside(taps.first);
      count_[i] = axis.inside(taps.first + taps.count - 1) - first_[i] + 1;
      begin_ = std::min(begin_, first_[i]);
      end_ = std::max(end_, first_[i] + count_[i]);
      widest_ = std::max(widest_, count_[i]);
    }
    weights_.resize(results * static_cast<std::size_t>(widest_));
    for (std::size_t i = 0; i < results; ++i) {
      if (count_[i] != 0) weigh(axis, filter, i);
    }
  }

  /// The first element and the number of elements of a result. It is 0 if the position is cropped.
  ///@{
  [[nodiscard]] std::int64_t first(std::int64_t result) const noexcept {
    return first_[static_cast<std::size_t>(result)];
  }
  [[nodiscard]] std::int64_t count(std::int64_t result) const noexcept {
    return count_[static_cast<std::size_t>(result)];
  }
  ///@}
  [[nodiscard]] const T* weights(std::int64_t result) const noexcept {
    return weights_.data() + result * widest_;
  }
  /// The elements that have any weight: from `begin` on, `span` of them.
  ///@{
  [[nodiscard]] std::int64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::int64_t span() const noexcept {
    return std::max<std::int64_t>(end_ - begin_, 0);
  }
  ///@}

 private:
  void weigh(const operations::resize_axis& axis, const operations::resize_filter& filter,
             std::size_t i) {
    const auto taps = taps_of<double>(axis, filter, static_cast<std::int64_t>(i));
    sums_.assign(static_cast<std::size_t>(count_[i]), 0);
    double sum = 0;
    for (std::int64_t k = 0; k < taps.count; ++k) {
      const auto place = axis.inside(taps.first + k);
      if (filter.excludes_outside && place != taps.first + k) continue;
      const double weight = weight_of(axis, filter, taps, k);
      sums_[static_cast<std::size_t>(place - first_[i])] += weight;
      sum += weight;
    }
    if (taps.count == 1 || !filter.normalizes(axis)) sum = taps.count == 1 ? sums_[0] : 1;
    for (std::size_t k = 0; k < sums_.size(); ++k) {
      weights_[i * static_cast<std::size_t>(widest_) + k] = static_cast<T>(sums_[k] / sum);
    }
  }

  std::vector<std::int64_t> first_;
  std::vector<std::int64_t> count_;
  std::vector<T> weights_;
  std::vector<double> sums_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t widest_ = 0;
};

}  // namespace sluice::host
