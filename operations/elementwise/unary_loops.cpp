// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/f32_loops.hpp"
#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/elementwise/unary_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/elementwise/f32_arithmetic-inl.hpp"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The arguments for which `vector_apply` holds. All others take the function of one element.
struct interval {
  float low = 1;
  float high = 0;

  [[nodiscard]] constexpr bool is_empty() const noexcept { return low > high; }
};

[[nodiscard]] constexpr interval vector_range(unary_function f) noexcept {
  using function = unary_function;
  constexpr float exponent = 87;  // exp is finite and no subnormal number
  switch (f) {
    case function::exp:
    case function::sinh:
    case function::cosh:
    case function::sigmoid:
    case function::silu:
    case function::softplus:
    case function::mish:
      return {-exponent, exponent};
    case function::gelu_tanh:
      return {-10, 10};
    case function::expm1:
      return {-exponent, exponent};
    case function::exp2:
      return {-126, 127};
    case function::asin:
    case function::acos:
    case function::atanh:
      return {-HUGE_VALF, HUGE_VALF};
    case function::elu:
    case function::selu:
      return {-exponent, FLT_MAX};
    case function::log:
    case function::log2:
    case function::log10:
    case function::log1p:
    case function::acosh:
      return {-HUGE_VALF, FLT_MAX};
    case function::sin:
    case function::cos:
      return {-1000, 1000};
    case function::atan:
    case function::erf:
    case function::gelu:
    case function::tanh:
    case function::asinh:
      return {-FLT_MAX, FLT_MAX};
    default:
      return {};
  }
}

/// A logarithm of a number whose difference from the pole is `x`: `result` where x is positive.
template <class D, class V>
HWY_INLINE V with_pole(D d, V x, V result) {
  const auto at_pole =
      hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -HUGE_VALF), hn::Set(d, NAN));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), result, at_pole);
}
/// `result` where |x| is at most 1, else NaN.
template <class D, class V>
HWY_INLINE V inside_unit(D d, V x, V result) {
  return hn::IfThenElse(hn::Le(hn::Abs(x), hn::Set(d, 1.0F)), result, hn::Set(d, NAN));
}
template <class D, class V>
HWY_INLINE V vector_logistic(D d, V x) {
  const auto one = hn::Set(d, 1.0F);
  const auto e = hn::Exp(d, hn::Neg(hn::Abs(x)));
  const auto numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return hn::Div(numerator, hn::Add(one, e));
}
template <class D, class V>
HWY_INLINE V vector_softplus(D d, V x) {
  return hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(x)))));
}
template <class D, class V>
HWY_INLINE V vector_elu(D d, V x, float alpha) {
  const auto below = hn::Mul(hn::Set(d, alpha), hn::Expm1(d, hn::Min(x, hn::Zero(d))));
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), x, below);
}
/// A function that keeps zeros with their sign: f(x), or x if it is 0.
template <class D, class V>
HWY_INLINE V with_zeros(D d, V x, V result) {
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);
}

