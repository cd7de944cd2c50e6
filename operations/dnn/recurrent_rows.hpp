// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/recurrent_call.hpp"
#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/f32_loops.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

// The functions of recurrent units on the host device, for rows of numbers without gaps.
namespace sluice::host {

/// The row of one sequence in one step.
template <class T>
struct recurrent_row {
  T* gates;       ///< the arguments of the functions; of a GRU without H · Rᵀ; become the gates
  const T* sums;  ///< H · Rᵀ of a GRU
  T* h;           ///< H
  T* c;           ///< C of an LSTM
  T* reset;       ///< r ∘ H, if it is multiplied
};

/// The units of a direction, computed in `T`: float or double. Thread-safe but for its buffers, so
/// each thread has its own.
template <class T>
class recurrent_units {
 public:
  recurrent_units(const operations::recurrent_call& call,
                  const operations::recurrent_addresses& addresses, std::int64_t direction)
      : call_(call), addresses_(addresses), direction_(direction), buffer_(size(1)) {
    bias_ = load(addresses.input_bias, call.input_bias, call.rows());
    auto added = load(addresses.recurrent_bias, call.recurrent_bias, call.rows());
    if (call.cell == operations::recurrent_cell::gru && call.linear_before_reset) {
      const auto first = static_cast<std::ptrdiff_t>(2 * call.hidden);
      reset_bias_.assign(added.begin() + first, added.end());
      std::fill(added.begin() + first, added.end(), T(0));
    }
    for (std::size_t i = 0; i < bias_.size(); ++i) bias_[i] += added[i];
    if (addresses.peepholes != nullptr) {
      peepholes_ = load(addresses.peepholes, call.peepholes, 3 * call.hidden);
    }
  }

  /// A row of gates, and of sums, to which products are added. The rest of `size` is 0.
  ///@{
  void begin_gates(T* gates, std::int64_t size) const { begin(bias_, 0, gates, size); }
  void begin_sums(T* sums, std::int64_t size) const {
    begin(reset_bias_, 2 * call_.hidden, sums, size);
  }
  ///@}
  /// Computes the gates z and r of a GRU, and r ∘ H.
  void reset(const recurrent_row<T>& row) const {
    const auto hidden = call_.hidden;
    add(row.gates, row.sums, 2 * hidden);
    activate(0, row.gates, 2 * hidden);
    const T* const r = gate(row, 1);
    for (std::int64_t i = 0; i < hidden; ++i) row.reset[i] = r[i] * row.h[i];
  }
  /// Computes the states after a step, and stores H as the row `time` of a sequence of Y.
  void step(const recurrent_row<T>& row, std::int64_t sequence, std::int64_t time) {
    switch (call_.cell) {
      case operations::recurrent_cell::lstm:
        step_lstm(row);
        break;
      case operations::recurrent_cell::gru:
        step_gru(row);
        break;
      case operations::recurrent_cell::rnn:
        activate(0, row.gates, call_.hidden);
        std::copy_n(row.gates, call_.hidden, row.h);
        break;
    }
    store(row.h, y_offset(sequence, time));
  }
  /// Stores zeros as the row `time` of a sequence of Y.
  void skip(std::int64_t sequence, std::int64_t time) {
    std::fill(buffer_.begin(), buffer_.end(), T(0));
    store(buffer_.data(), y_offset(sequence, time));
  }

 private:
  [[nodiscard]] std::size_t size(std::int64_t rows) const noexcept {
    return static_cast<std::size_t>(rows * call_.hidden);
  }
  [[nodiscard]] std::vector<T> load(const void* memory, const std::int64_t* strides,
                                    std::int64_t count) const {
    std::vector<T> numbers(static_cast<std::size_t>(count));
    if (memory == nullptr) return numbers;
    for (std::int64_t i = 0; i < count; ++i) {
      numbers[static_cast<std::size_t>(i)] =
          operations::load<T>(call_.type, memory, direction_ * strides[0] + i * strides[1]);
    }
    return numbers;
  }
  [[nodiscard]] T* gate(const recurrent_row<T>& row, int number) const noexcept {
    return row.gates + call_.gates[number] * call_.hidden;
  }
  [[nodiscard]] std::int64_t y_offset(std::int64_t sequence, std::int64_t time) const noexcept {
    return time * call_.y[0] + direction_ * call_.y[1] + sequence * call_.y[2];
  }

