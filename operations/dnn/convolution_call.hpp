// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/activation.hpp>
#include <sluice/operations/launch_descriptor.hpp>
#include <sluice/runtime/element_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::operations {

/// A number for each dimension over which filters move: depth, height and width. A convolution over
/// fewer dimensions has the extent 1 along the first ones.
using spatial = std::array<std::int64_t, 3>;

/// The product of all numbers.
[[nodiscard]] constexpr std::int64_t product_of(const spatial& values) noexcept {
  return values[0] * values[1] * values[2];
}

/// The order of the elements of an image or a filter in memory.
enum class channel_order : std::int64_t {
  first,  ///< (C, D, H, W)
  last,   ///< (D, H, W, C)
};

/// The distances between neighbours along the dimensions of a batch of images or a set of filters,
/// in elements.
struct image_strides {
  std::int64_t image = 0;
  std::int64_t channel = 0;
  spatial axes{};
};

/// The strides of images of `channels` × `shape` elements without gaps, `distance` apart.
[[nodiscard]] constexpr image_strides strides_of(channel_order order, std::int64_t distance,
                                                 std::int64_t channels,
                                                 const spatial& shape) noexcept {
  const auto step = order == channel_order::first ? 1 : channels;
  return {distance,
          order == channel_order::first ? product_of(shape) : 1,
          {shape[1] * shape[2] * step, shape[2] * step, step}};
}

/// What a plan of the host depends on: a forward convolution, which maps the input to the output.
/// A transposed one maps its output to its input, so its X is the output here, and its Y the input.
/// All zeros: there is no product to sum.
struct convolution_shape {
  /// The value of `after` where no padding states the number of outputs. No library takes that.
  static constexpr std::int64_t unknown = -1;

  std::int64_t n = 0;  ///< images
  std::int64_t c = 0;  ///< channels of the input
  std::int64_t k = 0;  ///< filters: channels of the output
  spatial input{};     ///< extents of an image of the input
  spatial taps{};      ///< extents of a filter
  spatial output{};    ///< extents of an image of the output
  spatial before{};    ///< padding before the input
  spatial after{};     ///< padding that states `output`, equal to `before` if it can be
  spatial stride{};
  spatial dilation{};
  std::int64_t groups = 0;
  channel_order order = channel_order::first;  ///< of X, W and Y
  std::int64_t x_distance = 0;                 ///< between images of X, in elements
  std::int64_t y_distance = 0;                 ///< between images of Y, in elements
  std::int64_t element = 0;                    ///< the `element_type` of X, W and Y
  std::int64_t transposed = 0;                 ///< 1: maps the output to the input

  [[nodiscard]] element_type type() const noexcept { return static_cast<element_type>(element); }
  [[nodiscard]] bool is_transposed() const noexcept { return transposed != 0; }
  /// The channels and the extents of an image of X and of Y.
  ///@{
  [[nodiscard]] std::int64_t x_channels() const noexcept { return is_transposed() ? k : c; }
  [[nodiscard]] std::int64_t y_channels() const noexcept { return is_transposed() ? c : k; }
  [[nodiscard]] const spatial& x_extents() const noexcept {
    return is_transposed() ? output : input;
  }
  [[nodiscard]] const spatial& y_extents() const noexcept {
    return is_transposed() ? input : output;
  }
  ///@}
  /// The elements of an image of X, of a filter and of an image of Y.
  ///@{
  [[nodiscard]] std::int64_t x_image() const noexcept {
    return x_channels() * product_of(x_extents());
  }
  [[nodiscard]] std::int64_t filter() const noexcept { return c / groups * product_of(taps); }
  [[nodiscard]] std::int64_t y_image() const noexcept {
    return y_channels() * product_of(y_extents());
  }
  ///@}
  /// The elements from the first to the last one of each operand, gaps included.
  ///@{
  [[nodiscard]] std::int64_t x_extent() const noexcept { return (n - 1) * x_distance + x_image(); }
  [[nodiscard]] std::int64_t w_extent() const noexcept { return k * filter(); }
  [[nodiscard]] std::int64_t y_extent() const noexcept { return (n - 1) * y_distance + y_image(); }
  ///@}
  [[nodiscard]] image_strides x_strides() const noexcept {
    return strides_of(order, x_distance, x_channels(), x_extents());
  }
  [[nodiscard]] image_strides w_strides() const noexcept {
    return strides_of(order, filter(), c / groups, taps);
  }
  [[nodiscard]] image_strides y_strides() const noexcept {
    return strides_of(order, y_distance, y_channels(), y_extents());
  }
  /// The strides of the input and of the output of the forward convolution.
  ///@{
  [[nodiscard]] image_strides input_strides() const noexcept {
    return is_transposed() ? y_strides() : x_strides();
  }
  [[nodiscard]] image_strides output_strides() const noexcept {
    return is_transposed() ? x_strides() : y_strides();
  }
  ///@}
  /// The products of a launch.
  [[nodiscard]] double products() const noexcept {
    const auto number = [](std::int64_t value) {
      return static_cast<double>(value);
    };
    return number(n) * number(k) * number(product_of(output)) * number(filter());
  }
  /// The work of the products of a launch. Libraries compute channels in blocks, which they fill
  /// up. Of convolutions in groups they copy the windows of each group, and of transposed ones they
  /// write each element of Y several times.
  [[nodiscard]] double work() const noexcept {
    // Without a library, a product takes the time of an element.
    if (!has_padding()) return products();
    const auto number = [](std::int64_t value) {
      return static_cast<double>(value);
    };
    const auto blocks = [&](std::int64_t channels) {
      constexpr std::int64_t block = 16;
      return number((channels + block - 1) / block * block);
    };
    const auto window_elements = number(n) * number(product_of(output)) * number(product_of(taps));
    const double of_y = transposed != 0 ? 6 * number(n) * number(y_image()) : 0;
    if (groups == 1) return work_of_products(window_elements * blocks(c) * blocks(k)) / 2 + of_y;
    return window_elements * number(c) / 2 + work_of_products(products()) +
           4 * work_of_parts * number(n) * number(groups) + of_y;
  }
  /// The number of dimensions that a library sees: the last two, or all three.
  [[nodiscard]] std::size_t rank() const noexcept {
    const bool is_flat =
        input[0] == 1 && taps[0] == 1 && output[0] == 1 && before[0] == 0 && after[0] == 0;
    return is_flat ? 2 : 3;
  }
  [[nodiscard]] bool is_symmetric() const noexcept { return before == after; }
  /// Whether the padding states the number of outputs along each dimension.
  [[nodiscard]] bool has_padding() const noexcept {
    return after[0] >= 0 && after[1] >= 0 && after[2] >= 0;
  }
};

