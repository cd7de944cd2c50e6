// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/f32_loops.hpp"
#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/elementwise/unary_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/elementwise/exponential-inl.hpp"
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

/// The arguments, or those of the logistic function in silu, for which `vector_apply` holds. All
/// others take `vector_beyond` or, where there is none, the function of one element.
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
/// The logistic function from -87.33 to 87.33.
template <class D, class V>
HWY_INLINE V vector_logistic(D d, V x) {
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, exponential(d, hn::Neg(x))));
}
template <class D, class V>
HWY_INLINE V vector_softplus(D d, V x) {
  return hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, exponential(d, hn::Neg(hn::Abs(x)))));
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
  return hn::Mul(scale, exponential(d, hn::Mul(fraction, hn::Set(d, 0.69314718F))));
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
  const auto far = hn::Sub(one, exponential(d, hn::Neg(exponent)));
  return hn::CopySign(hn::IfThenElse(hn::Le(t, one), near, far), x);
}

/// x · Φ(x) as max(x, 0) - t · 2^q(t) with t = |x|, as `normal_gate` computes it on a GPU. 2^f of
/// the fraction f is a polynomial with the least relative error. Where 2^q would be subnormal, the
/// product is 0: from t = 11.3 on, where q is -127.
template <class D, class V>
HWY_INLINE V vector_gelu(D d, V x) {
  constexpr std::array<float, 9> q{-1.0F,           -1.1511106F,    -0.45914835F,
                                   -5.27079645e-2F, 7.39955537e-3F, -4.07614657e-4F,
                                   -7.21922076e-5F, 1.56106949e-5F, -9.0596121e-7F};
  constexpr std::array<float, 6> powers{1.0F,          0.693147004F,   0.240222454F,
                                        0.0555071123F, 0.00967139471F, 0.00132695935F};
  const auto t = hn::Min(hn::Abs(x), hn::Set(d, 11.3F));
  const auto exponent = polynomial(d, t, q);
  // As in `scaled_exponential`.
  const auto rounding = hn::Set(d, 12582912.0F + 127);
  const auto shifted = hn::Add(exponent, rounding);
  const hn::RebindToSigned<D> integers;
  const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, shifted)));
  const auto fraction = hn::Sub(exponent, hn::Sub(shifted, rounding));
  const auto tail = hn::Mul(scale, polynomial(d, fraction, powers));
  return hn::CopySign(hn::NegMulAdd(t, tail, hn::Max(x, hn::Zero(d))), x);
}

/// Up to 0.625, x + x³ · P(x²) with the polynomial of Cephes (Moshier, 1989); then
/// 1 - 2 / (exp(2 · |x|) + 1). From 10 on, the result is 1.
template <class D, class V>
HWY_INLINE V vector_tanh(D d, V x) {
  constexpr std::array<float, 5> p{-0.333332819422F, 0.133314422036F, -0.0537397155531F,
                                   0.0206390887954F, -0.00570498872745F};
  const auto one = hn::Set(d, 1.0F);
  const auto t = hn::Min(hn::Abs(x), hn::Set(d, 10.0F));
  const auto square = hn::Mul(t, t);
  const auto near = hn::MulAdd(hn::Mul(t, square), polynomial(d, square, p), t);
  const auto power = exponential(d, hn::Add(t, t));
  const auto far = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(power, one)));
  return hn::CopySign(hn::IfThenElse(hn::Le(t, hn::Set(d, 0.625F)), near, far), x);
}

/// x · logistic(u) approximates x · Φ(x) for this u.
template <class D, class V>
HWY_INLINE V gelu_exponent(D d, V x) {
  const auto cube = hn::Mul(hn::Mul(x, x), x);
  const auto u = hn::Add(x, hn::Mul(hn::Set(d, 0.044715F), cube));
  return hn::Mul(hn::Set(d, 1.5957691216F), u);
}

