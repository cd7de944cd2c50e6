// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/f32_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/elementwise/f32_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/elementwise/f32_arithmetic-inl.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Converts whole vectors of small integers, which the compiler does in several steps.
/// @return the elements that have been converted
template <class T>
HWY_INLINE std::int64_t load_integers([[maybe_unused]] const void* source,
                                      [[maybe_unused]] std::int64_t count,
                                      [[maybe_unused]] float* target) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> integers;
  const hn::Rebind<T, decltype(d)> small;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const auto* const x = static_cast<const T*>(source);
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::PromoteTo(integers, hn::LoadU(small, x + i));
    const auto b = hn::PromoteTo(integers, hn::LoadU(small, x + i + lanes));
    hn::StoreU(hn::ConvertTo(d, a), d, target + i);
    hn::StoreU(hn::ConvertTo(d, b), d, target + i + lanes);
  }
#endif
  return i;
}

template <storage Type>
void load_as(const void* source, std::int64_t count, float* target) {
  std::int64_t i = 0;
  if constexpr (Type == storage::u8) i = load_integers<std::uint8_t>(source, count, target);
  if constexpr (Type == storage::i8) i = load_integers<std::int8_t>(source, count, target);
  if constexpr (Type == storage::u16) i = load_integers<std::uint16_t>(source, count, target);
  if constexpr (Type == storage::i16) i = load_integers<std::int16_t>(source, count, target);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (Type == storage::f16) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> halves;
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
    const auto* const x = static_cast<const hwy::float16_t*>(source);
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(halves, x + i)), d, target + i);
    }
  }
#endif
  SLUICE_INDEPENDENT
  for (; i < count; ++i) target[i] = load<float>(Type, source, i);
}
template <storage Type>
void store_as(const float* source, std::int64_t count, void* target) {
  std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (Type == storage::f16) {
    // The processor's conversion, which rounds as `f16` does.
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> halves;
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
    auto* const y = static_cast<hwy::float16_t*>(target);
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::DemoteTo(halves, hn::LoadU(d, source + i)), halves, y + i);
    }
  }
#endif
  SLUICE_INDEPENDENT
  for (; i < count; ++i) store<overflow::saturates>(Type, target, i, source[i]);
}

void load_f32(storage type, const void* source, std::int64_t count, float* target) {
  switch (type) {
    case storage::boolean:
      return load_as<storage::boolean>(source, count, target);
    case storage::u8:
      return load_as<storage::u8>(source, count, target);
    case storage::i8:
      return load_as<storage::i8>(source, count, target);
    case storage::u16:
      return load_as<storage::u16>(source, count, target);
    case storage::i16:
      return load_as<storage::i16>(source, count, target);
    case storage::i32:
      return load_as<storage::i32>(source, count, target);
    case storage::u32:
      return load_as<storage::u32>(source, count, target);
    case storage::i64:
      return load_as<storage::i64>(source, count, target);
    case storage::u64:
      return load_as<storage::u64>(source, count, target);
    case storage::e4m3:
      return load_as<storage::e4m3>(source, count, target);
    case storage::e5m2:
      return load_as<storage::e5m2>(source, count, target);
    case storage::f16:
      return load_as<storage::f16>(source, count, target);
    case storage::bf16:
      return load_as<storage::bf16>(source, count, target);
    case storage::f32:
      return load_as<storage::f32>(source, count, target);
    default:
      return load_as<storage::f64>(source, count, target);
  }
}

void store_f32(storage type, const float* source, std::int64_t count, void* target) {
  switch (type) {
    case storage::boolean:
      return store_as<storage::boolean>(source, count, target);
    case storage::u8:
      return store_as<storage::u8>(source, count, target);
    case storage::i8:
      return store_as<storage::i8>(source, count, target);
    case storage::u16:
      return store_as<storage::u16>(source, count, target);
    case storage::i16:
      return store_as<storage::i16>(source, count, target);
    case storage::i32:
      return store_as<storage::i32>(source, count, target);
    case storage::u32:
      return store_as<storage::u32>(source, count, target);
    case storage::i64:
      return store_as<storage::i64>(source, count, target);
    case storage::u64:
      return store_as<storage::u64>(source, count, target);
    case storage::e4m3:
      return store_as<storage::e4m3>(source, count, target);
    case storage::e5m2:
      return store_as<storage::e5m2>(source, count, target);
    case storage::f16:
      return store_as<storage::f16>(source, count, target);
    case storage::bf16:
      return store_as<storage::bf16>(source, count, target);
    case storage::f32:
      return store_as<storage::f32>(source, count, target);
    case storage::f64:
      return store_as<storage::f64>(source, count, target);
    case storage::c64:
      return store_as<storage::c64>(source, count, target);
    default:
      return store_as<storage::c128>(source, count, target);
  }
}

