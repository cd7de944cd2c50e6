// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/dnn_types.hpp>

#include <cstddef>

namespace sluice::actors {

/// y = activation(conv(x, w) + bias): a 2-D cross-correlation of f32 tensors, x and y in NCHW order
/// and w in KCRS order, without gaps. The bias, one number for each of the K output channels, is
/// optional.
struct conv2d_description {
  nchw_shape input{};
  filter_shape filter{};
  conv2d_geometry geometry{};
  bool has_bias = false;
  sluice::activation activation = sluice::activation::none;
  math_mode math = math_mode::f32;
  [[nodiscard]] auto operator<=>(const conv2d_description&) const noexcept = default;
};

/// What a dnn library has worked out for one description: algorithm, descriptors or primitives.
/// Immutable. Whoever queues a launch with it keeps it until the launch has finished.
class conv2d_plan {
 public:
  /// @throws error as `conv2d_output_shape`
  explicit conv2d_plan(const conv2d_description& description)
      : description_(description),
        output_(conv2d_output_shape(description.input, description.filter, description.geometry)),
        x_elements_(description.input.elements()),
        w_elements_(description.filter.elements()),
        y_elements_(output_.elements()) {}
  conv2d_plan(const conv2d_plan&) = delete;
  conv2d_plan& operator=(const conv2d_plan&) = delete;
  virtual ~conv2d_plan() = default;

  [[nodiscard]] const conv2d_description& description() const noexcept { return description_; }
  [[nodiscard]] const nchw_shape& output() const noexcept { return output_; }
  [[nodiscard]] std::size_t x_elements() const noexcept { return x_elements_; }
  [[nodiscard]] std::size_t w_elements() const noexcept { return w_elements_; }
  [[nodiscard]] std::size_t bias_elements() const noexcept {
    return description_.has_bias ? static_cast<std::size_t>(description_.filter.k) : 0;
  }
  [[nodiscard]] std::size_t y_elements() const noexcept { return y_elements_; }

  /// Whether there are no products to sum, only zeros: an input without channels, height or width.
  [[nodiscard]] bool sums_nothing() const noexcept { return x_elements_ == 0 || w_elements_ == 0; }

 private:
  conv2d_description description_;
  nchw_shape output_;
  std::size_t x_elements_;
  std::size_t w_elements_;
  std::size_t y_elements_;
};

}  // namespace sluice::actors
