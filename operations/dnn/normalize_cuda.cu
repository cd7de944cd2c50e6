// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/normalize_call.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace sluice::operations {
namespace {

constexpr unsigned least_threads = 256;
constexpr unsigned most_threads = 1024;
constexpr int warp_size = 32;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 16384;
/// How the rows without gaps are distributed.
template <normalization Kind>
struct flat_rows_of {
  /// Vectors of 16 bytes that a thread keeps in registers. A softmax needs few more registers.
  static constexpr int vectors = 4;
  static constexpr unsigned threads = 1024;  ///< of the largest block
};
struct softmax_rows {
  static constexpr int vectors = 8;
  static constexpr unsigned threads = 512;
};
template <>
struct flat_rows_of<normalization::softmax> : softmax_rows {};
template <>
struct flat_rows_of<normalization::log_softmax> : softmax_rows {};

struct add_numbers {
  template <class T>
  [[nodiscard]] __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct larger_number {
  template <class T>
  [[nodiscard]] __device__ T operator()(T a, T b) const {
    return max(a, b);  // the number, if one is NaN
  }
};

/// Combines the values of groups of `lanes` neighbouring threads, a power of two. All threads of
/// the block call it, and each gets the result of its group.
template <class T, class Combine>
[[nodiscard]] __device__ T combined(T value, int lanes, const Combine& combine) {
  __shared__ T of_warps[most_threads / warp_size];
  for (int distance = (lanes < warp_size ? lanes : warp_size) / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(~0U, value, distance));
  }
  if (lanes <= warp_size) return value;
  __syncthreads();
  if (threadIdx.x % warp_size == 0) of_warps[threadIdx.x / warp_size] = value;
  __syncthreads();
  const int warps = lanes / warp_size;
  const T* const group = of_warps + static_cast<int>(threadIdx.x) / lanes * warps;
  value = group[0];
  for (int i = 1; i < warps; ++i) value = combine(value, group[i]);
  return value;
}

[[nodiscard]] __device__ inline float reciprocal_root(float x) {
  return 1.0F / sqrtf(x);
}
[[nodiscard]] __device__ inline double reciprocal_root(double x) {
  return 1.0 / sqrt(x);
}

/// Where the elements of the parameters lie along a row without gaps.
enum class parameter_layout : std::uint8_t {
  absent,
  beside,    ///< as those of the row
  repeated,  ///< the same for each whole vector
};

struct flat_rows {
  parameter_layout parameters;
  std::int64_t repetitions;  ///< elements with the same parameter, if `repeated`
  std::int64_t step;         ///< from one parameter to the next, if `repeated`
};

template <class Element, int Size>
__device__ void load_vector(const void* source, std::int64_t i, float (&values)[Size]) {
  const auto vector = static_cast<const element_vector<Element, Size>*>(source)[i];
#pragma unroll
  for (int j = 0; j < Size; ++j) values[j] = to_f32(vector.elements[j]);
}

/// The parameter for the vector `i` of a row.
template <class Element, int Size>
__device__ void load_parameter(const flat_rows& rows, const void* parameter, std::int64_t offset,
                               std::int64_t i, float (&values)[Size]) {
  const auto* const elements = static_cast<const Element*>(parameter) + offset;
  if (rows.parameters == parameter_layout::beside) return load_vector<Element>(elements, i, values);
  const float value = to_f32(elements[divide(i * Size, rows.repetitions).value * rows.step]);
#pragma unroll
  for (int j = 0; j < Size; ++j) values[j] = value;
}
/// Multiplies the vector `i` of a row by the scale, and adds the bias.
template <class Element, int Size>
__device__ void apply_parameters(const flat_rows& rows, const normalize_addresses& addresses,
                                 std::int64_t offset, std::int64_t i, float (&values)[Size]) {
  float parameter[Size];
  if (addresses.scale != nullptr) {
    load_parameter<Element>(rows, addresses.scale, offset, i, parameter);
#pragma unroll
    for (int j = 0; j < Size; ++j) values[j] *= parameter[j];
  }
  if (addresses.bias != nullptr) {
    load_parameter<Element>(rows, addresses.bias, offset, i, parameter);
#pragma unroll
    for (int j = 0; j < Size; ++j) values[j] += parameter[j];
  }
}

/// Calls `function(k, i)` for the vectors `i` of a row that a thread keeps.
template <int Kept, class Function>
__device__ void for_each_vector(int lane, int lanes, int vectors, const Function& function) {
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    const int i = lane + k * lanes;
    if (i < vectors) function(k, i);
  }
}