template <binary_function F>
void binary_loop(const float* a, const float* b, std::int64_t count, float* y) {
  std::int64_t i = 0;
  if constexpr (is_arithmetic(F)) {
    const hn::ScalableTag<float> d;
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(arithmetic<F>(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
    }
  }
  SLUICE_INDEPENDENT
  for (; i < count; ++i) y[i] = apply(F, a[i], b[i]);
}
template <std::size_t... I>
void binary_loop_of(std::index_sequence<I...>, binary_function f, const float* a, const float* b,
                    std::int64_t count, float* y) {
  (void)((static_cast<std::size_t>(f) == I &&
          (binary_loop<static_cast<binary_function>(I)>(a, b, count, y), true)) ||
         ...);
}
void binary_f32(binary_function f, const float* a, const float* b, std::int64_t count, float* y) {
  binary_loop_of(std::make_index_sequence<binary_function_count>(), f, a, b, count, y);
}

void affine_f32(const scaled_and_shifted<float>& function, const float* x, const float* scale,
                const float* bias, std::int64_t count, float* y) {
  const auto f = function;
  if (scale == nullptr && bias == nullptr) {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i], f.factor, f.offset);
  } else if (bias == nullptr) {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i], scale[i], f.offset);
  } else if (scale == nullptr) {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i], f.factor, bias[i]);
  } else {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i], scale[i], bias[i]);
  }
}

/// Calls `run` with the term as a constant.
template <class Run>
auto with_term(host::sum_term term, const Run& run) {
  using host::sum_term;
  switch (term) {
    case sum_term::magnitude:
      return run(std::integral_constant<sum_term, sum_term::magnitude>());
    case sum_term::square:
      return run(std::integral_constant<sum_term, sum_term::square>());
    default:
      return run(std::integral_constant<sum_term, sum_term::number>());
  }
}
template <host::sum_term Term>
HWY_INLINE double term_of(float x) {
  const auto number = static_cast<double>(x);
  if constexpr (Term == host::sum_term::magnitude) return std::abs(number);
  if constexpr (Term == host::sum_term::square) return number * number;
  return number;
}

template <host::sum_term Term>
double sum_of(const float* x, std::int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<double>()));
  const auto terms = [&](std::int64_t first) {
    const auto numbers = hn::PromoteTo(d, hn::LoadU(narrow, x + first));
    if constexpr (Term == host::sum_term::magnitude) return hn::Abs(numbers);
    if constexpr (Term == host::sum_term::square) return hn::Mul(numbers, numbers);
    return numbers;
  };
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  auto c = hn::Zero(d);
  auto e = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, terms(i));
    b = hn::Add(b, terms(i + lanes));
    c = hn::Add(c, terms(i + 2 * lanes));
    e = hn::Add(e, terms(i + 3 * lanes));
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < count; ++i) total += term_of<Term>(x[i]);
  return total;
}
double sum_f32(host::sum_term term, const float* x, std::int64_t count) {
  return with_term(term, [&](auto constant) { return sum_of<constant.value>(x, count); });
}

/// All bits of the lanes that are NaN.
template <class D>
HWY_INLINE hn::Vec<D> nan_bits(D d, hn::Vec<D> v) {
  return hn::VecFromMask(d, hn::IsNaN(v));
}

template <bool IsMax>
float extremum_of(const float* x, std::int64_t count) {
  // Without the order of zeros, which `larger` has; it matters only if the extremum is 0.
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  constexpr float none = IsMax ? -HUGE_VALF : HUGE_VALF;
  const auto better = [](auto p, auto q) {
    return IsMax ? hn::Max(p, q) : hn::Min(p, q);
  };
  auto a = hn::Set(d, none);
  auto b = a;
  auto c = a;
  auto e = a;
  auto unordered = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto p = hn::LoadU(d, x + i);
    const auto q = hn::LoadU(d, x + i + lanes);
    const auto r = hn::LoadU(d, x + i + 2 * lanes);
    const auto s = hn::LoadU(d, x + i + 3 * lanes);
    a = better(p, a);
    b = better(q, b);
    c = better(r, c);
    e = better(s, e);
    unordered = hn::Or(unordered, hn::Or(nan_bits(d, p), nan_bits(d, q)));
    unordered = hn::Or(unordered, hn::Or(nan_bits(d, r), nan_bits(d, s)));
  }
  // `MaxOfLanes` of EMU128 answers the lowest finite number if all lanes are -infinity.
  std::array<float, lanes> extrema;
  hn::StoreU(better(better(a, b), better(c, e)), d, extrema.data());
  const auto of_two = [](float p, float q) {
    return IsMax ? larger(p, q) : smaller(p, q);
  };
  float extremum = none;
  for (const float value : extrema) extremum = of_two(extremum, value);
  if (!hn::AllFalse(d, hn::MaskFromVec(unordered))) return NAN;
  if (extremum == 0) {
    extremum = none;
    i = 0;
  }
  for (; i < count; ++i) extremum = of_two(extremum, x[i]);
  return extremum;
}
float max_f32(const float* x, std::int64_t count) {
  return extremum_of<true>(x, count);
}
float min_f32(const float* x, std::int64_t count) {
  return extremum_of<false>(x, count);
}

