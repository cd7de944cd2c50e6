// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/tensor.hpp>

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

using shape_view = std::span<const std::int64_t>;

[[noreturn]] void refuse(const char* argument, const std::string& what) {
  throw error(errc::invalid_argument, std::string(argument) + ": " + what);
}

std::string shown(shape_view values) {
  return to_string(extents(values));
}

bool has_no_elements(shape_view shape) noexcept {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

/// The product of the extents. Nothing if it overflows; 0 if one of them is 0.
std::optional<std::int64_t> elements_of(shape_view shape) noexcept {
  if (has_no_elements(shape)) return 0;
  std::int64_t count = 1;
  for (const auto extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count;
}

/// Whether the size of all elements overflows, in bytes.
bool has_too_many_elements(shape_view shape, element_type type) noexcept {
  const auto count = elements_of(shape);
  return !count || *count > std::numeric_limits<std::int64_t>::max() /
                                static_cast<std::int64_t>(size_of(type));
}

/// The distance from the first to the last element, in elements. Nothing if it overflows.
std::optional<std::int64_t> distance_to_last(shape_view shape, shape_view strides) noexcept {
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
    refuse(function, "axis " + std::to_string(axis) + " is out of range; the tensor has " +
                         std::to_string(rank) + " dimensions");
  }
}

/// A run of neighbouring dimensions that can be counted through with one stride.
struct merged_dimension {
  std::int64_t extent;
  std::int64_t stride;  // of the innermost dimension
};

/// Merges dimensions as far as their strides allow, outermost first. Those of extent 1 vanish.
std::size_t merge(shape_view shape, shape_view strides,
                  std::array<merged_dimension, extents::max_rank>& merged) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (count != 0 && merged[count - 1].stride == strides[i] * shape[i]) {
      merged[count - 1].extent *= shape[i];
      merged[count - 1].stride = strides[i];
    } else {
      merged[count++] = {shape[i], strides[i]};
    }
  }
  return count;
}

/// The strides with which `to` counts the elements of a view in row-major order. Nothing if there
/// are none. Both shapes have the same number of elements, which is not 0.
std::optional<extents> strides_for(shape_view shape, shape_view strides, const extents& to) {
  std::array<merged_dimension, extents::max_rank> merged{};
  auto left = merge(shape, strides, merged);
  extents found = to;
  // Splits the merged dimensions again, innermost first.
  std::int64_t rest = 1;  // what is left of the extent of the current merged dimension
  std::int64_t stride = 1;
  for (auto i = to.size(); i-- != 0;) {
    if (rest == 1 && to[i] != 1) {
      --left;
      rest = merged[left].extent;
      stride = merged[left].stride;
    }
    if (rest % to[i] != 0) return std::nullopt;
    found[i] = stride;
    rest /= to[i];
    stride *= to[i];
  }
  return found;
}

}  // namespace

std::optional<extents> row_major_strides(const extents& shape) noexcept {
  auto strides = shape;
  std::int64_t next = 1;
  for (auto i = shape.size(); i-- != 0;) {
    strides[i] = next;
    // An empty dimension leaves no elements, but the other dimensions still have strides.
    if (shape[i] != 0 && __builtin_mul_overflow(next, shape[i], &next)) return std::nullopt;
  }
  return strides;
}

tensor::tensor(block_ref block, element_type type, const extents& shape, std::size_t offset)
    : block_(std::move(block)), offset_(offset), type_(type) {
  const auto strides = row_major_strides(shape);
  if (!strides) refuse("shape", to_string(shape) + " has too many elements");
  assign(shape, *strides);
  check();
}

tensor::tensor(block_ref block, element_type type, const extents& shape, const extents& strides,
               std::size_t offset)
    : block_(std::move(block)), offset_(offset), type_(type) {
  if (strides.size() != shape.size()) {
    refuse("strides", "there are " + std::to_string(strides.size()) + " for " +
                          std::to_string(shape.size()) + " dimensions");
  }
  assign(shape, strides);
  check();
}

void tensor::assign(const extents& shape, const extents& strides) noexcept {
  rank_ = static_cast<std::uint8_t>(shape.size());
  shape_ = {};
  strides_ = {};
  std::copy(shape.begin(), shape.end(), shape_.begin());
  std::copy(strides.begin(), strides.end(), strides_.begin());
}

