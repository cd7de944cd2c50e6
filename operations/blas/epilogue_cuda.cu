// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/epilogue_call.hpp"
#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/strided_map.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loop in the kernel takes the rest.
constexpr std::int64_t max_blocks = 16384;
constexpr int bytes_at_once = 16;

/// The type in which elements are computed.
template <class Element>
using number_of =
    std::conditional_t<std::is_same_v<Element, __half> || std::is_same_v<Element, __nv_bfloat16>,
                       float, Element>;

template <class Element>
__device__ number_of<Element> to_number(Element x) {
  if constexpr (std::is_same_v<number_of<Element>, Element>) {
    return x;
  } else {
    return to_f32(x);
  }
}
template <class Element>
__device__ void put_number(Element& target, number_of<Element> value) {
  if constexpr (std::is_same_v<number_of<Element>, Element>) {
    target = value;
  } else {
    put_f32(target, value);
  }
}

template <class Number>
__device__ Number factor_of(const epilogue_call& call) {
  if constexpr (is_complex_v<Number>) {
    using part = typename Number::value_type;
    return {static_cast<part>(call.factor[0]), static_cast<part>(call.factor[1])};
  } else {
    return static_cast<Number>(call.factor[0]);
  }
}

/// Whether elements are read and written as `word_vector`.
template <class Element, int Size>
inline constexpr bool has_words =
    std::is_same_v<number_of<Element>, float>&& Size * sizeof(Element) == bytes_at_once;

/// numbers[i] = the element i at `source`.
template <class Element, int Size>
__device__ void read(const Element* source, number_of<Element> (&numbers)[Size]) {
  if constexpr (has_words<Element, Size>) {
    const auto words = *reinterpret_cast<const word_vector<Element>*>(source);
#pragma unroll
    for (int i = 0; i < Size; ++i) numbers[i] = words[i];
  } else {
    const auto elements = *reinterpret_cast<const element_vector<Element, Size>*>(source);
#pragma unroll
    for (int i = 0; i < Size; ++i) numbers[i] = to_number(elements.elements[i]);
  }
}
/// The element i at `target` = numbers[i].
template <class Element, int Size>
__device__ void write(Element* target, const number_of<Element> (&numbers)[Size]) {
  if constexpr (has_words<Element, Size>) {
    *reinterpret_cast<word_vector<Element>*>(target) = rounded_vector<Element>(numbers);
  } else {
    element_vector<Element, Size> elements;
#pragma unroll
    for (int i = 0; i < Size; ++i) put_number(elements.elements[i], numbers[i]);
    *reinterpret_cast<element_vector<Element, Size>*>(target) = elements;
  }
}

/// Where neighbours in a column lie.
struct neighbours {
  std::int64_t c;         ///< offset in C
  std::int64_t residual;  ///< offset in the residual
  std::int64_t row;       ///< of the first one
  std::int64_t column;
};
/// Those from a row on.
[[nodiscard]] __device__ inline neighbours neighbours_at(const epilogue_call& call,
                                                         std::int64_t matrix, std::int64_t column,
                                                         std::int64_t row) {
  return {matrix * call.distance + column * call.leading + row,
          matrix * call.residual_distance + column * call.residual_leading + row, row, column};
}

/// Computes `Size` neighbours in a column. Their addresses are aligned to their size, and so are
/// those of a bias of rows.
template <class Element, int Size>
__device__ void compute(const epilogue_call& call, const epilogue_addresses& addresses,
                        const neighbours& place) {
  using number = number_of<Element>;
  auto* const c = static_cast<Element*>(addresses.c) + place.c;
  number values[Size]{};
  if (call.factor[0] != 0 || call.factor[1] != 0) {
    read<Element, Size>(c, values);
    if (call.factor[0] != 1 || call.factor[1] != 0) {
      const auto factor = factor_of<number>(call);
#pragma unroll
      for (int i = 0; i < Size; ++i) values[i] = product(values[i], factor);
    }
  }
  if (call.bias == bias_axis::row) {
    number numbers[Size];
    read<Element, Size>(static_cast<const Element*>(addresses.bias) + place.row, numbers);
#pragma unroll
    for (int i = 0; i < Size; ++i) values[i] = sum(values[i], numbers[i]);
  } else if (call.bias != bias_axis::none) {
    const auto position = call.bias == bias_axis::column ? place.column : 0;
    const auto number_of_column = to_number(static_cast<const Element*>(addresses.bias)[position]);
#pragma unroll
    for (int i = 0; i < Size; ++i) values[i] = sum(values[i], number_of_column);
  }
  if constexpr (!is_complex_v<number>) {
    with_function(call.function, [&](auto f) {
#pragma unroll
      for (int i = 0; i < Size; ++i) {
        values[i] = apply(f.value, values[i], number(activation_alpha), number(activation_beta));
      }
    });
  }
  if (call.has_residual) {
    number numbers[Size];
    read<Element, Size>(static_cast<const Element*>(addresses.residual) + place.residual, numbers);
#pragma unroll
    for (int i = 0; i < Size; ++i) values[i] = sum(values[i], numbers[i]);
  }
  write<Element, Size>(c, values);
}

