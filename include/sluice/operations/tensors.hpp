// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace sluice {

/// Several tensors in order: the results of a program. Different copies may be used on different
/// threads.
class tensors {
 public:
  using value_type = tensor;  ///< type of an element

  tensors() noexcept = default;
  /// The tensors `all`.
  tensors(std::initializer_list<tensor> all) : all_(all) {}

  /// The number of tensors.
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  /// Whether there is none.
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  /// Tensor `i`, which is less than `size()`.
  [[nodiscard]] const tensor& operator[](std::size_t i) const noexcept { return all_[i]; }
  /// The first tensor, of at least one.
  [[nodiscard]] const tensor& front() const noexcept { return all_.front(); }
  /// The tensors in order.
  ///@{
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }
  ///@}
  /// Appends a tensor.
  void push_back(tensor one) { all_.push_back(std::move(one)); }
  /// Whether both hold the same views in the same order.
  [[nodiscard]] bool operator==(const tensors&) const noexcept = default;

 private:
  std::vector<tensor> all_;
};

}  // namespace sluice
