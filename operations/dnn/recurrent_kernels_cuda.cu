// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/recurrent_call.hpp"
#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/strided_map.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace sluice::operations {
namespace {

constexpr int threads_per_block = 256;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 1 << 20;

/// The numbers in which an element is computed.
template <class Element>
using number_of = std::conditional_t<std::is_same_v<Element, double>, double, float>;

template <class Element>
[[nodiscard]] __device__ number_of<Element> read(const void* memory, std::int64_t i) {
  const auto element = static_cast<const Element*>(memory)[i];
  if constexpr (std::is_same_v<Element, double>) {
    return element;
  } else {
    return to_f32(element);
  }
}
/// Returns the number that is stored.
template <class Element>
__device__ number_of<Element> write(void* memory, std::int64_t i, number_of<Element> value) {
  auto& element = static_cast<Element*>(memory)[i];
  if constexpr (std::is_same_v<Element, double>) {
    element = value;
  } else {
    put_f32(element, value);
  }
  return read<Element>(memory, i);
}

/// The functions that few layers have, once for all kernels of a type.
template <class T>
[[nodiscard]] __device__ __noinline__ T other_function(activation function, T x) {
  T y = x;
  with_function(function,
                [&](auto f) { y = apply(f.value, x, T(activation_alpha), T(activation_beta)); });
  return y;
}
/// function(x), with x between -clip and clip.
template <class T>
[[nodiscard]] __device__ T activated(const recurrent_call& call, int number, T x) {
  const T clip = static_cast<T>(call.clip);
  x = x > clip ? clip : x < -clip ? -clip : x;
  const auto function = call.functions[number];
  if (function == activation::sigmoid) return logistic(x);
  if (function == activation::tanh) return std::tanh(x);
  return other_function(function, x);
}

/// One number of the state of a sequence.
struct state_number {
  std::int64_t direction;
  std::int64_t sequence;
  std::int64_t i;
  std::int64_t row;  ///< of direction and sequence

  __device__ state_number(const recurrent_call& call, std::int64_t number) {
    const auto rows = divide(number, call.hidden);
    const auto split = divide(rows.value, call.batch);
    row = rows.value;
    i = rows.remainder;
    sequence = split.remainder;
    direction = split.value;
  }
  [[nodiscard]] __device__ std::int64_t offset(const std::int64_t* strides) const {
    return direction * strides[0] + sequence * strides[1] + i * strides[2];
  }
};

/// Calls `compute` for each number of the states.
template <class Compute>
__device__ void for_each_number(const recurrent_call& call, const Compute& compute) {
  const std::int64_t count = call.directions * call.batch * call.hidden;
  for (std::int64_t number =
           static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       number < count; number += static_cast<std::int64_t>(gridDim.x) * threads_per_block) {
    compute(state_number(call, number), number);
  }
}

/// The arguments of the functions of one number in one step.
template <class Element>
struct gate_arguments {
  using number = number_of<Element>;
  const recurrent_call& call;
  const recurrent_addresses& addresses;
  state_number state;
  number* gates;       // of the sequence
  const number* sums;  // of the sequence

