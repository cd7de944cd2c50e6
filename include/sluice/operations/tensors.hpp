// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_tensor.hpp>
#include <sluice/runtime/tensor.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace sluice {

/// Several tensors in order: the results of a program. Different copies may be used on different
/// threads.
template <class Tensor>
class tensor_list {
 public:
  using value_type = Tensor;  ///< type of an element

  tensor_list() noexcept = default;
  /// A list of these tensors.
  tensor_list(std::initializer_list<Tensor> tensors) : tensors_(tensors) {}

  /// The number of tensors.
  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  /// Whether there is none.
  [[nodiscard]] bool empty() const noexcept { return tensors_.empty(); }
  /// Tensor `i`, which is less than `size()`.
  [[nodiscard]] const Tensor& operator[](std::size_t i) const noexcept { return tensors_[i]; }
  /// The first tensor, of at least one.
  [[nodiscard]] const Tensor& front() const noexcept { return tensors_.front(); }
  /// The tensors in order.
  ///@{
  [[nodiscard]] auto begin() const noexcept { return tensors_.begin(); }
  [[nodiscard]] auto end() const noexcept { return tensors_.end(); }
  ///@}
  /// Appends a tensor.
  void push_back(Tensor tensor) { tensors_.push_back(std::move(tensor)); }
  /// Whether both hold the same tensors in the same order.
  [[nodiscard]] bool operator==(
      const tensor_list& other) const noexcept requires std::equality_comparable<Tensor> {
    return tensors_ == other.tensors_;
  }

 private:
  std::vector<Tensor> tensors_;
};

/// Tensors on the device.
using tensors = tensor_list<tensor>;
/// Tensors in host memory.
using host_tensors = tensor_list<host_tensor>;

}  // namespace sluice