/// Combines a value over the threads of a row that are in one warp.
template <class Combine>
[[nodiscard]] __device__ float combined_in_warp(float value, int lanes, const Combine& combine) {
  for (int distance = (lanes < warp_size ? lanes : warp_size) / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(~0U, value, distance));
  }
  return value;
}

/// What the warps of a row have found, which all threads of the row read.
template <class Part>
class row_parts {
 public:
  /// All threads of the block call it, each with the part of its warp.
  __device__ row_parts(Part (&memory)[most_threads / warp_size], const Part& part, int lanes)
      : own_(part), count_(lanes <= warp_size ? 1 : lanes / warp_size) {
    parts_ = memory + static_cast<int>(threadIdx.x) / lanes * count_;
    if (count_ == 1) return;
    __syncthreads();  // the parts of the previous row have been read
    if (threadIdx.x % warp_size == 0) memory[threadIdx.x / warp_size] = part;
    __syncthreads();
  }
  [[nodiscard]] __device__ int size() const { return count_; }
  [[nodiscard]] __device__ const Part& operator[](int i) const {
    return count_ == 1 ? own_ : parts_[i];
  }

 private:
  Part own_;
  int count_;
  const Part* parts_;
};

/// exp(x - shift) where no x is above `shift`. f16 takes the fast exponential, whose results below
/// the smallest number of f16 are 0.
template <class Element>
class exponential_below {
 public:
  explicit __device__ exponential_below(float shift) : shift_(shift) {}
  [[nodiscard]] __device__ float operator()(float x) const {
    if constexpr (is_half) {
      constexpr float log2_of_e = 1.44269504F;
      float power;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((x - shift_) * log2_of_e));
      return power;
    } else {
      return expf(x - shift_);
    }
  }

 private:
  static constexpr bool is_half = std::is_same_v<Element, __half>;
  float shift_;
};

/// The elements of a row that a thread keeps in registers, in the type in which they lie in memory:
/// more threads fit on a multiprocessor.
template <class Element, int Kept>
struct kept_elements {
  static constexpr int size = 16 / sizeof(Element);
  element_vector<Element, size> vectors[Kept];

  [[nodiscard]] __device__ float operator()(int k, int j) const {
    return to_f32(vectors[k].elements[j]);
  }
};

/// What a softmax subtracts and divides by.
struct softmax_parts {
  float shift;    // of the warp
  float scale;    // exp(shift - largest); of a warp of -infinity 1
  float largest;  // of the row
  float total;    // the sum of exp(x - largest)
};
/// Each warp subtracts its own maximum, so that the warps of a row meet only once.
template <class Element, int Kept>
[[nodiscard]] __device__ softmax_parts softmax_of(const kept_elements<Element, Kept>& x, int lane,
                                                  int lanes, int vectors) {
  struct part {
    float largest;
    float total;  // of exp(x - shift)
  };
  __shared__ part memory[most_threads / warp_size];
  // A warp of -infinity subtracts 0, and its sum is 0, or NaN if it is of NaN.
  const auto shift_of = [](float warp) {
    return warp == -INFINITY ? 0.0F : warp;
  };
  const auto scale_of = [](float warp, float row) {
    return warp == -INFINITY ? 1.0F : expf(warp - row);
  };
  float largest = -INFINITY;
  for_each_vector<Kept>(lane, lanes, vectors, [&](int k, int) {
#pragma unroll
    for (int j = 0; j < x.size; ++j) largest = larger_number()(x(k, j), largest);
  });
  largest = combined_in_warp(largest, lanes, larger_number());
  const float shift = shift_of(largest);
  const exponential_below<Element> exponential(shift);
  float total = 0;
  for_each_vector<Kept>(lane, lanes, vectors, [&](int k, int) {
#pragma unroll
    for (int j = 0; j < x.size; ++j) total += exponential(x(k, j));
  });
  total = combined_in_warp(total, lanes, add_numbers());
  const row_parts<part> parts(memory, {largest, total}, lanes);
  const float warp = largest;
  for (int i = 0; i < parts.size(); ++i) largest = larger_number()(parts[i].largest, largest);
  total = 0;
  for (int i = 0; i < parts.size(); ++i) {
    total += parts[i].total * scale_of(parts[i].largest, largest);
  }
  return {shift, scale_of(warp, largest), largest, total};
}

