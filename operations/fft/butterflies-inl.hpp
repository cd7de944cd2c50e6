// SPDX-License-Identifier: Apache-2.0
// Short Fourier transforms in registers. Compiled for each target of Highway.
#if defined(SLUICE_FFT_BUTTERFLIES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_FFT_BUTTERFLIES_INL
#undef SLUICE_FFT_BUTTERFLIES_INL
#else
#define SLUICE_FFT_BUTTERFLIES_INL
#endif

#include "operations/fft/complex_vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

/// cos and -sin of 2π k / 16: exp(-2πi k / 16).
inline constexpr double sixteenths[10][2] = {{1, 0},
                                             {0.92387953251128675613, -0.38268343236508977173},
                                             {0.70710678118654752440, -0.70710678118654752440},
                                             {0.38268343236508977173, -0.92387953251128675613},
                                             {0, -1},
                                             {-0.38268343236508977173, -0.92387953251128675613},
                                             {-0.70710678118654752440, -0.70710678118654752440},
                                             {-0.92387953251128675613, -0.38268343236508977173},
                                             {-1, 0},
                                             {-0.92387953251128675613, 0.38268343236508977173}};

/// The forward transform of `Radix` numbers in each lane, in place and in natural order.
template <int Radix, class D>
HWY_INLINE void butterfly(D d, complex_vector<D>* a) {
  using T = hn::TFromD<D>;
  if constexpr (Radix == 2) {
    const auto t = difference(a[0], a[1]);
    a[0] = sum(a[0], a[1]);
    a[1] = t;
  } else if constexpr (Radix == 3) {
    const auto s = sum(a[1], a[2]);
    const auto t = difference(a[1], a[2]);
    const auto half = hn::Set(d, T(0.5));
    const auto sine = hn::Set(d, T(0.86602540378443864676));
    const complex_vector<D> middle{hn::NegMulAdd(half, s.re, a[0].re),
                                   hn::NegMulAdd(half, s.im, a[0].im)};
    const complex_vector<D> rotation{hn::Mul(sine, t.re), hn::Mul(sine, t.im)};
    a[0] = sum(a[0], s);
    a[1] = minus_i(middle, rotation);
    a[2] = plus_i(middle, rotation);
  } else if constexpr (Radix == 4) {
    const auto s = sum(a[0], a[2]);
    const auto t = difference(a[0], a[2]);
    const auto u = sum(a[1], a[3]);
    const auto v = difference(a[1], a[3]);
    a[0] = sum(s, u);
    a[1] = minus_i(t, v);
    a[2] = difference(s, u);
    a[3] = plus_i(t, v);
  } else if constexpr (Radix == 5) {
    const auto s1 = sum(a[1], a[4]);
    const auto t1 = difference(a[1], a[4]);
    const auto s2 = sum(a[2], a[3]);
    const auto t2 = difference(a[2], a[3]);
    const auto c1 = hn::Set(d, T(0.30901699437494742410));
    const auto c2 = hn::Set(d, T(-0.80901699437494742410));
    const auto n1 = hn::Set(d, T(0.95105651629515357212));
    const auto n2 = hn::Set(d, T(0.58778525229247312917));
    const complex_vector<D> m1{hn::MulAdd(c2, s2.re, hn::MulAdd(c1, s1.re, a[0].re)),
                               hn::MulAdd(c2, s2.im, hn::MulAdd(c1, s1.im, a[0].im))};
    const complex_vector<D> m2{hn::MulAdd(c1, s2.re, hn::MulAdd(c2, s1.re, a[0].re)),
                               hn::MulAdd(c1, s2.im, hn::MulAdd(c2, s1.im, a[0].im))};
    const complex_vector<D> r1{hn::MulAdd(n2, t2.re, hn::Mul(n1, t1.re)),
                               hn::MulAdd(n2, t2.im, hn::Mul(n1, t1.im))};
    const complex_vector<D> r2{hn::NegMulAdd(n1, t2.re, hn::Mul(n2, t1.re)),
                               hn::NegMulAdd(n1, t2.im, hn::Mul(n2, t1.im))};
    a[0] = sum(a[0], sum(s1, s2));
    a[1] = minus_i(m1, r1);
    a[2] = minus_i(m2, r2);
    a[3] = plus_i(m2, r2);
    a[4] = plus_i(m1, r1);
  } else {
    static_assert(Radix == 8 || Radix == 16);
    constexpr int columns = Radix / 4;
    complex_vector<D> b[Radix];
    HWY_UNROLL(4)
    for (int j = 0; j < columns; ++j) {
      complex_vector<D> column[4] = {a[j], a[j + columns], a[j + 2 * columns], a[j + 3 * columns]};
      butterfly<4>(d, column);
      HWY_UNROLL(4)
      for (int k = 0; k < 4; ++k) {
        const double* const root = sixteenths[j * k * (16 / Radix)];
        const complex_vector<D> w{hn::Set(d, T(root[0])), hn::Set(d, T(root[1]))};
        b[k * columns + j] = j * k == 0 ? column[k] : product(column[k], w);
      }
    }
    HWY_UNROLL(4)
    for (int k = 0; k < 4; ++k) {
      butterfly<columns>(d, b + k * columns);
      HWY_UNROLL(4)
      for (int j = 0; j < columns; ++j) a[k + 4 * j] = b[k * columns + j];
    }
  }
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
