// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_plans.hpp"
#include "operations/dnn/direct_convolution.hpp"
#include "operations/dnn/window_loops.hpp"
#include "operations/dnn/workspace_layout.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::host {
namespace {

using operations::convolution_call;
using operations::convolution_shape;

/// Calls `visit(first, count)` for blocks of 4, 2 or 1 of the filters of a group.
template <class Visit>
void for_each_block(std::int64_t filters, const Visit& visit) {
  for (std::int64_t first = 0; first < filters;) {
    std::int64_t count = window_filters;
    while (count > filters - first) count /= 2;
    visit(first, count);
    first += count;
  }
}

/// A convolution of images with channels first whose groups have few filters. oneDNN fills filters
/// up to blocks of 8 or 16, and reorders images to put channels side by side. Here a vector holds
/// neighbouring windows, and the windows of a few filters stay in registers.
///
/// A band of rows of X with padding is copied first. If windows are some elements apart, each line
/// of the copy is divided: all elements under the first tap lie side by side.
class window_plan final : public convolution_plan {
 public:
  explicit window_plan(const convolution_shape& key)
      : key_(key),
        channels_(key.c / key.groups),
        filters_(key.k / key.groups),
        pitch_(key.output[2] - 1 + ((key.taps[2] - 1) * key.dilation[2]) / key.stride[2] + 1),
        line_(pitch_ * std::min(key.stride[2], (key.taps[2] - 1) * key.dilation[2] + 1)),
        band_rows_(rows_of_band()),
        bands_((key.output[1] + band_rows_ - 1) / band_rows_),
        chunks_(key.n * key.groups * bands_, nanoseconds_of_band()) {
    taps_.reserve(static_cast<std::size_t>(key.taps[1] * key.taps[2]));
    for (std::int64_t row = 0; row < key.taps[1]; ++row) {
      for (std::int64_t tap = 0; tap < key.taps[2]; ++tap) {
        const auto position = tap * key.dilation[2];
        taps_.push_back(row * key.dilation[1] * channels_ * line_ +
                        position % key.stride[2] * pitch_ + position / key.stride[2]);
      }
    }
    w_position_ = layout_.take(w_bytes());
    copy_bytes_ =
        static_cast<std::size_t>(input_rows(band_rows_) * channels_ * line_) * sizeof(float);
    copies_position_ = layout_.take(copy_bytes_ * static_cast<std::size_t>(chunks_.count()));
  }

  std::size_t bytes() const noexcept override {
    return sizeof(*this) + taps_.size() * sizeof(std::int64_t);
  }
  std::size_t workspace_bytes() const noexcept override { return layout_.bytes(); }

  prepacked_layout layout_of_w() const override {
    std::string identity = "windows";
    for (const auto extent : {key_.groups, filters_, key_.filter() / channels_, channels_}) {
      identity += ' ' + std::to_string(extent);
    }
    return {w_bytes(), identity};
  }
  void prepack_w(const float* w, void* copy) const override {
    auto* target = static_cast<float*>(copy);
    for (std::int64_t group = 0; group < key_.groups; ++group) {
      for_each_block(filters_, [&](std::int64_t first, std::int64_t count) {
        const float* const source = w + (group * filters_ + first) * key_.filter();
        for (std::int64_t i = 0; i < key_.filter(); ++i) {
          for (std::int64_t k = 0; k < count; ++k) *target++ = source[k * key_.filter() + i];
        }
      });
    }
  }

  void run(const convolution_call& call, const f32_operands& operands) const override {
    const float* w = static_cast<const float*>(operands.prepacked_w);
    if (w == nullptr) {
      auto* const copy = reinterpret_cast<float*>(operands.workspace + w_position_);
      prepack_w(operands.w, copy);
      w = copy;
    }
    parallel_for(chunks_.count(), [&](std::int64_t chunk) {
      auto* const copy = reinterpret_cast<float*>(operands.workspace + copies_position_ +
                                                  static_cast<std::size_t>(chunk) * copy_bytes_);
      for (auto item = chunks_[chunk].begin; item < chunks_[chunk].end; ++item) {
        const auto group = item / bands_ % key_.groups;
        const auto row = item % bands_ * band_rows_;
        compute(call, operands, w,
                {.image = item / bands_ / key_.groups,
                 .group = group,
                 .first = row,
                 .last = std::min(row + band_rows_, key_.output[1])},
                copy);
      }
    });
  }

