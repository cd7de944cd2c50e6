// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/convolution_graph.hpp"

#include "operations/dnn/cuda/cudnn_convolution.hpp"

#include <limits>
#include <utility>

namespace sluice::cuda {
namespace {

using operations::conv2d_epilogue;
using operations::conv2d_key;
using operations::image_strides;

using tensor_sizes = std::array<std::int64_t, 4>;

/// The identifiers of the tensors.
enum tensor_id : std::int64_t { id_x = 1, id_w, id_y, id_bias, id_first_intermediate };

struct tensor_properties {
  std::int64_t id;
  cudnnDataType_t type;
  tensor_sizes extents;
  image_strides strides;
  std::int64_t alignment;
  bool is_virtual = false;
};

graph_descriptor make_tensor(const tensor_properties& t) {
  graph_descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const tensor_sizes strides{t.strides.image, t.strides.channel, t.strides.row, t.strides.column};
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, t.type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, t.extents);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment);
  if (t.is_virtual) tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  tensor.finalize();
  return tensor;
}

/// The geometry of the filters.
graph_descriptor make_geometry(const conv2d_key& key) {
  graph_descriptor geometry(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const std::int64_t dimensions = 2;
  const std::array padding{key.padding_h, key.padding_w};
  const std::array dilation{key.dilation_h, key.dilation_w};
  const std::array stride{key.stride_h, key.stride_w};
  geometry.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  geometry.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  geometry.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, dimensions);
  geometry.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding);
  geometry.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding);
  geometry.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
  geometry.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
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

convolution_graph::convolution_graph(cudnnHandle_t handle, const conv2d_key& key,
                                     conv2d_epilogue epilogue)
    : epilogue_(epilogue), graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  const auto type = cudnn_type_of(key.type());
  const tensor_sizes y_extents{key.n, key.k, key.output_h, key.output_w};
  parts_.reserve(16);  // references to parts stay valid
  const auto keep = [&](graph_descriptor part) -> const graph_descriptor& {
    return parts_.emplace_back(std::move(part));
  };
  const auto operand = [&](std::int64_t id, const tensor_sizes& extents,
                           const image_strides& strides) -> const graph_descriptor& {
    tensors_[tensor_count_++] = id;
    return keep(make_tensor({id, type, extents, strides, key.alignment}));
  };
  // The result of each operation but the last one stays in f32, without memory.
  auto remaining = static_cast<std::int64_t>(epilogue);
  std::int64_t next_id = id_first_intermediate;
  const auto result = [&]() -> const graph_descriptor& {
    if (remaining-- == 0) return operand(id_y, y_extents, key.y_strides());
    return keep(make_tensor({next_id++, CUDNN_DATA_FLOAT, y_extents, key.y_strides(), 16, true}));
  };
  std::vector<cudnnBackendDescriptor_t> steps;

  const auto& x = operand(id_x, {key.n, key.c, key.h, key.w}, key.x_strides());
  const auto& w = operand(id_w, {key.k, key.c / key.groups, key.r, key.s}, key.w_strides());
  const auto* y = &result();
  steps.push_back(keep(make_convolution(keep(make_geometry(key)), x, w, *y)).get());
  const auto apply = [&](cudnnPointwiseMode_t mode, const graph_descriptor* b) {
    const auto& output = result();
    steps.push_back(keep(make_pointwise(keep(make_function(mode)), *y, b, output)).get());
    y = &output;
  };
  if (epilogue != conv2d_epilogue::none) {
    const auto strides = operations::strides_of(key.order, key.k, key.k, 1, 1);
    apply(CUDNN_POINTWISE_ADD, &operand(id_bias, {1, key.k, 1, 1}, strides));
  }
  if (epilogue == conv2d_epilogue::bias_relu) apply(CUDNN_POINTWISE_RELU_FWD, nullptr);

  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph_.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, steps);
  graph_.finalize();
}

std::array<void*, 4> convolution_graph::addresses(
    const convolution_operands& operands) const noexcept {
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
