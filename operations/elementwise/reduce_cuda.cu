// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/reduce_call.hpp"
#include "operations/elementwise/reduce_kernel.cuh"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = reduce_threads;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 16384;

template <storage Type>
using constant = std::integral_constant<storage, Type>;

/// Several elements, with one choice of their type for all of them.
template <class T, int Count>
__device__ void load_several(storage type, const void* source, const std::int64_t (&offsets)[Count],
                             T (&values)[Count]) {
  const auto load_as = [&](auto constant) {
    for (int k = 0; k < Count; ++k) values[k] = load<T>(constant.value, source, offsets[k]);
  };
  const auto try_types = [&](auto... constants) {
    (void)((type == constants.value && (load_as(constants), true)) || ...);
  };
  if constexpr (is_complex_v<T>) {
    try_types(constant<storage::c64>(), constant<storage::c128>());
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    load_as(constant<storage::u64>());
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      try_types(constant<storage::f16>(), constant<storage::bf16>(), constant<storage::f32>(),
                constant<storage::f64>(), constant<storage::u64>());
    }
    if (type < storage::f16 && type != storage::u64) {
      for (int k = 0; k < Count; ++k) values[k] = load<T>(type, source, offsets[k]);
    }
  }
}

/// How a kernel reads the elements of a result.
///@{
struct strided_elements {
  using element = float;  // of the kernels over columns, which are loaded with those of f32
  template <class Reducer>
  __device__ static void add(const Reducer& reducer, typename Reducer::value& total,
                             const reduce_call& call, const void* x, std::int64_t row,
                             std::int64_t begin, std::int64_t end, unsigned lane, unsigned lanes) {
#pragma unroll 1
    for (std::int64_t i = begin + lane; i < end; i += lanes) {
      const auto element = position_of(call.reduced, i);
      reducer.add(
          total,
          load<typename Reducer::element>(call.results.types[1], x, row + element.offsets[0]),
          element.offsets[1]);
    }
  }
};
/// The sum of a term of each element of a vector.
template <class Element, class Term>
[[nodiscard]] __device__ double sum_of(const word_vector<Element>& v, const Term& term) {
  constexpr int size = word_vector<Element>::size;
  double parts[size];
#pragma unroll
  for (int j = 0; j < size; ++j) parts[j] = term(static_cast<double>(v[j]));
#pragma unroll
  for (int half = size / 2; half > 0; half /= 2) {
#pragma unroll
    for (int j = 0; j < half; ++j) parts[j] += parts[j + half];
  }
  return parts[0];
}

/// The sum of 16 f16, exactly, without a conversion of each to f64, which are slow. Eight are added
/// to a number whose neighbours are 2^-3 away, which rounds them to multiples of 2^-3. The rests
/// are at most 2^-4 and multiples of 2^-24, so f32 holds their sum. The sum of infinite numbers is
/// NaN.
[[nodiscard]] __device__ inline double sum_of(const word_vector<__half>& a,
                                              const word_vector<__half>& b) {
  constexpr float origin = 1.5F * (1 << 20);  // f32 from 2^20 to 2^21 are multiples of 2^-3
  float sums[] = {origin, origin};
  float rests[] = {0, 0};
#pragma unroll
  for (int j = 0; j < a.size; ++j) {
    const float pair[] = {a[j], b[j]};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float next = sums[k] + pair[k];
      rests[k] += pair[k] - (next - sums[k]);
      sums[k] = next;
    }
  }
  return static_cast<double>((sums[0] - origin) + (sums[1] - origin)) +
         static_cast<double>(rests[0] + rests[1]);
}

