// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/pool_call.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace sluice::operations {
namespace {

constexpr int threads_per_block = 256;
// Beyond this the loop in the kernel takes the rest.
constexpr std::int64_t max_blocks = 1 << 20;

/// The type in which elements are computed.
template <class Element>
using pool_number = std::conditional_t<std::is_same_v<Element, double>, double,
                                       std::conditional_t<std::is_integral_v<Element>, int, float>>;

template <class Element>
[[nodiscard]] __device__ pool_number<Element> number_of(Element x) {
  if constexpr (std::is_same_v<Element, double> || std::is_integral_v<Element>) {
    return x;
  } else {
    return to_f32(x);
  }
}
template <class Element>
[[nodiscard]] __device__ Element element_of(pool_number<Element> value) {
  if constexpr (std::is_same_v<Element, double> || std::is_integral_v<Element>) {
    return static_cast<Element>(value);
  } else {
    Element element;
    put_f32(element, value);
    return element;
  }
}

/// What a window is reduced to, in `T`.
///@{
template <window_kind Kind, class T>
struct pool_reducer {
  std::int64_t p;
  T alpha;
  T beta;
  T bias;

  explicit __device__ pool_reducer(const pool_call& call)
      : p(call.p),
        alpha(static_cast<T>(call.alpha)),
        beta(static_cast<T>(call.beta)),
        bias(static_cast<T>(call.bias)) {}

