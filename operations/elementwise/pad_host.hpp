// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/pad_call.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::host {

/// Writes padded lines, those along the last dimension.
template <class Bits>
class padded_line {
 public:
  padded_line(const operations::pad_dimension& dimension, pad_mode mode, Bits value) noexcept
      : dimension_(dimension), mode_(mode), value_(value) {}

  /// Writes the line `y` from the line `x`; nullptr: it is none of x.
  void write(const Bits* x, Bits* y) const noexcept {
    const auto& line = dimension_;
    if (x == nullptr) return fill(y, line.extent, value_);
    if (mode_ == pad_mode::wrap) return repeat(x, y);
    const auto before = std::min(line.before, line.extent);
    const auto length = std::min(line.x_extent, line.extent - before);
    pad(x, y, 0, before);
    copy(x, y + before * line.stride, length);
    pad(x, y, before + length, line.extent);
  }

 private:
  void fill(Bits* y, std::int64_t count, Bits value) const noexcept {
    if (dimension_.stride == 1) {
      std::fill_n(y, count, value);
    } else {
      for (std::int64_t i = 0; i < count; ++i) y[i * dimension_.stride] = value;
    }
  }
  void copy(const Bits* x, Bits* y, std::int64_t count) const noexcept {
    const auto& line = dimension_;
    if (line.stride == 1 && line.x_stride == 1) {
      std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(Bits));
    } else {
      for (std::int64_t i = 0; i < count; ++i) y[i * line.stride] = x[i * line.x_stride];
    }
  }
  /// Writes the elements `begin` to `end`, which are beside x.
  void pad(const Bits* x, Bits* y, std::int64_t begin, std::int64_t end) const noexcept {
    const auto& line = dimension_;
    if (begin == end) return;
    if (mode_ == pad_mode::constant) {
      return fill(y + begin * line.stride, end - begin, value_);
    }
    if (mode_ == pad_mode::edge) {
      return fill(y + begin * line.stride, end - begin,
                  x[line.source(mode_, begin) * line.x_stride]);
    }
    for (auto i = begin; i < end; ++i) {
      y[i * line.stride] = x[line.source(mode_, i) * line.x_stride];
    }
  }
  /// Writes a whole x, and then copies of what there is.
  void repeat(const Bits* x, Bits* y) const noexcept {
    const auto& line = dimension_;
    copy(x + (line.x_extent - line.before) % line.x_extent * line.x_stride, y, line.before);
    copy(x, y + line.before * line.stride, line.x_extent - line.before);
    if (line.stride != 1) {
      for (auto i = line.x_extent; i < line.extent; ++i) {
        y[i * line.stride] = y[(i - line.x_extent) * line.stride];
      }
      return;
    }
    // Larger pieces would leave the nearest cache.
    const auto most = std::max<std::int64_t>(
        static_cast<std::int64_t>(16384 / sizeof(Bits)) / line.x_extent * line.x_extent,
        line.x_extent);
    for (auto done = line.x_extent; done < line.extent;) {
      const auto count = std::min({done, most, line.extent - done});
      std::memcpy(y + done, y, static_cast<std::size_t>(count) * sizeof(Bits));
      done += count;
    }
  }

  const operations::pad_dimension& dimension_;
  pad_mode mode_;
  Bits value_;
};

/// The places of lines in y and in x, one after the other.
class padded_lines {
 public:
  /// The line number `index`.
  padded_lines(const operations::pad_layout& layout, std::int64_t index) noexcept
      : layout_(layout), last_(layout.rank - 1) {
    for (int d = last_ - 1; d >= 0; --d) {
      index_[at(d)] = index % layout.dimensions[d].extent;
      index /= layout.dimensions[d].extent;
    }
    places_[0] = {0, layout.first};
    place_from(0);
  }
  [[nodiscard]] const operations::pad_position& place() const noexcept {
    return places_[at(last_)];
  }
  void next() noexcept {
    for (int d = last_ - 1; d >= 0; --d) {
      if (++index_[at(d)] < layout_.dimensions[d].extent) return place_from(d);
      index_[at(d)] = 0;
    }
  }

 private:
  static std::size_t at(int d) noexcept { return static_cast<std::size_t>(d); }
  /// Works out the places behind the dimensions from `first` on.
  void place_from(int first) noexcept {
    for (int d = first; d < last_; ++d) {
      const auto& dimension = layout_.dimensions[d];
      const auto& outer = places_[at(d)];
      const auto source = dimension.source(layout_.mode, index_[at(d)]);
      places_[at(d) + 1] = {outer.y + index_[at(d)] * dimension.stride,
                            outer.x < 0 || source < 0 ? -1 : outer.x + source * dimension.x_stride};
    }
  }

  const operations::pad_layout& layout_;
  int last_;
  std::array<std::int64_t, operations::max_dimensions> index_{};
  std::array<operations::pad_position, operations::max_dimensions> places_{};
};

/// Computes a `pad_call`.
template <class Bits>
void write_padded(const operations::pad_body<Bits>& body, const operations::pad_layout& layout) {
  constexpr double nanoseconds_of_line = 10;
  constexpr double nanoseconds_of_element = 0.5;
  const auto& dimension = layout.dimensions[layout.rank - 1];
  const padded_line<Bits> line(dimension, layout.mode, body.value);
  const auto* const source = static_cast<const Bits*>(body.addresses.inputs[0]);
  const work_chunks chunks(
      layout.count / dimension.extent,
      nanoseconds_of_line + nanoseconds_of_element * static_cast<double>(dimension.extent));
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    const auto [begin, end] = chunks[chunk];
    padded_lines lines(layout, begin);
    for (auto i = begin; i < end; ++i, lines.next()) {
      const auto& place = lines.place();
      line.write(
          // Without elements, x has no address.
          place.x < 0 || source == nullptr ? nullptr : source + place.x,
          static_cast<Bits*>(body.addresses.y) + place.y);
    }
  });
}

}  // namespace sluice::host
