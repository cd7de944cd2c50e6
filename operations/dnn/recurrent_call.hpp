// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/host_device_code.hpp>
#include <sluice/operations/activation.hpp>

#include <cstdint>

// Layers of recurrent units. Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

enum class recurrent_cell : std::uint8_t { lstm, gru, rnn };

/// One layer. Strides are in elements.
struct recurrent_call {
  std::int64_t steps = 0;            ///< elements of a sequence
  std::int64_t batch = 0;            ///< sequences; 0: there is nothing to compute
  std::int64_t input = 0;            ///< numbers of an element of X
  std::int64_t hidden = 0;           ///< numbers of H
  std::int64_t y[4]{};               ///< strides along steps, directions, batch and numbers
  std::int64_t y_h[3]{};             ///< strides along directions, batch and numbers
  std::int64_t y_c[3]{};             ///< the same
  std::int64_t initial_h[3]{};       ///< the same
  std::int64_t initial_c[3]{};       ///< the same
  std::int64_t input_bias[2]{};      ///< strides along directions and numbers
  std::int64_t recurrent_bias[2]{};  ///< the same
  std::int64_t peepholes[2]{};       ///< the same
  std::int64_t lengths = 0;          ///< stride
  double clip = 0;                   ///< infinite: none
  std::int32_t directions = 1;
  /// Where the gates are in W and R, as multiples of `hidden`: of an LSTM, input, output, forget
  /// and cell; of a GRU, update, reset and hidden.
  std::int32_t gates[4]{0, 1, 2, 3};
  recurrent_cell cell = recurrent_cell::rnn;
  storage type = storage::f32;
  storage length_type = storage::i64;
  activation functions[3]{};  ///< f, g and h
  bool first_is_reverse = false;
  bool input_forget = false;
  bool linear_before_reset = false;

  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t gate_count() const noexcept {
    return cell == recurrent_cell::lstm ? 4 : cell == recurrent_cell::gru ? 3 : 1;
  }
  /// The rows of the matrices W and R of a direction.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t rows() const noexcept {
    return gate_count() * hidden;
  }
  /// Whether a GRU multiplies r ∘ H, so that each step has two products.
  [[nodiscard]] SLUICE_HOST_DEVICE bool multiplies_twice() const noexcept {
    return cell == recurrent_cell::gru && !linear_before_reset;
  }
  [[nodiscard]] SLUICE_HOST_DEVICE bool is_reverse(std::int64_t direction) const noexcept {
    return first_is_reverse || direction != 0;
  }
  /// The element of a sequence that a direction takes in step `step`.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t time_of(std::int64_t direction,
                                                        std::int64_t step) const noexcept {
    return is_reverse(direction) ? steps - 1 - step : step;
  }
  /// Whether a sequence has an element `time`. A direction that is reverse begins with the last
  /// one.
  [[nodiscard]] SLUICE_HOST_DEVICE bool has_element(const void* all_lengths, std::int64_t sequence,
                                                    std::int64_t time) const noexcept {
    if (all_lengths == nullptr) return true;
    const auto i = sequence * lengths;
    return time < (length_type == storage::i32 ? element_at<std::int32_t>(all_lengths, i)
                                               : element_at<std::int64_t>(all_lengths, i));
  }
};

/// The operands of a layer. Those that are not given are nullptr.
struct recurrent_addresses {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* r = nullptr;
  const void* input_bias = nullptr;
  const void* recurrent_bias = nullptr;
  const void* lengths = nullptr;
  const void* initial_h = nullptr;
  const void* initial_c = nullptr;
  const void* peepholes = nullptr;
  void* y = nullptr;
  void* y_h = nullptr;
  void* y_c = nullptr;
};

/// Several steps, whose products with W are computed at once.
struct recurrent_chunk {
  std::int64_t first = 0;  ///< step
  std::int64_t count = 0;  ///< of steps

  /// The earliest element of the sequences that a direction takes.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t first_time(const recurrent_call& call,
                                                           std::int64_t direction) const noexcept {
    return call.is_reverse(direction) ? call.steps - first - count : first;
  }
  /// The position of the element that a direction takes in step `first` + i.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t slot(const recurrent_call& call,
                                                     std::int64_t direction,
                                                     std::int64_t i) const noexcept {
    return call.is_reverse(direction) ? count - 1 - i : i;
  }
};

/// The scratch memory of a layer on a GPU. All matrices are row-major without gaps.
struct recurrent_memory {
  void* gates = nullptr;           ///< X · Wᵀ: directions, elements, sequences, rows of W
  std::int64_t gate_distance = 0;  ///< between directions, in elements
  void* sums = nullptr;            ///< H · Rᵀ: directions, sequences, rows of R
  void* h = nullptr;               ///< H, of the type of the operands
  void* c = nullptr;               ///< C
  void* reset = nullptr;           ///< r ∘ H, of the type of the operands
};

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_recurrent();

/// Queue a kernel on a stream of the current device. Return a `cudaError_t`.
///@{
/// H and C = the initial ones.
[[nodiscard]] int launch_recurrent_begin(const recurrent_call& call,
                                         const recurrent_addresses& addresses,
                                         const recurrent_memory& memory, native_stream* stream);
/// The gates z and r of step `chunk.first` + i, and r ∘ H.
[[nodiscard]] int launch_recurrent_reset(const recurrent_call& call,
                                         const recurrent_addresses& addresses,
                                         const recurrent_memory& memory,
                                         const recurrent_chunk& chunk, std::int64_t i,
                                         native_stream* stream);
/// The states after step `chunk.first` + i.
[[nodiscard]] int launch_recurrent_step(const recurrent_call& call,
                                        const recurrent_addresses& addresses,
                                        const recurrent_memory& memory,
                                        const recurrent_chunk& chunk, std::int64_t i,
                                        native_stream* stream);
/// The last states = H and C.
[[nodiscard]] int launch_recurrent_end(const recurrent_call& call,
                                       const recurrent_addresses& addresses,
                                       const recurrent_memory& memory, native_stream* stream);
///@}

}  // namespace sluice::operations
