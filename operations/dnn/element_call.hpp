// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"
#include "operations/dnn/convolution_element.hpp"
#include "operations/elementwise/layouts.hpp"

#include <cstddef>

namespace sluice::operations {

/// A convolution as sums for each element of Y.
[[nodiscard]] inline element_call make_element_call(const convolution_shape& key) noexcept {
  element_call call;
  const auto xs = key.x_strides();
  const auto ws = key.w_strides();
  const auto ys = key.y_strides();
  for (std::size_t i = 0; i < key.input.size(); ++i) {
    call.axes[i] = {key.x_extents()[i], key.y_extents()[i], key.taps[i],
                    key.before[i],      key.stride[i],      key.dilation[i],
                    xs.axes[i],         ws.axes[i],         ys.axes[i]};
  }
  call.x = {xs.image, xs.channel};
  call.y = {ys.image, ys.channel};
  call.y_filter = key.is_transposed() ? ws.channel : ws.image;
  call.x_filter = key.is_transposed() ? ws.image : ws.channel;
  call.w_group = key.k / key.groups * ws.image;
  call.images = key.n;
  call.y_channels = key.y_channels();
  call.group_inputs = key.x_channels() / key.groups;
  call.group_outputs = key.y_channels() / key.groups;
  call.is_transposed = key.is_transposed();
  call.is_channels_last = key.order == channel_order::last;
  call.type = storage_of(key.type());
  return call;
}

}  // namespace sluice::operations
