// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/normalize_call.hpp"
#include "operations/dnn/normalize_threads.cuh"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

// Normalizations of rows of any strides.
namespace sluice::operations {
namespace {

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
        variance += call.kind == normalization::l1 ? fabs(difference) : difference * difference;
      });
      variance = combined(variance, lanes, add_numbers());
      if (!divides_by_norm(call.kind)) variance /= count;
    }
    // The mean in two numbers, so that the difference of large numbers is exact.
    const T shift = static_cast<T>(mean);
    const T residual = static_cast<T>(mean - static_cast<double>(shift));
    const T factor = divides_by_norm(call.kind)
                         ? norm_factor<T>(call.kind, variance)
                         : static_cast<T>(reciprocal_root(variance + call.epsilon));
    for_each_value([&](const map_position<3>& element, T value) {
      T result = (value - shift - residual) * factor;
      if (addresses.scale != nullptr) result *= parameter_at(addresses.scale, element);
      if (addresses.bias != nullptr) result += parameter_at(addresses.bias, element);
      put(element, result);
    });
  }
}

}  // namespace
}  // namespace sluice::operations