/// 2^x as 2^n · exp(f · ln 2) with the integer n next to x: f = x - n is exact.
template <class D, class V>
HWY_INLINE V vector_exp2(D d, V x) {
  const auto n = hn::NearestInt(x);
  const hn::RebindToSigned<D> integers;
  const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(integers, 127))));
  const auto fraction = hn::Sub(x, hn::ConvertTo(d, n));
  return hn::Mul(scale, hn::Exp(d, hn::Mul(fraction, hn::Set(d, 0.69314718F))));
}
/// c[0] + c[1] · x + …
template <std::size_t Count, class D, class V>
HWY_INLINE V polynomial(D d, V x, const std::array<float, Count>& c) {
  auto sum = hn::Set(d, c[Count - 1]);
  for (std::size_t i = Count - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}
/// The error function: x · P(x²) up to 1, then 1 - exp(-Q(x)), where P and Q approximate
/// erf(√t) / √t and -ln(erfc(t)). Their coefficients minimize the largest error, which was found by
/// weighted least squares (Lawson, 1961). From 4 on, the result is 1.
template <class D, class V>
HWY_INLINE V vector_erf(D d, V x) {
  constexpr std::array<float, 7> p{1.12837911F,     -0.376126260F,  0.112835854F,
                                   -0.0268538129F,  0.00518832775F, -0.000801019371F,
                                   0.0000785386073F};
  constexpr std::array<float, 8> q{-0.000188037055F, 1.12957835F,     0.633219898F,
                                   0.108418554F,     -0.0252082404F,  0.00420455635F,
                                   -0.000441335316F, 0.0000216867629F};
  const auto one = hn::Set(d, 1.0F);
  const auto t = hn::Abs(x);
  const auto near = hn::Mul(t, polynomial(d, hn::Mul(t, t), p));
  const auto exponent = polynomial(d, hn::Min(t, hn::Set(d, 4.0F)), q);
  const auto far = hn::Sub(one, hn::Exp(d, hn::Neg(exponent)));
  return hn::CopySign(hn::IfThenElse(hn::Le(t, one), near, far), x);
}

/// x · Φ(x) as max(x, 0) - t · 2^q(t) with t = |x|, as `normal_gate` computes it on a GPU. 2^f of
/// the fraction f is its Taylor series. From 15 on, and where 2^q is subnormal, the product is 0.
template <class D, class V>
HWY_INLINE V vector_gelu(D d, V x) {
  constexpr std::array<float, 9> q{-1.0F,           -1.1511106F,    -0.45914835F,
                                   -5.27079645e-2F, 7.39955537e-3F, -4.07614657e-4F,
                                   -7.21922076e-5F, 1.56106949e-5F, -9.0596121e-7F};
  constexpr std::array<float, 7> powers{1.0F,           0.693147181F,   0.240226507F,
                                        0.0555041087F,  0.00961812911F, 0.00133335581F,
                                        0.000154035304F};
  const auto t = hn::Min(hn::Abs(x), hn::Set(d, 15.0F));
  const auto exponent = hn::Max(polynomial(d, t, q), hn::Set(d, -127.0F));
  const auto n = hn::NearestInt(exponent);
  const hn::RebindToSigned<D> integers;
  const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(integers, 127))));
  const auto fraction = hn::Sub(exponent, hn::ConvertTo(d, n));
  const auto tail = hn::Mul(scale, polynomial(d, fraction, powers));
  return hn::NegMulAdd(t, tail, hn::Max(x, hn::Zero(d)));
}

/// The function of arguments in `vector_range`.
template <unary_function F, class D, class V>
HWY_INLINE V vector_apply(D d, V x, [[maybe_unused]] float alpha, [[maybe_unused]] float beta) {
  using function = unary_function;
  if constexpr (F == function::exp) return hn::Exp(d, x);
  if constexpr (F == function::exp2) return vector_exp2(d, x);
  if constexpr (F == function::expm1) return with_zeros(d, x, hn::Expm1(d, x));
  if constexpr (F == function::log) return with_pole(d, x, hn::Log(d, x));
  if constexpr (F == function::log2) return with_pole(d, x, hn::Log2(d, x));
  if constexpr (F == function::log10) return with_pole(d, x, hn::Log10(d, x));
  if constexpr (F == function::log1p) {
    return with_pole(d, hn::Add(x, hn::Set(d, 1.0F)), hn::Log1p(d, x));
  }
  if constexpr (F == function::sin) return with_zeros(d, x, hn::Sin(d, x));
  if constexpr (F == function::cos) return hn::Cos(d, x);
  if constexpr (F == function::asin) return inside_unit(d, x, hn::Asin(d, x));
  if constexpr (F == function::acos) return inside_unit(d, x, hn::Acos(d, x));
  if constexpr (F == function::atan) return hn::Atan(d, x);
  if constexpr (F == function::sinh) return hn::Sinh(d, x);
  if constexpr (F == function::cosh) {
    const auto half = hn::Set(d, 0.5F);
    const auto e = hn::Exp(d, hn::Abs(x));
    return hn::Add(hn::Mul(half, e), hn::Div(half, e));
  }
  if constexpr (F == function::tanh) return hn::Tanh(d, x);
  if constexpr (F == function::erf) return vector_erf(d, x);
  if constexpr (F == function::gelu) return vector_gelu(d, x);
  if constexpr (F == function::asinh) return hn::Asinh(d, x);
  if constexpr (F == function::acosh) {
    return hn::IfThenElse(hn::Ge(x, hn::Set(d, 1.0F)), hn::Acosh(d, x), hn::Set(d, NAN));
  }
  if constexpr (F == function::atanh) {
    const auto is_pole = hn::Eq(hn::Abs(x), hn::Set(d, 1.0F));
    const auto pole = hn::CopySign(hn::Set(d, HUGE_VALF), x);
    return inside_unit(d, x, hn::IfThenElse(is_pole, pole, hn::Atanh(d, x)));
  }
  if constexpr (F == function::sigmoid) return vector_logistic(d, x);
  if constexpr (F == function::silu) {
    return hn::Mul(x, vector_logistic(d, hn::Mul(hn::Set(d, alpha), x)));
  }
  if constexpr (F == function::softplus) return vector_softplus(d, x);
  if constexpr (F == function::mish) return hn::Mul(x, hn::Tanh(d, vector_softplus(d, x)));
  if constexpr (F == function::gelu_tanh) {
    const auto cube = hn::Mul(hn::Mul(x, x), x);
    const auto u = hn::Add(x, hn::Mul(hn::Set(d, 0.044715F), cube));
    return hn::Mul(x, vector_logistic(d, hn::Mul(hn::Set(d, 1.5957691216F), u)));
  }
  if constexpr (F == function::elu) return vector_elu(d, x, alpha);
  if constexpr (F == function::selu) return hn::Mul(hn::Set(d, beta), vector_elu(d, x, alpha));
  return x;
}