/// Whether the operands have no gaps: the number of an element is its offset.
[[nodiscard]] bool is_flat(const epilogue_call& call) {
  const auto has_gaps = [&](std::int64_t leading, std::int64_t distance) {
    return (leading != call.rows && call.columns > 1) ||
           (distance != call.rows * call.columns && call.count > 1);
  };
  return !has_gaps(call.leading, call.distance) &&
         (!call.has_residual || !has_gaps(call.residual_leading, call.residual_distance));
}

/// `Flat` states that the operands have no gaps, and columns of a multiple of `Size` elements.
template <class Element, int Size, bool Flat>
__global__ void __launch_bounds__(threads_per_block)
    epilogue_kernel(const __grid_constant__ epilogue_call call,
                    const __grid_constant__ epilogue_addresses addresses) {
  const std::int64_t vectors = (call.rows + Size - 1) / Size;
  const std::int64_t total = vectors * call.columns * call.count;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < total; i += stride) {
    if constexpr (Flat) {
      neighbours place{i * Size, i * Size, 0, 0};
      if (call.bias == bias_axis::row) place.row = divide(i, vectors).remainder * Size;
      if (call.bias == bias_axis::column) {
        place.column = divide(divide(i, vectors).value, call.columns).remainder;
      }
      compute<Element, Size>(call, addresses, place);
    } else {
      const auto line = divide(i, vectors);
      const auto matrix = divide(line.value, call.columns);
      const auto row = line.remainder * Size;
      const auto place_of = [&](std::int64_t r) {
        return neighbours_at(call, matrix.value, matrix.remainder, r);
      };
      if (row + Size <= call.rows) {
        compute<Element, Size>(call, addresses, place_of(row));
      } else {
        for (auto r = row; r < call.rows; ++r) compute<Element, 1>(call, addresses, place_of(r));
      }
    }
  }
}

/// Whether each column begins at a multiple of `bytes_at_once`.
[[nodiscard]] bool is_aligned(const epilogue_call& call, const epilogue_addresses& addresses,
                              std::int64_t element_bytes) {
  auto combined = reinterpret_cast<std::uintptr_t>(addresses.c);
  auto steps = call.leading | call.distance;
  if (call.bias == bias_axis::row) combined |= reinterpret_cast<std::uintptr_t>(addresses.bias);
  if (call.has_residual) {
    combined |= reinterpret_cast<std::uintptr_t>(addresses.residual);
    steps |= call.residual_leading | call.residual_distance;
  }
  return combined % bytes_at_once == 0 && steps % (bytes_at_once / element_bytes) == 0;
}

/// Calls `run` with an element of a type.
template <class Run>
int with_element(storage type, const Run& run) {
  switch (type) {
    case storage::f16:
      return run(__half());
    case storage::bf16:
      return run(__nv_bfloat16());
    case storage::f32:
      return run(float());
    case storage::f64:
      return run(double());
    case storage::c64:
      return run(complex_number<float>());
    default:
      return run(complex_number<double>());
  }
}

template <class Element, int Size, bool Flat = false>
int launch(const epilogue_call& call, const epilogue_addresses& addresses, cudaStream_t stream) {
  const auto vectors = (call.rows + Size - 1) / Size * call.columns * call.count;
  const auto blocks = (vectors + threads_per_block - 1) / threads_per_block;
  epilogue_kernel<Element, Size, Flat>
      <<<static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks), threads_per_block, 0,
         stream>>>(call, addresses);
  return cudaGetLastError();
}

}  // namespace

int load_epilogue() {
  int status = cudaSuccess;
  for (const auto type :
       {storage::f16, storage::bf16, storage::f32, storage::f64, storage::c64, storage::c128}) {
    if (status != cudaSuccess) break;
    status = with_element(type, [](auto element) -> int {
      using element_type = decltype(element);
      constexpr int size = bytes_at_once / sizeof element;
      cudaFuncAttributes attributes;
      const auto load = [&](auto* kernel) -> int {
        return cudaFuncGetAttributes(&attributes, kernel);
      };
      int loaded = load(epilogue_kernel<element_type, size, true>);
      if (loaded == cudaSuccess) loaded = load(epilogue_kernel<element_type, size, false>);
      if (size == 1 || loaded != cudaSuccess) return loaded;
      return load(epilogue_kernel<element_type, 1, false>);
    });
  }
  return status;
}

int launch_epilogue(const epilogue_call& call, const epilogue_addresses& addresses,
                    native_stream* stream) {
  return with_element(call.type, [&](auto element) -> int {
    using element_type = decltype(element);
    constexpr int size = bytes_at_once / sizeof element;
    const auto native = reinterpret_cast<cudaStream_t>(stream);
    if (is_aligned(call, addresses, sizeof element)) {
      if (is_flat(call) && call.rows % size == 0) {
        return launch<element_type, size, true>(call, addresses, native);
      }
      return launch<element_type, size>(call, addresses, native);
    }
    return launch<element_type, 1>(call, addresses, native);
  });
}

}  // namespace sluice::operations