/// Without gaps, 16 bytes at a time. Rows begin at multiples of 16 bytes.
template <class Element>
struct flat_elements {
  using element = Element;
  static constexpr int batch = reduce_vectors;
  template <class Reducer>
  __device__ static void add(const Reducer& reducer, typename Reducer::value& total,
                             const reduce_call&, const void* x, std::int64_t row,
                             std::int64_t begin, std::int64_t end, unsigned lane, unsigned lanes) {
    constexpr int size = 16 / sizeof(Element);
    using vector = element_vector<Element, size>;
    const auto* const elements = static_cast<const Element*>(x) + row;
    const auto* const vectors = reinterpret_cast<const vector*>(elements);
    const std::int64_t last = end / size;
    if constexpr (std::is_same_v<Reducer, sum_reducer<double>>) {
      // Without the choice of a term for each element. Terms of 0 are 0.
      const auto add_vectors = [&](const auto& sum_of_two) {
        const auto* const words = reinterpret_cast<const word_vector<Element>*>(elements);
#pragma unroll 1
        for (std::int64_t i = begin / size + lane; i < last; i += batch * lanes) {
          word_vector<Element> parts[batch];
#pragma unroll
          for (int n = 0; n < batch; ++n) {
            parts[n] = {};
            if (i + n * lanes < last) parts[n] = words[i + n * lanes];
          }
#pragma unroll
          for (int n = 0; n < batch; n += 2) {
            if (i + n * lanes < last) total += sum_of_two(parts[n], parts[n + 1]);
          }
        }
        begin = last * size;
      };
      const auto add_terms = [&](const auto& term) {
        add_vectors(
            [&](const auto& a, const auto& b) { return sum_of(a, term) + sum_of(b, term); });
      };
      if constexpr (std::is_same_v<Element, __half>) {
        if (reducer.is_plain()) {
          const auto first = begin;
          add_vectors([](const auto& a, const auto& b) { return sum_of(a, b); });
          if (total != total) {  // again, for the sign of infinity
            total = reducer.identity();
            begin = first;
          }
        }
      }
      if (reducer.is_plain()) {
        if (begin < last * size) add_terms([](double x) { return x; });
      } else if (reducer.kind == reduction::l1) {
        add_terms([](double x) { return fabs(x); });
      } else if (reducer.kind == reduction::l2 || reducer.kind == reduction::sum_of_squares) {
        add_terms([](double x) { return x * x; });
      }
    } else if constexpr (std::is_same_v<Reducer, extremum_reducer<double>>) {
      float extremum = reducer.is_max ? -INFINITY : INFINITY;
      const auto* const words = reinterpret_cast<const word_vector<Element>*>(elements);
#pragma unroll 1
      for (std::int64_t i = begin / size + lane; i < last; i += batch * lanes) {
        word_vector<Element> parts[batch];
#pragma unroll
        for (int n = 0; n < batch; ++n) {
          parts[n] = words[i + n * lanes < last ? i + n * lanes : i];
        }
#pragma unroll
        for (int n = 0; n < batch; ++n) {
#pragma unroll
          for (int j = 0; j < size; ++j) {
            const float x = parts[n][j];
            extremum = reducer.is_max ? larger(extremum, x) : smaller(extremum, x);
          }
        }
      }
      reducer.add(total, static_cast<double>(extremum), 0);
      begin = last * size;
    } else if constexpr (std::is_same_v<Reducer, position_reducer<double>>) {
      if (!reducer.last) {
        float largest = -INFINITY;
        std::int64_t best = -1;
#pragma unroll 2
        for (std::int64_t i = begin / size + lane; i < last; i += lanes) {
          const vector v = vectors[i];
#pragma unroll
          for (int j = 0; j < size; ++j) {
            const float x = to_f32(v.elements[j]);
            const float candidate = reducer.is_max ? x : -x;
            // Larger, the first one, or the first NaN.
            if ((!(candidate <= largest) && largest == largest) || best < 0) {
              largest = candidate;
              best = i * size + j;
            }
          }
        }
        if (best >= 0) {
          reducer.add(total, static_cast<double>(reducer.is_max ? largest : -largest), best);
        }
        begin = last * size;
      }
    }
#pragma unroll 1
    for (std::int64_t i = begin / size + lane; i < last; i += lanes) {
      const vector v = vectors[i];
#pragma unroll
      for (int j = 0; j < size; ++j) {
        reducer.add(total, static_cast<double>(to_f32(v.elements[j])), i * size + j);
      }
    }
    for (std::int64_t i = last * size + lane; i < end; i += lanes) {
      reducer.add(total, static_cast<double>(to_f32(elements[i])), i);
    }
  }
};
///@}

template <class Reducer, class Elements>
__global__ void __launch_bounds__(threads_per_block)
    reduce_kernel(Reducer reducer, const __grid_constant__ reduce_call call, const void* x, void* y,
                  void* workspace) {
  using value = typename Reducer::value;
  const auto lanes = static_cast<unsigned>(call.lanes);
  reduce_units(
      reducer, {call.results.count, call.parts, call.part_length, call.reduced.count}, lanes,
      [&](std::int64_t result) { return position_of(call.results, result); },
      [&](value& total, const map_position<2>& position, const element_range& range,
          unsigned lane) {
        Elements::add(reducer, total, call, x, position.offsets[1], range.begin, range.end, lane,
                      lanes);
      },
      [&](std::int64_t unit, const map_position<2>& position, const value& combined) {
        if (call.parts == 1) {
          store_result(call.results.types[0], y, position.offsets[0], reducer.finish(combined));
        } else {
          static_cast<value*>(workspace)[unit] = combined;
        }
      });
}