 private:
  /// Some rows of the results of a group of filters.
  struct band {
    std::int64_t image;
    std::int64_t group;
    std::int64_t first;
    std::int64_t last;  ///< behind the last row
  };

  [[nodiscard]] std::size_t w_bytes() const noexcept {
    return static_cast<std::size_t>(key_.w_extent()) * sizeof(float);
  }
  /// The rows of X that so many rows of Y depend on, those of padding included.
  [[nodiscard]] std::int64_t input_rows(std::int64_t rows) const noexcept {
    const auto reach = (key_.taps[1] - 1) * key_.dilation[1] + 1;
    return std::min((rows - 1) * key_.stride[1] + reach, key_.input[1]);
  }
  /// The copy of a band fits into a cache, and so do the results of a block of filters. A band
  /// takes at most about 0.5 ms.
  [[nodiscard]] std::int64_t rows_of_band() const noexcept {
    constexpr std::int64_t cached_elements = 1 << 15;
    constexpr std::int64_t products_of_band = 1 << 24;
    const auto reach = (key_.taps[1] - 1) * key_.dilation[1] + 1;
    const auto cached = cached_elements / (channels_ * line_) - reach;
    const auto results = cached_elements / (std::min(filters_, window_filters) * key_.output[2]);
    const auto short_enough = products_of_band / (filters_ * key_.filter() * key_.output[2]);
    // Bands share rows of X.
    const auto least = std::max<std::int64_t>(2 * reach / key_.stride[1], 1);
    const auto rows = std::max(std::min({cached / key_.stride[1], results, short_enough}), least);
    const auto bands = (key_.output[1] + rows - 1) / rows;
    return (key_.output[1] + bands - 1) / bands;
  }
  [[nodiscard]] double nanoseconds_of_band() const noexcept {
    constexpr double products_in_nanosecond = 20;
    const auto number = [](std::int64_t value) {
      return static_cast<double>(value);
    };
    const auto results = number(band_rows_) * number(filters_) * number(key_.output[2]);
    return results * (number(key_.filter()) / products_in_nanosecond + 0.3) +
           0.3 * number(input_rows(band_rows_)) * number(channels_) * number(line_);
  }

  /// The range of the rows of X under a band.
  [[nodiscard]] std::int64_t first_input(const band& b) const noexcept {
    return std::clamp<std::int64_t>(b.first * key_.stride[1] - key_.before[1], 0, key_.input[1]);
  }
  [[nodiscard]] std::int64_t last_input(const band& b) const noexcept {
    const auto last =
        (b.last - 1) * key_.stride[1] - key_.before[1] + (key_.taps[1] - 1) * key_.dilation[1] + 1;
    return std::clamp<std::int64_t>(last, first_input(b), key_.input[1]);
  }

  /// Copies the rows of X under a band: of each row all channels.
  void copy_rows(const float* x, const band& b, float* copy) const {
    x += b.image * key_.x_distance + b.group * channels_ * key_.input[1] * key_.input[2];
    for (auto row = first_input(b); row < last_input(b); ++row) {
      for (std::int64_t c = 0; c < channels_; ++c, copy += line_) {
        copy_line(x + (c * key_.input[1] + row) * key_.input[2], copy);
      }
    }
  }
  void copy_line(const float* x, float* copy) const {
    const auto stride = key_.stride[2];
    for (std::int64_t phase = 0; phase * pitch_ < line_; ++phase) {
      // Element i of the phase is x[i · stride + offset].
      const auto offset = phase - key_.before[2];
      const auto begin = std::min(offset < 0 ? (stride - 1 - offset) / stride : 0, pitch_);
      const auto end = offset < key_.input[2]
                           ? std::clamp((key_.input[2] - 1 - offset) / stride + 1, begin, pitch_)
                           : begin;
      float* const target = copy + phase * pitch_;
      std::fill(target, target + begin, 0.0F);
      if (stride == 1) {
        std::copy(x + begin + offset, x + end + offset, target + begin);
      } else {
        for (auto i = begin; i < end; ++i) target[i] = x[i * stride + offset];
      }
      std::fill(target + end, target + pitch_, 0.0F);
    }
  }

