// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::cuda {

/// The nodes of a graph, in the order of the capture.
/// @throws error what the driver reports
[[nodiscard]] std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph);

/// Makes the kernels, copies and fills of a graph run in the current context, another one of the
/// same GPU. The nodes of copies and fills are new ones.
/// @throws error what the driver reports
void use_current_context(cudaGraph_t graph);

/// An address that two captures of the same work had in common but for its value.
struct captured_address {
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  std::size_t bytes = 0;  ///< of the memory there
};

/// The arguments of the kernels of a graph that are addresses of externals. They are found by
/// comparison: the same work is captured twice with different addresses, and whatever differs is an
/// address, or an address of something within its memory. So this holds for kernels of libraries,
/// too, whatever the layout of their arguments.
class graph_arguments {
 public:
  graph_arguments() = default;
  graph_arguments(graph_arguments&&) = default;
  graph_arguments& operator=(graph_arguments&&) = default;
  graph_arguments(const graph_arguments&) = delete;  // a copy would have pointers into the original
  graph_arguments& operator=(const graph_arguments&) = delete;
  ~graph_arguments() = default;

  /// @pre the differences `second - first` of all addresses are distinct, and none of them is a
  ///   difference of two others
  /// @returns nothing if the graphs differ in anything else, if the arguments of a kernel cannot be
  ///   read, if too many kernels have such an argument, or if none has one of the addresses
  [[nodiscard]] static std::optional<graph_arguments> find(
      cudaGraph_t first, cudaGraph_t second, std::span<const captured_address> addresses);

  /// Gives `executable`, made of the first graph, these addresses for its next launches. After a
  /// failure, the next call sets all that this one has not.
  [[nodiscard]] cudaError_t set(cudaGraphExec_t executable,
                                std::span<void* const> addresses) noexcept;

 private:
  /// A word of the arguments of a kernel that is the address `number` plus `offset`.
  struct word {
    std::size_t position = 0;  // in bytes
    std::size_t number = 0;
    std::size_t offset = 0;
  };
  struct kernel {
    cudaGraphNode_t node = nullptr;
    CUDA_KERNEL_NODE_PARAMS params{};
    std::vector<std::uint64_t> arguments{};  // one behind the other, as the kernel expects them
    std::size_t bytes = 0;
    std::vector<void*> each{};  // into `arguments`; empty if they are passed as one buffer
    std::vector<word> words{};
    bool is_set = false;  // for the addresses of the last call
  };

  [[nodiscard]] static std::optional<kernel> read(cudaGraphNode_t node);
  /// Whether an argument is the address `number`.
  [[nodiscard]] bool has(std::size_t number) const noexcept;
  /// Notes where the arguments of `k` differ from those of the same kernel with the second
  /// addresses. False if a difference is not that of an address.
  [[nodiscard]] static bool compare(kernel& k, const kernel& second,
                                    std::span<const captured_address> addresses);

  std::vector<kernel> kernels_;  // with such arguments
};

}  // namespace sluice::cuda