/// y = (x - shift) * factor - residual.
struct deviation_map {
  float shift = 0;
  float residual = 0;
  float factor = 1;
};
/// Each warp subtracts the mean of its own elements, so that the warps of a row meet only once
/// (Chan, Golub and LeVeque, 1983).
template <class Element, int Kept>
[[nodiscard]] __device__ deviation_map deviation_of(const normalize_call& call,
                                                    const kept_elements<Element, Kept>& x, int lane,
                                                    int lanes, int vectors) {
  struct part {
    float count;
    float shift;        // of the warp's elements
    float differences;  // the sum of x - shift
    float squares;      // the sum of its square
  };
  __shared__ part memory[most_threads / warp_size];
  part own{0, 0, 0, 0};
  if (call.kind == normalization::layer) {
    float sum = 0;
    for_each_vector<Kept>(lane, lanes, vectors, [&](int k, int) {
      own.count += x.size;
#pragma unroll
      for (int j = 0; j < x.size; ++j) sum += x(k, j);
    });
    own.count = combined_in_warp(own.count, lanes, add_numbers());
    sum = combined_in_warp(sum, lanes, add_numbers());
    own.shift = own.count == 0 ? 0 : sum / own.count;
  }
  for_each_vector<Kept>(lane, lanes, vectors, [&](int k, int) {
#pragma unroll
    for (int j = 0; j < x.size; ++j) {
      const float difference = x(k, j) - own.shift;
      own.differences += difference;
      own.squares += difference * difference;
    }
  });
  own.squares = combined_in_warp(own.squares, lanes, add_numbers());
  if (call.kind == normalization::layer) {
    own.differences = combined_in_warp(own.differences, lanes, add_numbers());
  }
  const row_parts<part> parts(memory, own, lanes);
  const float count = static_cast<float>(call.count);
  const float shift = parts[0].shift;
  float squares = 0;
  float differences = 0;
  for (int i = 0; i < parts.size(); ++i) {
    const part& p = parts[i];
    squares += p.squares;
    if (call.kind == normalization::rms) continue;
    const float distance = p.shift - shift;
    differences += p.differences + p.count * distance;
    squares += distance * (2 * p.differences + p.count * distance);
  }
  squares /= count;
  float residual = 0;
  if (call.kind == normalization::layer) {
    residual = differences / count;
    squares -= residual * residual;
    if (squares < 0) squares = 0;
  }
  const float factor = reciprocal_root(squares + static_cast<float>(call.epsilon));
  return {shift, residual * factor, factor};
}