template <host::sum_term Term>
void sum_rows(const host::f32_rows& rows, std::int64_t count, double* sums) {
  const auto n = rows.distance;
  const float* x = rows.x;
  std::int64_t row = 0;
  for (; row + 4 <= rows.rows; row += 4, x += 4 * n) {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) {
      const double first = term_of<Term>(x[i]) + term_of<Term>(x[n + i]);
      const double second = term_of<Term>(x[2 * n + i]) + term_of<Term>(x[3 * n + i]);
      sums[i] += first + second;
    }
  }
  for (; row < rows.rows; ++row, x += n) {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) sums[i] += term_of<Term>(x[i]);
  }
}
void sum_rows_f32(host::sum_term term, const host::f32_rows& rows, std::int64_t count,
                  double* sums) {
  with_term(term, [&](auto constant) { sum_rows<constant.value>(rows, count, sums); });
}

template <bool IsMax>
void extremum_of_rows(const host::f32_rows& rows, std::int64_t count, float* extrema) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const auto n = rows.distance;
  const float* x = rows.x;
  std::int64_t row = 0;
  for (; row + 4 <= rows.rows; row += 4, x += 4 * n) {
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto a = extremum<IsMax>(d, hn::LoadU(d, x + i), hn::LoadU(d, x + n + i));
      const auto b = extremum<IsMax>(d, hn::LoadU(d, x + 2 * n + i), hn::LoadU(d, x + 3 * n + i));
      const auto result = extremum<IsMax>(d, extremum<IsMax>(d, a, b), hn::LoadU(d, extrema + i));
      hn::StoreU(result, d, extrema + i);
    }
    for (; i < count; ++i) {
      for (std::int64_t k = 0; k < 4; ++k) {
        extrema[i] = IsMax ? larger(extrema[i], x[k * n + i]) : smaller(extrema[i], x[k * n + i]);
      }
    }
  }
  constexpr auto function = IsMax ? binary_function::maximum : binary_function::minimum;
  for (; row < rows.rows; ++row, x += n) binary_loop<function>(extrema, x, count, extrema);
}
void max_rows_f32(const host::f32_rows& rows, std::int64_t count, float* largest) {
  extremum_of_rows<true>(rows, count, largest);
}
void min_rows_f32(const host::f32_rows& rows, std::int64_t count, float* smallest) {
  extremum_of_rows<false>(rows, count, smallest);
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(load_f32);
HWY_EXPORT(store_f32);
HWY_EXPORT(binary_f32);
HWY_EXPORT(affine_f32);
HWY_EXPORT(sum_f32);
HWY_EXPORT(max_f32);
HWY_EXPORT(min_f32);
HWY_EXPORT(sum_rows_f32);
HWY_EXPORT(max_rows_f32);
HWY_EXPORT(min_rows_f32);
}  // namespace sluice::operations

namespace sluice::host {

using namespace operations;

void load_f32(storage type, const void* source, std::int64_t count, float* target) {
  HWY_DYNAMIC_DISPATCH(load_f32)(type, source, count, target);
}
void store_f32(storage type, const float* source, std::int64_t count, void* target) {
  HWY_DYNAMIC_DISPATCH(store_f32)(type, source, count, target);
}
void binary_f32(binary_function f, const float* a, const float* b, std::int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(binary_f32)(f, a, b, count, y);
}
void affine_f32(const scaled_and_shifted<float>& function, const float* x, const float* scale,
                const float* bias, std::int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(affine_f32)(function, x, scale, bias, count, y);
}
double sum_f32(sum_term term, const float* x, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_f32)(term, x, count);
}
float max_f32(const float* x, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(max_f32)(x, count);
}
float min_f32(const float* x, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(min_f32)(x, count);
}
void sum_rows_f32(sum_term term, const f32_rows& rows, std::int64_t count, double* sums) {
  HWY_DYNAMIC_DISPATCH(sum_rows_f32)(term, rows, count, sums);
}
void max_rows_f32(const f32_rows& rows, std::int64_t count, float* largest) {
  HWY_DYNAMIC_DISPATCH(max_rows_f32)(rows, count, largest);
}
void min_rows_f32(const f32_rows& rows, std::int64_t count, float* smallest) {
  HWY_DYNAMIC_DISPATCH(min_rows_f32)(rows, count, smallest);
}

}  // namespace sluice::host
#endif
