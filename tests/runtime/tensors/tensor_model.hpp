// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/tensor.hpp>

#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

namespace sluice::test {

using indices = std::vector<std::int64_t>;

/// Counts through `shape` in row-major order and calls `visit` with each index.
template <class Visit>
void for_each_index(const indices& shape, Visit visit) {
  indices index(shape.size());
  for (const auto extent : shape) {
    if (extent == 0) return;
  }
  for (;;) {
    visit(index);
    auto i = shape.size();
    while (i-- != 0) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) return;
  }
}

/// A tensor as a list: the byte offset of each element in row-major order. Independent of strides.
struct tensor_model {
  indices shape;
  indices offsets;

  [[nodiscard]] std::int64_t at(const indices& index) const {
    std::int64_t position = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) position = position * shape[i] + index[i];
    return offsets[static_cast<std::size_t>(position)];
  }
  /// The view of `shape` whose element at an index is the one of this model at `map(index)`.
  template <class Map>
  [[nodiscard]] tensor_model viewed(indices view, Map map) const {
    tensor_model result{std::move(view), {}};
    for_each_index(result.shape,
                   [&](const indices& index) { result.offsets.push_back(at(map(index))); });
    return result;
  }
  /// Whether strides could describe this list: the distance to the next index along a dimension is
  /// the same everywhere and not negative.
  [[nodiscard]] bool has_strides() const {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      std::optional<std::int64_t> stride;
      bool regular = true;
      for_each_index(shape, [&](indices index) {
        if (index[axis] + 1 == shape[axis]) return;
        const auto here = at(index);
        ++index[axis];
        const auto distance = at(index) - here;
        if (!stride) stride = distance;
        regular = regular && distance == *stride && distance >= 0;
      });
      if (!regular) return false;
    }
    return true;
  }
};

/// The list of `t`, from its strides.
[[nodiscard]] inline tensor_model model_of(const tensor& t) {
  const auto shape = t.shape();
  tensor_model result{{shape.begin(), shape.end()}, {}};
  for_each_index(result.shape, [&](const indices& index) {
    auto offset = static_cast<std::int64_t>(t.offset());
    for (std::size_t i = 0; i < index.size(); ++i)
      offset += index[i] * t.strides()[i] * static_cast<std::int64_t>(size_of(t.type()));
    result.offsets.push_back(offset);
  });
  return result;
}

/// A random number from `least` to `most`.
[[nodiscard]] inline std::int64_t draw(std::mt19937_64& random, std::int64_t least,
                                       std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

}  // namespace sluice::test
