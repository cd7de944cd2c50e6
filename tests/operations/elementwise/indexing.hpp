// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/elementwise/elements.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {

/// Tests of operations whose operands are indices.
class indexing_test : public elementwise_test {
 protected:
  [[nodiscard]] static std::int64_t rank_of(const extents& e) {
    return static_cast<std::int64_t>(e.size());
  }
  /// The numbers `first` to `last` of some.
  [[nodiscard]] static extents part(const extents& all, std::int64_t first, std::int64_t last) {
    extents some;
    for (auto d = first; d < last; ++d) some.push_back(all[static_cast<std::size_t>(d)]);
    return some;
  }
  static void append(extents& first, const extents& second) {
    for (const auto value : second) first.push_back(value);
  }

  /// Indices of either type and any sign, in range for `extent`.
  elements make_indices(const extents& shape, std::int64_t extent) {
    auto indices = make(coin() ? element_type::i32 : element_type::i64, shape);
    std::vector<std::int64_t> values(indices.memory().size() / 4);
    for (auto& value : values) value = between(-extent, extent - 1);
    if (indices.type() == element_type::i64) {
      indices.set(values);
    } else {
      indices.set(std::vector<std::int32_t>(values.begin(), values.end()));
    }
    return indices;
  }
  /// Likewise, in range for each of `extents`.
  elements make_points(const extents& shape, const extents& ranges) {
    auto least = ranges[0];
    for (const auto extent : ranges) least = std::min(least, extent);
    return make_indices(shape, least);
  }
  /// An index, counted from 0.
  [[nodiscard]] static std::int64_t index_at(const elements& indices, const extents& place,
                                             std::int64_t extent) {
    const auto index = static_cast<std::int64_t>(indices[place].real());
    return index < 0 ? index + extent : index;
  }
  /// The indices of a point.
  [[nodiscard]] static extents point_at(const elements& indices, extents place,
                                        const extents& ranges) {
    extents point;
    place.push_back(0);
    for (const auto extent : ranges) {
      point.push_back(index_at(indices, place, extent));
      ++place[place.size() - 1];
    }
    return point;
  }
};

}  // namespace sluice::test
