// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace sluice {

/// A view of a block of device memory: element type, shape, strides and position of the first
/// element.
///
///     const tensor memory = runtime.allocate<float>(3 * 480 * 640, stream, "image");
///     const tensor image = memory.reshape({3, 480, 640});
///     const tensor left = image.slice(2, 0, 320);  // shares the memory
///     const tensor channels_last = image.permute({1, 2, 0});
///
/// A tensor has up to 8 dimensions. A stride is the distance between neighbours along a dimension,
/// in elements. It is not negative; 0 repeats the same elements. Without dimensions a tensor has
/// one element.
///
/// Copying is cheap and allocates nothing. Copies and views share the memory and hold a counted
/// reference to the block. A default-constructed tensor is empty. In requests it stands for "not
/// given", and so does a tensor that has been moved from. Different copies may be used and
/// destroyed on different threads.
class SLUICE_EXPORT tensor {
 public:
  tensor() noexcept = default;
  tensor(const tensor&) noexcept = default;
  tensor(tensor&& other) noexcept : block_(std::move(other.block_)), layout_(other.layout_) {
    other.layout_.reset();
  }
  tensor& operator=(const tensor&) noexcept = default;
  tensor& operator=(tensor&& other) noexcept {
    if (this == &other) return *this;
    block_ = std::move(other.block_);
    layout_ = other.layout_;
    other.layout_.reset();
    return *this;
  }
  ~tensor() = default;
  /// Exchanges the two tensors.
  void swap(tensor& other) noexcept {
    block_.swap(other.block_);
    std::swap(layout_, other.layout_);
  }

  /// The elements of `ref`, in one dimension.
  template <element T>
  // NOLINTNEXTLINE(google-explicit-constructor): every reference is a tensor.
  tensor(const gpu_ref<T>& ref) noexcept
      : block_(ref.block()), layout_(ref.type(), ref.size(), ref.offset()) {}

  /// A row-major tensor without gaps, from the first byte of `block`.
  /// @throws error `invalid_argument` if `block` is empty, an extent is negative, the size in bytes
  /// overflows or exceeds the block
  /// @throws error `invalid_argument` if the first element is not aligned to the size of an
  /// element, or `type` is not an enumerator
  tensor(block_ref block, element_type type, const extents& shape);

  /// A tensor with the given strides, from byte `offset` of `block`.
  /// @throws error `invalid_argument` if `block` is empty, an extent or a stride is negative, or
  /// there are not as many strides as extents
  /// @throws error `invalid_argument` if an element lies outside the block, `offset` exceeds the
  /// block, or the size of all elements overflows, repeated ones included
  /// @throws error `invalid_argument` if the first element is not aligned to the size of an
  /// element, or `type` is not an enumerator
  tensor(block_ref block, element_type type, const extents& shape, const extents& strides,
         std::size_t offset = 0);
  /// Likewise.
  tensor(block_ref block, const tensor_layout& layout);

  /// Whether the tensor refers to a block.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(block_); }
  /// Whether both are the same view of the same block.
  [[nodiscard]] bool operator==(const tensor&) const noexcept = default;

  /// The type of an element.
  [[nodiscard]] element_type type() const noexcept { return layout_.type(); }
  /// The number of dimensions.
  [[nodiscard]] std::size_t rank() const noexcept { return layout_.rank(); }
  /// The number of elements along each dimension.
  [[nodiscard]] extents shape() const noexcept { return layout_.shape(); }
  /// The distance between neighbours along each dimension, in elements.
  [[nodiscard]] extents strides() const noexcept { return layout_.strides(); }
  /// The number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return layout_.size(); }
  /// The size of all elements in bytes, without gaps.
  [[nodiscard]] std::size_t bytes() const noexcept { return layout_.bytes(); }
  /// Whether there are no elements.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// The position of the first element in the block, in bytes.
  [[nodiscard]] std::size_t offset() const noexcept { return layout_.offset(); }
  /// The device address of the first element; null without a block. Use it only between preflight
  /// and commit of a launch.
  [[nodiscard]] void* address() const noexcept {
    return block_ ? static_cast<std::byte*>(block_.address()) + offset() : nullptr;
  }
  /// The bytes of the block from the first to the last element, gaps included.
  [[nodiscard]] byte_extent extent() const noexcept { return layout_.extent(); }
  /// How the elements lie in the block.
  [[nodiscard]] const tensor_layout& layout() const noexcept { return layout_; }
  /// The block of the elements. The second form takes it out of a tensor that is used no more.
  ///@{
  [[nodiscard]] const block_ref& block() const& noexcept { return block_; }
  [[nodiscard]] block_ref block() && noexcept {
    layout_ = tensor_layout();
    return std::move(block_);
  }
  ///@}
  /// The device of the memory.
  /// @throws error `invalid_argument` if the tensor has no block
  [[nodiscard]] device_id device() const { return block_.device(); }
  /// Whether the tensor refers to no block or its memory has been freed; see `block_ref::stale`.
  [[nodiscard]] bool stale() const noexcept { return block_.stale(); }
  /// Whether the elements lie in row-major order without gaps or repetitions.
  [[nodiscard]] bool is_contiguous() const noexcept { return layout_.is_contiguous(); }