void tensor::check() const {
  if (!block_) refuse("block", "must not be empty");
  for (std::size_t i = 0; i < rank_; ++i) {
    if (shape_[i] < 0) {
      refuse("shape",
             "dimension " + std::to_string(i) + " is negative (" + std::to_string(shape_[i]) + ")");
    }
    if (strides_[i] < 0) {
      refuse("strides", "the stride of dimension " + std::to_string(i) + " is negative (" +
                            std::to_string(strides_[i]) + ")");
    }
  }
  if (offset_ > block_.bytes()) {
    refuse("offset", std::to_string(offset_) + " exceeds the block of " +
                         std::to_string(block_.bytes()) + " bytes");
  }
  if (has_no_elements(shape())) return;
  const auto last = distance_to_last(shape(), strides());
  const auto room = (block_.bytes() - offset_) / size_of(type_);
  if (!last || static_cast<std::uint64_t>(*last) >= room) {
    refuse("shape", shown(shape()) + " with strides " + shown(strides()) + " exceeds the " +
                        std::to_string(block_.bytes() - offset_) + " bytes from the offset");
  }
  // Repeated elements are counted, too, so that no later product of extents overflows.
  if (has_too_many_elements(shape(), type_)) {
    refuse("shape", shown(shape()) + " has too many elements");
  }
  if (reinterpret_cast<std::uintptr_t>(address()) % size_of(type_) != 0) {
    refuse("offset", "the first element is not aligned to its size, " +
                         std::to_string(size_of(type_)) + " bytes");
  }
}

std::size_t tensor::size() const noexcept {
  return static_cast<std::size_t>(elements_of(shape()).value_or(0));
}

byte_extent tensor::extent() const noexcept {
  if (empty()) return {offset_, offset_};
  const auto last = static_cast<std::size_t>(*distance_to_last(shape(), strides()));
  return {offset_, offset_ + (last + 1) * size_of(type_)};
}

bool tensor::is_contiguous() const noexcept {
  if (empty()) return true;
  std::array<merged_dimension, extents::max_rank> merged{};
  const auto count = merge(shape(), strides(), merged);
  return count == 0 || (count == 1 && merged[0].stride == 1);
}

tensor tensor::reshape(const extents& shape) const {
  auto wanted = shape;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == -1 && !open) {
      open = i;
      wanted[i] = 1;
    } else if (wanted[i] < 0) {
      refuse("reshape",
             "dimension " + std::to_string(i) + " of " + to_string(shape) + " is negative");
    }
  }
  const auto own = static_cast<std::int64_t>(size());
  const auto others = elements_of({wanted.begin(), wanted.size()});
  if (open && others && *others != 0) wanted[*open] = own / *others;
  if ((open && others == 0) || elements_of({wanted.begin(), wanted.size()}) != own) {
    refuse("reshape", "the " + std::to_string(own) + " elements of shape " + shown(this->shape()) +
                          " do not fit " + to_string(shape));
  }
  const auto strides =
      own == 0 ? row_major_strides(wanted) : strides_for(this->shape(), this->strides(), wanted);
  if (!strides) {
    throw error(errc::unsupported, "reshape: a tensor of shape " + shown(this->shape()) +
                                       " with strides " + shown(this->strides()) +
                                       " cannot be viewed as " + to_string(shape) +
                                       " without a copy");
  }
  auto view = *this;
  view.assign(wanted, *strides);
  return view;
}

tensor tensor::permute(const extents& axes) const {
  auto view = *this;
  std::array<bool, extents::max_rank> seen{};
  bool valid = axes.size() == rank_;
  for (std::size_t i = 0; valid && i < rank_; ++i) {
    valid = axes[i] >= 0 && axes[i] < rank_ && !seen[static_cast<std::size_t>(axes[i])];
    if (!valid) break;
    const auto axis = static_cast<std::size_t>(axes[i]);
    seen[axis] = true;
    view.shape_[i] = shape_[axis];
    view.strides_[i] = strides_[axis];
  }
  if (!valid) {
    refuse("permute", to_string(axes) + " does not name each of the " + std::to_string(rank_) +
                          " dimensions once");
  }
  return view;
}

tensor tensor::transposed() const {
  if (rank_ < 2) {
    refuse("transposed",
           "the tensor has " + std::to_string(rank_) + " dimensions; at least 2 are needed");
  }
  auto view = *this;
  std::swap(view.shape_[rank_ - 1U], view.shape_[rank_ - 2U]);
  std::swap(view.strides_[rank_ - 1U], view.strides_[rank_ - 2U]);
  return view;
}

