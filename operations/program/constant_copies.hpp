// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace sluice::operations {

/// A copy of a constant in the order in which a step computes with it: a packed one, or a prepacked
/// one, see `prepacked_layout`. Nobody writes it, so launches that own this object need not record
/// it.
class constant_copy {
 public:
  explicit constant_copy(block_ref block) noexcept : block_(std::move(block)) {}

  [[nodiscard]] void* address() const noexcept { return block_.address(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return block_.bytes(); }

 private:
  block_ref block_;
};

/// Which copy of a constant it is. Copies of a program on a device that have equal keys have equal
/// elements.
struct constant_copy_key {
  std::uint32_t block = 0;  ///< of the constant; see `constant_place`
  std::size_t offset = 0;   ///< of the constant, in this block, in bytes
  /// States the elements that are packed, and their order; empty: it is not packed.
  std::string packing{};
  /// `prepacked_layout::identity`; nothing: it is not prepacked.
  std::optional<std::string> prepacking{};
  [[nodiscard]] auto operator<=>(const constant_copy_key&) const = default;
};

/// A copy that a step wants, and how it is made.
struct constant_copy_request {
  constant_copy_key key{};
  /// What is copied; nullptr: the constant itself.
  std::shared_ptr<const constant_copy> source{};
  std::size_t bytes = 0;
  /// The sizes of blocks for which the device must have memory beside the copy, in bytes. They are
  /// read before `copy` returns.
  std::span<const std::size_t> spare_sizes{};
  /// Makes the library objects that `write` needs on a GPU, see `planner_work`. May be null.
  std::function<void(lane_libraries& libraries)> prepare{};
  /// Computes the copy on the stream of the libraries, in the thread of a host stream or by
  /// enqueueing on a GPU. It owns all that it uses beside the memory.
  std::function<void(lane_libraries& libraries, const void* source, void* copy)> write{};
};

class device_constant;

/// The memory of the constants of one program that a copy is made from.
struct copied_memory {
  std::shared_ptr<const void> owner{};
  const std::byte* address = nullptr;       ///< of the block with the constant
  const device_constant* shared = nullptr;  ///< the constant, if programs share it
  std::size_t constants_bytes = 0;          ///< of all constants of the program
};

/// The copies of the constants of one program on one device that executables use. Thread-safe.
///
/// Those of a shared constant are the same for all programs that want the same order of it.
class constant_copies {
 public:
  /// The most bytes of memory of all copies of constants of `bytes`. Steps may want a constant in
  /// any number of orders. A packed copy beside one that takes f32 for elements of 16 bits takes
  /// three times the memory of the constant. The rest is for gaps in the orders of libraries.
  [[nodiscard]] static constexpr std::size_t max_bytes(std::size_t bytes) noexcept {
    return 3 * bytes + (std::size_t{16} << 20U);
  }

  /// The copy with this key; nullptr if there is none.
  [[nodiscard]] std::shared_ptr<const constant_copy> find(const constant_copy_key& key) const;
  /// The copy of a constant in `memory`; made if there is none. nullptr if all copies would then
  /// take more than `max_bytes`, or if a `capture_scope` is open, in which nothing may run.
  /// @throws error as `written_block`
  [[nodiscard]] std::shared_ptr<const constant_copy> copy(lane_libraries& libraries,
                                                          constant_copy_request request,
                                                          const copied_memory& memory);

 private:
  struct entry {
    std::weak_ptr<const constant_copy> copy{};
    std::size_t bytes = 0;  ///< of the memory that it takes
  };
  /// Keeps a copy that takes `bytes` of memory. Returns the one that the program uses: another
  /// thread may have made one. nullptr if there is no room for it.
  [[nodiscard]] std::shared_ptr<const constant_copy> keep(const constant_copy_key& key,
                                                          std::shared_ptr<const constant_copy> copy,
                                                          std::size_t bytes, std::size_t limit);
  /// Whether there is room for another copy that takes `bytes` of memory. The lock is held.
  [[nodiscard]] bool has_room(std::size_t bytes, std::size_t limit) const noexcept;

  mutable std::mutex mutex_;
  std::map<constant_copy_key, entry> copies_;
};

}  // namespace sluice::operations
