// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace sluice::service {

/// Allocates regions of a range of offsets.
///
/// Takes the smallest free region that is large enough; neighbouring free regions become one. Its
/// records lie in private memory, never in the range. Thread-safe; each call takes time
/// logarithmic in the number of regions.
class region_allocator {
 public:
  /// Each offset and each size is a multiple of this many bytes.
  static constexpr std::uint64_t alignment = 256;

  /// @throws std::invalid_argument unless both are multiples of `alignment`
  region_allocator(std::uint64_t begin, std::uint64_t bytes);

  /// The offset of a region of at least this many bytes; nothing if none is free. A region of no
  /// bytes takes as much as one of one byte.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  /// Frees the region that `allocate` returned with this offset.
  /// @throws std::invalid_argument if there is none
  void deallocate(std::uint64_t offset);

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  /// The bytes of all regions, rounded up to multiples of `alignment`.
  [[nodiscard]] std::uint64_t bytes_in_use() const;

 private:
  using free_regions = std::set<std::pair<std::uint64_t, std::uint64_t>>;  ///< bytes, offset
  struct region {
    std::uint64_t bytes = 0;
    /// The element of `free_` while the region is in use, so that freeing it allocates nothing.
    free_regions::node_type free_node{};
  };

  const std::uint64_t capacity_;
  mutable std::mutex mutex_{};
  std::map<std::uint64_t, region> regions_{};  ///< by offset, without gaps, free and in use
  free_regions free_{};
  std::uint64_t bytes_in_use_ = 0;
};

}  // namespace sluice::service
