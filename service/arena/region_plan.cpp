// SPDX-License-Identifier: Apache-2.0
#include "service/arena/region_plan.hpp"

#include "service/arena/message_words.hpp"
#include "service/arena/region_allocator.hpp"

namespace sluice::service {

std::optional<region_plan> plan_region(std::size_t words, std::span<const std::uint64_t> sizes,
                                       std::uint64_t limit) {
  region_plan plan{.bytes = message_bytes(words)};
  plan.tensors.reserve(sizes.size());
  for (const auto size : sizes) {
    constexpr auto alignment = region_allocator::alignment;
    const auto begin = (plan.bytes + alignment - 1) / alignment * alignment;
    if (begin > limit || size > limit - begin) return std::nullopt;
    plan.tensors.push_back(begin);
    plan.bytes = begin + size;
  }
  if (plan.bytes > limit) return std::nullopt;
  return plan;
}

}  // namespace sluice::service
