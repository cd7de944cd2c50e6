// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/random_values.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <utility>

namespace sluice::test {

/// The largest number of a size.
inline constexpr auto most = std::numeric_limits<std::int64_t>::max();
/// The smallest number of a size.
inline constexpr auto least = std::numeric_limits<std::int64_t>::min();
/// An extent whose square is still a number of elements.
inline constexpr auto huge = std::int64_t{1} << 31U;

/// Draws random operands for requests. Their elements are undefined.
class bench {
 public:
  /// Draws from `generator`, with memory of `runtime`. `other` is a runtime of the same device.
  /// All of them must outlive the bench.
  bench(device_runtime& runtime, stream_ref stream, device_runtime& other, stream_ref other_stream,
        std::mt19937_64& generator)
      : runtime_(runtime),
        stream_(stream),
        other_(other),
        other_stream_(other_stream),
        generator_(generator) {}

  [[nodiscard]] std::int64_t extent(std::int64_t smallest = 2, std::int64_t largest = 5) {
    return std::uniform_int_distribution<std::int64_t>(smallest, largest)(generator_);
  }
  [[nodiscard]] bool coin() { return generator_() % 2 == 0; }
  template <class T>
  [[nodiscard]] T one_of(std::initializer_list<T> values) {
    return values.begin()[generator_() % values.size()];
  }
  /// A shape of `rank` dimensions with at least two elements each.
  [[nodiscard]] extents shape(std::size_t rank) {
    extents drawn;
    for (std::size_t i = 0; i < rank; ++i) drawn.push_back(extent());
    return drawn;
  }

  /// A row-major tensor without gaps.
  [[nodiscard]] tensor make(element_type type, const extents& shape) {
    return {runtime_.allocate_bytes(elements(shape) * size_of(type), stream_, "operand"), type,
            shape};
  }
  /// A tensor with its dimensions in random order in memory, and with random gaps.
  [[nodiscard]] tensor loose(element_type type, const extents& shape) {
    extents order;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      order.push_back(static_cast<std::int64_t>(i));
      std::swap(order[i], order[generator_() % (i + 1)]);
    }
    extents strides = shape;
    std::int64_t step = extent(1, 2);
    for (const auto d : order) {
      strides[static_cast<std::size_t>(d)] = step;
      step = step * shape[static_cast<std::size_t>(d)] + extent(0, 2);
    }
    return strided(type, shape, strides);
  }
  /// A tensor with given strides in memory of its own.
  [[nodiscard]] tensor strided(element_type type, const extents& shape, const extents& strides) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) count += (shape[d] - 1) * strides[d];
    return {runtime_.allocate_bytes(static_cast<std::size_t>(count) * size_of(type), stream_,
                                    "operand"),
            type, shape, strides};
  }
  /// A tensor of `shape` with only one element in memory. It may be larger than any memory.
  [[nodiscard]] tensor repeated(element_type type, const extents& shape) {
    return make(type, {1}).broadcast_to(shape);
  }
  /// A tensor without elements. One extent of `shape` is 0; the others may be of any size.
  [[nodiscard]] tensor empty(element_type type, const extents& shape) {
    return {runtime_.allocate_bytes(64, stream_, "operand"), type, shape};
  }
  /// A tensor like `model` whose memory has been freed.
  [[nodiscard]] tensor stale(const tensor& model) {
    const auto copy = like(model, runtime_, stream_);
    runtime_.deallocate(copy.block());
    return copy;
  }
  /// A tensor like `model` in memory of another runtime.
  [[nodiscard]] tensor foreign(const tensor& model) { return like(model, other_, other_stream_); }
  /// A contiguous tensor with the type and the shape of `model`, in `memory`.
  [[nodiscard]] static tensor view(const block_ref& memory, const tensor& model,
                                   std::size_t offset) {
    auto strides = model.shape();
    std::int64_t step = 1;
    for (std::size_t d = strides.size(); d-- > 0;) {
      const auto extent = strides[d];
      strides[d] = step;
      step *= extent;
    }
    return {memory, model.type(), model.shape(), strides, offset};
  }
  /// A tensor of random bytes in host memory.
  [[nodiscard]] host_tensor process(element_type type, const extents& shape) {
    host_tensor values(type, shape);
    const auto bytes = random_values<std::uint8_t>(generator_, values.bytes());
    std::copy(bytes.begin(), bytes.end(), static_cast<std::uint8_t*>(values.data().get()));
    return values;
  }
  /// Memory of `bytes` bytes.
  [[nodiscard]] block_ref memory(std::size_t bytes) {
    return runtime_.allocate_bytes(bytes, stream_, "operands");
  }

 private:
  static std::size_t elements(const extents& shape) {
    std::int64_t count = 1;
    for (const auto extent : shape) count *= extent;
    return static_cast<std::size_t>(count);
  }
  static tensor like(const tensor& model, device_runtime& runtime, stream_ref stream) {
    return {runtime.allocate_bytes(model.block().bytes(), stream, "operand"), model.type(),
            model.shape(), model.strides(), model.offset()};
  }

  device_runtime& runtime_;
  stream_ref stream_;
  device_runtime& other_;
  stream_ref other_stream_;
  std::mt19937_64& generator_;
};

/// A random type of elements that are copied, but not u8.
inline element_type copied_type(bench& test_bench) {
  using enum element_type;
  return test_bench.one_of({boolean, i8, u16, bf16, f32, u64, c64, c128});
}
/// A small random shape of `least_rank` to four dimensions.
inline extents any_shape(bench& test_bench, std::int64_t least_rank = 1) {
  return test_bench.shape(static_cast<std::size_t>(test_bench.extent(least_rank, 4)));
}

}  // namespace sluice::test
