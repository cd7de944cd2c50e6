// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/f32_chain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/elementwise/f32_chain.cpp"
#include "operations/vector_targets.hpp"

#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/elementwise/f32_arithmetic-inl.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using host::f32_step;
using host::step_operands;

struct chained_step;
/// Computes a step for the indices from `i` on and then calls the next one. Arguments of their own
/// are passed in registers.
using chained_function = void (*)(const chained_step* step, std::int64_t i, float_vector v0,
                                  float_vector v1, float_vector v2, float_vector v3);
struct chained_step {
  chained_function run = nullptr;
  float alpha = 0;
  float beta = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
};

HWY_INLINE void continue_chain(const chained_step* step, std::int64_t i, const tile& x) {
  ++step;
  step->run(step, i, x.v0, x.v1, x.v2, x.v3);
}
void end_chain(const chained_step*, std::int64_t, float_vector, float_vector, float_vector,
               float_vector) {}

void load_step(const chained_step* step, std::int64_t i, float_vector, float_vector, float_vector,
               float_vector) {
  continue_chain(step, i, load_tile(step->a + i));
}

void store_step(const chained_step* step, std::int64_t i, float_vector v0, float_vector v1,
                float_vector v2, float_vector v3) {
  store_tile({v0, v1, v2, v3}, step->y + i);
  continue_chain(step, i, {v0, v1, v2, v3});
}

void stream_step(const chained_step* step, std::int64_t i, float_vector v0, float_vector v1,
                 float_vector v2, float_vector v3) {
  stream_tile({v0, v1, v2, v3}, step->y + i);
  continue_chain(step, i, {v0, v1, v2, v3});
}

template <unary_function F>
void unary_step(const chained_step* step, std::int64_t i, float_vector v0, float_vector v1,
                float_vector v2, float_vector v3) {
  const float alpha = step->alpha;
  const float beta = step->beta;
  const auto function = [=](float_vector x) {
    return arithmetic<F>(floats(), x, alpha, beta);
  };
  continue_chain(step, i, map_tile(function, {v0, v1, v2, v3}));
}

template <binary_function F, step_operands Operands>
void binary_step(const chained_step* step, std::int64_t i, float_vector v0, float_vector v1,
                 float_vector v2, float_vector v3) {
  const auto function = [](float_vector a, float_vector b) {
    return arithmetic<F>(floats(), a, b);
  };
  const tile x{v0, v1, v2, v3};
  if constexpr (Operands == step_operands::registers_and_memory) {
    continue_chain(step, i, map_tiles(function, x, load_tile(step->a + i)));
  } else if constexpr (Operands == step_operands::memory_and_registers) {
    continue_chain(step, i, map_tiles(function, load_tile(step->a + i), x));
  } else if constexpr (Operands == step_operands::registers_twice) {
    continue_chain(step, i, map_tiles(function, x, x));
  } else if constexpr (Operands == step_operands::registers_and_number) {
    continue_chain(step, i, map_tiles(function, x, repeated(step->alpha)));
  } else {
    continue_chain(step, i, map_tiles(function, repeated(step->alpha), x));
  }
}

template <bool HasScale, bool HasBias>
void affine_step(const chained_step* step, std::int64_t i, float_vector v0, float_vector v1,
                 float_vector v2, float_vector v3) {
  const auto product = [](float_vector a, float_vector b) {
    return hn::Mul(a, b);
  };
  const auto sum = [](float_vector a, float_vector b) {
    return hn::Add(a, b);
  };
  const tile scale = HasScale ? load_tile(step->a + i) : repeated(step->alpha);
  const tile bias = HasBias ? load_tile(step->b + i) : repeated(step->beta);
  continue_chain(step, i, map_tiles(sum, map_tiles(product, {v0, v1, v2, v3}, scale), bias));
}

