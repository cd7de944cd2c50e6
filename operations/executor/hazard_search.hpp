// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/byte_index.hpp"
#include "operations/executor/waiting_request.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>

namespace sluice::operations {

/// The bytes of an operand that exists already.
[[nodiscard]] inline byte_index::range range_of(const inference::use& u) noexcept {
  const auto& t = u.operand.value->value();
  const auto extent = t.extent();
  const auto begin = reinterpret_cast<std::uintptr_t>(t.address());
  return {begin, begin + (extent.last - extent.first), u.access != access_kind::read};
}
[[nodiscard]] inline const tensor& tensor_of(const byte_index::entry& entry) noexcept {
  return static_cast<const inference::use*>(entry.use)->operand.value->value();
}

/// Looks for an earlier request with a hazard. A bounded number is compared.
class hazard_search {
 public:
  /// The largest number of earlier requests with which one is compared.
  static constexpr std::size_t max_compared = 64;

  hazard_search(const byte_index& uses, std::uint64_t number, byte_index::order direction) noexcept
      : uses_(uses), number_(number), direction_(direction) {}

  /// Looks for one that has a hazard with a use of these bytes. Returns whether the search has
  /// ended.
  bool look(const tensor& value, const byte_index::range& bytes) noexcept {
    if (has_ended_) return true;
    const auto conflicts = [&](const byte_index::entry& earlier) {
      if (++compared_ > max_compared) return true;
      if (!overlap(value, tensor_of(earlier))) return false;
      found_ = static_cast<waiting_request*>(earlier.request);
      return true;
    };
    has_ended_ = uses_.any_before(number_, bytes, conflicts, visits_left_, direction_);
    return has_ended_;
  }
  /// Whether it has found a request or given up.
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
  /// The request; nullptr if there is none, or `gave_up`.
  [[nodiscard]] waiting_request* found() const noexcept { return found_; }
  [[nodiscard]] bool gave_up() const noexcept { return has_ended_ && found_ == nullptr; }

 private:
  static constexpr std::size_t max_visited = 4096;

  const byte_index& uses_;
  std::uint64_t number_;
  byte_index::order direction_;
  std::size_t compared_ = 0;
  std::size_t visits_left_ = max_visited;
  waiting_request* found_ = nullptr;
  bool has_ended_ = false;
};

}  // namespace sluice::operations