/// The sums or the extrema of columns side by side, in several parts: each thread reduces those of
/// a vector of 16 bytes, of one part. Unit u is part u / vectors of vector u % vectors.
template <class Reducer, class Element>
__global__ void __launch_bounds__(threads_per_block)
    columns_kernel(Reducer reducer, const __grid_constant__ reduce_call call, const Element* x,
                   typename Reducer::value* workspace) {
  constexpr int size = 16 / sizeof(Element);
  constexpr bool is_sum = std::is_same_v<Reducer, sum_reducer<double>>;
  using vector = element_vector<Element, size>;
  using number = std::conditional_t<is_sum, double, float>;
  const std::int64_t vectors = call.results.count / size;
  const std::int64_t units = vectors * call.parts;
  const std::int64_t distance = call.reduced.strides[0][0] / size;
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       unit < units; unit += static_cast<std::int64_t>(gridDim.x) * threads_per_block) {
    const auto split = divide(unit, vectors);
    const std::int64_t begin = split.value * call.part_length;
    const std::int64_t end = begin + call.part_length < call.reduced.count
                                 ? begin + call.part_length
                                 : call.reduced.count;
    number totals[size];
#pragma unroll
    for (int j = 0; j < size; ++j) totals[j] = static_cast<number>(reducer.identity());
    const auto* const source = reinterpret_cast<const vector*>(x) + split.remainder;
#pragma unroll 4
    for (std::int64_t row = begin; row < end; ++row) {
      const vector v = source[row * distance];
#pragma unroll
      for (int j = 0; j < size; ++j) {
        const float element = to_f32(v.elements[j]);
        if constexpr (is_sum) {
          totals[j] += static_cast<double>(element);
        } else {
          totals[j] = reducer.is_max ? larger(totals[j], element) : smaller(totals[j], element);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < size; ++j) {
      workspace[split.value * call.results.count + split.remainder * size + j] = totals[j];
    }
  }
}

// One block for each result.
template <class Reducer>
__global__ void __launch_bounds__(threads_per_block)
    combine_kernel(Reducer reducer, const __grid_constant__ reduce_call call,
                   const typename Reducer::value* parts, void* y) {
  using value = typename Reducer::value;
  for (std::int64_t result = blockIdx.x; result < call.results.count; result += gridDim.x) {
    value total = reducer.identity();
#pragma unroll 1
    for (std::int64_t i = threadIdx.x; i < call.parts; i += threads_per_block) {
      total = reducer.combine(total, parts[i * call.results.count + result]);
    }
    const value combined = combine_lanes(reducer, total, threads_per_block);
    if (threadIdx.x == 0) {
      store_result(call.results.types[0], y, position_of(call.results, result).offsets[0],
                   reducer.finish(combined));
    }
  }
}

/// The reducers for which there are kernels over elements without gaps.
template <class Reducer>
inline constexpr bool has_flat_kernels = false;
template <>
inline constexpr bool has_flat_kernels<sum_reducer<double>> = true;
template <>
inline constexpr bool has_flat_kernels<extremum_reducer<double>> = true;
template <>
inline constexpr bool has_flat_kernels<position_reducer<double>> = true;
template <>
inline constexpr bool has_flat_kernels<variance_reducer> = true;

/// The reducers for which there are kernels over columns side by side.
template <class Reducer>
inline constexpr bool has_column_kernels = false;
template <>
inline constexpr bool has_column_kernels<sum_reducer<double>> = true;
template <>
inline constexpr bool has_column_kernels<extremum_reducer<double>> = true;

/// Calls `run` with the elements of a type that kernels read 16 bytes at a time.
/// @return whether there are such
template <class Reducer, class Run>
[[nodiscard]] bool with_flat_elements(storage type, const Run& run) {
  if constexpr (has_flat_kernels<Reducer>) {
    if (type == storage::f32) return run(flat_elements<float>()), true;
    if (type == storage::f16) return run(flat_elements<__half>()), true;
    if (type == storage::bf16) return run(flat_elements<__nv_bfloat16>()), true;
  }
  return false;
}

/// The elements in 16 bytes of a type of `with_flat_elements`.
[[nodiscard]] std::int64_t vector_size(const reduce_call& call) {
  return call.results.types[1] == storage::f32 ? 4 : 8;
}
/// Whether the elements of each result have no gaps and begin at multiples of 16 bytes.
[[nodiscard]] bool has_flat_rows(const reduce_call& call, const void* x) {
  if (call.reduced.rank != 1 || call.reduced.strides[0][0] != 1 ||
      reinterpret_cast<std::uintptr_t>(x) % 16 != 0) {
    return false;
  }
  for (int d = 0; d < call.results.rank; ++d) {
    if (call.results.shape[d] > 1 && call.results.strides[1][d] % vector_size(call) != 0) {
      return false;
    }
  }
  return true;
}
/// Whether the columns are whole vectors side by side, each row at a multiple of 16 bytes.
[[nodiscard]] bool has_flat_columns(const reduce_call& call, const void* x) {
  return call.lanes == 1 && call.parts > 1 && call.results.rank == 1 &&
         call.results.strides[1][0] == 1 && call.reduced.rank == 1 &&
         call.results.count % vector_size(call) == 0 &&
         call.reduced.strides[0][0] % vector_size(call) == 0 &&
         reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
}

[[nodiscard]] unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(count < max_blocks ? count : max_blocks);
}

