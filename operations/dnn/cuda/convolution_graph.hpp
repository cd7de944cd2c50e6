// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/conv2d_call.hpp"
#include "operations/dnn/cuda/graph_descriptor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::cuda {

/// The operands of one convolution.
struct convolution_operands {
  const void* x;
  const void* w;
  const void* bias;
  void* y;
};

/// The operations of a graph.
enum class convolution_form {
  fused,  ///< y = activation(conv(x, w) + bias), with what the key has of it
  /// The same as y = activation(conv(x, w) + 0 · z + bias), with z = y, which is not read. This is
  /// the form that the engines of cuDNN's fused call take.
  fused_with_summand,
  plain,  ///< y = conv(x, w)
};

/// A convolution as a graph of cuDNN.
class convolution_graph {
 public:
  /// @throws error `unsupported` if no engine of cuDNN can take it
  /// @throws error `library_failure`
  convolution_graph(cudnnHandle_t handle, const operations::conv2d_key& key, convolution_form form);

  [[nodiscard]] const graph_descriptor& get() const noexcept { return graph_; }
  /// Whether y has its bias and its activation.
  [[nodiscard]] bool is_fused() const noexcept { return form_ != convolution_form::plain; }
  /// The identifiers of the tensors that a launch gives.
  [[nodiscard]] std::span<const std::int64_t> tensors() const noexcept {
    return std::span(tensors_).first(tensor_count_);
  }
  /// Their addresses, in the same order.
  [[nodiscard]] std::array<void*, 5> addresses(const convolution_operands& operands) const noexcept;

 private:
  convolution_form form_;
  bool has_bias_;
  std::array<std::int64_t, 5> tensors_{};
  std::size_t tensor_count_ = 0;
  std::vector<graph_descriptor> parts_;  // tensors and operations
  graph_descriptor graph_;
};

}  // namespace sluice::cuda