/// Rows without gaps, aligned to 16 bytes, which the threads of a row keep in registers.
/// `Kind` is softmax, log_softmax, or layer, which stands for the others too.
template <class Element, normalization Kind>
__global__ void __launch_bounds__(flat_rows_of<Kind>::threads)
    flat_kernel(const __grid_constant__ normalize_call call,
                const __grid_constant__ normalize_addresses addresses, int lanes,
                const flat_rows layout) {
  constexpr int size = 16 / sizeof(Element);
  constexpr int kept_vectors = flat_rows_of<Kind>::vectors;
  using vector = element_vector<Element, size>;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t rows_of_block = blockDim.x / lanes;
  for (std::int64_t first = blockIdx.x * rows_of_block; first < call.rows;
       first += gridDim.x * rows_of_block) {
    const std::int64_t row = first + threadIdx.x / lanes;
    // Threads beyond the last row compute none, but meet the others.
    const int vectors = row < call.rows ? static_cast<int>(call.count / size) : 0;
    const auto position = position_of_row(call, row < call.rows ? row : 0);
    const auto* const x = static_cast<const Element*>(addresses.x) + position.offsets[1];
    auto* const y = static_cast<Element*>(addresses.y) + position.offsets[0];
    kept_elements<Element, kept_vectors> kept;
    for_each_vector<kept_vectors>(lane, lanes, vectors, [&](int k, int i) {
      kept.vectors[k] = reinterpret_cast<const vector*>(x)[i];
    });
    // `map` replaces the vector `k`, which is the vector `i` of the row.
    const auto write = [&](const auto& map) {
      for_each_vector<kept_vectors>(lane, lanes, vectors, [&](int k, int i) {
        float values[size];
#pragma unroll
        for (int j = 0; j < size; ++j) values[j] = kept(k, j);
        map(values, i);
        vector result;
#pragma unroll
        for (int j = 0; j < size; ++j) put_f32(result.elements[j], values[j]);
        reinterpret_cast<vector*>(y)[i] = result;
      });
    };
    if constexpr (Kind == normalization::softmax) {
      const auto parts = softmax_of(kept, lane, lanes, vectors);
      const exponential_below<Element> exponential(parts.shift);
      const float factor = parts.scale / parts.total;
      write([&](float(&values)[size], int) {
#pragma unroll
        for (int j = 0; j < size; ++j) values[j] = exponential(values[j]) * factor;
      });
    } else if constexpr (Kind == normalization::log_softmax) {
      const auto parts = softmax_of(kept, lane, lanes, vectors);
      const float logarithm = logf(parts.total);
      write([&](float(&values)[size], int) {
#pragma unroll
        for (int j = 0; j < size; ++j) values[j] = values[j] - parts.largest - logarithm;
      });
    } else {
      deviation_map map;
      if (call.kind == normalization::batch) {
        const auto number = [&](const void* parameter) {
          return to_f32(static_cast<const Element*>(parameter)[position.offsets[2]]);
        };
        map.shift = number(addresses.mean);
        map.factor = reciprocal_root(number(addresses.variance) + static_cast<float>(call.epsilon));
      } else {
        map = deviation_of(call, kept, lane, lanes, vectors);
      }
      write([&](float(&values)[size], int i) {
#pragma unroll
        for (int j = 0; j < size; ++j) {
          values[j] = (values[j] - map.shift) * map.factor - map.residual;
        }
        apply_parameters<Element>(layout, addresses, position.offsets[2], i, values);
      });
    }
  }
}

constexpr int elements_at_once = 4;

/// Elements of f16, bf16, f32 or f64 as `T`.
///@{
template <class T, int Count>
__device__ void load_several(storage type, const void* source, const std::int64_t (&offsets)[Count],
                             T (&values)[Count]) {
  const auto load_as = [&](auto element) {
    for (int k = 0; k < Count; ++k) {
      values[k] = static_cast<T>(to_f32(static_cast<const decltype(element)*>(source)[offsets[k]]));
    }
  };
  if constexpr (std::is_same_v<T, double>) {
    for (int k = 0; k < Count; ++k) values[k] = static_cast<const double*>(source)[offsets[k]];
  } else if (type == storage::f16) {
    load_as(__half{});
  } else if (type == storage::bf16) {
    load_as(__nv_bfloat16{});
  } else {
    load_as(float{});
  }
}
template <class T>
[[nodiscard]] __device__ T load_real(storage type, const void* source, std::int64_t offset) {
  const std::int64_t offsets[1] = {offset};
  T value[1];
  load_several(type, source, offsets, value);
  return value[0];
}
template <class T>
__device__ void store_real(storage type, void* target, std::int64_t offset, T value) {
  if constexpr (std::is_same_v<T, double>) {
    put_element(target, offset, value);
  } else if (type == storage::f16) {
    put_f32(static_cast<__half*>(target)[offset], value);
  } else if (type == storage::bf16) {
    put_f32(static_cast<__nv_bfloat16*>(target)[offset], value);
  } else {
    put_element(target, offset, value);
  }
}
///@}