struct combine_launcher {
  const reduce_call& call;
  void* y;
  const void* workspace;
  cudaStream_t stream;

  template <class Reducer>
  int operator()(const Reducer& reducer) const {
    combine_kernel<<<blocks_for(call.results.count), threads_per_block, 0, stream>>>(
        reducer, call, static_cast<const typename Reducer::value*>(workspace), y);
    return cudaGetLastError();
  }
};

struct reduce_launcher {
  const reduce_call& call;
  const void* x;
  void* y;
  void* workspace;
  cudaStream_t stream;

  /// @return whether `columns_kernel` has been launched
  template <class Reducer>
  [[nodiscard]] bool run_columns(const Reducer& reducer) const {
    if constexpr (std::is_same_v<Reducer, sum_reducer<double>>) {
      if (!reducer.is_plain()) return false;
    }
    if constexpr (has_column_kernels<Reducer>) {
      return has_flat_columns(call, x) &&
             with_flat_elements<Reducer>(call.results.types[1], [&](auto elements) {
               using element = typename decltype(elements)::element;
               const std::int64_t threads = call.results.count / vector_size(call) * call.parts;
               columns_kernel<<<blocks_for((threads + threads_per_block - 1) / threads_per_block),
                                threads_per_block, 0, stream>>>(
                   reducer, call, static_cast<const element*>(x),
                   static_cast<typename Reducer::value*>(workspace));
             });
    } else {
      return false;
    }
  }
  template <class Reducer>
  int operator()(const Reducer& reducer) const {
    const std::int64_t units = call.results.count * call.parts;
    const auto run = [&](auto elements, const reduce_call& used) {
      const std::int64_t units_of_block = threads_per_block / used.lanes;
      reduce_kernel<Reducer, decltype(elements)>
          <<<blocks_for((units + units_of_block - 1) / units_of_block), threads_per_block, 0,
             stream>>>(reducer, used, x, y, workspace);
    };
    const bool is_flat = has_flat_rows(call, x) &&
                         with_flat_elements<Reducer>(call.results.types[1], [&](auto elements) {
                           auto used = call;
                           used.lanes = flat_lanes(call, vector_size(call));
                           run(elements, used);
                         });
    if (!is_flat && !run_columns(reducer)) run(strided_elements(), call);
    const cudaError_t result = cudaGetLastError();
    if (result != cudaSuccess || call.parts == 1) return result;
    return combine_launcher{call, y, workspace, stream}(reducer);
  }
};

struct reduce_loader {
  template <class Reducer>
  int operator()(const Reducer&) const {
    cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, combine_kernel<Reducer>);
    const auto load_kernel = [&](auto elements) {
      if (status != cudaSuccess) return;
      status = cudaFuncGetAttributes(&attributes, reduce_kernel<Reducer, decltype(elements)>);
      if constexpr (has_column_kernels<Reducer>) {
        using element = typename decltype(elements)::element;
        if (status == cudaSuccess) {
          status = cudaFuncGetAttributes(&attributes, columns_kernel<Reducer, element>);
        }
      }
    };
    load_kernel(strided_elements());
    for (const auto type : {storage::f32, storage::f16, storage::bf16}) {
      (void)with_flat_elements<Reducer>(type, load_kernel);
    }
    return status;
  }
};

}  // namespace

int load_reduce() {
  for (const auto type : {storage::i64, storage::u64, storage::f64, storage::c128}) {
    for (int kind = 0; kind < reduction_count; ++kind) {
      reduce_call call{};
      call.results.types[1] = type;
      call.kind = static_cast<reduction>(kind);
      const int status = visit(call, reduce_loader{});
      if (status != 0) return status;
    }
  }
  return cudaSuccess;
}

int launch_reduce(const reduce_call& call, const void* x, void* y, void* workspace,
                  native_stream* stream) {
  return visit(call,
               reduce_launcher{call, x, y, workspace, reinterpret_cast<cudaStream_t>(stream)});
}

int launch_reduced_parts(const reduce_call& call, const void* workspace, void* y,
                         native_stream* stream) {
  return visit(call, combine_launcher{call, y, workspace, reinterpret_cast<cudaStream_t>(stream)});
}

}  // namespace sluice::operations