  __device__ gate_arguments(const recurrent_call& c, const recurrent_addresses& a,
                            const recurrent_memory& memory, const recurrent_chunk& chunk,
                            std::int64_t i, const state_number& s)
      : call(c), addresses(a), state(s) {
    const std::int64_t rows = c.rows();
    gates = static_cast<number*>(memory.gates) + s.direction * memory.gate_distance +
            (chunk.slot(c, s.direction, i) * c.batch + s.sequence) * rows;
    sums = static_cast<const number*>(memory.sums) + s.row * rows;
  }
  [[nodiscard]] __device__ std::int64_t column(int gate) const {
    return call.gates[gate] * call.hidden + state.i;
  }
  [[nodiscard]] __device__ number bias(const void* memory, const std::int64_t* strides,
                                       int gate) const {
    if (memory == nullptr) return 0;
    return read<Element>(memory, state.direction * strides[0] + column(gate) * strides[1]);
  }
  /// X · Wᵀ + Wb.
  [[nodiscard]] __device__ number of_x(int gate) const {
    return gates[column(gate)] + bias(addresses.input_bias, call.input_bias, gate);
  }
  /// H · Rᵀ + Rb.
  [[nodiscard]] __device__ number of_h(int gate) const {
    return sums[column(gate)] + bias(addresses.recurrent_bias, call.recurrent_bias, gate);
  }
  /// P ∘ C.
  [[nodiscard]] __device__ number of_c(int peephole, number c) const {
    if (addresses.peepholes == nullptr) return 0;
    return c * read<Element>(addresses.peepholes,
                             state.direction * call.peepholes[0] +
                                 (peephole * call.hidden + state.i) * call.peepholes[1]);
  }
};

template <class Element>
__global__ void __launch_bounds__(threads_per_block)
    recurrent_begin_kernel(const __grid_constant__ recurrent_call call,
                           const __grid_constant__ recurrent_addresses addresses,
                           const __grid_constant__ recurrent_memory memory) {
  for_each_number(call, [&](const state_number& state, std::int64_t number) {
    const auto initial = [&](const void* states, const std::int64_t* strides) {
      return states == nullptr ? number_of<Element>(0)
                               : read<Element>(states, state.offset(strides));
    };
    write<Element>(memory.h, number, initial(addresses.initial_h, call.initial_h));
    if (call.cell == recurrent_cell::lstm) {
      static_cast<number_of<Element>*>(memory.c)[number] =
          initial(addresses.initial_c, call.initial_c);
    }
  });
}

template <class Element>
__global__ void __launch_bounds__(threads_per_block)
    recurrent_end_kernel(const __grid_constant__ recurrent_call call,
                         const __grid_constant__ recurrent_addresses addresses,
                         const __grid_constant__ recurrent_memory memory) {
  for_each_number(call, [&](const state_number& state, std::int64_t number) {
    write<Element>(addresses.y_h, state.offset(call.y_h), read<Element>(memory.h, number));
    if (call.cell == recurrent_cell::lstm) {
      write<Element>(addresses.y_c, state.offset(call.y_c),
                     static_cast<const number_of<Element>*>(memory.c)[number]);
    }
  });
}

template <class Element>
__global__ void __launch_bounds__(threads_per_block)
    recurrent_reset_kernel(const __grid_constant__ recurrent_call call,
                           const __grid_constant__ recurrent_addresses addresses,
                           const __grid_constant__ recurrent_memory memory,
                           const __grid_constant__ recurrent_chunk chunk, std::int64_t i) {
  for_each_number(call, [&](const state_number& state, std::int64_t number) {
    const gate_arguments<Element> arguments(call, addresses, memory, chunk, i, state);
    const auto update = activated(call, 0, arguments.of_x(0) + arguments.of_h(0));
    const auto reset = activated(call, 0, arguments.of_x(1) + arguments.of_h(1));
    arguments.gates[arguments.column(0)] = update;
    write<Element>(memory.reset, number, reset * read<Element>(memory.h, number));
  });
}

/// H after a step; C is updated.
template <class Element>
[[nodiscard]] __device__ number_of<Element> next_h(const gate_arguments<Element>& arguments,
                                                   number_of<Element> h, number_of<Element>* c) {
  using number = number_of<Element>;
  const auto& call = arguments.call;
  switch (call.cell) {
    case recurrent_cell::lstm: {
      const auto sum = [&](int gate) {
        return arguments.of_x(gate) + arguments.of_h(gate);
      };
      const number input = activated(call, 0, sum(0) + arguments.of_c(0, *c));
      const number forget =
          call.input_forget ? 1 - input : activated(call, 0, sum(2) + arguments.of_c(2, *c));
      *c = forget * *c + input * activated(call, 1, sum(3));
      const number output = activated(call, 0, sum(1) + arguments.of_c(1, *c));
      return output * activated(call, 2, *c);
    }
    case recurrent_cell::gru: {
      number update = arguments.gates[arguments.column(0)];
      number product = arguments.of_h(2);
      if (call.linear_before_reset) {
        update = activated(call, 0, arguments.of_x(0) + arguments.of_h(0));
        product *= activated(call, 0, arguments.of_x(1) + arguments.of_h(1));
      }
      const number next = activated(call, 1, arguments.of_x(2) + product);
      return (1 - update) * next + update * h;
    }
    default:
      return activated(call, 0, arguments.of_x(0) + arguments.of_h(0));
  }
}

template <class Element>
__global__ void __launch_bounds__(threads_per_block)
    recurrent_step_kernel(const __grid_constant__ recurrent_call call,
                          const __grid_constant__ recurrent_addresses addresses,
                          const __grid_constant__ recurrent_memory memory,
                          const __grid_constant__ recurrent_chunk chunk, std::int64_t i) {
  using number_type = number_of<Element>;
  for_each_number(call, [&](const state_number& state, std::int64_t number) {
    const std::int64_t time = call.time_of(state.direction, chunk.first + i);
    const std::int64_t y = time * call.y[0] + state.offset(call.y + 1);
    if (!call.has_element(addresses.lengths, state.sequence, time)) {
      write<Element>(addresses.y, y, 0);
      return;
    }
    const gate_arguments<Element> arguments(call, addresses, memory, chunk, i, state);
    auto* const c = static_cast<number_type*>(memory.c) + number;
    const number_type h = next_h(arguments, read<Element>(memory.h, number), c);
    write<Element>(memory.h, number, h);
    write<Element>(addresses.y, y, h);
  });
}

/// Calls `run` with an element of a real type.
template <class Run>
void with_element(storage type, const Run& run) {
  if (type == storage::f16) return run(__half{});
  if (type == storage::bf16) return run(__nv_bfloat16{});
  if (type == storage::f32) return run(float{});
  run(double{});
}

[[nodiscard]] unsigned grid_of(const recurrent_call& call) {
  const std::int64_t count = call.directions * call.batch * call.hidden;
  const std::int64_t blocks = (count - 1) / threads_per_block + 1;
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

}  // namespace

int load_recurrent() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  const auto load_kernel = [&](auto* kernel) {
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  };
  for (const auto type : {storage::f16, storage::bf16, storage::f32, storage::f64}) {
    with_element(type, [&](auto element) {
      using element_type = decltype(element);
      load_kernel(recurrent_begin_kernel<element_type>);
      load_kernel(recurrent_reset_kernel<element_type>);
      load_kernel(recurrent_step_kernel<element_type>);
      load_kernel(recurrent_end_kernel<element_type>);
    });
  }
  return status;
}