template <std::size_t I>
constexpr chained_function unary_step_of() {
  constexpr auto f = static_cast<unary_function>(I);
  if constexpr (is_arithmetic(f)) return unary_step<f>;
  return nullptr;
}
template <std::size_t... I>
constexpr std::array<chained_function, sizeof...(I)> unary_steps(std::index_sequence<I...>) {
  return {unary_step_of<I>()...};
}
template <std::size_t I>
constexpr chained_function binary_step_of() {
  constexpr auto f = static_cast<binary_function>(I / host::step_operands_count);
  constexpr auto operands = static_cast<step_operands>(I % host::step_operands_count);
  if constexpr (is_arithmetic(f)) return binary_step<f, operands>;
  return nullptr;
}
template <std::size_t... I>
constexpr std::array<chained_function, sizeof...(I)> binary_steps(std::index_sequence<I...>) {
  return {binary_step_of<I>()...};
}

chained_function function_of(const f32_step& step) {
  static constexpr auto unary = unary_steps(std::make_index_sequence<unary_function_count>());
  static constexpr auto binary =
      binary_steps(std::make_index_sequence<binary_function_count * host::step_operands_count>());
  switch (step.kind) {
    case f32_step::action::load:
      return load_step;
    case f32_step::action::store:
      return step.is_streamed && is_stream_address(step.y) ? stream_step : store_step;
    case f32_step::action::unary:
      return unary[static_cast<std::size_t>(step.unary)];
    case f32_step::action::binary:
      return binary[static_cast<std::size_t>(step.binary) * host::step_operands_count +
                    static_cast<std::size_t>(step.operands)];
    case f32_step::action::affine:
      break;
  }
  if (step.a != nullptr)
    return step.b != nullptr ? affine_step<true, true> : affine_step<true, false>;
  return step.b != nullptr ? affine_step<false, true> : affine_step<false, false>;
}

/// Computes the last indices, fewer than a tile, in copies of their elements.
class last_tile {
 public:
  last_tile(std::int64_t first, std::int64_t count) : first_(first), count_(count) {}

  /// The copy of the elements at an address.
  float* copy_of(const float* address) {
    if (address == nullptr) return nullptr;
    const auto end = addresses_.begin() + static_cast<std::ptrdiff_t>(size_);
    const auto found = std::find(addresses_.begin(), end, address);
    auto& copy = copies_[static_cast<std::size_t>(found - addresses_.begin())];
    if (found == end) {
      addresses_[size_++] = address;
      copy.fill(0);
      std::copy_n(address + first_, count_, copy.begin());
    }
    return copy.data();
  }
  void write(float* address) { std::copy_n(copy_of(address), count_, address + first_); }

 private:
  std::int64_t first_;
  std::int64_t count_;
  std::size_t size_ = 0;
  std::array<const float*, host::max_f32_addresses> addresses_;
  std::array<std::array<float, static_cast<std::size_t>(tile_size)>, host::max_f32_addresses>
      copies_;
};

HWY_INLINE void run_chain(const chained_step* steps, std::int64_t i) {
  const auto zero = hn::Zero(floats());
  steps->run(steps, i, zero, zero, zero, zero);
}

void compute_chain(std::span<const f32_step> steps, std::int64_t count) {
  std::array<chained_step, host::max_f32_steps + 1> chain;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const auto& step = steps[k];
    chain[k] = {function_of(step), step.alpha, step.beta, step.a, step.b, step.y};
  }
  chain[steps.size()].run = end_chain;
  std::int64_t i = 0;
  for (; i + tile_size <= count; i += tile_size) run_chain(chain.data(), i);
  if (i == count) return;
  last_tile last(i, count - i);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    chain[k].a = last.copy_of(chain[k].a);
    chain[k].b = last.copy_of(chain[k].b);
    chain[k].y = last.copy_of(chain[k].y);
    if (steps[k].kind == f32_step::action::store) chain[k].run = store_step;
  }
  run_chain(chain.data(), 0);
  for (const auto& step : steps) {
    if (step.y != nullptr) last.write(step.y);
  }
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(compute_chain);
}  // namespace sluice::operations

namespace sluice::host {

using namespace operations;

void compute_chain(std::span<const f32_step> steps, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(compute_chain)(steps, count);
}

}  // namespace sluice::host
#endif