/// What a plan of cuDNN may compute beside the convolution.
enum class convolution_epilogue : std::int64_t { none, bias, bias_relu };

/// What a plan of cuDNN depends on.
struct convolution_key : convolution_shape {
  /// The largest alignment that is told apart, in bytes. The bias of an epilogue has it.
  static constexpr std::size_t max_alignment = 16;

  std::int64_t tf32 = 0;  ///< 1: factors may be rounded to TF32
  /// For cuDNN: the alignment of X, W and Y, in bytes, a power of two.
  std::int64_t alignment = 0;
  convolution_epilogue epilogue = convolution_epilogue::none;  ///< for tensor cores

  [[nodiscard]] bool uses_tensor_cores() const noexcept {
    return tf32 != 0 || type() != element_type::f32;
  }
  /// Whether graphs are tried. cuDNN's calls with descriptors know one padding for both ends.
  [[nodiscard]] bool uses_graphs() const noexcept {
    return has_padding() && (uses_tensor_cores() ? !breaks_graphs() : !is_symmetric());
  }

 private:
  /// Whether cuDNN's graphs are dangerous. Engines 73 and 76 of cuDNN 9.14 compute transposed
  /// convolutions on tensor cores of an H200. With strides whose product is 12 or more, some of
  /// their kernels hang, some end with an illegal instruction, and some plans end the process. They
  /// have always worked with products up to 9.
  [[nodiscard]] bool breaks_graphs() const noexcept {
    constexpr std::int64_t most = 9;
    const bool is_long = std::max({stride[0], stride[1], stride[2]}) > most;
    return is_transposed() && (is_long || product_of(stride) > most);
  }
};

/// Where the result of a convolution lies.
struct convolution_output {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  spatial shape{};
  std::int64_t distance = 0;           ///< between images, in elements
  std::int64_t residual_distance = 0;  ///< between images of the residual, in elements
  channel_order order = channel_order::first;

  [[nodiscard]] std::int64_t image() const noexcept { return channels * product_of(shape); }
  [[nodiscard]] bool empty() const noexcept { return images == 0 || image() == 0; }
  /// The elements of neighbouring channels are this far apart.
  [[nodiscard]] std::int64_t channel_stride() const noexcept {
    return order == channel_order::first ? product_of(shape) : 1;
  }
};

/// One convolution.
struct convolution_call {
  convolution_key key{};
  convolution_output output{};
  element_type type = element_type::f32;  ///< of all operands
  bool multiplies = false;  ///< there are products to sum; otherwise Y is the bias or 0
  activation function = activation::none;

  [[nodiscard]] const convolution_shape& host_key() const noexcept { return key; }
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.sizes = {output.images, output.channels, output.shape[0] * output.shape[1],
                      output.shape[2]},
            .work = (multiplies ? key.work() : 0) +
                    2 * work_of_parts * static_cast<double>(output.images)};
  }
};

/// The operands of a launch. The bias and the residual may be null.
struct convolution_operands {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  bool w_is_prepacked = false;  ///< W is a copy in the layout of the plan
};

}  // namespace sluice::operations
