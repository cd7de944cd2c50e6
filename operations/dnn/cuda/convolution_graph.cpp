// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/convolution_graph.hpp"

#include "operations/dnn/cuda/cudnn_convolution.hpp"

#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice::cuda {
namespace {

using operations::convolution_epilogue;
using operations::convolution_key;
using operations::image_strides;

using operations::spatial;
using number_list = std::vector<std::int64_t>;

/// The numbers `first`, and those of the dimensions that cuDNN sees.
number_list list_of(const convolution_key& key, number_list first, const spatial& values) {
  first.insert(first.end(), values.end() - static_cast<std::ptrdiff_t>(key.rank()), values.end());
  return first;
}

constexpr std::int64_t max_alignment = convolution_key::max_alignment;

/// The identifiers of the tensors.
enum tensor_id : std::int64_t { id_x = 1, id_w, id_y, id_bias, id_first_intermediate };

struct tensor_properties {
  std::int64_t id;
  cudnnDataType_t type;
  number_list extents;
  number_list strides;
  std::int64_t alignment;
  bool is_virtual = false;
};

graph_descriptor make_tensor(const tensor_properties& t) {
  graph_descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, t.type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(t.extents));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span(t.strides));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment);
  if (t.is_virtual) tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  tensor.finalize();
  return tensor;
}

/// The geometry of the filters.
graph_descriptor make_geometry(const convolution_key& key) {
  graph_descriptor geometry(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto set = [&](cudnnBackendAttributeName_t name, const spatial& values) {
    geometry.set(name, std::span(values).last(key.rank()));
  };
  geometry.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  geometry.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  geometry.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(key.rank()));
  set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, key.before);
  set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, key.after);
  set(CUDNN_ATTR_CONVOLUTION_DILATIONS, key.dilation);
  set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, key.stride);
  geometry.finalize();
  return geometry;
}

/// y = conv(x, w)
graph_descriptor make_convolution(const graph_descriptor& geometry, const graph_descriptor& x,
                                  const graph_descriptor& w, const graph_descriptor& y) {
  graph_descriptor convolution(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, geometry);
  convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F);
  convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F);
  convolution.finalize();
  return convolution;
}

/// The gradient dx with which w maps dx to dy: y = convᵀ(x, w) for dx = y and dy = x
graph_descriptor make_transposed(const graph_descriptor& geometry, const graph_descriptor& x,
                                 const graph_descriptor& w, const graph_descriptor& y) {
  graph_descriptor gradient(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  gradient.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, x);
  gradient.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
  gradient.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, y);
  gradient.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, geometry);
  gradient.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0F);
  gradient.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0F);
  gradient.finalize();
  return gradient;
}

/// A function of each element, computed in f32.
graph_descriptor make_function(cudnnPointwiseMode_t mode) {
  graph_descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (mode == CUDNN_POINTWISE_RELU_FWD) {
    // ReLU keeps NaN.
    function.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
    function.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0.0);
    function.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
                 static_cast<double>(std::numeric_limits<float>::max()));
    function.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0);
  }
  function.finalize();
  return function;
}

/// y = function(x, b), or y = function(x) if b is null
graph_descriptor make_pointwise(const graph_descriptor& function, const graph_descriptor& x,
                                const graph_descriptor* b, const graph_descriptor& y) {
  graph_descriptor pointwise(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0F);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0F);
  pointwise.finalize();
  return pointwise;
}

}  // namespace

convolution_graph::convolution_graph(cudnnHandle_t handle, const convolution_key& key,
                                     convolution_epilogue epilogue)
    : epilogue_(epilogue), graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  const auto type = cudnn_type_of(key.type());
  const auto y_extents = list_of(key, {key.n, key.y_channels()}, key.y_extents());
  const auto stride_list = [&](const image_strides& s) {
    return list_of(key, {s.image, s.channel}, s.axes);
  };
  parts_.reserve(16);  // references to parts stay valid
  const auto keep = [&](graph_descriptor part) -> const graph_descriptor& {
    return parts_.emplace_back(std::move(part));
  };
  const auto operand = [&](std::int64_t id, const number_list& extents,
                           const image_strides& strides) -> const graph_descriptor& {
    tensors_[tensor_count_++] = id;
    const auto alignment = id == id_bias ? max_alignment : key.alignment;
    return keep(make_tensor({id, type, extents, stride_list(strides), alignment}));
  };
  // The result of each operation but the last one stays in f32, without memory.
  auto remaining = static_cast<std::int64_t>(epilogue);
  std::int64_t next_id = id_first_intermediate;
  const auto result = [&]() -> const graph_descriptor& {
    if (remaining-- == 0) return operand(id_y, y_extents, key.y_strides());
    return keep(make_tensor({next_id++, CUDNN_DATA_FLOAT, y_extents, stride_list(key.y_strides()),
                             max_alignment, true}));
  };
  std::vector<cudnnBackendDescriptor_t> steps;

  const auto& x =
      operand(id_x, list_of(key, {key.n, key.x_channels()}, key.x_extents()), key.x_strides());
  const auto& w =
      operand(id_w, list_of(key, {key.k, key.c / key.groups}, key.taps), key.w_strides());
  const auto* y = &result();
  const auto& geometry = keep(make_geometry(key));
  steps.push_back(keep(key.is_transposed() ? make_transposed(geometry, x, w, *y)
                                           : make_convolution(geometry, x, w, *y))
                      .get());
  const auto apply = [&](cudnnPointwiseMode_t mode, const graph_descriptor* b) {
    const auto& output = result();
    steps.push_back(keep(make_pointwise(keep(make_function(mode)), *y, b, output)).get());
    y = &output;
  };
  if (epilogue != convolution_epilogue::none) {
    const spatial one{1, 1, 1};
    const auto channels = key.y_channels();
    const auto strides = operations::strides_of(key.order, channels, channels, one);
    apply(CUDNN_POINTWISE_ADD, &operand(id_bias, list_of(key, {1, channels}, one), strides));
  }
  if (epilogue == convolution_epilogue::bias_relu) apply(CUDNN_POINTWISE_RELU_FWD, nullptr);

  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph_.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, steps);
  graph_.finalize();
}

std::array<void*, 4> convolution_graph::addresses(
    const operations::convolution_operands& operands) const noexcept {
  std::array<void*, 4> result{};
  for (std::size_t i = 0; i < tensor_count_; ++i) {
    switch (tensors_[i]) {
      case id_x:
        result[i] = const_cast<void*>(operands.x);
        break;
      case id_w:
        result[i] = const_cast<void*>(operands.w);
        break;
      case id_bias:
        result[i] = const_cast<void*>(operands.bias);
        break;
      default:
        result[i] = operands.y;
    }
  }
  return result;
}

}  // namespace sluice::cuda
