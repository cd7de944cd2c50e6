// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/dnn.hpp>
#include <sluice/operations/operation.hpp>

#include <cstdint>

namespace sluice::operations {

/// The order of the elements of an image or a filter in memory.
enum class channel_order : std::int64_t {
  first,  ///< (C, H, W)
  last,   ///< (H, W, C)
};

/// The distances between neighbours along the dimensions of a batch of images or a set of filters,
/// in elements.
struct image_strides {
  std::int64_t image = 0;
  std::int64_t channel = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// The strides of images of `channels` × h × w elements without gaps, `distance` apart.
[[nodiscard]] constexpr image_strides strides_of(channel_order order, std::int64_t distance,
                                                 std::int64_t channels, std::int64_t h,
                                                 std::int64_t w) noexcept {
  if (order == channel_order::first) return {distance, h * w, w, 1};
  return {distance, 1, w * channels, channels};
}

/// The geometry of a convolution: what a plan of the host depends on. All zeros: there is no
/// product to sum.
struct conv2d_shape {
  std::int64_t n = 0;         ///< images
  std::int64_t c = 0;         ///< channels of X
  std::int64_t h = 0;         ///< height of X
  std::int64_t w = 0;         ///< width of X
  std::int64_t k = 0;         ///< filters: channels of Y
  std::int64_t r = 0;         ///< height of a filter
  std::int64_t s = 0;         ///< width of a filter
  std::int64_t output_h = 0;  ///< height of Y
  std::int64_t output_w = 0;  ///< width of Y
  std::int64_t padding_h = 0;
  std::int64_t padding_w = 0;
  std::int64_t stride_h = 0;
  std::int64_t stride_w = 0;
  std::int64_t dilation_h = 0;
  std::int64_t dilation_w = 0;
  std::int64_t groups = 0;
  channel_order order = channel_order::first;  ///< of X, W and Y
  std::int64_t x_distance = 0;                 ///< between images of X, in elements
  std::int64_t y_distance = 0;                 ///< between images of Y, in elements
  std::int64_t element = 0;                    ///< the `element_type` of X, W and Y

  [[nodiscard]] element_type type() const noexcept { return static_cast<element_type>(element); }
  /// The elements of an image of X, of a filter and of an image of Y.
  ///@{
  [[nodiscard]] std::int64_t x_image() const noexcept { return c * h * w; }
  [[nodiscard]] std::int64_t filter() const noexcept { return c / groups * r * s; }
  [[nodiscard]] std::int64_t y_image() const noexcept { return k * output_h * output_w; }
  ///@}
  /// The elements from the first to the last one of each operand, gaps included.
  ///@{
  [[nodiscard]] std::int64_t x_extent() const noexcept { return (n - 1) * x_distance + x_image(); }
  [[nodiscard]] std::int64_t w_extent() const noexcept { return k * filter(); }
  [[nodiscard]] std::int64_t y_extent() const noexcept { return (n - 1) * y_distance + y_image(); }
  ///@}
  [[nodiscard]] image_strides x_strides() const noexcept {
    return strides_of(order, x_distance, c, h, w);
  }
  [[nodiscard]] image_strides w_strides() const noexcept {
    return strides_of(order, filter(), c / groups, r, s);
  }
  [[nodiscard]] image_strides y_strides() const noexcept {
    return strides_of(order, y_distance, k, output_h, output_w);
  }
};

/// What a plan of cuDNN may compute beside the convolution.
enum class conv2d_epilogue : std::int64_t { none, bias, bias_relu };

/// What a plan of cuDNN depends on.
struct conv2d_key : conv2d_shape {
  std::int64_t tf32 = 0;  ///< 1: factors may be rounded to TF32
  /// For tensor cores: the alignment of the operands, in bytes, a power of two of at most 16.
  std::int64_t alignment = 0;
  conv2d_epilogue epilogue = conv2d_epilogue::none;  ///< for tensor cores

  [[nodiscard]] bool uses_tensor_cores() const noexcept {
    return tf32 != 0 || type() != element_type::f32;
  }
};

/// Where the result of a convolution lies.
struct conv2d_output {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t h = 0;
  std::int64_t w = 0;
  std::int64_t distance = 0;  ///< between images, in elements
  channel_order order = channel_order::first;

  [[nodiscard]] std::int64_t image() const noexcept { return channels * h * w; }
  [[nodiscard]] bool empty() const noexcept { return images == 0 || image() == 0; }
  /// The elements of neighbouring channels are this far apart.
  [[nodiscard]] std::int64_t channel_stride() const noexcept {
    return order == channel_order::first ? h * w : 1;
  }
};

/// One convolution.
struct conv2d_call {
  conv2d_key key{};
  conv2d_output output{};
  element_type type = element_type::f32;  ///< of all operands
  bool multiplies = false;  ///< there are products to sum; otherwise Y is the bias or 0
  activation function = activation::none;

  [[nodiscard]] const conv2d_shape& host_key() const noexcept { return key; }
  [[nodiscard]] launch_facts facts() const noexcept {
    const auto products = multiplies ? static_cast<double>(output.images) *
                                           static_cast<double>(output.image()) *
                                           static_cast<double>(key.filter())
                                     : 0;
    return {.sizes = {output.images, output.channels, output.h, output.w},
            .work = work_of_products(products) +
                    2 * work_of_parts * static_cast<double>(output.images)};
  }
};

}  // namespace sluice::operations
