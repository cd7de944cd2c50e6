// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/pool_call.hpp"

#include <sluice/host_device_code.hpp>
#include <sluice/runtime/float16.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

// Maxima of windows with their indices. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The results have no gaps. Axes have the order of x; those that it does not have come first.
struct indexed_pool_call {
  std::int64_t count = 0;  ///< number of windows
  std::int64_t channels = 1;
  std::int64_t image_stride = 0;    ///< of x, in elements
  std::int64_t channel_stride = 0;  ///< of x, in elements
  pool_axis axes[pool_call::max_axes]{};
  storage type = storage::f32;
  bool within_plane = false;
};

/// The elements of a window that are within x, at most.
[[nodiscard]] inline double most_taps(const indexed_pool_call& call) noexcept {
  double taps = 1;
  for (const auto& axis : call.axes) {
    taps *= static_cast<double>(axis.window < axis.extent ? axis.window : axis.extent);
  }
  return taps;
}

/// A window among all of them.
struct indexed_window {
  std::int64_t number = 0;
  std::int64_t plane = 0;  ///< image and channel
  std::int64_t outputs[pool_call::max_axes]{};

  /// The window with a number.
  [[nodiscard]] static SLUICE_HOST_DEVICE indexed_window make(const indexed_pool_call& call,
                                                              std::int64_t number) noexcept {
    indexed_window window{number, number};
    for (int i = pool_call::max_axes - 1; i >= 0; --i) {
      const auto split = divide(window.plane, call.axes[i].outputs);
      window.outputs[i] = split.remainder;
      window.plane = split.value;
    }
    return window;
  }
  /// The next window.
  void advance(const indexed_pool_call& call) noexcept {
    ++number;
    for (int i = pool_call::max_axes - 1; i >= 0; --i) {
      if (++outputs[i] < call.axes[i].outputs) return;
      outputs[i] = 0;
    }
    ++plane;
  }
};

/// The addresses of a launch.
struct indexed_pool_addresses {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t* indices = nullptr;
};

/// Finds the maximum of a window of elements of type `Element`.
template <class Element>
struct indexed_pool_body {
  using number =
      std::conditional_t<std::is_arithmetic_v<Element>, Element, float>;  ///< f16 and bf16 in f32

  indexed_pool_addresses addresses;

  /// Writes the results of a window.
  SLUICE_HOST_DEVICE void operator()(const indexed_pool_call& call,
                                     const indexed_window& window) const noexcept {
    const auto split = divide(window.plane, call.channels);
    const auto* const plane = static_cast<const Element*>(addresses.x) +
                              split.value * call.image_stride +
                              split.remainder * call.channel_stride;
    const auto& [depth, height, width] = call.axes;
    const auto a = taps_of(depth, window.outputs[0]);
    const auto b = taps_of(height, window.outputs[1]);
    const auto c = taps_of(width, window.outputs[2]);
    std::int64_t index = -1;
    Element most = lowest();
    for (std::int64_t i = a.first; i < a.last; ++i) {
      const std::int64_t z = a.start + i * depth.dilation;
      for (std::int64_t j = b.first; j < b.last; ++j) {
        const std::int64_t row = b.start + j * height.dilation;
        const std::int64_t line = (z * height.extent + row) * width.extent;
        const auto* const elements = plane + z * depth.x_stride + row * height.x_stride;
        for (std::int64_t k = c.first; k < c.last; ++k) {
          const std::int64_t column = c.start + k * width.dilation;
          const Element x = elements[column * width.x_stride];
          if (index >= 0 && !is_above(static_cast<number>(x), static_cast<number>(most))) continue;
          index = line + column;
          most = x;
        }
      }
    }
    if (index >= 0 && !call.within_plane) {
      index += window.plane * depth.extent * height.extent * width.extent;
    }
    static_cast<Element*>(addresses.y)[window.number] = most;
    addresses.indices[window.number] = index;
  }

  /// The result of a window without elements.
  [[nodiscard]] static SLUICE_HOST_DEVICE Element lowest() noexcept {
    if constexpr (std::is_integral_v<Element>) {
      return lowest_v<Element>;
    } else {
      return static_cast<Element>(-static_cast<number>(INFINITY));
    }
  }

 private:
  /// Whether x is above the maximum so far.
  [[nodiscard]] static SLUICE_HOST_DEVICE bool is_above(number x, number most) noexcept {
    if constexpr (std::is_floating_point_v<number>) {
      if (x != x) return most == most;
    }
    return x > most;
  }
};

/// Calls `run` with the body for the type of a call.
template <class Run>
void visit(const indexed_pool_call& call, const indexed_pool_addresses& addresses, const Run& run) {
  switch (call.type) {
    case storage::f16:
      return run(indexed_pool_body<f16>{addresses});
    case storage::bf16:
      return run(indexed_pool_body<bf16>{addresses});
    case storage::f32:
      return run(indexed_pool_body<float>{addresses});
    case storage::f64:
      return run(indexed_pool_body<double>{addresses});
    case storage::i8:
      return run(indexed_pool_body<std::int8_t>{addresses});
    default:
      return run(indexed_pool_body<std::uint8_t>{addresses});
  }
}

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_indexed_pool();

/// Queues a pool with at least one window on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_indexed_pool(const indexed_pool_call& call,
                                      const indexed_pool_addresses& addresses,
                                      native_stream* stream);

}  // namespace sluice::operations
