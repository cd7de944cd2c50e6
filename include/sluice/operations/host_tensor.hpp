// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

class device_runtime;

/// A tensor in host memory: row-major, without gaps.
///
///     const host_tensor x(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
///     const std::span<const float> elements = x.values<float>();
///
/// Copies share the elements. Nobody may write them while a transfer uses them.
class SLUICE_EXPORT host_tensor {
 public:
  /// No tensor: no elements, no dimensions.
  host_tensor() noexcept = default;
  host_tensor(const host_tensor&) noexcept = default;
  host_tensor(host_tensor&& other) noexcept { swap(other); }
  host_tensor& operator=(const host_tensor&) noexcept = default;
  host_tensor& operator=(host_tensor&& other) noexcept {
    host_tensor(std::move(other)).swap(*this);
    return *this;
  }
  ~host_tensor() = default;
  /// Exchanges the two tensors.
  void swap(host_tensor& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(shape_, other.shape_);
    std::swap(size_, other.size_);
    data_.swap(other.data_);
  }
  /// A tensor of undefined elements.
  /// @throws error `invalid_argument` if an extent is negative, the size in bytes overflows, or
  /// `type` is not an enumerator
  /// @throws std::bad_alloc if there is no memory
  host_tensor(element_type type, const extents& shape);
  /// The elements of `values`, which are not copied.
  /// @throws error `invalid_argument` if `shape` has another number of elements
  ///@{
  template <element T>
  requires(!std::is_same_v<T, bool>) host_tensor(std::vector<T> values, const extents& shape)
      : host_tensor(shape, std::make_shared<std::vector<T>>(std::move(values))) {}
  template <element T>
  requires(!std::is_same_v<T, bool>)
      // NOLINTNEXTLINE(google-explicit-constructor): every vector of elements is a tensor.
      host_tensor(std::vector<T> values)
      : host_tensor(std::make_shared<std::vector<T>>(std::move(values))) {}
  ///@}
  /// Likewise, with a copy of the elements: those of a `std::vector<bool>` have no addresses.
  ///@{
  host_tensor(const std::vector<bool>& values, const extents& shape);
  // NOLINTNEXTLINE(google-explicit-constructor): every vector of elements is a tensor.
  host_tensor(const std::vector<bool>& values);
  ///@}

  /// A tensor of undefined elements in pinned memory of `runtime`, for transfers of it at full
  /// speed; see `device_runtime::allocate_pinned`.
  /// @throws error `invalid_argument` as the constructor
  /// @throws error the errors of `device_runtime::allocate_pinned`
  [[nodiscard]] static host_tensor pinned(device_runtime& runtime, element_type type,
                                          const extents& shape);

  /// A tensor of elements that lie in memory of others, which are not copied.
  ///
  ///     host_tensor::external({mapping, mapping->data()}, element_type::u8, {720, 1280, 3})
  ///
  /// The tensor and its copies own `elements`, which are row-major, without gaps.
  /// @throws error `invalid_argument` if an extent is negative, the size in bytes overflows, `type`
  /// is not an enumerator, or `elements` is null or not aligned for the type
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] static host_tensor external(std::shared_ptr<void> elements, element_type type,
                                            const extents& shape);

  /// Whether there is a tensor.
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  /// The type of an element.
  [[nodiscard]] element_type type() const noexcept { return type_; }
  /// The number of elements along each dimension.
  [[nodiscard]] const extents& shape() const noexcept { return shape_; }
  /// The number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The size of the elements in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return size_ * size_of(type_); }
  /// The same elements with another shape, shared with this tensor.
  /// @throws error `invalid_argument` if `shape` has another number of elements
  [[nodiscard]] host_tensor reshape(const extents& shape) const {
    return {type_, shape, size_, data_};
  }
  /// The elements with the first `count` indices of the first dimension, shared with this tensor.
  /// @throws error `invalid_argument` if there is no dimension, or `count` is not from 0 to its
  /// extent
  [[nodiscard]] host_tensor first(std::int64_t count) const;
  /// The elements converted to another type, as `cast` converts them: rounded once, to the nearest
  /// value. Shares the elements if they are of this type.
  ///
  ///     p.constant("weights", host_tensor(weights, {64, 128}).to(element_type::bf16))
  ///
  /// @throws error `invalid_argument` if complex numbers would become real ones, or `type` is not
  /// an enumerator
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] host_tensor to(element_type type) const;
  /// The elements, shared with this tensor; nullptr if there is no tensor.
  ///@{
  [[nodiscard]] std::shared_ptr<const void> data() const noexcept { return data_; }
  [[nodiscard]] std::shared_ptr<void> data() noexcept { return data_; }
  ///@}

  /// The elements in row-major order. Valid as long as a copy of the tensor, so a temporary lends
  /// none: keep it in a variable, or call `to_vector`.
  /// @throws error `invalid_argument` if the elements are not of type `T`
  ///@{
  template <element T>
  [[nodiscard]] std::span<const T> values() const& {
    require_type(element_type_v<T>);
    return {static_cast<const T*>(data_.get()), size_};
  }
  template <element T>
  [[nodiscard]] std::span<T> values() & {
    require_type(element_type_v<T>);
    return {static_cast<T*>(data_.get()), size_};
  }
  template <element T>
  std::span<const T> values() const&& = delete;
  ///@}
  /// A copy of the elements in row-major order.
  /// @throws error `invalid_argument` if the elements are not of type `T`
  template <element T>
  [[nodiscard]] std::vector<T> to_vector() const {
    const auto elements = values<T>();
    return {elements.begin(), elements.end()};
  }

 private:
  template <class T>
  explicit host_tensor(std::shared_ptr<std::vector<T>> values)
      : host_tensor(extents{static_cast<std::int64_t>(values->size())}, values) {}
  template <class T>
  host_tensor(const extents& shape, std::shared_ptr<std::vector<T>> values)
      : host_tensor(element_type_v<T>, shape, values->size(), {values, values->data()}) {}
  host_tensor(element_type type, const extents& shape, std::size_t count,
              std::shared_ptr<void> data);
  void require_type(element_type type) const;

  element_type type_ = element_type::u8;
  extents shape_{};
  std::size_t size_ = 0;
  std::shared_ptr<void> data_;
};

}  // namespace sluice
