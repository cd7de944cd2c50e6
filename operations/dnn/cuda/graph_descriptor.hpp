// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/cuda/check_cudnn.hpp"

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace sluice::cuda {

/// The type of an attribute whose value is a `T`.
template <class T>
inline constexpr auto graph_attribute_type = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto graph_attribute_type<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto graph_attribute_type<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto graph_attribute_type<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto graph_attribute_type<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr auto graph_attribute_type<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto graph_attribute_type<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto graph_attribute_type<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto graph_attribute_type<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto graph_attribute_type<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto graph_attribute_type<cudnnNanPropagation_t> = CUDNN_TYPE_NAN_PROPOGATION;
template <>
inline constexpr auto graph_attribute_type<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto graph_attribute_type<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr auto graph_attribute_type<cudnnBackendBehaviorNote_t> = CUDNN_TYPE_BEHAVIOR_NOTE;

/// A descriptor of cuDNN's graph API: a tensor, an operation, a graph, a plan. Its attributes are
/// set, then it is finalized. From then on it does not change.
///
/// The functions throw error `unsupported` or `library_failure`, as `check_cudnn` does.
class graph_descriptor {
 public:
  explicit graph_descriptor(cudnnBackendDescriptorType_t type) {
    operations::check_cudnn(cudnnBackendCreateDescriptor(type, &handle_),
                            "cudnnBackendCreateDescriptor");
  }
  graph_descriptor(graph_descriptor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  graph_descriptor& operator=(graph_descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~graph_descriptor() {
    if (handle_ != nullptr) (void)cudnnBackendDestroyDescriptor(handle_);
  }
  [[nodiscard]] cudnnBackendDescriptor_t get() const noexcept { return handle_; }

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    static_assert(graph_attribute_type<T> != CUDNN_TYPE_CHAR, "no attribute has this type");
    set(name, graph_attribute_type<T>, 1, &value);
  }
  template <class T, std::size_t Extent>
  void set(cudnnBackendAttributeName_t name, std::span<T, Extent> values) {
    set(name, graph_attribute_type<std::remove_const_t<T>>, values.size(), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const graph_descriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  /// Sets an attribute that is a list of descriptors.
  void set_descriptors(cudnnBackendAttributeName_t name,
                       std::span<const cudnnBackendDescriptor_t> values) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, values.size(), values.data());
  }
  void finalize() {
    operations::check_cudnn(cudnnBackendFinalize(handle_), "cudnnBackendFinalize");
  }

  /// The elements of an attribute, at most as many as fit into `values`. Returns their number.
  template <class T>
  std::size_t get(cudnnBackendAttributeName_t name, std::span<T> values) const {
    return get(name, graph_attribute_type<T>, values.size(), values.data());
  }
  /// Copies an attribute that is a list of descriptors into those of `values`, which are new. If
  /// there are none, only the size of the list is returned.
  std::size_t get_descriptors(cudnnBackendAttributeName_t name,
                              std::span<cudnnBackendDescriptor_t> values) const {
    return get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, values.size(), values.data());
  }

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
           const void* values) {
    operations::check_cudnn(
        cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(count), values),
        "cudnnBackendSetAttribute");
  }
  std::size_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::size_t count, void* values) const {
    std::int64_t size = 0;
    operations::check_cudnn(
        cudnnBackendGetAttribute(handle_, name, type, static_cast<std::int64_t>(count), &size,
                                 values),
        "cudnnBackendGetAttribute");
    return static_cast<std::size_t>(size);
  }

  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace sluice::cuda