  void compute(const convolution_call& call, const f32_operands& operands, const float* w,
               const band& b, float* copy) const {
    copy_rows(operands.x, b, copy);
    const auto plane = key_.output[1] * key_.output[2];
    const auto width = key_.output[2];
    for_each_block(filters_, [&](std::int64_t block, std::int64_t count) {
      const auto first = b.group * filters_ + block;
      const auto position = first * plane + b.first * width;
      float* const y = operands.y + b.image * key_.y_distance + position;
      window_row row{.x = copy,
                     .channels = channels_,
                     .x_channel = line_,
                     .w_channel = key_.taps[1] * key_.taps[2] * count,
                     .bias = operands.bias == nullptr ? nullptr : operands.bias + first,
                     .filters = count,
                     .y = y,
                     .y_channel = plane,
                     .windows = width};
      for (auto i = b.first; i < b.last; ++i, row.y += width) {
        // The taps over rows of the image, not of padding.
        const auto start = i * key_.stride[1] - key_.before[1];
        const auto step = key_.dilation[1];
        const auto first_tap = std::min(start < 0 ? (step - 1 - start) / step : 0, key_.taps[1]);
        const auto last_tap =
            start < key_.input[1]
                ? std::clamp((key_.input[1] - 1 - start) / step + 1, first_tap, key_.taps[1])
                : first_tap;
        row.first = (start - first_input(b)) * channels_ * line_;
        row.taps = taps_.data() + first_tap * key_.taps[2];
        row.tap_count = (last_tap - first_tap) * key_.taps[2];
        row.w = w + first * key_.filter() + first_tap * key_.taps[2] * count;
        sum_windows_f32(row);
      }
      for (std::int64_t k = 0; k < count; ++k) {
        const float* const residual = operands.residual == nullptr
                                          ? nullptr
                                          : operands.residual +
                                                b.image * call.output.residual_distance + position +
                                                k * plane;
        finish(call.function, residual, (b.last - b.first) * width, y + k * plane);
      }
    });
  }

  convolution_shape key_;
  std::int64_t channels_;   // of X in a group
  std::int64_t filters_;    // of a group
  std::int64_t pitch_;      // of the elements under one tap, in a line of the copy
  std::int64_t line_;       // elements of a line of the copy
  std::int64_t band_rows_;  // of Y
  std::int64_t bands_;      // of an image
  work_chunks chunks_;      // of bands of groups of images
  std::vector<std::int64_t> taps_;
  workspace_layout layout_;
  std::size_t w_position_ = 0;
  std::size_t copies_position_ = 0;
  std::size_t copy_bytes_ = 0;  // of a chunk
};

}  // namespace

std::shared_ptr<const convolution_plan> make_window_plan(const convolution_shape& key) {
  constexpr std::int64_t longest = std::int64_t{1} << 24;
  constexpr std::int64_t most_elements = std::int64_t{1} << 24;  // of the copy of a row
  const bool is_short = std::max({key.input[1], key.input[2], key.before[1], key.before[2],
                                  key.after[1], key.after[2]}) <= longest;
  const bool has_rows = !key.is_transposed() && key.rank() == 2 && key.has_padding() &&
                        key.order == operations::channel_order::first &&
                        key.output[2] >= least_windows;
  if (!has_rows || !is_short) return nullptr;
  // oneDNN is faster with more filters, unless it divides X into channels that it fills up.
  constexpr std::int64_t few_filters = 8;
  const auto channels = key.c / key.groups;
  if (key.k / key.groups > few_filters && channels > 1) return nullptr;
  const auto reach = (key.taps[1] - 1) * key.dilation[1] + 1;
  const auto width = key.input[2] + key.before[2] + key.after[2];
  if (static_cast<double>(width) * static_cast<double>(channels) * static_cast<double>(reach) >
      static_cast<double>(most_elements)) {
    return nullptr;
  }
  // A row of Y is computed by one thread, and oneDNN's are divided.
  constexpr double most_products = 1 << 25;
  const auto filters = key.k / key.groups;
  if (static_cast<double>(filters) * static_cast<double>(key.filter()) *
          static_cast<double>(key.output[2]) >
      most_products) {
    return nullptr;
  }
  auto plan = std::make_shared<window_plan>(key);
  return plan->workspace_bytes() <= workspace_limit(key) ? plan : nullptr;
}

}  // namespace sluice::host
