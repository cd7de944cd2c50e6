// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace sluice {

namespace detail {
struct block_record;
}

/// The identity of one allocation. Successive blocks at one address have different generations.
struct block_id {
  const void* address = nullptr;  ///< address of the first byte
  std::uint64_t generation = 0;   ///< number of the allocation, unique in its runtime
  std::uint32_t runtime = 0;      ///< serial number of the runtime, as in `stream_id`
  device_id device{};             ///< device of the memory
  [[nodiscard]] bool operator==(const block_id&) const noexcept = default;
};

/// A counted reference to one block of device memory.
///
/// The last reference frees the block when it is destroyed, in stream order after every recorded
/// use. It never blocks. Copies may be used and destroyed on different threads.
class SLUICE_EXPORT block_ref {
 public:
  block_ref() noexcept = default;
  block_ref(const block_ref& other) noexcept;
  block_ref(block_ref&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  block_ref& operator=(const block_ref& other) noexcept {
    block_ref(other).swap(*this);
    return *this;
  }
  block_ref& operator=(block_ref&& other) noexcept {
    block_ref(std::move(other)).swap(*this);
    return *this;
  }
  ~block_ref() {
    if (record_ != nullptr) drop();
  }
  /// Exchanges the two references.
  void swap(block_ref& other) noexcept { std::swap(record_, other.record_); }

  /// Whether the reference refers to a block.
  [[nodiscard]] explicit operator bool() const noexcept { return record_ != nullptr; }
  [[nodiscard]] bool operator==(const block_ref&) const noexcept = default;

  /// The identity of the block; the empty identity for an empty reference.
  [[nodiscard]] block_id id() const noexcept;
  /// The device of the memory.
  /// @throws error `invalid_argument` if the reference is empty
  [[nodiscard]] device_id device() const;
  /// The device address of the first byte; null for an empty reference.
  [[nodiscard]] void* address() const noexcept;
  /// The size in bytes, as allocated or imported; 0 for an empty reference.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// The tag of the allocation or import.
  [[nodiscard]] allocation_tag tag() const noexcept;
  /// Whether the reference is empty or its memory has been freed.
  ///
  /// `device_runtime::deallocate` and the end of the runtime free memory that still has references.
  /// A use of freed memory throws `stale_ref` on every runtime.
  [[nodiscard]] bool stale() const noexcept;
  /// Whether the memory must not be written. True for some imports. Recorders reject a write.
  [[nodiscard]] bool read_only() const noexcept;

 private:
  friend struct detail::block_record;
  explicit block_ref(detail::block_record* record) noexcept : record_(record) {}
  void drop() noexcept;

  detail::block_record* record_ = nullptr;
};

/// A counted, typed reference to `size()` consecutive elements of a block. Requests and replies
/// carry it.
///
///     const auto x = runtime.allocate<float>(1000, stream, "x");
///     const auto head = x.subspan(0, 100);  // shares the memory
///
/// Copying is cheap, and copies share the memory. A default-constructed reference is empty. In
/// requests it stands for "not given". References are local to the process: serializing one fails.
///
/// Parts of one block (`subspan`) share its use state, so writers of disjoint parts are ordered
/// too.
template <element T>
class gpu_ref {
 public:
  /// The type of an element.
  using value_type = T;

  gpu_ref() noexcept = default;
  /// Refers to `count` elements, from byte `offset` of `block`.
  ///
  /// Kernels need the alignment, also those of complex elements. An import may begin at any
  /// address.
  /// @throws error `invalid_argument` if the range does not lie in the block
  /// @throws error `invalid_argument` if the first element is not aligned to the size of an element
  gpu_ref(block_ref block, std::size_t offset, std::size_t count)
      : block_(std::move(block)), offset_(offset), count_(count) {
    if (offset > block_.bytes() || count > (block_.bytes() - offset) / sizeof(T)) {
      throw error(errc::invalid_argument, "gpu_ref: the range exceeds its block");
    }
    if (count != 0 && reinterpret_cast<std::uintptr_t>(data()) % sizeof(T) != 0) {
      throw error(errc::invalid_argument,
                  "gpu_ref: the first element is not aligned to its size, " +
                      std::to_string(sizeof(T)) + " bytes");
    }
  }

  /// Whether the reference refers to a block.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(block_); }
  /// Whether both refer to the same elements of the same block.
  [[nodiscard]] bool operator==(const gpu_ref&) const noexcept = default;

  /// The number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// The size of all elements, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }
  /// Whether there are no elements.
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// The `element_type` of an element.
  [[nodiscard]] static constexpr element_type type() noexcept { return element_type_v<T>; }
  /// The device address of the first element; null for an empty reference. Use it only between
  /// preflight and commit of a launch.
  [[nodiscard]] T* data() const noexcept {
    return block_ ? reinterpret_cast<T*>(static_cast<std::byte*>(block_.address()) + offset_)
                  : nullptr;
  }
  /// The position of the first element in the block, in bytes.
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  /// The block of the elements. The second form takes it out of a reference that is used no more.
  ///@{
  [[nodiscard]] const block_ref& block() const& noexcept { return block_; }
  [[nodiscard]] block_ref block() && noexcept {
    offset_ = count_ = 0;
    return std::move(block_);
  }
  ///@}
  /// The device of the memory.
  /// @throws error `invalid_argument` if the reference is empty
  [[nodiscard]] device_id device() const { return block_.device(); }
  /// Whether the reference is empty or its memory has been freed; see `block_ref::stale`.
  [[nodiscard]] bool stale() const noexcept { return block_.stale(); }

  /// The elements [first, first + count).
  /// @throws error `invalid_argument` if they do not all lie in the reference
  [[nodiscard]] gpu_ref subspan(std::size_t first, std::size_t count) const {
    if (first > count_ || count > count_ - first) {
      throw error(errc::invalid_argument, "subspan: the elements exceed the reference");
    }
    return gpu_ref(block_, offset_ + first * sizeof(T), count);
  }

  /// The same bytes as elements of type `U`.
  /// @throws error `invalid_argument` if the bytes are not a whole number of elements
  /// @throws error `invalid_argument` if the first element is not aligned to the size of an element
  template <element U>
  [[nodiscard]] gpu_ref<U> reinterpret() const {
    if (bytes() % sizeof(U) != 0) {
      throw error(errc::invalid_argument,
                  "reinterpret: the size is not a multiple of the size of an element");
    }
    return gpu_ref<U>(block_, offset_, bytes() / sizeof(U));
  }

 private:
  block_ref block_;
  std::size_t offset_ = 0;
  std::size_t count_ = 0;
};

}  // namespace sluice