/// The function of arguments in `vector_range`.
template <unary_function F, class D, class V>
HWY_INLINE V vector_apply(D d, V x, [[maybe_unused]] float alpha, [[maybe_unused]] float beta) {
  using function = unary_function;
  if constexpr (F == function::exp) return exponential(d, x);
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
    const auto e = exponential(d, hn::Abs(x));
    return hn::Add(hn::Mul(half, e), hn::Div(half, e));
  }
  if constexpr (F == function::tanh) return vector_tanh(d, x);
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
  if constexpr (F == function::mish) return hn::Mul(x, vector_tanh(d, vector_softplus(d, x)));
  if constexpr (F == function::gelu_tanh) {
    return hn::Mul(x, vector_logistic(d, gelu_exponent(d, x)));
  }
  if constexpr (F == function::elu) return vector_elu(d, x, alpha);
  if constexpr (F == function::selu) return hn::Mul(hn::Set(d, beta), vector_elu(d, x, alpha));
  return x;
}

/// Whether there is a `vector_beyond`.
[[nodiscard]] constexpr bool has_vector_beyond(unary_function f) noexcept {
  using function = unary_function;
  return f == function::exp || f == function::exp2 || f == function::expm1 || f == function::sinh ||
         f == function::cosh || f == function::sigmoid || f == function::silu ||
         f == function::softplus || f == function::mish || f == function::gelu_tanh ||
         f == function::elu || f == function::selu;
}
/// The function of arguments beyond `vector_range`, and of NaN: there it is an exponential or
/// linear function.
template <unary_function F, class D, class V>
HWY_INLINE V vector_beyond(D d, V x, [[maybe_unused]] float alpha, [[maybe_unused]] float beta) {
  using function = unary_function;
  const auto zero = hn::Zero(d);
  const auto one = hn::Set(d, 1.0F);
  if constexpr (F == function::exp) {
    return hn::IfThenElse(hn::Lt(x, zero), exponential_below_one(d, x),
                          exponential_above_one(d, x));
  }
  if constexpr (F == function::exp2) {
    // The sums are exact.
    const auto shift = hn::Set(d, 64.0F);
    const auto low = hn::Add(maximum_or_nan(hn::Set(d, -151.0F), x), shift);
    const auto high = hn::Sub(minimum_or_nan(hn::Set(d, 129.0F), x), shift);
    const auto is_low = hn::Lt(x, zero);
    return hn::Mul(vector_exp2(d, hn::IfThenElse(is_low, low, high)),
                   hn::IfThenElse(is_low, hn::Set(d, 0x1p-64F), hn::Set(d, 0x1p64F)));
  }
  if constexpr (F == function::expm1) {
    return hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), exponential_above_one(d, x));
  }
  if constexpr (F == function::sinh) {
    return hn::CopySign(exponential_above_one(d, hn::Abs(x), 0.5F), x);
  }
  if constexpr (F == function::cosh) return exponential_above_one(d, hn::Abs(x), 0.5F);
  if constexpr (F == function::sigmoid) {
    return hn::IfThenElse(hn::Gt(x, zero), one, exponential_below_one(d, x));
  }
  if constexpr (F == function::silu) {
    const auto u = hn::Mul(hn::Set(d, alpha), x);
    const auto has_product = hn::Le(hn::Abs(x), hn::Set(d, 120.0F));
    const auto below = hn::IfThenElse(has_product, exponential_product(d, x, u),
                                      hn::Mul(x, exponential_below_one(d, u)));
    return hn::IfThenElse(hn::Gt(u, zero), x, below);
  }
  if constexpr (F == function::softplus) {
    return hn::IfThenElse(hn::Gt(x, zero), x, exponential_below_one(d, x));
  }
  if constexpr (F == function::mish) {
    return hn::IfThenElse(hn::Gt(x, zero), x, exponential_product(d, x, x));
  }
  if constexpr (F == function::gelu_tanh) {
    return hn::IfThenElse(hn::Gt(x, zero), x, exponential_product(d, x, gelu_exponent(d, x)));
  }
  if constexpr (F == function::elu) {
    return hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, -alpha), x);
  }
  if constexpr (F == function::selu) {
    return hn::Mul(hn::Set(d, beta), hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, -alpha), x));
  }
  return x;
}

