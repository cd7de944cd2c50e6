// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/model_source.hpp>
#include <sluice/operations/models.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::detail {

/// The dimensions of the inputs of a model whose extents are rounded up. Immutable.
class extent_rounding {
 public:
  /// Nothing is rounded.
  extent_rounding() = default;
  /// @throws error `invalid_argument` if no dimension is named, an input or an axis does not exist,
  /// a dimension is named twice or has a fixed extent, or extents are not ascending from 1 on
  extent_rounding(const std::vector<extent_buckets>& buckets,
                  const std::vector<model_value>& inputs);

  /// The shapes that the inputs of a request are padded to, in order, which may be their own. None
  /// if the request has a program for its own shapes: if an extent is 0 or larger than all buckets,
  /// an input with such a dimension is not in host memory, or the padded inputs are large or much
  /// larger than the inputs.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] std::vector<extents> round(const std::vector<run_input>& inputs) const;

 private:
  struct rounded_dimension {
    std::size_t input = 0;
    std::size_t axis = 0;
    std::vector<std::int64_t> extents{};  // empty: 2^k and 1.5 * 2^k
  };

  void add(std::size_t input, std::size_t axis, const extent_buckets& buckets,
           const std::vector<model_value>& inputs);

  std::vector<rounded_dimension> dimensions_;
};

}  // namespace sluice::detail