  static void begin(const std::vector<T>& bias, std::int64_t first, T* row, std::int64_t size) {
    const auto count = static_cast<std::int64_t>(bias.size());
    std::fill_n(row, std::min(first, size), T(0));
    std::copy(bias.begin(), bias.end(), row + first);
    std::fill(row + first + count, row + size, T(0));
  }
  static void add(T* target, const T* source, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) target[i] += source[i];
  }
  /// target += peepholes · C.
  void add_peephole(T* target, std::int64_t number, const T* c) const {
    if (peepholes_.empty()) return;
    const T* const weights = peepholes_.data() + number * call_.hidden;
    for (std::int64_t i = 0; i < call_.hidden; ++i) target[i] += weights[i] * c[i];
  }
  /// Bounds numbers and applies function `number` to them.
  void activate(int number, T* values, std::int64_t count) const {
    const T clip = static_cast<T>(call_.clip);
    if (clip < std::numeric_limits<T>::infinity()) {
      for (std::int64_t i = 0; i < count; ++i) {
        const T x = values[i];
        values[i] = x > clip ? clip : x < -clip ? -clip : x;
      }
    }
    operations::with_function(call_.functions[number], [&](auto function) {
      constexpr T alpha = operations::activation_alpha;
      constexpr T beta = operations::activation_beta;
      if constexpr (std::is_same_v<T, float>) {
        unary_f32({function.value, alpha, beta}, values, count, values);
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          values[i] = operations::apply(function.value, values[i], alpha, beta);
        }
      }
    });
  }

  void step_lstm(const recurrent_row<T>& row) {
    const auto hidden = call_.hidden;
    T* const input = gate(row, 0);
    T* const output = gate(row, 1);
    T* const forget = gate(row, 2);
    T* const cell = gate(row, 3);
    add_peephole(input, 0, row.c);
    activate(0, input, hidden);
    if (call_.input_forget) {
      for (std::int64_t i = 0; i < hidden; ++i) forget[i] = T(1) - input[i];
    } else {
      add_peephole(forget, 2, row.c);
      activate(0, forget, hidden);
    }
    activate(1, cell, hidden);
    for (std::int64_t i = 0; i < hidden; ++i) {
      row.c[i] = forget[i] * row.c[i] + input[i] * cell[i];
    }
    add_peephole(output, 1, row.c);
    activate(0, output, hidden);
    std::copy_n(row.c, hidden, buffer_.data());
    activate(2, buffer_.data(), hidden);
    for (std::int64_t i = 0; i < hidden; ++i) row.h[i] = output[i] * buffer_[size_of(i)];
  }
  void step_gru(const recurrent_row<T>& row) {
    const auto hidden = call_.hidden;
    const T* const update = gate(row, 0);
    const T* const reset_gate = gate(row, 1);
    T* const next = gate(row, 2);
    const T* const sums = row.sums + 2 * hidden;
    if (call_.linear_before_reset) {
      add(row.gates, row.sums, 2 * hidden);
      activate(0, row.gates, 2 * hidden);
      for (std::int64_t i = 0; i < hidden; ++i) next[i] += reset_gate[i] * sums[i];
    } else {
      add(next, sums, hidden);
    }
    activate(1, next, hidden);
    for (std::int64_t i = 0; i < hidden; ++i) {
      row.h[i] = (T(1) - update[i]) * next[i] + update[i] * row.h[i];
    }
  }
  static std::size_t size_of(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

  /// Stores H in Y, and rounds it to the type of Y.
  void store(T* h, std::int64_t offset) {
    const auto bytes = operations::bytes_of(call_.type);
    const auto hidden = call_.hidden;
    auto* const y = static_cast<std::byte*>(addresses_.y) + offset * bytes;
    if (call_.y[3] != 1 || !std::is_same_v<T, float>) {
      for (std::int64_t i = 0; i < hidden; ++i) {
        operations::store<operations::overflow::saturates>(call_.type, y, i * call_.y[3], h[i]);
        h[i] = operations::load<T>(call_.type, y, i * call_.y[3]);
      }
    } else if constexpr (std::is_same_v<T, float>) {
      store_f32(call_.type, h, hidden, y);
      if (call_.type != operations::storage::f32) load_f32(call_.type, y, hidden, h);
    }
  }

  const operations::recurrent_call& call_;
  const operations::recurrent_addresses& addresses_;
  std::int64_t direction_;
  std::vector<T> buffer_;
  std::vector<T> bias_;        // of the gates
  std::vector<T> reset_bias_;  // of the sums, if the reset gate applies to it
  std::vector<T> peepholes_;
};

}  // namespace sluice::host
