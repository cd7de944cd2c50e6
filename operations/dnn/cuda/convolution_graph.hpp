// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"
#include "operations/dnn/cuda/graph_descriptor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::cuda {

/// A convolution, or a transposed one, as a graph of cuDNN: y = conv(x, w), with the epilogue of
/// the key or without.
class convolution_graph {
 public:
  /// @throws error `unsupported` if no engine of cuDNN can take it
  /// @throws error `library_failure`
  convolution_graph(cudnnHandle_t handle, const operations::convolution_key& key,
                    operations::convolution_epilogue epilogue);

  [[nodiscard]] const graph_descriptor& get() const noexcept { return graph_; }
  [[nodiscard]] operations::convolution_epilogue epilogue() const noexcept { return epilogue_; }
  /// The identifiers of the tensors that a launch gives.
  [[nodiscard]] std::span<const std::int64_t> tensors() const noexcept {
    return std::span(tensors_).first(tensor_count_);
  }
  /// Their addresses, in the same order.
  [[nodiscard]] std::array<void*, 4> addresses(
      const operations::convolution_operands& operands) const noexcept;

 private:
  operations::convolution_epilogue epilogue_;
  std::array<std::int64_t, 4> tensors_{};
  std::size_t tensor_count_ = 0;
  std::vector<graph_descriptor> parts_;  // tensors and operations
  graph_descriptor graph_;
};

}  // namespace sluice::cuda
