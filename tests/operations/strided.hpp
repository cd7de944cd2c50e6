// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/devices.hpp"
#include "tests/support/random_values.hpp"

#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace sluice::test {

/// How `strided` lays out a tensor.
struct strided_layout {
  extents shape{};
  extents
      order{};     ///< dimensions from the outermost to the innermost in memory; empty: as they are
  extents gaps{};  ///< elements added to the stride of each dimension; empty: none
  std::size_t offset = 0;  ///< elements before the first one
};

/// A layout of `shape` with its dimensions in random order, random gaps and a random offset.
[[nodiscard]] inline strided_layout random_layout(std::mt19937_64& generator,
                                                  const extents& shape) {
  strided_layout l{.shape = shape};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    l.order.push_back(static_cast<std::int64_t>(i));
    std::swap(l.order[i], l.order[generator() % (i + 1)]);
    l.gaps.push_back(static_cast<std::int64_t>(generator() % 3));
  }
  l.offset = generator() % 4;
  return l;
}

/// A tensor on a device with gaps and an offset, and the contents of all of its memory on the host.
template <class T>
class strided {
 public:
  strided(device_runtime& runtime, stream_ref stream, std::mt19937_64& generator,
          const strided_layout& l)
      : stream_(stream) {
    extents strides = l.shape;
    std::int64_t step = 1;
    for (std::size_t i = l.shape.size(); i-- > 0;) {
      const auto d = l.order.empty() ? i : static_cast<std::size_t>(l.order[i]);
      if (!l.gaps.empty()) step += l.gaps[d];
      strides[d] = step;
      step *= std::max<std::int64_t>(l.shape[d], 1);
    }
    const auto elements = l.offset + static_cast<std::size_t>(step) + 3;
    memory_ = random_values<T>(generator, elements);
    all_ = upload(runtime, stream, memory_);
    view_ = tensor(all_.block(), element_type_v<T>, l.shape, strides, l.offset * sizeof(T));
  }

  /// The tensor.
  [[nodiscard]] const tensor& view() const noexcept { return view_; }
  /// The index in `memory` of an element.
  [[nodiscard]] std::size_t position(const extents& index) const noexcept {
    auto offset = static_cast<std::int64_t>(view_.offset() / sizeof(T));
    const auto strides = view_.strides();
    for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
    return static_cast<std::size_t>(offset);
  }
  /// The element as it was uploaded, or set with `replace`.
  [[nodiscard]] const T& operator[](const extents& index) const { return memory_[position(index)]; }
  [[nodiscard]] const std::vector<T>& memory() const noexcept { return memory_; }
  /// Replaces the contents of the memory.
  void replace(std::vector<T> values) {
    memory_ = std::move(values);
    launch_recorder recorder = begin_write(all_, stream_);
    stream_.device().copy(all_.data(), memory_.data(), all_.bytes(), copy_direction::host_to_device,
                          stream_.native());
    recorder.commit();
    stream_.synchronize();
  }
  /// The contents of the memory on the device.
  [[nodiscard]] std::vector<T> current() const { return download(all_, stream_); }

 private:
  stream_ref stream_;
  std::vector<T> memory_;
  gpu_ref<T> all_;
  tensor view_;
};

/// Calls `visit` with each index of `shape`, in row-major order.
template <class Visit>
void for_each_index(const extents& shape, Visit&& visit) {
  for (const auto extent : shape) {
    if (extent == 0) return;
  }
  extents index = shape;
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = 0;
  while (true) {
    visit(static_cast<const extents&>(index));
    std::size_t i = shape.size();
    while (i > 0 && ++index[i - 1] == shape[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace sluice::test