  /// The total without elements of a type.
  template <class Element>
  [[nodiscard]] static __device__ T identity() {
    if constexpr (Kind != window_kind::maximum) {
      return T(0);
    } else if constexpr (std::is_integral_v<T>) {
      return lowest_v<Element>;
    } else {
      return -static_cast<T>(INFINITY);
    }
  }
  [[nodiscard]] __device__ T combine(T total, T x) const {
    if constexpr (Kind == window_kind::average) {
      return total + x;
    } else if constexpr (Kind == window_kind::lp) {
      const T magnitude = abs(x);
      if (p == 1) return total + magnitude;
      return total + (p == 2 ? x * x : pow(magnitude, static_cast<T>(p)));
    } else if constexpr (Kind == window_kind::response) {
      return total + x * x;
    } else if constexpr (std::is_same_v<T, float>) {
      return larger(total, x);
    } else {
      return larger(total, x);
    }
  }
  /// The total of the elements of two totals.
  [[nodiscard]] static __device__ T merge(T a, T b) {
    if constexpr (Kind != window_kind::maximum) {
      return a + b;
    } else if constexpr (std::is_same_v<T, float>) {
      return larger(a, b);
    } else {
      return larger(a, b);
    }
  }
  /// The result of a window with `counted` taps. `x` is the element at its position.
  [[nodiscard]] __device__ T finish(T total, T counted, T x) const {
    if constexpr (Kind == window_kind::average) return total / counted;
    if constexpr (Kind == window_kind::lp) {
      if (p != 1) return p == 2 ? sqrt(total) : pow(total, T(1) / static_cast<T>(p));
    }
    if constexpr (Kind == window_kind::response) return x / pow(bias + alpha * total, beta);
    return total;
  }
};
///@}

/// The work of the threads: unit `i` is the window number i of a group of planes. The planes of a
/// group are neighbours if they are read as vectors, and otherwise `groups` apart, so that
/// neighbouring threads read neighbouring elements.
struct pool_units {
  std::int64_t count = 0;
  std::int64_t groups = 1;  ///< of the inner planes
  bool groups_are_inner = false;
};

/// `Size` planes of a thread are read at once if they are a vector.
template <class Element, window_kind Kind, int Size, bool IsVector>
__global__ void __launch_bounds__(threads_per_block)
    pool_kernel(const __grid_constant__ pool_call call, const pool_units units, const Element* x,
                Element* y) {
  using number = pool_number<Element>;
  using vector = element_vector<Element, Size>;
  const pool_reducer<Kind, number> reducer(call);
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       unit < units.count; unit += static_cast<std::int64_t>(gridDim.x) * threads_per_block) {
    std::int64_t rest = unit;
    const auto take = [&](std::int64_t extent) -> std::int64_t {
      if (extent == 1) return 0;
      const auto split = divide(rest, extent);
      rest = split.value;
      return split.remainder;
    };
    std::int64_t group = units.groups_are_inner ? take(units.groups) : 0;
    std::int64_t outputs[pool_call::max_axes];
#pragma unroll
    for (int i = pool_call::max_axes - 1; i >= 0; --i) outputs[i] = take(call.axes[i].outputs);
    if (!units.groups_are_inner) group = take(units.groups);

    pool_taps taps[pool_call::max_axes];
    std::int64_t steps[pool_call::max_axes];  // between taps, in elements of x
    std::int64_t counted = 1;
    const std::int64_t plane = IsVector ? group * Size : group;
    const std::int64_t distance = IsVector ? 1 : units.groups;  // between planes of the thread
    const auto& planes = call.planes[1];
    const Element* source = x + rest * call.planes[0].x_stride + plane * planes.x_stride;
    const Element* position = source;  // of the window
    Element* target = y + rest * call.planes[0].y_stride + plane * planes.y_stride;
#pragma unroll
    for (int i = 0; i < pool_call::max_axes; ++i) {
      const auto& axis = call.axes[i];
      taps[i] = taps_of(axis, outputs[i]);
      steps[i] = axis.dilation * axis.x_stride;
      if (Kind == window_kind::average) counted *= counted_taps(axis, taps[i], call.counts_padding);
      source += taps[i].start * axis.x_stride + taps[i].first * steps[i];
      position += outputs[i] * axis.x_stride;
      target += outputs[i] * axis.y_stride;
    }
    // The planes of the thread: fewer at the end.
    int left = Size;
    if (!IsVector && plane + (Size - 1) * distance >= planes.count) {
      left = static_cast<int>(divide(planes.count - plane - 1, distance).value) + 1;
    }
    const std::int64_t source_distance = distance * planes.x_stride;

    const auto load_planes = [&](const Element* tap) {
      vector elements;
      if constexpr (IsVector) {
        elements = *reinterpret_cast<const vector*>(tap);
      } else {
#pragma unroll
        for (int k = 0; k < Size; ++k) {
          if (k < left) elements.elements[k] = tap[k * source_distance];
        }
      }
      return elements;
    };
    number totals[Size];
#pragma unroll
    for (int k = 0; k < Size; ++k) {
      totals[k] = pool_reducer<Kind, number>::template identity<Element>();
    }
    const Element* outer = source;
#pragma unroll 1
    for (std::int64_t a = taps[0].first; a < taps[0].last; ++a, outer += steps[0]) {
      const Element* row = outer;
#pragma unroll 1
      for (std::int64_t b = taps[1].first; b < taps[1].last; ++b, row += steps[1]) {
        const Element* tap = row;
        // Sums of few numbers are added up, so that long windows lose no more than short ones.
        constexpr std::int64_t most_summed = 256;
        for (std::int64_t c = taps[2].first; c < taps[2].last;) {
          const auto end = Kind == window_kind::maximum || taps[2].last - c < most_summed
                               ? taps[2].last
                               : c + most_summed;
          number part[Size];
#pragma unroll
          for (int k = 0; k < Size; ++k) {
            part[k] = pool_reducer<Kind, number>::template identity<Element>();
          }
#pragma unroll(IsVector ? 2 : 1)
          for (; c < end; ++c, tap += steps[2]) {
            const vector elements = load_planes(tap);
#pragma unroll
            for (int k = 0; k < Size; ++k) {
              part[k] = reducer.combine(part[k], number_of(elements.elements[k]));
            }
          }
#pragma unroll
          for (int k = 0; k < Size; ++k) {
            totals[k] = pool_reducer<Kind, number>::merge(totals[k], part[k]);
          }
        }
      }
    }
    const auto divisor = static_cast<number>(counted);
    vector results;
    if constexpr (Kind == window_kind::response) results = load_planes(position);
#pragma unroll
    for (int k = 0; k < Size; ++k) {
      const number centre = Kind == window_kind::response ? number_of(results.elements[k]) : 0;
      results.elements[k] = element_of<Element>(reducer.finish(totals[k], divisor, centre));
    }
    if constexpr (IsVector) {
      *reinterpret_cast<vector*>(target) = results;
    } else {
      const std::int64_t target_distance = distance * planes.y_stride;
#pragma unroll
      for (int k = 0; k < Size; ++k) {
        if (k < left) target[k * target_distance] = results.elements[k];
      }
    }
  }
}

