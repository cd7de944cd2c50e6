// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/share_bytes.hpp"

#include <sluice/runtime/tensor.hpp>

#include <algorithm>
#include <array>

namespace sluice {
namespace {

/// A direction in which at least one of two tensors counts. Distances are in bytes.
struct direction {
  std::int64_t stride = 0;
  std::int64_t steps_a = 0;  ///< the largest index of the first tensor
  std::int64_t steps_b = 0;  ///< the largest index of the second tensor
};

/// The directions of two tensors, by falling strides. The last one counts the bytes of an element.
class directions {
 public:
  directions(const tensor& a, const tensor& b) {
    add(a, &direction::steps_a);
    add(b, &direction::steps_b);
    std::sort(directions_.begin(), directions_.begin() + count_,
              [](const direction& x, const direction& y) { return x.stride > y.stride; });
  }
  [[nodiscard]] const direction* begin() const noexcept { return directions_.data(); }
  [[nodiscard]] const direction* end() const noexcept { return directions_.data() + count_; }

 private:
  void add(const tensor& t, std::int64_t direction::*steps) {
    const auto size = static_cast<std::int64_t>(size_of(t.type()));
    const auto shape = t.shape();
    const auto strides = t.strides();
    at(1).*steps += size - 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] > 1 && strides[i] > 0) at(strides[i] * size).*steps += shape[i] - 1;
    }
  }
  /// The direction with `stride`, new if there is none yet.
  direction& at(std::int64_t stride) {
    for (auto* d = directions_.data(); d != end(); ++d) {
      if (d->stride == stride) return *d;
    }
    directions_[static_cast<std::size_t>(count_)].stride = stride;
    return directions_[static_cast<std::size_t>(count_++)];
  }

  std::array<direction, 2 * extents::max_rank + 1> directions_{};
  std::ptrdiff_t count_ = 0;
};

}  // namespace

// The bytes of the tensors are the sums of index times stride over all directions, from the two
// first bytes, which are `distance` apart. A common byte is a way to write 0 as a sum of z *
// stride, one difference z of two indices for each direction, with z between -steps_a and steps_b
// from a part of the distance.
//
// The directions are visited from the largest stride on. `rest` is the part of the distance that is
// left, so the smaller directions sum up to something between rest - span_a and rest + span_b. If
// that range lies between two multiples of the stride, there is no solution. If it lies between
// -stride and stride, only the difference 0 is left for this direction.
bool overlap(const tensor& a, const tensor& b) noexcept {
  // Most operands lie in blocks of their own.
  const auto range_of = [](const block_ref& block) {
    return detail::byte_range{block, block.address(), block.bytes()};
  };
  if (!detail::share_bytes(range_of(a.block()), range_of(b.block()))) return false;
  if (a.empty() || b.empty()) return false;
  const auto bytes_a = a.extent();
  const auto bytes_b = b.extent();
  if (!detail::share_bytes({a.block(), a.address(), bytes_a.last - bytes_a.first},
                           {b.block(), b.address(), bytes_b.last - bytes_b.first}))
    return false;
  // Beyond any memory, but an import may say so. The sums below do not overflow up to here.
  constexpr auto limit = std::size_t{1} << 61U;
  if (bytes_a.last - bytes_a.first > limit || bytes_b.last - bytes_b.first > limit) return true;
  auto rest =
      static_cast<const std::byte*>(b.address()) - static_cast<const std::byte*>(a.address());
  auto span_a = static_cast<std::int64_t>(bytes_a.last - bytes_a.first) - 1;
  auto span_b = static_cast<std::int64_t>(bytes_b.last - bytes_b.first) - 1;
  for (const auto& d : directions(a, b)) {
    span_a -= d.steps_a * d.stride;
    span_b -= d.steps_b * d.stride;
    auto steps = rest / d.stride;
    auto remainder = rest % d.stride;
    if (remainder < 0) {
      remainder += d.stride;
      --steps;
    }
    if (remainder > span_a && remainder + span_b < d.stride) return false;
    // From the multiple of the stride below, or from the one above.
    if (remainder - span_a > -d.stride && remainder + span_b < d.stride) {
      rest = remainder;
    } else if (remainder > span_a && remainder + span_b < 2 * d.stride) {
      rest = remainder - d.stride;
      ++steps;
    } else {
      return true;
    }
    if (steps > d.steps_a || steps < -d.steps_b) return false;
  }
  return true;
}

}  // namespace sluice
