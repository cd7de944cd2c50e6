// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

/// The bytes [first, last) of a block.
struct byte_extent {
  std::size_t first = 0;  ///< the first byte
  std::size_t last = 0;   ///< behind the last byte
  [[nodiscard]] bool operator==(const byte_extent&) const noexcept = default;
};

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
/// given". Different copies may be used and destroyed on different threads.
class SLUICE_EXPORT tensor {
 public:
  tensor() noexcept = default;
  tensor(const tensor&) noexcept = default;
  tensor(tensor&& other) noexcept { swap(other); }
  tensor& operator=(const tensor&) noexcept = default;
  tensor& operator=(tensor&& other) noexcept {
    tensor(std::move(other)).swap(*this);
    return *this;
  }
  ~tensor() = default;
  /// Exchanges the two tensors.
  void swap(tensor& other) noexcept {
    block_.swap(other.block_);
    std::swap(offset_, other.offset_);
    std::swap(shape_, other.shape_);
    std::swap(strides_, other.strides_);
    std::swap(rank_, other.rank_);
    std::swap(type_, other.type_);
  }

  /// The elements of `ref`, in one dimension.
  template <element T>
  // NOLINTNEXTLINE(google-explicit-constructor): every reference is a tensor.
  tensor(const gpu_ref<T>& ref) noexcept
      : block_(ref.block()), offset_(ref.offset()), type_(ref.type()) {
    shape_[0] = static_cast<std::int64_t>(ref.size());
  }

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

  /// Whether the tensor refers to a block.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(block_); }
  /// Whether both are the same view of the same block.
  [[nodiscard]] bool operator==(const tensor&) const noexcept = default;

  /// The type of an element.
  [[nodiscard]] element_type type() const noexcept { return type_; }
  /// The number of dimensions.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  /// The number of elements along each dimension.
  [[nodiscard]] extents shape() const noexcept { return {shape_, rank_}; }
  /// The distance between neighbours along each dimension, in elements.
  [[nodiscard]] extents strides() const noexcept { return {strides_, rank_}; }
  /// The number of elements.
  [[nodiscard]] std::size_t size() const noexcept;
  /// The size of all elements in bytes, without gaps.
  [[nodiscard]] std::size_t bytes() const noexcept { return size() * size_of(type_); }
  /// Whether there are no elements.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// The position of the first element in the block, in bytes.
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  /// The device address of the first element; null without a block. Use it only between preflight
  /// and commit of a launch.
  [[nodiscard]] void* address() const noexcept {
    return block_ ? static_cast<std::byte*>(block_.address()) + offset_ : nullptr;
  }
  /// The bytes of the block from the first to the last element, gaps included.
  [[nodiscard]] byte_extent extent() const noexcept;
  /// The block of the elements.
  [[nodiscard]] const block_ref& block() const noexcept { return block_; }
  /// The device of the memory.
  /// @throws error `invalid_argument` if the tensor has no block
  [[nodiscard]] device_id device() const { return block_.device(); }
  /// Whether the tensor refers to no block or its memory has been freed; see `block_ref::stale`.
  [[nodiscard]] bool stale() const noexcept { return block_.stale(); }
  /// Whether the elements lie in row-major order without gaps or repetitions.
  [[nodiscard]] bool is_contiguous() const noexcept;

  /// The same elements in row-major order with another shape. One extent may be -1; it is then
  /// computed from the others.
  /// @throws error `invalid_argument` if the number of elements differs, or an extent is negative
  /// @throws error `unsupported` if no strides give this order without a copy
  [[nodiscard]] tensor reshape(const extents& shape) const;
  /// The dimensions in another order: dimension `i` of the result is dimension `axes[i]`.
  /// @throws error `invalid_argument` if `axes` does not name every dimension once
  [[nodiscard]] tensor permute(const extents& axes) const;
  /// The last two dimensions exchanged.
  /// @throws error `invalid_argument` if there are fewer than two dimensions
  [[nodiscard]] tensor transposed() const;
  /// The indices `first`, `first + step`, … below `last` along dimension `axis`.
  /// @throws error `invalid_argument` if `axis` is out of range, not 0 <= first <= last <= extent,
  /// or `step` is less than 1
  [[nodiscard]] tensor slice(std::size_t axis, std::int64_t first, std::int64_t last,
                             std::int64_t step = 1) const;
  /// The elements with index `index` along dimension `axis`, without that dimension.
  /// @throws error `invalid_argument` if `axis` or `index` is out of range
  [[nodiscard]] tensor select(std::size_t axis, std::int64_t index) const;
  /// The elements repeated to `shape`, as in NumPy: dimensions are aligned at the last one, and
  /// those that are missing or have extent 1 are repeated with stride 0.
  /// @throws error `invalid_argument` if the shapes do not fit, or the size of all elements
  /// overflows, repeated ones included
  [[nodiscard]] tensor broadcast_to(const extents& shape) const;
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
    return gpu_ref<T>(block_, offset_, size());
  }

 private:
  void assign(const extents& shape, const extents& strides) noexcept;
  void normalize_strides() noexcept;
  void check() const;
  void require_flat(element_type type) const;

  block_ref block_;
  std::size_t offset_ = 0;  // in bytes
  // 0 beyond the rank. The default is one dimension without elements.
  std::array<std::int64_t, extents::max_rank> shape_{};
  std::array<std::int64_t, extents::max_rank> strides_{1};
  std::uint8_t rank_ = 1;
  element_type type_ = element_type::u8;
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
