// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/choice_host.hpp"
#include "operations/elementwise/f32_map.hpp"
#include "operations/elementwise/gather_host.hpp"
#include "operations/elementwise/grid_host.hpp"
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/pad_host.hpp"
#include "operations/elementwise/quantize_call.hpp"
#include "operations/elementwise/quantize_loops.hpp"
#include "operations/elementwise/range_call.hpp"
#include "operations/elementwise/rearrange_host.hpp"
#include "operations/elementwise/resize_host.hpp"
#include "operations/elementwise/resize_lines.hpp"
#include "operations/elementwise/resize_pass.hpp"
#include "operations/elementwise/spectral_calls.hpp"
#include "operations/elementwise/transposed_host.hpp"
#include "operations/vector_targets.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::host {
namespace {

using namespace operations;

/// Decibels that compute the level of a reference once for all elements in a row that have it.
template <class Real>
class host_decibels : public map_function<Real> {
 public:
  static constexpr bool types_are_fixed = true;
  explicit host_decibels(const decibels<Real>& function) noexcept
      : function_(function), level_(function.level(reference_)) {}
  Real operator()(Real power, Real reference) const noexcept {
    if (reference != reference_) {
      reference_ = reference;
      level_ = function_.level(reference);
    }
    return larger(function_.level(power) - level_, function_.floor);
  }

 private:
  decibels<Real> function_;
  mutable Real reference_ = 1;
  mutable Real level_;
};

/// Times of an index on one thread, on a processor with AVX-512 and operands in memory.
constexpr map_cost vector_cost{.nanoseconds = 0.5};
constexpr map_cost scalar_cost{.nanoseconds = 2};
constexpr map_cost logarithm_cost{.nanoseconds = 10};
/// The time of a function that takes more than a few instructions, with vectors and without.
constexpr map_cost vector_function_cost{.nanoseconds = 2};
constexpr map_cost scalar_function_cost{.nanoseconds = 15};

[[nodiscard]] constexpr bool is_cheap(unary_function f) noexcept {
  switch (f) {
    case unary_function::negate:
    case unary_function::abs:
    case unary_function::sign:
    case unary_function::reciprocal:
    case unary_function::sqrt:
    case unary_function::rsqrt:
    case unary_function::hard_sigmoid:
    case unary_function::hard_swish:
    case unary_function::softsign:
    case unary_function::leaky_relu:
    case unary_function::thresholded_relu:
    case unary_function::shrink:
    case unary_function::clip:
      return true;
    default:
      return f >= unary_function::floor && f <= unary_function::relu && f != unary_function::angle;
  }
}
[[nodiscard]] constexpr bool is_cheap(binary_function f) noexcept {
  return f != binary_function::remainder && f != binary_function::fmod &&
         f != binary_function::power && f != binary_function::atan2;
}

/// Computes one line of a `where_call` without gaps, in which a or b may be repeated. The result
/// may be at the address of an input.
template <class Bits>
void choose_elements(const where_body<Bits>& body, const map_layout<4>& layout,
                     const map_position<4>& line) noexcept {
  const int last = layout.rank - 1;
  const auto count = layout.shape[last];
  const auto& inputs = body.addresses.inputs;
  auto* const y = static_cast<Bits*>(body.addresses.y) + line.offsets[0];
  const auto* const condition = static_cast<const std::uint8_t*>(inputs[0]) + line.offsets[1];
  const auto choose = [&](const auto& a, const auto& b) {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) {
      const Bits chosen = a(i);  // both are read, so that the loop can use vectors
      const Bits otherwise = b(i);
      y[i] = condition[i] != 0 ? chosen : otherwise;
    }
  };
  const auto with_input = [&](int k, const auto& run) {
    const auto* const x = static_cast<const Bits*>(inputs[k]) + line.offsets[k + 1];
    if (layout.strides[k + 1][last] == 0) return run([value = *x](std::int64_t) { return value; });
    run([x](std::int64_t i) { return x[i]; });
  };
  with_input(1, [&](const auto& a) { with_input(2, [&](const auto& b) { choose(a, b); }); });
}

/// As `rounded_to_odd`, for a number that becomes an f16, without branches. Of numbers that are no
/// normal f32 it keeps only that they are nearer to 0 than to any other f16.
[[nodiscard]] inline float rounded_to_odd_for_f16(double value) noexcept {
  constexpr std::uint64_t dropped_bits = (std::uint64_t{1} << 29U) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto is_inexact = ((bits & dropped_bits) + dropped_bits) & (dropped_bits + 1);
  return static_cast<float>(std::bit_cast<double>((bits & ~dropped_bits) | is_inexact));
}