/// The elements in a vector, and the planes of a thread that reads no vectors.
template <class Element>
inline constexpr int vector_size = 16 / sizeof(Element);
template <class Element>
inline constexpr int planes_of_thread = vector_size<Element> < 8 ? vector_size<Element> : 8;

/// Whether the inner planes are whole vectors of 16 bytes.
[[nodiscard]] bool has_vectors(const pool_call& call, const void* x, const void* y,
                               std::int64_t size) {
  const auto is_whole = [&](std::int64_t count, std::int64_t stride) {
    return count <= 1 || stride % size == 0;
  };
  const auto& inner = call.planes[1];
  if (inner.count % size != 0 || inner.x_stride != 1 || inner.y_stride != 1 ||
      reinterpret_cast<std::uintptr_t>(x) % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(y) % 16 != 0 ||
      !is_whole(call.planes[0].count, call.planes[0].x_stride) ||
      !is_whole(call.planes[0].count, call.planes[0].y_stride)) {
    return false;
  }
  for (const auto& axis : call.axes) {
    if (!is_whole(axis.extent, axis.x_stride) || !is_whole(axis.outputs, axis.y_stride)) {
      return false;
    }
  }
  return true;
}

/// Calls `run` with an element of the type of a pool.
template <class Run>
void with_element(storage type, const Run& run) {
  switch (type) {
    case storage::f16:
      return run(__half{});
    case storage::bf16:
      return run(__nv_bfloat16{});
    case storage::f32:
      return run(float{});
    case storage::f64:
      return run(double{});
    case storage::i8:
      return run(std::int8_t{});
    default:
      return run(std::uint8_t{});
  }
}
/// Calls `run` with an element and the constant of a kind that takes it.
template <class Run>
void with_kernel(storage type, window_kind kind, const Run& run) {
  with_element(type, [&](auto element) {
    if constexpr (!std::is_integral_v<decltype(element)>) {
      if (kind == window_kind::average) {
        return run(element, std::integral_constant<window_kind, window_kind::average>());
      }
      if (kind == window_kind::lp) {
        return run(element, std::integral_constant<window_kind, window_kind::lp>());
      }
      if (kind == window_kind::response) {
        return run(element, std::integral_constant<window_kind, window_kind::response>());
      }
    }
    run(element, std::integral_constant<window_kind, window_kind::maximum>());
  });
}

}  // namespace

int load_pool() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  const auto load_kernel = [&](auto* kernel) {
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  };
  for (const auto type :
       {storage::f16, storage::bf16, storage::f32, storage::f64, storage::i8, storage::u8}) {
    for (const auto kind :
         {window_kind::maximum, window_kind::average, window_kind::lp, window_kind::response}) {
      with_kernel(type, kind, [&](auto element, auto constant) {
        using element_type = decltype(element);
        constexpr auto value = decltype(constant)::value;
        load_kernel(pool_kernel<element_type, value, vector_size<element_type>, true>);
        load_kernel(pool_kernel<element_type, value, planes_of_thread<element_type>, false>);
      });
    }
  }
  return status;
}

int launch_pool(const pool_call& call, const void* x, void* y, native_stream* stream) {
  with_kernel(call.type, call.kind, [&](auto element, auto constant) {
    using element_type = decltype(element);
    constexpr auto kind = decltype(constant)::value;
    constexpr int vector = vector_size<element_type>;
    constexpr int planes = planes_of_thread<element_type>;
    const bool is_vector = has_vectors(call, x, y, vector);
    pool_units units;
    units.groups =
        (call.planes[1].count + (is_vector ? vector : planes) - 1) / (is_vector ? vector : planes);
    units.groups_are_inner = call.has_inner_planes();
    units.count = call.planes[0].count * units.groups;
    for (const auto& axis : call.axes) units.count *= axis.outputs;
    const std::int64_t blocks = (units.count + threads_per_block - 1) / threads_per_block;
    const auto grid = static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
    const auto kernel = is_vector ? pool_kernel<element_type, kind, vector, true>
                                  : pool_kernel<element_type, kind, planes, false>;
    kernel<<<grid, threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
        call, units, static_cast<const element_type*>(x), static_cast<element_type*>(y));
  });
  return cudaGetLastError();
}

}  // namespace sluice::operations
