// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>

#include <algorithm>

namespace sluice {
namespace {

[[noreturn]] void refuse_rank(std::size_t rank) {
  throw error(errc::invalid_argument, std::to_string(rank) + " dimensions; at most 8 are possible");
}

}  // namespace

extents::extents(std::initializer_list<std::int64_t> values)
    : extents(std::span<const std::int64_t>(values.begin(), values.size())) {}

extents::extents(std::span<const std::int64_t> values) : rank_(values.size()) {
  if (values.size() > max_rank) refuse_rank(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

void extents::push_back(std::int64_t value) {
  if (rank_ == max_rank) refuse_rank(rank_ + 1);
  values_[rank_++] = value;
}

std::string to_string(const extents& values) {
  std::string text = "[";
  for (const auto value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + "]";
}

}  // namespace sluice