template <unary_function F>
void unary_loop(const unary_map<float>& function, const float* x, std::int64_t count, float* y) {
  constexpr auto range = vector_range(F);
  const float alpha = function.alpha;
  const float beta = function.beta;
  if constexpr (is_arithmetic(F)) {
    const hn::ScalableTag<float> d;
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(arithmetic<F>(d, hn::LoadU(d, x + i), alpha, beta), d, y + i);
    }
    for (; i < count; ++i) y[i] = apply(F, x[i], alpha, beta);
  } else if constexpr (range.is_empty()) {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) y[i] = apply(F, x[i], alpha, beta);
  } else {
    const hn::ScalableTag<float> d;
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
    std::array<float, static_cast<std::size_t>(lanes)> arguments{};
    std::array<float, static_cast<std::size_t>(lanes)> results{};
    for (std::int64_t i = 0; i < count; i += lanes) {
      const auto rest = std::min(lanes, count - i);
      if (rest < lanes) std::copy_n(x + i, rest, arguments.begin());
      const auto v = hn::LoadU(d, rest < lanes ? arguments.data() : x + i);
      const auto is_inside =
          hn::And(hn::Ge(v, hn::Set(d, range.low)), hn::Le(v, hn::Set(d, range.high)));
      // Outside of the range, conversions to integers may overflow.
      const auto result = vector_apply<F>(d, hn::IfThenElseZero(is_inside, v), alpha, beta);
      if (rest == lanes && hn::AllTrue(d, is_inside)) {
        hn::StoreU(result, d, y + i);
        continue;
      }
      hn::StoreU(v, d, arguments.data());
      hn::StoreU(result, d, results.data());
      for (std::int64_t j = 0; j < rest; ++j) {
        const auto k = static_cast<std::size_t>(j);
        const float argument = arguments[k];
        const bool holds = argument >= range.low && argument <= range.high;
        y[i + j] = holds ? results[k] : apply(F, argument, alpha, beta);
      }
    }
  }
}
template <std::size_t... I>
void unary_loop_of(std::index_sequence<I...>, const unary_map<float>& function, const float* x,
                   std::int64_t count, float* y) {
  (void)((static_cast<std::size_t>(function.function) == I &&
          (unary_loop<static_cast<unary_function>(I)>(function, x, count, y), true)) ||
         ...);
}
void unary_f32(const unary_map<float>& function, const float* x, std::int64_t count, float* y) {
  unary_loop_of(std::make_index_sequence<unary_function_count>(), function, x, count, y);
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(unary_f32);
}  // namespace sluice::operations

namespace sluice::host {

void unary_f32(const operations::unary_map<float>& function, const float* x, std::int64_t count,
               float* y) {
  using namespace operations;
  HWY_DYNAMIC_DISPATCH(unary_f32)(function, x, count, y);
}

}  // namespace sluice::host
#endif
