// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/normalize_call.hpp"
#include "operations/dnn/normalize_threads.cuh"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

// Normalizations of rows without gaps, which the threads keep in registers.
namespace sluice::operations {
namespace {

/// How the rows without gaps are distributed.
struct flat_distribution {
  static constexpr int vectors = 8;         ///< of 16 bytes, which a thread keeps in registers
  static constexpr unsigned threads = 512;  ///< of the largest block
  /// Threads for which a multiprocessor has registers: three blocks rather than two hide the
  /// latency of memory while others compute. A softmax needs few registers.
  static constexpr unsigned resident_threads(normalization kind) {
    return kind == normalization::layer ? 3 * least_threads : threads;
  }
};

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
template <class T, class Combine>
[[nodiscard]] __device__ T combined_in_warp(T value, int lanes, const Combine& combine) {
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
      : warp_part_(part), count_(lanes <= warp_size ? 1 : lanes / warp_size) {
    parts_ = memory + static_cast<int>(threadIdx.x) / lanes * count_;
    if (count_ == 1) return;
    __syncthreads();  // the parts of the previous row have been read
    if (threadIdx.x % warp_size == 0) memory[threadIdx.x / warp_size] = part;
    __syncthreads();
  }
  [[nodiscard]] __device__ int size() const { return count_; }
  // By value: a reference would put the part of the warp in memory.
  [[nodiscard]] __device__ Part operator[](int i) const {
    if (count_ == 1) return warp_part_;
    return parts_[i];
  }

 private:
  Part warp_part_;
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
  word_vector<Element> vectors[Kept];

  [[nodiscard]] __device__ float operator()(int k, int j) const { return vectors[k][j]; }
  /// Lets the compiler not know the numbers any more: it would keep them as f32.
  __device__ void forget_numbers() {
#pragma unroll
    for (auto& vector : vectors) {
#pragma unroll
      for (auto& word : vector.words) asm volatile("" : "+r"(word));
    }
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
/// Each warp subtracts the mean of its own first vectors, so that the warps of a row meet only once
/// (Chan, Golub and LeVeque, 1983). That mean is off by at most the standard deviation of the
/// warp's elements times the root of `Kept`, which costs the variance few digits.
template <class Element, int Kept>
[[nodiscard]] __device__ deviation_map deviation_of(const normalize_call& call,
                                                    const kept_elements<Element, Kept>& x, int lane,
                                                    int lanes, int vectors) {
  struct part {
    float count;
    float shift;        // of the warp's elements
    float differences;  // the sum of x - shift
    float squares;      // the sum of its square, or of its magnitude
  };
  __shared__ part memory[most_threads / warp_size];
  part warp_part{0, 0, 0, 0};
  if (call.kind == normalization::layer) {
    float sum = 0;
    if (lane < vectors) {
#pragma unroll
      for (int j = 0; j < x.size; ++j) sum += x(0, j);
    }
    // All vectors of the warp in the upper half, the first ones of its threads in the lower half.
    constexpr int upper = 1 << 16;
    int counts = lane < vectors ? 1 : 0;
    for_each_vector<Kept>(lane, lanes, vectors, [&](int, int) { counts += upper; });
    counts = combined_in_warp(counts, lanes, add_numbers());
    const float first = static_cast<float>(counts % upper * x.size);
    warp_part.count = static_cast<float>(counts / upper * x.size);
    sum = combined_in_warp(sum, lanes, add_numbers());
    warp_part.shift = first == 0 ? 0 : sum / first;
  }
  const auto add_each = [&](const auto& add) {
    for_each_vector<Kept>(lane, lanes, vectors, [&](int k, int) {
#pragma unroll
      for (int j = 0; j < x.size; ++j) add(x(k, j));
    });
  };
  if (call.kind == normalization::l1) {
    add_each([&](float element) { warp_part.squares += fabsf(element); });
  } else {
    add_each([&](float element) {
      const float difference = element - warp_part.shift;
      warp_part.differences += difference;
      warp_part.squares += difference * difference;
    });
  }
  warp_part.squares = combined_in_warp(warp_part.squares, lanes, add_numbers());
  if (call.kind == normalization::layer) {
    warp_part.differences = combined_in_warp(warp_part.differences, lanes, add_numbers());
  }
  const row_parts<part> parts(memory, warp_part, lanes);
  const float count = static_cast<float>(call.count);
  const float shift = parts[0].shift;
  float squares = 0;
  float differences = 0;
#pragma unroll 1
  for (int i = 0; i < parts.size(); ++i) {
    const part p = parts[i];
    squares += p.squares;
    if (call.kind != normalization::layer) continue;
    const float distance = p.shift - shift;
    differences += p.differences + p.count * distance;
    squares += distance * (2 * p.differences + p.count * distance);
  }
  if (divides_by_norm(call.kind)) return {0, 0, norm_factor<float>(call.kind, squares)};
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
/// `Kind` is softmax, log_softmax, or layer, which stands for the others too. `Repeats` states
/// whether the parameters are repeated.
template <class Element, normalization Kind, bool Repeats>
__global__ void __launch_bounds__(flat_distribution::resident_threads(Kind))
    flat_kernel(const __grid_constant__ normalize_call call,
                const __grid_constant__ normalize_addresses addresses, int lanes,
                const flat_rows layout) {
  constexpr int size = 16 / sizeof(Element);
  constexpr int kept_vectors = flat_distribution::vectors;
  using vector = word_vector<Element>;
  const std::int64_t rows_of_block = blockDim.x / lanes;
  for (std::int64_t first = blockIdx.x * rows_of_block; first < call.rows;
       first += gridDim.x * rows_of_block) {
    const std::int64_t row = first + threadIdx.x / lanes;
    int lane = static_cast<int>(threadIdx.x) % lanes;
    // Threads beyond the last row compute none, but meet the others.
    const int vectors = row < call.rows ? static_cast<int>(call.count / size) : 0;
    const auto position = position_of_row(call, row < call.rows ? row : 0);
    const auto* const x = static_cast<const Element*>(addresses.x) + position.offsets[1];
    auto* const y = static_cast<Element*>(addresses.y) + position.offsets[0];
    kept_elements<Element, kept_vectors> kept;
    for_each_vector<kept_vectors>(lane, lanes, vectors, [&](int k, int i) {
      kept.vectors[k] = reinterpret_cast<const vector*>(x)[i];
    });
    const auto write_vector = [&](const float(&values)[size], int i) {
      reinterpret_cast<vector*>(y)[i] = rounded_vector<Element>(values);
    };
    // `map` replaces the vector `k`, which is the vector `i` of the row.
    const auto write = [&](const auto& map) {
      for_each_vector<kept_vectors>(lane, lanes, vectors, [&](int k, int i) {
        float values[size];
#pragma unroll
        for (int j = 0; j < size; ++j) values[j] = kept(k, j);
        map(values, i);
        write_vector(values, i);
      });
    };
    if constexpr (Kind == normalization::softmax) {
      const auto parts = softmax_of(kept, lane, lanes, vectors);
      kept.forget_numbers();
      const exponential_below<Element> exponential(parts.shift);
      const float factor = parts.scale / parts.total;
      write([&](float(&values)[size], int) {
#pragma unroll
        for (int j = 0; j < size; ++j) values[j] = exponential(values[j]) * factor;
      });
    } else if constexpr (Kind == normalization::log_softmax) {
      const auto parts = softmax_of(kept, lane, lanes, vectors);
      kept.forget_numbers();
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
      asm volatile("" : "+r"(lane));  // or the places of all vectors would be kept, too
      const auto normalized = [&](float element) {
        return (element - map.shift) * map.factor - map.residual;
      };
      if constexpr (Repeats) {
        write([&](float(&values)[size], int i) {
#pragma unroll
          for (int j = 0; j < size; ++j) values[j] = normalized(values[j]);
          apply_parameters<Element>(layout, addresses, position.offsets[2], i, values);
        });
      } else {
        const auto write_with = [&](auto has_scale, auto has_bias) {
          // The reads of the parameters of several vectors are under way at once.
          constexpr int batch = 2;
          const auto* const scales = reinterpret_cast<const vector*>(
              static_cast<const Element*>(addresses.scale) + position.offsets[2]);
          const auto* const biases = reinterpret_cast<const vector*>(
              static_cast<const Element*>(addresses.bias) + position.offsets[2]);
#pragma unroll
          for (int k = 0; k < kept_vectors; k += batch) {
            vector scale[batch];
            vector bias[batch];
#pragma unroll
            for (int n = 0; n < batch; ++n) {
              const int i = lane + (k + n) * lanes;
              if (i >= vectors) continue;
              if (has_scale.value) scale[n] = scales[i];
              if (has_bias.value) bias[n] = biases[i];
            }
#pragma unroll
            for (int n = 0; n < batch; ++n) {
              const int i = lane + (k + n) * lanes;
              if (i >= vectors) continue;
              float values[size];
#pragma unroll
              for (int j = 0; j < size; ++j) {
                values[j] = normalized(kept(k + n, j));
                if (has_scale.value) values[j] *= scale[n][j];
                if (has_bias.value) values[j] += bias[n][j];
              }
              write_vector(values, i);
            }
          }
        };
        const auto with_bias = [&](auto has_scale) {
          if (addresses.bias != nullptr) {
            write_with(has_scale, std::true_type());
          } else {
            write_with(has_scale, std::false_type());
          }
        };
        if (addresses.scale != nullptr) {
          with_bias(std::true_type());
        } else {
          with_bias(std::false_type());
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::operations