/// Stores numbers as a type of 16 bits, each rounded once.
void store_doubles(storage type, const double* numbers, std::int64_t count, std::uint16_t* target) {
  constexpr std::int64_t block = 1024;
  std::array<float, block> rounded;
  for (std::int64_t first = 0; first < count; first += block) {
    const auto size = std::min(block, count - first);
    if (type == storage::f16) {
      SLUICE_INDEPENDENT
      for (std::int64_t i = 0; i < size; ++i) {
        rounded[static_cast<std::size_t>(i)] = rounded_to_odd_for_f16(numbers[first + i]);
      }
    } else {
      for (std::int64_t i = 0; i < size; ++i) {
        rounded[static_cast<std::size_t>(i)] = rounded_to_odd(numbers[first + i]);
      }
    }
    store_f32(type, rounded.data(), size, target + first);
  }
}

struct map_runner {
  template <class Body, int Operands>
  int operator()(const Body& body, const map_layout<Operands>& layout) const {
    if constexpr (requires { is_cheap(body.function.function); }) {
      if (!is_cheap(body.function.function)) return run_each(body, layout, scalar_function_cost);
    }
    return run_each(body, layout, scalar_cost);
  }
  template <class Real>
  int operator()(const map_body<decibels<Real>, 3>& body, const map_layout<3>& layout) const {
    for_each_part(
        layout, logarithm_cost, [&](const map_layout<3>& part, const map_position<3>& origin) {
          const map_body<host_decibels<Real>, 3> part_body{host_decibels<Real>(body.function),
                                                           body.addresses};
          for_each_position(part, origin,
                            [&](const map_position<3>& position) { part_body(part, position); });
        });
    return 0;
  }
  int operator()(const map_body<binary_map<float>, 3>& body, const map_layout<3>& layout) const {
    // Those that are not cheap have no loops over vectors.
    const auto cost = is_cheap(body.function.function) ? vector_cost : scalar_function_cost;
    return run_blocks(body.addresses, layout, cost,
                      [&](const auto& inputs, std::int64_t count, float* y) {
                        binary_f32(body.function.function, inputs[0], inputs[1], count, y);
                      });
  }
  int operator()(const map_body<unary_map<float>, 2>& body, const map_layout<2>& layout) const {
    const auto cost = is_cheap(body.function.function) ? vector_cost : vector_function_cost;
    return run_blocks(body.addresses, layout, cost,
                      [&](const auto& inputs, std::int64_t count, float* y) {
                        unary_f32(body.function, inputs[0], count, y);
                      });
  }
  int operator()(const map_body<scaled_and_shifted<float>, 4>& body,
                 const map_layout<4>& layout) const {
    return run_blocks(body.addresses, layout, vector_cost,
                      [&](const auto& inputs, std::int64_t count, float* y) {
                        affine_f32(body.function, inputs[0], inputs[1], inputs[2], count, y);
                      });
  }
  int operator()(const map_body<quantized, 4>& body, const map_layout<4>& layout) const {
    return run_blocks(body.addresses, layout, vector_cost,
                      [](const auto& inputs, std::int64_t count, float* y) {
                        quantize_f32(inputs[0], inputs[1], inputs[2], count, y);
                      });
  }
  int operator()(const map_body<quantized_float, 4>& body, const map_layout<4>& layout) const {
    return run_blocks(body.addresses, layout, vector_cost,
                      [](const auto& inputs, std::int64_t count, float* y) {
                        quantize_float(inputs[0], inputs[1], inputs[2], count, y);
                      });
  }
  int operator()(const map_body<dequantized, 4>& body, const map_layout<4>& layout) const {
    return run_blocks(body.addresses, layout, vector_cost,
                      [](const auto& inputs, std::int64_t count, float* y) {
                        dequantize_f32(inputs[0], inputs[1], inputs[2], count, y);
                      });
  }
  template <class Bits>
  int operator()(const map_body<copied_bits<Bits>, 2>& body, const map_layout<2>& layout) const {
    const int across = transposed_dimension<Bits>(layout);
    if (across < 0) return run_each(body, layout, scalar_cost);
    for_each_part(layout, scalar_cost,
                  [&](const map_layout<2>& part, const map_position<2>& origin) {
                    copy_transposed<Bits>(body.addresses, part, origin, across);
                  });
    return 0;
  }
  template <class T, int Axes>
  int operator()(const resize_body<T, Axes>& body, const map_layout<2 + Axes>& layout) const {
    if constexpr (Axes == 2 && std::is_same_v<T, float>) {
      const auto type = layout.types[0];
      if (type == storage::u8 && resize_by_rows<std::uint8_t>(body, layout)) return 0;
      if (type == storage::f32 && resize_by_rows<float>(body, layout)) return 0;
    }
    if (resize_by_lines(body, layout)) return 0;
    return run_each(body, layout, scalar_cost);
  }
  template <class T, int Axes, int Taps>
  int operator()(const grid_body<T, Axes, Taps>& body, const map_layout<3>& layout) const {
    sample_grid(body, layout);
    return 0;
  }
  template <class Bits>
  int operator()(const gather_body<Bits>& body, const map_layout<3>& layout) const {
    gather_lines(body, layout);
    return 0;
  }
  template <class Bits>
  int operator()(const choice_body<Bits>& body, const map_layout<3>& layout) const {
    const int last = layout.rank - 1;
    const auto step = layout.strides[2][last];
    const bool has_runs =
        step >= -1 && step <= 1 &&
        (body.rule != choice_rule::equal_to_index || layout.strides[1][last] == 0);
    if (!has_runs) return run_each(body, layout, scalar_cost);
    choose_lines(body, layout);
    return 0;
  }
  template <class Bits>
  int operator()(const reverse_body<Bits>& body, const map_layout<2>& layout) const {
    copy_reversed(body, layout);
    return 0;
  }
  template <class T>
  int operator()(const col2im_body<T>& body, const map_layout<4>& layout) const {
    const double taps =
        static_cast<double>(body.axes[0].taps) * static_cast<double>(body.axes[1].taps);
    return run_each(body, layout, {.nanoseconds = 3 * taps});
  }
  template <class Bits>
  int operator()(const pad_body<Bits>& body, const pad_layout& layout) const {
    write_padded(body, layout);
    return 0;
  }
  template <class Bits>
  int operator()(const where_body<Bits>& body, const map_layout<4>& layout) const {
    const int last = layout.rank - 1;
    for (int k = 0; k < 4; ++k) {
      const auto stride = layout.strides[k][last];
      if (stride != 1 && (k < 2 || stride != 0)) return run_each(body, layout, scalar_cost);
    }
    for_each_part(
        layout, vector_cost, [&](const map_layout<4>& part, const map_position<4>& origin) {
          for_each_line(part, origin,
                        [&](const map_position<4>& line) { choose_elements(body, part, line); });
        });
    return 0;
  }
  int operator()(const map_body<identity<float>, 2>& body, const map_layout<2>& layout) const {
    return run_blocks(body.addresses, layout, vector_cost, f32_map<2>::conversion());
  }
  int operator()(const map_body<identity<double>, 2>& body, const map_layout<2>& layout) const {
    const int last = layout.rank - 1;
    const auto type = layout.types[0];
    const bool is_short = type == storage::f16 || type == storage::bf16;
    if (!is_short || layout.strides[0][last] != 1 || layout.strides[1][last] != 1) {
      return run_each(body, layout, scalar_cost);
    }
    const auto* const x = static_cast<const double*>(body.addresses.inputs[0]);
    auto* const y = static_cast<std::uint16_t*>(body.addresses.y);
    for_each_part(
        layout, scalar_cost, [&](const map_layout<2>& part, const map_position<2>& origin) {
          for_each_line(part, origin, [&](const map_position<2>& line) {
            store_doubles(type, x + line.offsets[1], part.shape[last], y + line.offsets[0]);
          });
        });
    return 0;
  }

