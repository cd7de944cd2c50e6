// SPDX-License-Identifier: Apache-2.0
// Complex numbers in vectors, and the transposition of vectors. Compiled for each target of
// Highway.
#if defined(SLUICE_FFT_COMPLEX_VECTOR_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_FFT_COMPLEX_VECTOR_INL
#undef SLUICE_FFT_COMPLEX_VECTOR_INL
#else
#define SLUICE_FFT_COMPLEX_VECTOR_INL
#endif

#include "operations/vector_targets.hpp"

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The vectors with `lanes` lanes of `T`.
template <class T, std::size_t lanes>
using vectors = hn::FixedTag<T, lanes>;

/// A complex number in each lane.
template <class D>
struct complex_vector {
  hn::Vec<D> re;
  hn::Vec<D> im;
};

template <class D>
HWY_INLINE complex_vector<D> load(D d, const hn::TFromD<D>* re, const hn::TFromD<D>* im) {
  return {hn::LoadU(d, re), hn::LoadU(d, im)};
}
template <class D>
HWY_INLINE void store(D d, const complex_vector<D>& z, hn::TFromD<D>* re, hn::TFromD<D>* im) {
  hn::StoreU(z.re, d, re);
  hn::StoreU(z.im, d, im);
}
template <class D>
HWY_INLINE complex_vector<D> sum(const complex_vector<D>& a, const complex_vector<D>& b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE complex_vector<D> difference(const complex_vector<D>& a, const complex_vector<D>& b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D>
HWY_INLINE complex_vector<D> product(const complex_vector<D>& a, const complex_vector<D>& b) {
  return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)),
          hn::MulAdd(a.im, b.re, hn::Mul(a.re, b.im))};
}
/// a - i b.
template <class D>
HWY_INLINE complex_vector<D> minus_i(const complex_vector<D>& a, const complex_vector<D>& b) {
  return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
}
/// a + i b.
template <class D>
HWY_INLINE complex_vector<D> plus_i(const complex_vector<D>& a, const complex_vector<D>& b) {
  return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
}

#if HWY_TARGET != HWY_SCALAR
/// Lane j of vector i becomes lane i of vector j, for as many vectors as a vector has lanes.
template <class D>
HWY_INLINE void transpose(D d, hn::Vec<D>* v) {
  constexpr std::size_t lanes = hn::MaxLanes(D());
  constexpr std::size_t block =
      lanes * sizeof(hn::TFromD<D>) < 16 ? lanes : 16 / sizeof(hn::TFromD<D>);
  // Within blocks of 128 bits.
  HWY_UNROLL(8)
  for (std::size_t i = 0; i < lanes; i += block) {
    if constexpr (block == 2) {
      const auto lower = hn::InterleaveLower(d, v[i], v[i + 1]);
      v[i + 1] = hn::InterleaveUpper(d, v[i], v[i + 1]);
      v[i] = lower;
    } else {
      static_assert(block == 4);
      const hn::RepartitionToWide<D> pairs;
      const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, v[i], v[i + 1]));
      const auto b = hn::BitCast(pairs, hn::InterleaveUpper(d, v[i], v[i + 1]));
      const auto c = hn::BitCast(pairs, hn::InterleaveLower(d, v[i + 2], v[i + 3]));
      const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, v[i + 2], v[i + 3]));
      v[i] = hn::BitCast(d, hn::InterleaveLower(pairs, a, c));
      v[i + 1] = hn::BitCast(d, hn::InterleaveUpper(pairs, a, c));
      v[i + 2] = hn::BitCast(d, hn::InterleaveLower(pairs, b, e));
      v[i + 3] = hn::BitCast(d, hn::InterleaveUpper(pairs, b, e));
    }
  }
  // The blocks of vectors i, i + block, i + 2 · block …
  if constexpr (lanes == 2 * block) {
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < block; ++i) {
      const auto lower = hn::ConcatLowerLower(d, v[i + block], v[i]);
      v[i + block] = hn::ConcatUpperUpper(d, v[i + block], v[i]);
      v[i] = lower;
    }
  } else if constexpr (lanes == 4 * block) {
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < block; ++i) {
      const auto a = hn::ConcatLowerLower(d, v[i + 2 * block], v[i]);
      const auto b = hn::ConcatLowerLower(d, v[i + 3 * block], v[i + block]);
      const auto c = hn::ConcatUpperUpper(d, v[i + 2 * block], v[i]);
      const auto e = hn::ConcatUpperUpper(d, v[i + 3 * block], v[i + block]);
      v[i] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a);
      v[i + block] = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
      v[i + 2 * block] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(e), c);
      v[i + 3 * block] = hn::OddEvenBlocks(e, hn::SwapAdjacentBlocks(c));
    }
  } else {
    static_assert(lanes == block, "a vector has at most four blocks");
  }
}
#endif

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
