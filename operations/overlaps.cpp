// SPDX-License-Identifier: Apache-2.0
#include "operations/overlaps.hpp"

#include <sluice/runtime/element_type.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace sluice::operations {
namespace {

/// The number of tensors that are compared pair by pair.
constexpr std::size_t few = 16;
/// The comparisons for each tensor of a sweep.
constexpr std::size_t most_compared = 64;

struct dimension {
  std::int64_t stride;  // in bytes
  std::int64_t count;
};

/// The bytes [begin, end), or those of them that a tensor touches, which repeat in `dimensions`.
struct reach {
  std::uint32_t number;
  bool is_written;
  std::int64_t begin;
  std::int64_t end;
  // By falling strides. Those of which only the remainders count have been taken off.
  std::array<dimension, extents::max_rank> dimensions;
  std::size_t first;
  std::size_t last;

  /// The stride of the next dimension if what it repeats fits into the stride; otherwise 0.
  [[nodiscard]] std::int64_t stride() const noexcept {
    if (first == last) return 0;
    const auto& outer = dimensions[first];
    return repeated_bytes() <= outer.stride ? outer.stride : 0;
  }
  [[nodiscard]] std::int64_t repeated_bytes() const noexcept {
    const auto& outer = dimensions[first];
    return end - begin - (outer.count - 1) * outer.stride;
  }
};

reach reach_of(std::size_t number, const touched_tensor& touched) {
  const auto& value = *touched.value;
  const auto bytes = value.extent();
  reach result{static_cast<std::uint32_t>(number), touched.is_written, {}, {}, {}, 0, 0};
  result.begin = reinterpret_cast<std::intptr_t>(value.address());
  // An import may state any size.
  if (__builtin_add_overflow(result.begin, bytes.last - bytes.first, &result.end)) {
    result.end = std::numeric_limits<std::int64_t>::max();
    return result;
  }
  const auto size = static_cast<std::int64_t>(size_of(value.type()));
  const auto shape = value.shape();
  const auto strides = value.strides();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && strides[i] > 0)
      result.dimensions[result.last++] = {strides[i] * size, shape[i]};
  }
  auto* const begin = result.dimensions.data();
  std::sort(begin, begin + result.last,
            [](const dimension& a, const dimension& b) { return a.stride > b.stride; });
  // Dimensions that continue each other are one.
  std::size_t kept = 0;
  for (std::size_t i = 1; i < result.last; ++i) {
    auto& outer = result.dimensions[kept];
    const auto& inner = result.dimensions[i];
    if (outer.stride == inner.stride * inner.count) {
      outer = {inner.stride, inner.count * outer.count};
    } else {
      result.dimensions[++kept] = inner;
    }
  }
  if (result.last != 0) result.last = kept + 1;
  // The last one counts adjacent elements.
  if (result.last != 0 && result.dimensions[result.last - 1].stride <= size) --result.last;
  return result;
}

class search {
 public:
  search(std::span<const touched_tensor> all,
         const std::function<bool(std::size_t, std::size_t)>& visit)
      : all_(all), visit_(visit), needs_no_reads_(all.size(), false) {}

  void compare_all() {
    for (std::uint32_t i = 0; i < all_.size(); ++i) {
      for (std::uint32_t j = 0; j < i; ++j) {
        if (all_[i].is_written || all_[j].is_written) compare(i, j);
      }
    }
  }
  /// Returns the number of a tensor that takes too many comparisons.
  [[nodiscard]] std::optional<std::size_t> run() {
    std::vector<reach> reaches;
    reaches.reserve(all_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (*all_[i].value && !all_[i].value->empty()) reaches.push_back(reach_of(i, all_[i]));
    }
    return compare_near(std::move(reaches));
  }
  [[nodiscard]] std::size_t comparisons() const noexcept { return comparisons_; }

