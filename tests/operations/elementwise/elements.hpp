// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/elementwise/number.hpp"
#include "tests/operations/executing.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/quantization.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <random>
#include <type_traits>
#include <vector>

namespace sluice::test {

/// Whether the dimensions of a new result lie in the order of those of X.
template <class Operation>
inline constexpr bool keeps_order =
    std::disjunction_v<std::is_same<Operation, cast>, std::is_same<Operation, affine>,
                       std::is_same<Operation, triangle>, std::is_same<Operation, quantize>,
                       std::is_same<Operation, dequantize>>;

/// A tensor of any element type with random contents and strides on a device, and the contents of
/// its memory on the host.
class elements {
 public:
  elements(device_runtime& runtime, stream_ref stream, std::mt19937_64& generator,
           element_type type, const strided_layout& layout, drawn how = drawn::numbers)
      : stream_(stream), type_(type) {
    const auto count = static_cast<std::size_t>(strides_of(layout, strides_));
    memory_.resize((layout.offset + count + 3) * size_of(type));
    for (std::size_t i = 0; i < memory_.size(); i += size_of(type)) {
      draw_element(generator, type, how, &memory_[i]);
    }
    all_ = runtime.allocate<std::uint8_t>(memory_.size(), stream, "elements");
    write();
    view_ = tensor(all_.block(), type, layout.shape, strides_, layout.offset * size_of(type));
  }

  [[nodiscard]] const tensor& view() const noexcept { return view_; }
  [[nodiscard]] element_type type() const noexcept { return type_; }
  /// The element at an index as it was drawn or set. Indices are broadcast as in NumPy.
  [[nodiscard]] number operator[](const extents& index) const {
    return number_at(type_, &memory_[position(index)]);
  }
  /// Sets elements of the memory to `values`, in turn.
  template <class T>
  void set(const std::vector<T>& values) {
    for (std::size_t i = 0; i < memory_.size() / sizeof(T); ++i) {
      std::memcpy(&memory_[i * sizeof(T)], &values[i % values.size()], sizeof(T));
    }
    write();
  }
  /// The position in the memory, in bytes.
  [[nodiscard]] std::size_t position(const extents& index) const {
    auto offset = view_.offset();
    const auto shape = view_.shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto i = index[index.size() - shape.size() + d];
      if (shape[d] != 1) offset += static_cast<std::size_t>(i * strides_[d]) * size_of(type_);
    }
    return offset;
  }
  [[nodiscard]] const std::vector<std::byte>& memory() const noexcept { return memory_; }
  /// The contents of the memory on the device.
  [[nodiscard]] std::vector<std::byte> current() const {
    const auto bytes = download(all_, stream_);
    const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
    return {first, first + bytes.size()};
  }

 private:
  static std::int64_t strides_of(const strided_layout& l, extents& strides) {
    strides = l.shape;
    std::int64_t step = 1;
    for (std::size_t i = l.shape.size(); i-- > 0;) {
      const auto d = l.order.empty() ? i : static_cast<std::size_t>(l.order[i]);
      if (!l.gaps.empty()) step += l.gaps[d];
      strides[d] = step;
      step *= std::max<std::int64_t>(l.shape[d], 1);
    }
    return step;
  }
  void write() {
    launch_recorder recorder = begin_write(all_, stream_);
    stream_.device().copy(all_.data(), memory_.data(), memory_.size(),
                          copy_direction::host_to_device, stream_.native());
    recorder.commit();
    stream_.synchronize();
  }

  stream_ref stream_;
  element_type type_;
  extents strides_;
  std::vector<std::byte> memory_;
  gpu_ref<std::uint8_t> all_;
  tensor view_;
};