 private:
  /// Computes one index after the other.
  template <class Body, int Operands>
  static int run_each(const Body& body, const map_layout<Operands>& layout, const map_cost& cost) {
    for_each_part(
        layout, cost, [&](const map_layout<Operands>& part, const map_position<Operands>& origin) {
          for_each_position(part, origin,
                            [&](const map_position<Operands>& position) { body(part, position); });
        });
    return 0;
  }
  /// Computes blocks of elements with `function`; see `f32_map`.
  template <int Operands, class Function>
  static int run_blocks(const map_addresses& addresses, const map_layout<Operands>& layout,
                        const map_cost& cost, const Function& function) {
    for_each_part(layout, cost,
                  [&](const map_layout<Operands>& part, const map_position<Operands>& origin) {
                    f32_map<Operands>(part, origin, addresses).run(function);
                  });
    return 0;
  }
};

}  // namespace

template <class Call>
void compute_map(const Call& call, const map_addresses& addresses) {
  (void)visit(call, addresses, map_runner{});
}

template void compute_map(const cast_call&, const map_addresses&);
template void compute_map(const copy_call&, const map_addresses&);
template void compute_map(const affine_call&, const map_addresses&);
template void compute_map(const scale_call&, const map_addresses&);
template void compute_map(const binary_call&, const map_addresses&);
template void compute_map(const unary_call&, const map_addresses&);
template void compute_map(const where_call&, const map_addresses&);
template void compute_map(const power_call&, const map_addresses&);
template void compute_map(const decibel_call&, const map_addresses&);
template void compute_map(const frames_call&, const map_addresses&);
template void compute_map(const resize_pass&, const map_addresses&);
template void compute_map(const grid_call&, const map_addresses&);
template void compute_map(const gather_call&, const map_addresses&);
template void compute_map(const pad_call&, const map_addresses&);
template void compute_map(const choice_call&, const map_addresses&);
template void compute_map(const range_call&, const map_addresses&);
template void compute_map(const quantize_call&, const map_addresses&);
template void compute_map(const dequantize_call&, const map_addresses&);
template void compute_map(const reverse_call&, const map_addresses&);
template void compute_map(const reverse_sequence_call&, const map_addresses&);
template void compute_map(const im2col_call&, const map_addresses&);
template void compute_map(const col2im_call&, const map_addresses&);

}  // namespace sluice::host