 private:
  void compare(std::uint32_t a, std::uint32_t b) {
    ++comparisons_;
    const bool are_written = all_[a].is_written && all_[b].is_written;
    if (are_written ? b < a : all_[b].is_written) std::swap(a, b);
    if (!are_written && needs_no_reads_[a]) return;
    if (!overlap(*all_[a].value, *all_[b].value)) return;
    if (!visit_(a, b) && !are_written) needs_no_reads_[a] = true;
  }
  /// Compares those whose reaches overlap.
  std::optional<std::size_t> compare_near(std::vector<reach> reaches) {
    std::sort(reaches.begin(), reaches.end(),
              [](const reach& a, const reach& b) { return a.begin < b.begin; });
    for (std::size_t first = 0; first < reaches.size();) {
      auto end = reaches[first].end;
      bool any_is_written = false;
      auto last = first;
      for (; last < reaches.size() && (last == first || reaches[last].begin < end); ++last) {
        end = std::max(end, reaches[last].end);
        any_is_written = any_is_written || reaches[last].is_written;
      }
      const std::span cluster(reaches.data() + first, last - first);
      first = last;
      if (!any_is_written || cluster.size() < 2 || !sweep(cluster, 0)) continue;
      const auto stride = common_stride(cluster);
      if (stride == 0) return cluster.front().number;
      if (const auto refused = sweep(cluster, stride)) return refused;
      if (const auto refused = compare_near(remainders(cluster, stride))) return refused;
    }
    return std::nullopt;
  }
  /// Compares reaches, by their beginnings, but not two that have the stride `apart`.
  std::optional<std::size_t> sweep(std::span<const reach> cluster, std::int64_t apart) {
    // Those that have not ended: read or written, and without or with the stride.
    std::array<std::array<std::vector<const reach*>, 2>, 2> open;
    auto left = most_compared * cluster.size();
    for (const auto& next : cluster) {
      const bool is_apart = apart != 0 && next.stride() == apart;
      for (std::size_t with_stride = 0; with_stride < (is_apart ? 1U : 2U); ++with_stride) {
        for (std::size_t written = next.is_written ? 0 : 1; written < 2; ++written) {
          auto& others = open[with_stride][written];
          for (std::size_t i = 0; i < others.size();) {
            if (written == 0 && needs_no_reads_[next.number]) break;
            if (others[i]->end <= next.begin) {
              others[i] = others.back();
              others.pop_back();
              continue;
            }
            if (left-- == 0) return next.number;
            if (others[i]->number != next.number) compare(next.number, others[i]->number);
            ++i;
          }
        }
      }
      open[is_apart ? 1 : 0][next.is_written ? 1 : 0].push_back(&next);
    }
    return std::nullopt;
  }
  /// The stride that most of them have; 0 if none has one.
  [[nodiscard]] static std::int64_t common_stride(std::span<const reach> cluster) {
    std::map<std::int64_t, std::size_t> counts;
    for (const auto& one : cluster) {
      if (const auto stride = one.stride(); stride != 0) ++counts[stride];
    }
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts.end() ? 0 : most->first;
  }
  /// What the tensors with the stride repeat, at the remainders of their addresses. Two that share
  /// a byte share one there, too. What crosses a multiple of the stride is there twice.
  [[nodiscard]] static std::vector<reach> remainders(std::span<const reach> cluster,
                                                     std::int64_t stride) {
    std::vector<reach> reduced;
    const auto origin = cluster.front().begin;
    for (const auto& one : cluster) {
      if (one.stride() != stride) continue;
      auto part = one;
      part.begin = (one.begin - origin) % stride;
      part.end = part.begin + one.repeated_bytes();
      ++part.first;
      reduced.push_back(part);
      if (part.end <= stride) continue;
      part.begin -= stride;
      part.end -= stride;
      reduced.push_back(part);
    }
    return reduced;
  }

  std::span<const touched_tensor> all_;
  const std::function<bool(std::size_t, std::size_t)>& visit_;
  std::vector<bool> needs_no_reads_;
  std::size_t comparisons_ = 0;
};

}  // namespace

overlap_search for_each_overlap(std::span<const touched_tensor> all,
                                const std::function<bool(std::size_t, std::size_t)>& visit) {
  search pairs(all, visit);
  overlap_search ended;
  if (all.size() > few) {
    ended.refused = pairs.run();
  } else {
    pairs.compare_all();
  }
  ended.comparisons = pairs.comparisons();
  return ended;
}

}  // namespace sluice::operations
