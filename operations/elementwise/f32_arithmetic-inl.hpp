// SPDX-License-Identifier: Apache-2.0
// Functions of vectors of f32 that give the bits of the functions of one element. Compiled for each
// target of Highway.
#if defined(SLUICE_ELEMENTWISE_F32_ARITHMETIC_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_ELEMENTWISE_F32_ARITHMETIC_INL
#undef SLUICE_ELEMENTWISE_F32_ARITHMETIC_INL
#else
#define SLUICE_ELEMENTWISE_F32_ARITHMETIC_INL
#endif

#include "operations/elementwise/f32_arithmetic.hpp"
#include "operations/elementwise/functors.hpp"
#include "operations/vector_targets.hpp"

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using host::clip_limit;
using host::is_arithmetic;

using floats = hn::ScalableTag<float>;
using float_vector = hn::Vec<floats>;
constexpr auto float_lanes = static_cast<std::int64_t>(hn::MaxLanes(floats()));

/// Vectors that are computed together.
struct tile {
  float_vector v0;
  float_vector v1;
  float_vector v2;
  float_vector v3;
};
constexpr std::int64_t tile_size = 4 * float_lanes;

HWY_INLINE tile load_tile(const float* x) {
  const floats d;
  return {hn::LoadU(d, x), hn::LoadU(d, x + float_lanes), hn::LoadU(d, x + 2 * float_lanes),
          hn::LoadU(d, x + 3 * float_lanes)};
}
HWY_INLINE void store_tile(const tile& x, float* y) {
  const floats d;
  hn::StoreU(x.v0, d, y);
  hn::StoreU(x.v1, d, y + float_lanes);
  hn::StoreU(x.v2, d, y + 2 * float_lanes);
  hn::StoreU(x.v3, d, y + 3 * float_lanes);
}
/// Whether `stream_tile` can store to an address.
HWY_INLINE bool is_stream_address(const float* y) {
  return reinterpret_cast<std::uintptr_t>(y) %
             (static_cast<std::size_t>(float_lanes) * sizeof(float)) ==
         0;
}
/// Stores past the caches; see `finish_streams`.
HWY_INLINE void stream_tile(const tile& x, float* y) {
  const floats d;
  hn::Stream(x.v0, d, y);
  hn::Stream(x.v1, d, y + float_lanes);
  hn::Stream(x.v2, d, y + 2 * float_lanes);
  hn::Stream(x.v3, d, y + 3 * float_lanes);
}
HWY_INLINE tile repeated(float number) {
  const auto v = hn::Set(floats(), number);
  return {v, v, v, v};
}
template <class Function>
HWY_INLINE tile map_tile(const Function& function, const tile& x) {
  return {function(x.v0), function(x.v1), function(x.v2), function(x.v3)};
}
template <class Function>
HWY_INLINE tile map_tiles(const Function& function, const tile& x, const tile& y) {
  return {function(x.v0, y.v0), function(x.v1, y.v1), function(x.v2, y.v2), function(x.v3, y.v3)};
}

/// `larger` or `smaller` in each lane: the compiler keeps the branches of those.
template <bool Larger, class D>
HWY_INLINE hn::Vec<D> extremum(D d, hn::Vec<D> a, hn::Vec<D> b) {
  const auto larger = hn::IfThenElse(Larger ? hn::Gt(a, b) : hn::Lt(a, b), a, b);
  // Equal numbers differ in nothing but the sign of zeros.
  const auto equal = Larger ? hn::And(a, b) : hn::Or(a, b);
  const auto ordered = hn::IfThenElse(hn::Eq(a, b), equal, larger);
  const auto nan = hn::Set(d, NAN);
  return hn::IfThenElse(hn::IsNaN(a), nan, hn::IfThenElse(hn::IsNaN(b), nan, ordered));
}

/// `unit_ramp` in each lane.
template <class D>
HWY_INLINE hn::Vec<D> unit_ramp(D d, hn::Vec<D> x, float alpha, float beta) {
  const auto line = hn::Add(hn::Mul(x, hn::Set(d, alpha)), hn::Set(d, beta));
  const auto one = hn::Set(d, 1.0F);
  const auto above_zero = hn::IfThenElseZero(hn::Gt(line, hn::Zero(d)), line);
  const auto ramp = hn::IfThenElse(hn::Lt(above_zero, one), above_zero, one);
  return hn::IfThenElse(hn::IsNaN(line), hn::Set(d, NAN), ramp);
}

/// f(x).
template <unary_function F, class D>
HWY_INLINE hn::Vec<D> arithmetic(D d, hn::Vec<D> x, [[maybe_unused]] float alpha,
                                 [[maybe_unused]] float beta) {
  using function = unary_function;
  static_assert(is_arithmetic(F));
  if constexpr (F == function::negate) return hn::Neg(x);
  if constexpr (F == function::abs) return hn::IfThenElse(hn::IsNaN(x), x, hn::Abs(x));
  if constexpr (F == function::relu) {
    const auto number = hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), x);
    return hn::IfThenElse(hn::IsNaN(x), hn::Set(d, NAN), number);
  }
  if constexpr (F == function::sqrt) return hn::Sqrt(x);
  if constexpr (F == function::reciprocal) return hn::Div(hn::Set(d, 1.0F), x);
  if constexpr (F == function::rsqrt) return hn::Div(hn::Set(d, 1.0F), hn::Sqrt(x));
  if constexpr (F == function::leaky_relu) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(hn::Set(d, alpha), x), x);
  }
  if constexpr (F == function::hard_sigmoid) return unit_ramp(d, x, alpha, beta);
  if constexpr (F == function::hard_swish) {
    return hn::Mul(x, unit_ramp(d, x, 1.0F / 6.0F, 0.5F));
  }
  if constexpr (F == function::clip) {
    const auto last_below = hn::Set(d, clip_limit(alpha));
    const auto first_above = hn::Set(d, -clip_limit(-beta));
    const auto above = hn::IfThenElse(hn::Le(x, last_below), hn::Set(d, alpha), x);
    return hn::IfThenElse(hn::Ge(above, first_above), hn::Set(d, beta), above);
  }
}
/// f(a, b).
template <binary_function F, class D>
HWY_INLINE hn::Vec<D> arithmetic(D d, hn::Vec<D> a, hn::Vec<D> b) {
  using function = binary_function;
  static_assert(is_arithmetic(F));
  if constexpr (F == function::add) return hn::Add(a, b);
  if constexpr (F == function::subtract) return hn::Sub(a, b);
  if constexpr (F == function::multiply) return hn::Mul(a, b);
  if constexpr (F == function::divide) return hn::Div(a, b);
  if constexpr (F == function::maximum) return extremum<true>(d, a, b);
  if constexpr (F == function::minimum) return extremum<false>(d, a, b);
  if constexpr (F == function::prelu) {
    return hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(a, b), a);
  }
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
