// SPDX-License-Identifier: Apache-2.0
#include "operations/program/graph_arguments_cuda.hpp"

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/driver.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace sluice::cuda {
namespace {

// Each changed kernel takes the launching thread about as long as the copy that it saves takes the
// GPU.
constexpr std::size_t max_kernels = 8;

/// Whether two nodes other than kernels do the same with the same memory.
[[nodiscard]] bool same_work(cudaGraphNode_t a, cudaGraphNode_t b, cudaGraphNodeType type) {
  if (type == cudaGraphNodeTypeMemset) {
    cudaMemsetParams x{};
    cudaMemsetParams y{};
    check(cudaGraphMemsetNodeGetParams(a, &x));
    check(cudaGraphMemsetNodeGetParams(b, &y));
    return x.dst == y.dst && x.width == y.width && x.height == y.height && x.value == y.value;
  }
  if (type != cudaGraphNodeTypeMemcpy) return false;
  cudaMemcpy3DParms x{};
  cudaMemcpy3DParms y{};
  check(cudaGraphMemcpyNodeGetParams(a, &x));
  check(cudaGraphMemcpyNodeGetParams(b, &y));
  return x.srcPtr.ptr == y.srcPtr.ptr && x.dstPtr.ptr == y.dstPtr.ptr &&
         x.extent.width == y.extent.width && x.extent.height == y.extent.height &&
         x.extent.depth == y.extent.depth;
}

[[nodiscard]] bool same_launch(const CUDA_KERNEL_NODE_PARAMS& a, const CUDA_KERNEL_NODE_PARAMS& b) {
  return a.func == b.func && a.gridDimX == b.gridDimX && a.gridDimY == b.gridDimY &&
         a.gridDimZ == b.gridDimZ && a.blockDimX == b.blockDimX && a.blockDimY == b.blockDimY &&
         a.blockDimZ == b.blockDimZ && a.sharedMemBytes == b.sharedMemBytes;
}

[[nodiscard]] std::uint64_t number_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

// CUDA 13 adds data of edges to these functions.
#if CUDART_VERSION >= 13000
cudaError_t dependencies_of(cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t& count) {
  return cudaGraphNodeGetDependencies(node, nodes, nullptr, &count);
}
cudaError_t dependents_of(cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t& count) {
  return cudaGraphNodeGetDependentNodes(node, nodes, nullptr, &count);
}
cudaError_t add_dependency(cudaGraph_t graph, cudaGraphNode_t predecessor,
                           cudaGraphNode_t successor) {
  return cudaGraphAddDependencies(graph, &predecessor, &successor, nullptr, 1);
}
#else
cudaError_t dependencies_of(cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t& count) {
  return cudaGraphNodeGetDependencies(node, nodes, &count);
}
cudaError_t dependents_of(cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t& count) {
  return cudaGraphNodeGetDependentNodes(node, nodes, &count);
}
cudaError_t add_dependency(cudaGraph_t graph, cudaGraphNode_t predecessor,
                           cudaGraphNode_t successor) {
  return cudaGraphAddDependencies(graph, &predecessor, &successor, 1);
}
#endif

/// The nodes that `find`, one of the functions above, finds.
template <class Find>
[[nodiscard]] std::vector<cudaGraphNode_t> neighbours(cudaGraphNode_t node, const Find& find) {
  std::size_t count = 0;
  check(find(node, nullptr, count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count != 0) check(find(node, nodes.data(), count));
  return nodes;
}

/// Replaces a node by one that `add` adds, with the same edges.
template <class Add>
void replace(cudaGraph_t graph, cudaGraphNode_t node, const Add& add) {
  cudaGraphNode_t new_node = nullptr;
  check(add(new_node));
  for (const auto predecessor : neighbours(node, dependencies_of)) {
    check(add_dependency(graph, predecessor, new_node));
  }
  for (const auto successor : neighbours(node, dependents_of)) {
    check(add_dependency(graph, new_node, successor));
  }
  check(cudaGraphDestroyNode(node));
}

void set_context_of_kernel(cudaGraphNode_t node) {
  const auto& d = driver();
  CUDA_KERNEL_NODE_PARAMS params{};
  auto status = CUDA_ERROR_NOT_SUPPORTED;
  if (d.graph_kernel_params != nullptr && d.graph_set_node_params != nullptr) {
    status = d.graph_kernel_params(node, &params);
  }
  if (status == CUDA_SUCCESS) status = d.context_get_current(&params.ctx);
  if (status == CUDA_SUCCESS) status = d.graph_set_node_params(node, &params);
  // The numbers of the runtime and of the driver are the same.
  check(static_cast<cudaError_t>(status));
}

}  // namespace

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

void use_current_context(cudaGraph_t graph) {
  for (const auto node : nodes_of(graph)) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeKernel) set_context_of_kernel(node);
    if (type == cudaGraphNodeTypeMemcpy) {
      cudaMemcpy3DParms copy{};
      check(cudaGraphMemcpyNodeGetParams(node, &copy));
      replace(graph, node, [&](cudaGraphNode_t& new_node) {
        return cudaGraphAddMemcpyNode(&new_node, graph, nullptr, 0, &copy);
      });
    }
    if (type == cudaGraphNodeTypeMemset) {
      cudaMemsetParams fill{};
      check(cudaGraphMemsetNodeGetParams(node, &fill));
      replace(graph, node, [&](cudaGraphNode_t& new_node) {
        return cudaGraphAddMemsetNode(&new_node, graph, nullptr, 0, &fill);
      });
    }
  }
}

