// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// The identity of one allocation: two blocks that share an address, one after the other, differ in
/// generation.
struct block_id {
  const void* address = nullptr;  ///< address of its first byte
  std::uint64_t generation = 0;   ///< number of the allocation, unique in its runtime
  std::uint32_t runtime = 0;      ///< as in `stream_id`
  device_id device{};             ///< device of the memory
  [[nodiscard]] bool operator==(const block_id&) const noexcept = default;
};

/// A counted reference to one block of device memory. When the last one is dropped the block is
/// freed, in stream order after every use that was recorded; dropping never blocks. Copies may be
/// used and dropped on any threads.
class block_ref {
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
  /// Exchanges two references.
  void swap(block_ref& other) noexcept { std::swap(record_, other.record_); }

  /// Whether the reference refers to a block.
  [[nodiscard]] explicit operator bool() const noexcept { return record_ != nullptr; }
  [[nodiscard]] bool operator==(const block_ref&) const noexcept = default;

  /// The identity of the block; the empty identity for an empty reference.
  [[nodiscard]] block_id id() const noexcept;
  /// @throws error `invalid_argument` for an empty reference, which is on no device
  [[nodiscard]] device_id device() const;
  /// The device address of the first byte; null for an empty reference.
  [[nodiscard]] void* address() const noexcept;
  /// The size in bytes, as allocated or imported; 0 for an empty reference.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// What the memory is for.
  [[nodiscard]] allocation_tag tag() const noexcept;
  /// Whether there is no memory behind this reference: it is empty, or the memory has been given
  /// back although the reference exists (`device_runtime::deallocate`, or the runtime is gone).
  /// Using memory that has been given back is answered with `stale_ref`, on any runtime.
  [[nodiscard]] bool stale() const noexcept;
  /// Whether the memory may only be read: an import that its producer does not want written.
  /// Recording a write is refused.
  [[nodiscard]] bool read_only() const noexcept;

 private:
  friend struct detail::block_record;
  explicit block_ref(detail::block_record* record) noexcept : record_(record) {}
  void drop() noexcept;

  detail::block_record* record_ = nullptr;
};

namespace detail {
/// Part of a block, to be compared with others.
struct byte_range {
  const block_ref& block;
  const void* address;
  std::size_t bytes;
};
/// Whether two ranges of blocks of one runtime, neither of which has been given back, share any
/// bytes: those of one block, or of two that lie in the same memory (imports).
[[nodiscard]] bool share_bytes(const byte_range& a, const byte_range& b) noexcept;
}  // namespace detail

/// A counted, typed reference to `size()` consecutive elements of a block of device memory: what
/// requests and replies carry. Cheap to copy; copies share the memory. Local to the process: it
/// refuses to be serialised. A default-made one refers to nothing; in requests it stands for "not
/// given".
///
/// Views (`subspan`) share the tracking of their block: writers of disjoint views are ordered too.
template <element T>
class gpu_ref {
 public:
  /// The type of an element.
  using value_type = T;

  gpu_ref() noexcept = default;
  /// `count` elements from byte `offset` of `block`. @throws error `invalid_argument` outside the
  /// block; where the first element's address (an import may begin anywhere) is not aligned to the
  /// size of an element, which kernels of complex elements need, too
  gpu_ref(block_ref block, std::size_t offset, std::size_t count)
      : block_(std::move(block)), offset_(offset), count_(count) {
    if (offset > block_.bytes() || count > (block_.bytes() - offset) / sizeof(T)) {
      throw error(errc::invalid_argument, "gpu_ref: the range does not lie in its block");
    }
    if (count != 0 && reinterpret_cast<std::uintptr_t>(data()) % sizeof(T) != 0) {
      throw error(errc::invalid_argument,
                  "gpu_ref: the first element is not aligned to its size, " +
                      std::to_string(sizeof(T)) + " bytes");
    }
  }

  /// Whether the reference refers to a block.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(block_); }
  /// Same elements of the same block.
  [[nodiscard]] bool operator==(const gpu_ref&) const noexcept = default;

  /// Number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// The size of all elements, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }
  /// Whether there are no elements.
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// The `element_type` of an element.
  [[nodiscard]] static constexpr element_type type() noexcept { return element_type_v<T>; }
  /// The device address of the first element, to be used inside a fenced launch only.
  [[nodiscard]] T* data() const noexcept {
    return block_ ? reinterpret_cast<T*>(static_cast<std::byte*>(block_.address()) + offset_)
                  : nullptr;
  }
  /// The first element's position in the block, in bytes.
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  /// The block that the elements belong to.
  [[nodiscard]] const block_ref& block() const noexcept { return block_; }
  /// @throws error `invalid_argument` for an empty reference, which is on no device
  [[nodiscard]] device_id device() const { return block_.device(); }
  /// Whether there is no memory behind this reference; see `block_ref::stale`.
  [[nodiscard]] bool stale() const noexcept { return block_.stale(); }

  /// Elements [first, first + count). @throws error `invalid_argument` when they are not all inside
  [[nodiscard]] gpu_ref subspan(std::size_t first, std::size_t count) const {
    if (first > count_ || count > count_ - first) {
      throw error(errc::invalid_argument, "subspan: the elements do not lie in the reference");
    }
    return gpu_ref(block_, offset_ + first * sizeof(T), count);
  }

  /// The same bytes as elements of `U`. @throws error `invalid_argument` unless they are a whole
  /// number, aligned to their size
  template <element U>
  [[nodiscard]] gpu_ref<U> reinterpret() const {
    if (bytes() % sizeof(U) != 0) {
      throw error(errc::invalid_argument, "reinterpret: the bytes are no whole number of elements");
    }
    return gpu_ref<U>(block_, offset_, bytes() / sizeof(U));
  }

 private:
  block_ref block_;
  std::size_t offset_ = 0;
  std::size_t count_ = 0;
};

}  // namespace sluice
