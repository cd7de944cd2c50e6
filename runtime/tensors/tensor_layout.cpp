// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensors/row_major.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using numbers = std::span<const std::int64_t>;  // one for each dimension

bool has_no_elements(numbers shape) noexcept {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

/// What an error adds for an index below 0.
std::string_view hint_for_negative(std::int64_t index) noexcept {
  return index < 0 ? "; negative indices do not count from the end" : "";
}

/// The product of the extents. Nothing if it overflows; 0 if one of them is 0.
std::optional<std::int64_t> elements_of(numbers shape) noexcept {
  std::int64_t count = 1;
  bool overflows = false;
  for (const auto extent : shape) {
    if (extent == 0) return 0;
    overflows = __builtin_mul_overflow(count, extent, &count) || overflows;
  }
  if (overflows) return std::nullopt;
  return count;
}

/// Whether the size of `count` elements overflows, in bytes. Without a division, because every view
/// is checked.
bool is_too_many(std::optional<std::int64_t> count, element_type type) noexcept {
  std::int64_t bytes = 0;
  return !count || __builtin_mul_overflow(*count, static_cast<std::int64_t>(size_of(type)), &bytes);
}

/// The distance from the first to the last element, in elements. Nothing if it overflows.
std::optional<std::int64_t> distance_to_last(numbers shape, numbers strides) noexcept {
  std::int64_t distance = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t part = 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &part) ||
        __builtin_add_overflow(distance, part, &distance))
      return std::nullopt;
  }
  return distance;
}

void require_axis(const char* function, std::size_t axis, std::size_t rank) {
  if (axis >= rank) {
    throw invalid_argument(function, "axis " + std::to_string(axis) +
                                         " is out of range; the tensor has " +
                                         std::to_string(rank) + " dimensions");
  }
}

/// @throws error `invalid_argument` if a number is negative
void require_extents(numbers shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      throw invalid_argument("shape", "dimension " + std::to_string(i) + " is negative (" +
                                          std::to_string(shape[i]) + ")");
    }
  }
}

/// A run of neighbouring dimensions that can be counted through with one stride.
struct merged_dimension {
  std::int64_t extent;
  std::int64_t stride;  // of the innermost dimension
};

/// Merges dimensions as far as their strides allow, outermost first. Those of extent 1 vanish.
/// There is at least one element.
std::size_t merge(numbers shape, numbers strides,
                  std::array<merged_dimension, extents::max_rank>& dimensions) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    std::int64_t run = 0;
    if (count != 0 && !__builtin_mul_overflow(strides[i], shape[i], &run) &&
        dimensions[count - 1].stride == run) {
      dimensions[count - 1].extent *= shape[i];
      dimensions[count - 1].stride = strides[i];
    } else {
      dimensions[count++] = {shape[i], strides[i]};
    }
  }
  return count;
}

/// The strides with which `target` counts the elements of a view in row-major order. Nothing if
/// there are none. Both shapes have the same number of elements, which is not 0.
std::optional<extents> strides_for(const extents& shape, const extents& strides,
                                   const extents& target) {
  std::array<merged_dimension, extents::max_rank> dimensions{};
  auto count = merge(shape, strides, dimensions);
  extents result = target;
  // Splits the merged dimensions again, innermost first.
  std::int64_t rest = 1;  // what is left of the extent of the current merged dimension
  std::int64_t stride = 1;
  for (auto i = target.size(); i-- != 0;) {
    if (rest == 1 && target[i] != 1) {
      --count;
      rest = dimensions[count].extent;
      stride = dimensions[count].stride;
    }
    if (rest % target[i] != 0) return std::nullopt;
    result[i] = stride;
    rest /= target[i];
    if (rest != 1) stride *= target[i];  // cannot overflow: the merged dimension continues
  }
  return result;
}

}  // namespace

extents detail::row_major_strides(const extents& shape) noexcept {
  auto strides = shape;
  std::int64_t next = 1;
  for (auto i = shape.size(); i-- != 0;) {
    strides[i] = next;
    if (shape[i] != 0 && __builtin_mul_overflow(next, shape[i], &next)) next = 0;
  }
  return strides;
}

tensor_layout::tensor_layout(element_type type, const extents& shape) : type_(type) {
  require_extents(shape);
  assign(shape, detail::row_major_strides(shape));
  check();
}

tensor_layout::tensor_layout(element_type type, const extents& shape, const extents& strides,
                             std::size_t offset)
    : offset_(offset), type_(type) {
  require_extents(shape);
  if (strides.size() != shape.size()) {
    throw invalid_argument("strides", "there are " + std::to_string(strides.size()) + " for " +
                                          std::to_string(shape.size()) + " dimensions");
  }
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] < 0) {
      throw invalid_argument("strides", "the stride of dimension " + std::to_string(i) +
                                            " is negative (" + std::to_string(strides[i]) + ")");
    }
  }
  assign(shape, strides);
  check();
}