std::optional<graph_arguments::kernel> graph_arguments::read(cudaGraphNode_t node) {
  kernel k{.node = node};
  if (driver().graph_kernel_params(node, &k.params) != CUDA_SUCCESS || k.params.func == nullptr) {
    return std::nullopt;
  }
  const auto resize = [&k](std::size_t bytes) {
    k.bytes = bytes;
    k.arguments.resize((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  };
  if (k.params.kernelParams != nullptr) {
    std::vector<std::size_t> offsets;
    std::size_t offset = 0;
    std::size_t size = 0;
    for (;;) {
      const auto status =
          driver().function_param_info(k.params.func, offsets.size(), &offset, &size);
      if (status == CUDA_ERROR_INVALID_VALUE && !offsets.empty()) break;  // behind the last one
      if (status != CUDA_SUCCESS) return std::nullopt;
      resize(std::max(k.bytes, offset + size));
      std::memcpy(reinterpret_cast<std::byte*>(k.arguments.data()) + offset,
                  k.params.kernelParams[offsets.size()], size);
      offsets.push_back(offset);
    }
    for (const auto byte_offset : offsets) {
      k.each.push_back(reinterpret_cast<std::byte*>(k.arguments.data()) + byte_offset);
    }
    return k;
  }
  if (k.params.extra == nullptr) return k;  // no arguments
  const void* buffer = nullptr;
  const std::size_t* bytes = nullptr;
  for (auto* entry = k.params.extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
    if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = entry[1];
    if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = static_cast<const std::size_t*>(entry[1]);
  }
  if (buffer == nullptr || bytes == nullptr) return std::nullopt;
  resize(*bytes);
  std::memcpy(k.arguments.data(), buffer, *bytes);
  return k;
}

bool graph_arguments::compare(kernel& k, const kernel& second,
                              std::span<const captured_address> addresses) {
  if (!same_launch(k.params, second.params) || k.each.size() != second.each.size() ||
      k.bytes != second.bytes) {
    return false;
  }
  for (std::size_t i = 0; i < k.arguments.size(); ++i) {
    const auto was = k.arguments[i];
    const auto is = second.arguments[i];
    if (was == is) continue;
    const auto match = std::find_if(addresses.begin(), addresses.end(), [&](const auto& a) {
      return is - was == number_of(a.second) - number_of(a.first) &&
             was - number_of(a.first) <= a.bytes;
    });
    if (match == addresses.end()) return false;
    k.words.push_back(
        {i, static_cast<std::size_t>(match - addresses.begin()), was - number_of(match->first)});
  }
  return true;
}

std::optional<graph_arguments> graph_arguments::find(cudaGraph_t first, cudaGraph_t second,
                                                     std::span<const captured_address> addresses) {
  if (driver().graph_kernel_params == nullptr || driver().graph_set_kernel_params == nullptr ||
      driver().function_param_info == nullptr) {
    return std::nullopt;
  }
  const auto firsts = nodes_of(first);
  const auto seconds = nodes_of(second);
  if (firsts.size() != seconds.size()) return std::nullopt;
  graph_arguments result;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    cudaGraphNodeType type{};
    cudaGraphNodeType other{};
    check(cudaGraphNodeGetType(firsts[i], &type));
    check(cudaGraphNodeGetType(seconds[i], &other));
    if (type != other) return std::nullopt;
    if (type != cudaGraphNodeTypeKernel) {
      if (!same_work(firsts[i], seconds[i], type)) return std::nullopt;
      continue;
    }
    auto k = read(firsts[i]);
    const auto counterpart = read(seconds[i]);
    if (!k || !counterpart || !compare(*k, *counterpart, addresses)) return std::nullopt;
    if (k->words.empty()) continue;
    result.kernels_.push_back(std::move(*k));
    if (result.kernels_.size() > max_kernels) return std::nullopt;
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].bytes != 0 && !result.has(i)) return std::nullopt;
  }
  return result;
}

bool graph_arguments::has(std::size_t number) const noexcept {
  return std::any_of(kernels_.begin(), kernels_.end(), [&](const kernel& k) {
    return std::any_of(k.words.begin(), k.words.end(),
                       [&](const word& w) { return w.number == number; });
  });
}

cudaError_t graph_arguments::set(cudaGraphExec_t executable,
                                 std::span<void* const> addresses) noexcept {
  for (auto& k : kernels_) {
    for (const auto& w : k.words) {
      const auto is = number_of(addresses[w.number]) + w.offset;
      if (std::exchange(k.arguments[w.position], is) != is) k.is_set = false;
    }
    if (k.is_set) continue;
    auto params = k.params;
    std::array<void*, 5> as_one{CU_LAUNCH_PARAM_BUFFER_POINTER, k.arguments.data(),
                                CU_LAUNCH_PARAM_BUFFER_SIZE, &k.bytes, CU_LAUNCH_PARAM_END};
    params.kernelParams = k.each.empty() ? nullptr : k.each.data();
    params.extra = k.each.empty() ? as_one.data() : nullptr;
    const auto status = driver().graph_set_kernel_params(executable, k.node, &params);
    // The numbers of the runtime and of the driver are the same.
    if (status != CUDA_SUCCESS) return static_cast<cudaError_t>(status);
    k.is_set = true;
  }
  return cudaSuccess;
}

}  // namespace sluice::cuda