/// Rows of any strides, computed in `T`. Sums are in f64.
template <class T>
__global__ void __launch_bounds__(most_threads)
    strided_kernel(const __grid_constant__ normalize_call call,
                   const __grid_constant__ normalize_addresses addresses) {
  const int lanes = call.lanes;
  const std::int64_t lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t rows_of_block = blockDim.x / lanes;
  for (std::int64_t first = blockIdx.x * rows_of_block; first < call.rows;
       first += gridDim.x * rows_of_block) {
    const std::int64_t row = first + threadIdx.x / lanes;
    const bool is_row = row < call.rows;
    const auto position = position_of_row(call, is_row ? row : 0);
    const std::int64_t end = is_row ? call.count : 0;
    // Several elements at once, so that several loads are in flight.
    const auto for_each_value = [&](const auto& function) {
#pragma unroll 1
      for (std::int64_t i = lane; i < end; i += lanes * elements_at_once) {
        map_position<3> elements[elements_at_once];
        std::int64_t offsets[elements_at_once];
        T values[elements_at_once];
        for (int k = 0; k < elements_at_once; ++k) {
          const std::int64_t index = i + k * lanes;
          elements[k] = position_of_element(call, index < end ? index : i);
          offsets[k] = position.offsets[1] + elements[k].offsets[1];
        }
        load_several(call.type, addresses.x, offsets, values);
        for (int k = 0; k < elements_at_once; ++k) {
          if (i + k * lanes < end) function(elements[k], values[k]);
        }
      }
    };
    const auto parameter_at = [&](const void* parameter, const map_position<3>& element) {
      return load_real<T>(call.type, parameter, position.offsets[2] + element.offsets[2]);
    };
    const auto put = [&](const map_position<3>& element, T value) {
      store_real(call.type, addresses.y, position.offsets[0] + element.offsets[0], value);
    };
    if (call.kind == normalization::softmax || call.kind == normalization::log_softmax) {
      T largest = -INFINITY;
      for_each_value(
          [&](const map_position<3>&, T value) { largest = larger_number()(value, largest); });
      largest = combined(largest, lanes, larger_number());
      double total = 0;
      for_each_value([&](const map_position<3>&, T value) {
        total += static_cast<double>(exp(value - largest));
      });
      total = combined(total, lanes, add_numbers());
      const bool is_log = call.kind == normalization::log_softmax;
      const T factor = static_cast<T>(is_log ? log(total) : 1.0 / total);
      for_each_value([&](const map_position<3>& element, T value) {
        const T difference = value - largest;
        put(element, is_log ? difference - factor : exp(difference) * factor);
      });
      continue;
    }
    double mean = 0;
    double variance = 0;
    if (call.kind == normalization::batch) {
      mean = static_cast<double>(parameter_at(addresses.mean, {}));
      variance = static_cast<double>(parameter_at(addresses.variance, {}));
    } else {
      const auto count = static_cast<double>(call.count);
      if (call.kind == normalization::layer) {
        for_each_value(
            [&](const map_position<3>&, T value) { mean += static_cast<double>(value); });
        mean = combined(mean, lanes, add_numbers()) / count;
      }
      for_each_value([&](const map_position<3>&, T value) {
        const double difference = static_cast<double>(value) - mean;
        variance += difference * difference;
      });
      variance = combined(variance, lanes, add_numbers()) / count;
    }
    // The mean in two numbers, so that the difference of large numbers is exact.
    const T shift = static_cast<T>(mean);
    const T residual = static_cast<T>(mean - static_cast<double>(shift));
    const T factor = static_cast<T>(reciprocal_root(variance + call.epsilon));
    for_each_value([&](const map_position<3>& element, T value) {
      T result = (value - shift - residual) * factor;
      if (addresses.scale != nullptr) result *= parameter_at(addresses.scale, element);
      if (addresses.bias != nullptr) result += parameter_at(addresses.bias, element);
      put(element, result);
    });
  }
}

/// A power of two of at least `value`.
[[nodiscard]] std::int64_t power_of_two(std::int64_t value) {
  std::int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}
[[nodiscard]] unsigned blocks_for(std::int64_t rows, unsigned threads, std::int64_t lanes) {
  const std::int64_t rows_of_block = threads / lanes;
  const std::int64_t blocks = (rows + rows_of_block - 1) / rows_of_block;
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

/// Whether all rows of an operand begin at a multiple of `size` elements of aligned memory.
[[nodiscard]] bool is_aligned(const normalize_call& call, int operand, const void* address,
                              std::int64_t size) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
  for (int d = 0; d < call.row_rank; ++d) {
    if (call.shape[d] > 1 && call.strides[operand][d] % size != 0) return false;
  }
  return true;
}