  /// The same elements in row-major order with another shape. One extent may be -1; it is then
  /// computed from the others.
  /// @throws error `invalid_argument` if the number of elements differs, or an extent is negative
  /// @throws error `unsupported` if no strides give this order without a copy
  [[nodiscard]] tensor reshape(const extents& shape) const { return view(layout_.reshape(shape)); }
  /// The dimensions in another order: dimension `i` of the result is dimension `axes[i]`.
  /// @throws error `invalid_argument` if `axes` does not name every dimension once
  [[nodiscard]] tensor permute(const extents& axes) const { return view(layout_.permute(axes)); }
  /// The last two dimensions exchanged.
  /// @throws error `invalid_argument` if there are fewer than two dimensions
  [[nodiscard]] tensor transposed() const { return view(layout_.transposed()); }
  /// The indices `first`, `first + step`, … below `last` along dimension `axis`; up to the end
  /// without `last`.
  /// @throws error `invalid_argument` if `axis` is out of range, not 0 <= first <= last <= extent,
  /// or `step` is less than 1
  [[nodiscard]] tensor slice(std::size_t axis, std::int64_t first,
                             std::optional<std::int64_t> last = {}, std::int64_t step = 1) const {
    return view(layout_.slice(axis, first, last, step));
  }
  /// The elements with index `index` along dimension `axis`, without that dimension.
  /// @throws error `invalid_argument` if `axis` or `index` is out of range
  [[nodiscard]] tensor select(std::size_t axis, std::int64_t index) const {
    return view(layout_.select(axis, index));
  }
  /// The elements repeated to `shape`, as in NumPy: dimensions are aligned at the last one, and
  /// those that are missing or have extent 1 are repeated with stride 0.
  /// @throws error `invalid_argument` if the shapes do not fit, or the size of all elements
  /// overflows, repeated ones included
  [[nodiscard]] tensor broadcast_to(const extents& shape) const {
    return view(layout_.broadcast_to(shape));
  }
  /// The same bytes as elements of another type. If its size differs, the last extent changes, and
  /// the last dimension must have stride 1.
  /// @throws error `invalid_argument` if the size differs and there is no last dimension, or it has
  /// another stride
  /// @throws error `invalid_argument` if `type` is not an enumerator
  /// @throws error `invalid_argument` if the last extent, a stride or the offset is not a whole
  /// number of the new elements, or the first element is not aligned to their size
  [[nodiscard]] tensor reinterpret(element_type type) const;

  /// The elements as a typed reference in one dimension; the empty reference without a block.
  /// @throws error `invalid_argument` if the elements are not of type `T`
  /// @throws error `unsupported` if the tensor is not contiguous
  template <element T>
  [[nodiscard]] gpu_ref<T> as() const {
    if (!block_) return {};
    require_flat(element_type_v<T>);
    return gpu_ref<T>(block_, offset(), size());
  }

 private:
  [[nodiscard]] tensor view(const tensor_layout& layout) const noexcept {
    auto other = *this;
    other.layout_ = layout;
    return other;
  }
  void check() const;
  void require_flat(element_type type) const;

  block_ref block_;
  tensor_layout layout_;
};
static_assert(sizeof(tensor) == 152, "tensors travel in messages by value");

/// Whether the two tensors may share an element or a part of one.
///
/// True whenever they share a byte. False if their bytes lie apart, or if they are disjoint boxes
/// of one grid, such as the left and the right half of a matrix or its even and odd rows. For
/// tensors that are woven into each other in another way, the answer may be true although they
/// share nothing. False for tensors of different runtimes and for freed memory.
[[nodiscard]] SLUICE_EXPORT bool overlap(const tensor& a, const tensor& b) noexcept;

}  // namespace sluice
