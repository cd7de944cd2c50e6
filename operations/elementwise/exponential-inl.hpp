// SPDX-License-Identifier: Apache-2.0
// The exponential function of vectors of f32. Compiled for each target of Highway.
#if defined(SLUICE_ELEMENTWISE_EXPONENTIAL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_ELEMENTWISE_EXPONENTIAL_INL
#undef SLUICE_ELEMENTWISE_EXPONENTIAL_INL
#else
#define SLUICE_ELEMENTWISE_EXPONENTIAL_INL
#endif

#include "operations/vector_targets.hpp"

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The larger and the smaller one of a bound and of x; NaN if x is NaN.
///@{
template <class V>
HWY_INLINE V maximum_or_nan(V bound, V x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#else
  // Where an argument is NaN, `Max` of SSE and AVX returns the second one, and that of NEON NaN.
  return hn::Max(bound, x);
#endif
}
template <class V>
HWY_INLINE V minimum_or_nan(V bound, V x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#else
  return hn::Min(bound, x);
#endif
}
///@}

/// exp(x) · 2^Offset as 2^n · exp(r) with the integer n next to x / ln 2, for n + Offset from -126
/// to 127. NaN for NaN.
template <int Offset, class D, class V>
HWY_INLINE V scaled_exponential(D d, V x) {
  // A number of this size has no bits behind the point: the sum is rounded to an integer, whose low
  // bits are those of the exponent of 2^(n + Offset).
  const auto rounding = hn::Set(d, 12582912.0F + 127 + Offset);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), rounding);
  const auto n = hn::Sub(shifted, rounding);
  // The product with the first part of ln 2 is exact.
  const auto difference = hn::NegMulAdd(n, hn::Set(d, 0.693145752F), x);
  const auto r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6F), difference);
  // exp(r) = 1 + r + r² · P(r), where P minimizes the largest relative error: 2^-28.
  const auto square = hn::Mul(r, r);
  const auto low = hn::MulAdd(r, hn::Set(d, 0.1666652113F), hn::Set(d, 0.4999999404F));
  const auto middle = hn::MulAdd(r, hn::Set(d, 0.008368674666F), hn::Set(d, 0.04166826606F));
  const auto high = hn::MulAdd(square, hn::Set(d, 0.00138206617F), middle);
  const auto p = hn::MulAdd(square, high, low);
  const auto power = hn::Add(hn::MulAdd(square, p, r), hn::Set(d, 1.0F));
  const hn::RebindToSigned<D> integers;
  const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, shifted)));
  return hn::Mul(power, scale);
}

/// exp(x) for x from -87.33 to 88; NaN for NaN.
template <class D, class V>
HWY_INLINE V exponential(D d, V x) {
  return scaled_exponential<0>(d, x);
}

/// exp(x) of numbers that are not positive, and of NaN.
template <class D, class V>
HWY_INLINE V exponential_below_one(D d, V x) {
  // At the bound, the result is rounded to 0.
  const auto bounded = maximum_or_nan(hn::Set(d, -104.0F), x);
  return hn::Mul(scaled_exponential<64>(d, bounded), hn::Set(d, 0x1p-64F));
}

/// factor · exp(x) of numbers that are not negative, and of NaN, for a factor of 0.5 or 1.
template <class D, class V>
HWY_INLINE V exponential_above_one(D d, V x, float factor = 1) {
  // At the bound, the result is infinite.
  const auto bounded = minimum_or_nan(hn::Set(d, 90.0F), x);
  return hn::Mul(scaled_exponential<-64>(d, bounded), hn::Set(d, 0x1p64F * factor));
}

/// factor · exp(x) of numbers that are not positive, and of NaN, for factors up to 120. The product
/// is rounded once, also if exp(x) is subnormal.
template <class D, class V>
HWY_INLINE V exponential_product(D d, V factor, V x) {
  // Below the bound, the product is rounded to 0.
  const auto bound = hn::Set(d, -110.0F);
  const auto power = scaled_exponential<64>(d, maximum_or_nan(bound, x));
  const auto product = hn::Mul(hn::Mul(factor, power), hn::Set(d, 0x1p-64F));
  return hn::IfThenElse(hn::Lt(x, bound), hn::Mul(factor, hn::Zero(d)), product);
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