void tensor_layout::assign(const extents& shape, const extents& strides) noexcept {
  rank_ = static_cast<std::uint8_t>(shape.size());
  shape_ = shape.values_;
  strides_ = strides.values_;
  normalize_strides();
}

void tensor_layout::normalize_strides() noexcept {
  const bool none = has_no_elements(shape_numbers());
  std::int64_t next = 1;  // the stride that continues the dimensions inside
  for (std::size_t i = rank_; i-- != 0;) {
    if (none || shape_[i] == 1) strides_[i] = next;
    if (__builtin_mul_overflow(strides_[i], std::max<std::int64_t>(shape_[i], 1), &next)) next = 0;
  }
}

void tensor_layout::check() const {
  constexpr auto limit = std::numeric_limits<std::int64_t>::max();
  if (size_of(type_) == 0) throw invalid_argument("type", "is no element type");
  if (offset_ > static_cast<std::size_t>(limit)) {
    throw invalid_argument("offset", std::to_string(offset_) + " exceeds any memory");
  }
  const auto count = elements_of(shape_numbers());
  if (count == 0) return;
  // Repeated elements are counted, too, so that no later product of extents overflows.
  if (is_too_many(count, type_)) {
    throw invalid_argument("shape", to_string(shape()) + " has too many elements");
  }
  const auto last = distance_to_last(shape_numbers(), stride_numbers());
  if (!last || *last == limit || is_too_many(*last + 1, type_)) {
    throw invalid_argument("shape", to_string(shape()) + " with strides " + to_string(strides()) +
                                        " exceeds any memory");
  }
}

std::size_t tensor_layout::size() const noexcept {
  return static_cast<std::size_t>(elements_of(shape_numbers()).value_or(0));
}

byte_extent tensor_layout::extent() const noexcept {
  const auto shape = shape_numbers();
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return {offset_, offset_};
  const auto last = static_cast<std::size_t>(*distance_to_last(shape, stride_numbers()));
  return {offset_, offset_ + (last + 1) * size_of(type_)};
}

bool tensor_layout::is_contiguous() const noexcept {
  if (empty()) return true;
  std::array<merged_dimension, extents::max_rank> dimensions{};
  const auto count = merge(shape_numbers(), stride_numbers(), dimensions);
  return count == 0 || (count == 1 && dimensions[0].stride == 1);
}

tensor_layout tensor_layout::reshape(const extents& shape) const {
  auto target = shape;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] >= 0) continue;
    if (target[i] != -1) {
      throw invalid_argument(
          "reshape", "dimension " + std::to_string(i) + " of " + to_string(shape) + " is negative");
    }
    if (open)
      throw invalid_argument("reshape", "only one extent of " + to_string(shape) + " may be -1");
    open = i;
    target[i] = 1;
  }
  const auto count = static_cast<std::int64_t>(size());
  const auto other_count = elements_of(std::as_const(target));
  if (open && other_count && *other_count != 0) target[*open] = count / *other_count;
  if ((open && other_count == 0) || elements_of(std::as_const(target)) != count) {
    throw invalid_argument("reshape", "the " + std::to_string(count) + " elements of shape " +
                                          to_string(this->shape()) + " do not fit " +
                                          to_string(shape));
  }
  const auto strides = count == 0 ? detail::row_major_strides(target)
                                  : strides_for(this->shape(), this->strides(), target);
  if (!strides) {
    throw error(errc::unsupported, "reshape: a tensor of shape " + to_string(this->shape()) +
                                       " with strides " + to_string(this->strides()) +
                                       " cannot be viewed as " + to_string(shape) +
                                       " without a copy; strided_copy makes one");
  }
  auto view = *this;
  view.assign(target, *strides);
  return view;
}

tensor_layout tensor_layout::permute(const extents& axes) const {
  auto view = *this;
  std::array<bool, extents::max_rank> used_axes{};
  bool valid = axes.size() == rank_;
  for (std::size_t i = 0; valid && i < rank_; ++i) {
    valid = axes[i] >= 0 && axes[i] < rank_ && !used_axes[static_cast<std::size_t>(axes[i])];
    if (!valid) break;
    const auto axis = static_cast<std::size_t>(axes[i]);
    used_axes[axis] = true;
    view.shape_[i] = shape_[axis];
    view.strides_[i] = strides_[axis];
  }
  if (!valid) {
    throw invalid_argument("permute", to_string(axes) + " does not name each of the " +
                                          std::to_string(rank_) + " dimensions once");
  }
  view.normalize_strides();
  return view;
}

tensor_layout tensor_layout::transposed() const {
  if (rank_ < 2) {
    throw invalid_argument("transposed", "the tensor has " + std::to_string(rank_) +
                                             " dimensions; at least 2 are needed");
  }
  auto view = *this;
  std::swap(view.shape_[rank_ - 1U], view.shape_[rank_ - 2U]);
  std::swap(view.strides_[rank_ - 1U], view.strides_[rank_ - 2U]);
  view.normalize_strides();
  return view;
}