/// How `flat_kernel` reads the parameters of a row.
/// @return whether it can
[[nodiscard]] bool describe_parameters(const normalize_call& call,
                                       const normalize_addresses& addresses, std::int64_t size,
                                       flat_rows& layout) {
  layout = {parameter_layout::absent, 1, 0};
  if (addresses.scale == nullptr && addresses.bias == nullptr) return true;
  const int last = call.rank - 1;
  if (call.strides[2][last] == 1 && call.rank - call.row_rank == 1) {
    layout.parameters = parameter_layout::beside;
    return (addresses.scale == nullptr || is_aligned(call, 2, addresses.scale, size)) &&
           (addresses.bias == nullptr || is_aligned(call, 2, addresses.bias, size));
  }
  layout.parameters = parameter_layout::repeated;
  layout.repetitions = call.shape[last];
  if (call.strides[2][last] != 0 || layout.repetitions % size != 0) return false;
  if (call.rank - call.row_rank == 1) return true;
  layout.step = call.strides[2][last - 1];
  return call.rank - call.row_rank == 2;
}

struct normalize_launcher {
  const normalize_call& call;
  const normalize_addresses& addresses;
  cudaStream_t stream;

  /// @return whether `flat_kernel` has been launched
  template <class Element, normalization Kind>
  [[nodiscard]] bool launch_rows() const {
    constexpr std::int64_t size = 16 / sizeof(Element);
    constexpr std::int64_t kept = flat_rows_of<Kind>::vectors;
    flat_rows layout{};
    if (call.count > size * kept * flat_rows_of<Kind>::threads ||
        !describe_parameters(call, addresses, size, layout)) {
      return false;
    }
    const auto lanes = power_of_two((call.count / size + kept - 1) / kept);
    const unsigned threads = lanes > least_threads ? static_cast<unsigned>(lanes) : least_threads;
    flat_kernel<Element, Kind><<<blocks_for(call.rows, threads, lanes), threads, 0, stream>>>(
        call, addresses, static_cast<int>(lanes), layout);
    return true;
  }
  template <class Element>
  [[nodiscard]] bool launch_flat() const {
    constexpr std::int64_t size = 16 / sizeof(Element);
    if (call.count % size != 0 || !has_flat_rows(call) || !is_aligned(call, 0, addresses.y, size) ||
        !is_aligned(call, 1, addresses.x, size)) {
      return false;
    }
    switch (call.kind) {
      case normalization::softmax:
        return launch_rows<Element, normalization::softmax>();
      case normalization::log_softmax:
        return launch_rows<Element, normalization::log_softmax>();
      default:
        return launch_rows<Element, normalization::layer>();
    }
  }
  int launch() const {
    const bool is_flat = call.type == storage::f32    ? launch_flat<float>()
                         : call.type == storage::f16  ? launch_flat<__half>()
                         : call.type == storage::bf16 ? launch_flat<__nv_bfloat16>()
                                                      : false;
    if (!is_flat) {
      const unsigned threads = call.lanes > static_cast<std::int32_t>(least_threads)
                                   ? static_cast<unsigned>(call.lanes)
                                   : least_threads;
      const auto kernel =
          call.type == storage::f64 ? strided_kernel<double> : strided_kernel<float>;
      kernel<<<blocks_for(call.rows, threads, call.lanes), threads, 0, stream>>>(call, addresses);
    }
    return cudaGetLastError();
  }
};

}  // namespace

int load_normalize() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  const auto load_kernel = [&](auto* kernel) {
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  };
  const auto load_flat = [&](auto element) {
    using type = decltype(element);
    load_kernel(flat_kernel<type, normalization::softmax>);
    load_kernel(flat_kernel<type, normalization::log_softmax>);
    load_kernel(flat_kernel<type, normalization::layer>);
  };
  load_flat(float{});
  load_flat(__half{});
  load_flat(__nv_bfloat16{});
  load_kernel(strided_kernel<float>);
  load_kernel(strided_kernel<double>);
  return status;
}

int launch_normalize(const normalize_call& call, const normalize_addresses& addresses,
                     native_stream* stream) {
  return normalize_launcher{call, addresses, reinterpret_cast<cudaStream_t>(stream)}.launch();
}

}  // namespace sluice::operations