class elementwise_test : public executor_test {
 protected:
  std::mt19937_64& generator() { return generator_; }
  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }
  [[nodiscard]] bool coin() { return (generator_() & 1U) != 0; }

  /// A layout with a random order of dimensions, gaps and an offset; or without.
  strided_layout random_layout(const extents& shape) {
    strided_layout layout{.shape = shape};
    if (between(0, 3) == 0) return layout;
    extents order;
    extents gaps;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      order.push_back(static_cast<std::int64_t>(d));
      gaps.push_back(coin() ? between(0, 3) : 0);
    }
    if (coin()) {
      for (std::size_t d = shape.size(); d > 1; --d) {
        std::swap(order[d - 1],
                  order[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(d) - 1))]);
      }
    }
    layout.order = order;
    layout.gaps = gaps;
    layout.offset = static_cast<std::size_t>(between(0, 5));
    return layout;
  }
  elements make(element_type type, const extents& shape, drawn how = drawn::numbers) {
    return {runtime(), stream(), generator_, type, random_layout(shape), how};
  }
  elements make_contiguous(element_type type, const extents& shape, drawn how = drawn::numbers,
                           std::size_t offset = 0) {
    return {runtime(), stream(), generator_, type, {.shape = shape, .offset = offset}, how};
  }
  /// A shape with up to `rank` dimensions and few elements; sometimes none.
  extents random_shape(std::size_t least_rank = 0, std::size_t most_rank = 8) {
    extents shape;
    const auto rank = static_cast<std::size_t>(
        between(static_cast<std::int64_t>(least_rank), static_cast<std::int64_t>(most_rank)));
    const std::int64_t most = rank < 3 ? 40 : rank < 5 ? 7 : 3;
    for (std::size_t d = 0; d < rank; ++d) shape.push_back(between(1, most));
    if (rank > 0 && between(0, 14) == 0) {
      shape[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(rank) - 1))] = 0;
    }
    return shape;
  }
  /// A shape that can be broadcast to `shape`.
  extents part_of(const extents& shape) {
    extents part;
    const auto first = static_cast<std::size_t>(
        between(0, 3) == 0 ? between(0, static_cast<std::int64_t>(shape.size())) : 0);
    for (std::size_t d = first; d < shape.size(); ++d) {
      part.push_back(between(0, 3) == 0 ? 1 : shape[d]);
    }
    return part;
  }

  /// Compares a result with `expected(index)` element by element, exactly.
  template <class Expected>
  void expect_elements(const tensor& y, const Expected& expected) {
    expect_each(y, [&](const extents& index, const number& computed) {
      const number wanted = expected(index);
      return same(computed, wanted) ? ::testing::AssertionSuccess()
                                    : ::testing::AssertionFailure()
                                          << computed.real() << '+' << computed.imag()
                                          << "i is not " << wanted.real() << '+' << wanted.imag()
                                          << 'i';
    });
  }
  /// Calls `check(index, computed)` for each element of a result.
  template <class Check>
  void expect_each(const tensor& y, const Check& check) {
    const auto bytes = contents_of(y);
    const auto shape = y.shape();
    const auto strides = y.strides();
    for_each_index(shape, [&](const extents& index) {
      if (::testing::Test::HasFailure()) return;
      auto offset = static_cast<std::int64_t>(y.offset());
      for (std::size_t d = 0; d < index.size(); ++d) {
        offset += index[d] * strides[d] * static_cast<std::int64_t>(size_of(y.type()));
      }
      EXPECT_TRUE(check(index, number_at(y.type(), &bytes[static_cast<std::size_t>(offset)])))
          << to_string(y.type()) << ' ' << to_string(index) << " of " << to_string(shape);
    });
  }
  /// Runs an operation over memory of any layout for its result, or without.
  template <class Operation, class Expected>
  void expect_right(Operation operation, element_type type, const extents& shape,
                    const Expected& expected) {
    if (coin()) {
      const auto y = make(type, shape);
      operation.y = y.view();
      const auto result = run(test_executor(), operation);
      EXPECT_EQ(result, y.view());
      expect_elements(result, expected);
      expect_gaps_untouched(y);
    } else {
      const auto result = run(test_executor(), operation);
      EXPECT_EQ(result.shape(), shape);
      EXPECT_EQ(result.type(), type);
      if constexpr (keeps_order<Operation>) {
        expect_order_of({operation.x.value()}, result);
      } else {
        EXPECT_TRUE(result.is_contiguous());
      }
      expect_elements(result, expected);
    }
  }
  /// Expects that a new result has no gaps, and its dimensions lie in memory in the order of those
  /// of the first operand of its shape without repeated elements, or in row-major order.
  static void expect_order_of(std::initializer_list<tensor> operands, const tensor& y) {
    const auto* const found = std::find_if(operands.begin(), operands.end(), [&](const tensor& x) {
      bool repeats = false;
      for (std::size_t d = 0; d < x.rank(); ++d) {
        repeats = repeats || (x.shape()[d] > 1 && x.strides()[d] == 0);
      }
      return x.shape() == y.shape() && !repeats;
    });
    if (found == operands.end() || found->is_contiguous()) {
      EXPECT_TRUE(y.is_contiguous()) << to_string(y.shape()) << to_string(y.strides());
      return;
    }
    expect_order(*found, y);
  }
  /// Expects that a tensor has no gaps, and its dimensions lie in memory in the order of those of
  /// `x`, which may have other extents.
  static void expect_order(const tensor& x, const tensor& y) {
    std::int64_t size = 1;
    std::int64_t reach = 1;
    for (std::size_t d = 0; d < y.rank(); ++d) {
      size *= y.shape()[d];
      reach += (y.shape()[d] - 1) * y.strides()[d];
      for (std::size_t e = 0; e < y.rank(); ++e) {
        if (y.shape()[d] == 1 || y.shape()[e] == 1) continue;
        EXPECT_TRUE(x.strides()[d] <= x.strides()[e] || y.strides()[d] >= y.strides()[e])
            << to_string(y.strides()) << " in the order of " << to_string(x.strides());
      }
    }
    EXPECT_TRUE(size == 0 || reach == size) << to_string(y.strides()) << " has gaps";
  }
  /// Expects that an operation has written nothing but the elements of its result.
  void expect_gaps_untouched(const elements& y) {
    auto before = y.memory();
    auto after = y.current();
    for_each_index(y.view().shape(), [&](const extents& index) {
      const auto position = y.position(index);
      std::fill_n(before.begin() + static_cast<std::ptrdiff_t>(position), size_of(y.type()),
                  std::byte{});
      std::fill_n(after.begin() + static_cast<std::ptrdiff_t>(position), size_of(y.type()),
                  std::byte{});
    });
    EXPECT_TRUE(before == after) << "elements beside the result have changed";
  }
  /// The bytes of the block of a tensor.
  std::vector<std::byte> contents_of(const tensor& t) {
    const gpu_ref<std::uint8_t> all(t.block(), 0, t.block().bytes());
    const auto bytes = download(all, stream());
    const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
    return {first, first + bytes.size()};
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

}  // namespace sluice::test