tensor_layout tensor_layout::slice(std::size_t axis, std::int64_t first,
                                   std::optional<std::int64_t> end, std::int64_t step) const {
  require_axis("slice", axis, rank_);
  const auto last = end.value_or(shape_[axis]);
  const auto range = [&] {
    return std::to_string(first) + " to " + std::to_string(last);
  };
  const auto hint = [&] {
    return std::string(hint_for_negative(std::min(first, last)));
  };
  if (first > last) throw invalid_argument("slice", range() + " ends before it begins" + hint());
  if (first < 0 || last > shape_[axis]) {
    throw invalid_argument("slice", range() + " exceeds the extent " +
                                        std::to_string(shape_[axis]) + " of axis " +
                                        std::to_string(axis) + hint());
  }
  if (step < 1) throw invalid_argument("slice", "step " + std::to_string(step) + " is less than 1");
  auto view = *this;
  view.shape_[axis] = (last - first) / step + ((last - first) % step != 0 ? 1 : 0);
  // Of no elements, neither the position nor the strides have a meaning.
  if (!view.empty())
    view.offset_ += static_cast<std::size_t>(first * strides_[axis]) * size_of(type_);
  if (!view.empty() && view.shape_[axis] > 1) view.strides_[axis] *= step;
  view.normalize_strides();
  return view;
}

tensor_layout tensor_layout::select(std::size_t axis, std::int64_t index) const {
  require_axis("select", axis, rank_);
  if (index < 0 || index >= shape_[axis]) {
    throw invalid_argument("select", "index " + std::to_string(index) + " exceeds the extent " +
                                         std::to_string(shape_[axis]) + " of axis " +
                                         std::to_string(axis) +
                                         std::string(hint_for_negative(index)));
  }
  auto view = slice(axis, index, index + 1);
  extents shape;
  extents strides;
  for (std::size_t i = 0; i < rank_; ++i) {
    if (i == axis) continue;
    shape.push_back(shape_[i]);
    strides.push_back(strides_[i]);
  }
  view.assign(shape, strides);
  return view;
}

tensor_layout tensor_layout::broadcast_to(const extents& shape) const {
  const auto fits = [](std::int64_t extent, std::int64_t target) {
    return target >= 0 && (extent == target || extent == 1);
  };
  bool valid = shape.size() >= rank_;
  extents strides;
  for (std::size_t i = 0; valid && i < shape.size(); ++i) {
    const bool missing = i + rank_ < shape.size();
    const auto axis = i + rank_ - shape.size();
    valid = fits(missing ? 1 : shape_[axis], shape[i]);
    if (valid) strides.push_back(missing || shape_[axis] != shape[i] ? 0 : strides_[axis]);
  }
  if (!valid) {
    throw invalid_argument(
        "broadcast_to", "shape " + to_string(this->shape()) + " does not fit " + to_string(shape));
  }
  if (is_too_many(elements_of(shape), type_)) {
    throw invalid_argument("broadcast_to", to_string(shape) + " has too many elements");
  }
  auto view = *this;
  view.assign(shape, strides);
  return view;
}

tensor_layout tensor_layout::reinterpret(element_type type) const {
  if (size_of(type) == 0) throw invalid_argument("type", "is no element type");
  const auto source_bytes = static_cast<std::int64_t>(size_of(type_));
  const auto target_bytes = static_cast<std::int64_t>(size_of(type));
  auto view = *this;
  view.type_ = type;
  if (source_bytes != target_bytes) {
    if (rank_ == 0) {
      throw invalid_argument("reinterpret",
                             "a tensor without dimensions has no extent that could change");
    }
    const auto innermost = rank_ - 1U;
    if (strides_[innermost] != 1) {
      throw invalid_argument("reinterpret", "the last dimension has stride " +
                                                std::to_string(strides_[innermost]) + ", not 1");
    }
    const auto rescale = [&](std::int64_t count, const char* subject) {
      std::int64_t result = count / std::max<std::int64_t>(target_bytes / source_bytes, 1);
      const bool overflows = __builtin_mul_overflow(
          result, std::max<std::int64_t>(source_bytes / target_bytes, 1), &result);
      if (overflows ||
          (target_bytes > source_bytes && count % (target_bytes / source_bytes) != 0)) {
        throw invalid_argument("reinterpret",
                               std::string(subject) + " " + std::to_string(count) + " of " +
                                   std::string(to_string(type_)) + " is not a whole number of " +
                                   std::string(to_string(type)) + (overflows ? " in 64 bits" : ""));
      }
      return result;
    };
    view.shape_[innermost] = rescale(shape_[innermost], "extent");
    for (std::size_t i = 0; !empty() && i < innermost; ++i) {
      if (shape_[i] > 1) view.strides_[i] = rescale(strides_[i], "stride");
    }
    view.normalize_strides();
  }
  return view;
}

}  // namespace sluice