tensor tensor::slice(std::size_t axis, std::int64_t first, std::int64_t last,
                     std::int64_t step) const {
  require_axis("slice", axis, rank_);
  if (first < 0 || first > last || last > shape_[axis]) {
    refuse("slice", "[" + std::to_string(first) + ", " + std::to_string(last) +
                        ") exceeds the extent " + std::to_string(shape_[axis]) + " of axis " +
                        std::to_string(axis));
  }
  if (step < 1) refuse("slice", "step " + std::to_string(step) + " is less than 1");
  auto view = *this;
  view.shape_[axis] = (last - first) / step + ((last - first) % step != 0 ? 1 : 0);
  // An empty view keeps the offset: no element of it exists.
  if (view.shape_[axis] != 0 && !empty()) {
    view.offset_ += static_cast<std::size_t>(first * strides_[axis]) * size_of(type_);
  }
  // With one element the stride has no meaning, and a large step would overflow it.
  if (view.shape_[axis] > 1) view.strides_[axis] *= step;
  return view;
}

tensor tensor::select(std::size_t axis, std::int64_t index) const {
  require_axis("select", axis, rank_);
  if (index < 0 || index >= shape_[axis]) {
    refuse("select", "index " + std::to_string(index) + " exceeds the extent " +
                         std::to_string(shape_[axis]) + " of axis " + std::to_string(axis));
  }
  auto view = slice(axis, index, index + 1);
  extents left;
  extents strides;
  for (std::size_t i = 0; i < rank_; ++i) {
    if (i == axis) continue;
    left.push_back(shape_[i]);
    strides.push_back(strides_[i]);
  }
  view.assign(left, strides);
  return view;
}

tensor tensor::broadcast_to(const extents& shape) const {
  const auto fits = [](std::int64_t own, std::int64_t wanted) {
    return wanted >= 0 && (own == wanted || own == 1);
  };
  bool valid = shape.size() >= rank_;
  extents strides;
  for (std::size_t i = 0; valid && i < shape.size(); ++i) {
    const bool missing = i + rank_ < shape.size();
    const auto own = i + rank_ - shape.size();
    valid = fits(missing ? 1 : shape_[own], shape[i]);
    if (valid) strides.push_back(missing || shape_[own] != shape[i] ? 0 : strides_[own]);
  }
  if (!valid) {
    refuse("broadcast_to", "shape " + shown(this->shape()) + " does not fit " + to_string(shape));
  }
  if (has_too_many_elements({shape.begin(), shape.size()}, type_)) {
    refuse("broadcast_to", to_string(shape) + " has too many elements");
  }
  auto view = *this;
  view.assign(shape, strides);
  return view;
}

tensor tensor::reinterpret(element_type type) const {
  const auto from = static_cast<std::int64_t>(size_of(type_));
  const auto to = static_cast<std::int64_t>(size_of(type));
  auto view = *this;
  view.type_ = type;
  if (from != to) {
    if (rank_ == 0) refuse("reinterpret", "a tensor without dimensions keeps its element size");
    const auto innermost = rank_ - 1U;
    if (shape_[innermost] != 1 && strides_[innermost] != 1) {
      refuse("reinterpret",
             "the last dimension has stride " + std::to_string(strides_[innermost]) + ", not 1");
    }
    const auto rescaled = [&](std::int64_t count, const char* what) {
      // In two steps, because the product of a stride without meaning may overflow.
      if (from > to ? count > std::numeric_limits<std::int64_t>::max() / (from / to)
                    : count % (to / from) != 0) {
        refuse("reinterpret", std::string(what) + " " + std::to_string(count) + " of " +
                                  std::string(to_string(type_)) + " is not a whole number of " +
                                  std::string(to_string(type)));
      }
      return from > to ? count * (from / to) : count / (to / from);
    };
    view.shape_[innermost] = rescaled(shape_[innermost], "extent");
    view.strides_[innermost] = 1;
    for (std::size_t i = 0; i < innermost; ++i) {
      if (shape_[i] > 1) view.strides_[i] = rescaled(strides_[i], "stride");
    }
  }
  if (block_) view.check();
  return view;
}

void tensor::require_flat(element_type type) const {
  if (type_ != type) {
    refuse("tensor::as", "the elements are " + std::string(to_string(type_)) + ", not " +
                             std::string(to_string(type)));
  }
  if (!is_contiguous()) {
    throw error(errc::unsupported, "tensor::as: shape " + shown(shape()) + " with strides " +
                                       shown(strides()) + " is not contiguous");
  }
}

}  // namespace sluice