template <unary_function F, class D, class V>
HWY_INLINE auto is_inside(D d, V x, [[maybe_unused]] float alpha) {
  constexpr auto range = vector_range(F);
  if constexpr (F == unary_function::silu) x = hn::Mul(hn::Set(d, alpha), x);
  if constexpr (range.low == -range.high) return hn::Le(hn::Abs(x), hn::Set(d, range.high));
  return hn::And(hn::Ge(x, hn::Set(d, range.low)), hn::Le(x, hn::Set(d, range.high)));
}
/// Functions that need no conversions to integers, and that are computed for several vectors at
/// once: a processor cannot look far enough ahead to compute the next vectors meanwhile.
[[nodiscard]] constexpr bool is_frequent(unary_function f) noexcept {
  using function = unary_function;
  return f == function::exp || f == function::sigmoid || f == function::silu ||
         f == function::tanh || f == function::erf || f == function::gelu ||
         f == function::gelu_tanh;
}
/// Stores the first `count` results, those of arguments outside of the range from `vector_beyond`
/// or the function of one element.
template <unary_function F, class V>
HWY_NOINLINE void store_checked(const unary_map<float>& function, V x, V result, std::int64_t count,
                                float* y) {
  const floats d;
  std::array<float, static_cast<std::size_t>(float_lanes)> results;
  if constexpr (has_vector_beyond(F)) {
    const auto beyond = vector_beyond<F>(d, x, function.alpha, function.beta);
    hn::StoreU(hn::IfThenElse(is_inside<F>(d, x, function.alpha), result, beyond), d,
               results.data());
    std::copy_n(results.begin(), count, y);
  } else {
    constexpr auto range = vector_range(F);
    std::array<float, static_cast<std::size_t>(float_lanes)> arguments;
    hn::StoreU(x, d, arguments.data());
    hn::StoreU(result, d, results.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const float argument = arguments[static_cast<std::size_t>(i)];
      const bool holds = argument >= range.low && argument <= range.high;
      y[i] = holds ? results[static_cast<std::size_t>(i)]
                   : apply(F, argument, function.alpha, function.beta);
    }
  }
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
    std::int64_t i = 0;
    if constexpr (is_frequent(F)) {
      const auto f = [&](auto v) {
        return vector_apply<F>(d, v, alpha, beta);
      };
      for (; i + tile_size <= count; i += tile_size) {
        const auto arguments = load_tile(x + i);
        const auto results = map_tile(f, arguments);
        const auto first =
            hn::And(is_inside<F>(d, arguments.v0, alpha), is_inside<F>(d, arguments.v1, alpha));
        const auto second =
            hn::And(is_inside<F>(d, arguments.v2, alpha), is_inside<F>(d, arguments.v3, alpha));
        if (HWY_LIKELY(hn::AllTrue(d, hn::And(first, second)))) {
          store_tile(results, y + i);
        } else {
          store_checked<F>(function, arguments.v0, results.v0, float_lanes, y + i);
          store_checked<F>(function, arguments.v1, results.v1, float_lanes, y + i + float_lanes);
          store_checked<F>(function, arguments.v2, results.v2, float_lanes,
                           y + i + 2 * float_lanes);
          store_checked<F>(function, arguments.v3, results.v3, float_lanes,
                           y + i + 3 * float_lanes);
        }
      }
    }
    std::array<float, static_cast<std::size_t>(float_lanes)> arguments{};
    for (; i < count; i += float_lanes) {
      const auto rest = std::min(float_lanes, count - i);
      if (rest < float_lanes) std::copy_n(x + i, rest, arguments.begin());
      const auto v = hn::LoadU(d, rest < float_lanes ? arguments.data() : x + i);
      const auto inside = is_inside<F>(d, v, alpha);
      // Outside of the range, conversions to integers may overflow.
      const auto result = vector_apply<F>(d, hn::IfThenElseZero(inside, v), alpha, beta);
      if (rest == float_lanes && hn::AllTrue(d, inside)) {
        hn::StoreU(result, d, y + i);
      } else {
        store_checked<F>(function, v, result, rest, y + i);
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