int launch_recurrent_begin(const recurrent_call& call, const recurrent_addresses& addresses,
                           const recurrent_memory& memory, native_stream* stream) {
  with_element(call.type, [&](auto element) {
    recurrent_begin_kernel<decltype(element)>
        <<<grid_of(call), threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
            call, addresses, memory);
  });
  return cudaGetLastError();
}
int launch_recurrent_reset(const recurrent_call& call, const recurrent_addresses& addresses,
                           const recurrent_memory& memory, const recurrent_chunk& chunk,
                           std::int64_t i, native_stream* stream) {
  with_element(call.type, [&](auto element) {
    recurrent_reset_kernel<decltype(element)>
        <<<grid_of(call), threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
            call, addresses, memory, chunk, i);
  });
  return cudaGetLastError();
}
int launch_recurrent_step(const recurrent_call& call, const recurrent_addresses& addresses,
                          const recurrent_memory& memory, const recurrent_chunk& chunk,
                          std::int64_t i, native_stream* stream) {
  with_element(call.type, [&](auto element) {
    recurrent_step_kernel<decltype(element)>
        <<<grid_of(call), threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
            call, addresses, memory, chunk, i);
  });
  return cudaGetLastError();
}
int launch_recurrent_end(const recurrent_call& call, const recurrent_addresses& addresses,
                         const recurrent_memory& memory, native_stream* stream) {
  with_element(call.type, [&](auto element) {
    recurrent_end_kernel<decltype(element)>
        <<<grid_of(call), threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
            call, addresses, memory);
  });
  return cudaGetLastError();
}

}  // namespace sluice::operations
