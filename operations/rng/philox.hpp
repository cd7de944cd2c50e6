// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/host_device_code.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) in the
/// order of cuRAND's default ordering: the one mapping from (seed, element) to a number, compiled
/// for both devices.
///
/// Elements are made in groups of four, group g being the elements 4g … 4g + 3. A group's
/// subsequence is g mod 65536, and within it the groups of 32-bit values take one Philox block
/// each, those of 64-bit values two.
namespace sluice::operations {

/// Four neighbours: the words of one block, or the elements of one group.
template <class T>
struct alignas(16) four {
  T lane[4];
};

/// The words of one block. `Rounds::apply(counter, key_low, key_high)` does the ten rounds; whose
/// code that is differs between the devices, the words do not.
template <class Rounds>
SLUICE_HOST_DEVICE inline four<std::uint32_t> philox_words(std::uint64_t seed,
                                                           std::uint32_t subsequence,
                                                           std::uint64_t block) {
  const four<std::uint32_t> counter = {{static_cast<std::uint32_t>(block),
                                        static_cast<std::uint32_t>(block >> 32), subsequence, 0u}};
  return Rounds::apply(counter, static_cast<std::uint32_t>(seed),
                       static_cast<std::uint32_t>(seed >> 32));
}

/// The words behind a group of 32-bit values.
template <class Rounds>
SLUICE_HOST_DEVICE inline four<std::uint32_t> words_of_group(std::uint64_t seed,
                                                             std::uint64_t group) {
  return philox_words<Rounds>(seed, static_cast<std::uint32_t>(group % 65536), group / 65536);
}

/// The words behind the first (`half` 0) or the last (1) two elements of a group of 64-bit values.
template <class Rounds>
SLUICE_HOST_DEVICE inline four<std::uint32_t> words_of_half_group(std::uint64_t seed,
                                                                  std::uint64_t group,
                                                                  std::uint32_t half) {
  return philox_words<Rounds>(seed, static_cast<std::uint32_t>(group % 65536),
                              2 * (group / 65536) + half);
}

/// A word as a number in (0, 1].
SLUICE_HOST_DEVICE inline float unit_interval(std::uint32_t word) {
  return static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
}
/// 53 bits of two words as a number in (0, 1].
SLUICE_HOST_DEVICE inline double unit_interval(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t mantissa = low ^ (static_cast<std::uint64_t>(high) << 21);
  return static_cast<double>(mantissa) * 0x1p-53 + 0x1p-54;
}

/// sin(πt) and cos(πt).
template <class T>
struct sine_and_cosine {
  T sine;
  T cosine;
};

/// Turns the sine and cosine of π(t - quarters / 2) into those of πt.
template <class T>
SLUICE_HOST_DEVICE inline sine_and_cosine<T> turned(int quarters, T sine, T cosine) {
  const T s = (quarters & 1) != 0 ? cosine : sine;
  const T c = (quarters & 1) != 0 ? sine : cosine;
  return {(quarters & 2) != 0 ? -s : s, ((quarters + 1) & 2) != 0 ? -c : c};
}

// The argument is reduced exactly, before the multiplication by π: near the zeros of sine and
// cosine that is the difference between 1 ulp and thousands.

/// Two independent standard normal numbers, the one with the sine first: √(-2 ln u) times sin(πt)
/// and cos(πt) (Box and Muller, "A note on the generation of random normal deviates", 1958). Host
/// and GPU differ by at most 4 ulp.
/// @param u in (0, 1]
/// @param t half turns, in [0, 2]
SLUICE_HOST_DEVICE inline sine_and_cosine<double> box_muller(double u, double t) {
#if defined(__CUDA_ARCH__)
  sine_and_cosine<double> angle;
  ::sincospi(t, &angle.sine, &angle.cosine);
  const double radius = ::sqrt(-2.0 * ::log(u));
  return {angle.sine * radius, angle.cosine * radius};
#else
  // What the roundings of the root and of the angle cut off is carried along to the last product,
  // so that most of the 4 ulp are left to the GPU.
  constexpr double pi = 3.14159265358979323846;
  constexpr double rest_of_pi = 1.2246467991473532e-16;
  const double squared_radius = -2.0 * std::log(u);
  const double radius = std::sqrt(squared_radius);
  const double rest_of_radius =
      radius > 0 ? std::fma(-radius, radius, squared_radius) / (2 * radius) : 0.0;
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): t is not negative.
  const int quarters = static_cast<int>(2 * t + 0.5);
  const double reduced = t - 0.5 * quarters;
  const double angle = pi * reduced;
  const double rest_of_angle = std::fma(pi, reduced, -angle) + rest_of_pi * reduced;
  const double sine = std::sin(angle);
  const double cosine = std::cos(angle);
  return turned(quarters,
                std::fma(sine, radius, sine * rest_of_radius + rest_of_angle * cosine * radius),
                std::fma(cosine, radius, cosine * rest_of_radius - rest_of_angle * sine * radius));
#endif
}
SLUICE_HOST_DEVICE inline sine_and_cosine<float> box_muller(float u, float t) {
#if defined(__CUDA_ARCH__)
  sine_and_cosine<float> angle;
  ::sincospif(t, &angle.sine, &angle.cosine);
  const float radius = ::sqrtf(-2.0f * ::logf(u));
  return {angle.sine * radius, angle.cosine * radius};
#else
  // In double, rounded once: all of the 4 ulp are left to the GPU.
  const auto exact = box_muller(static_cast<double>(u), static_cast<double>(t));
  return {static_cast<float>(exact.sine), static_cast<float>(exact.cosine)};
#endif
}

/// The distributions: `group<Rounds>(seed, g)` gives the four elements of group g.
struct bits_distribution {
  using value_type = std::uint32_t;
  template <class Rounds>
  SLUICE_HOST_DEVICE four<std::uint32_t> group(std::uint64_t seed, std::uint64_t g) const {
    return words_of_group<Rounds>(seed, g);
  }
};

template <class T>
struct uniform_distribution;

template <>
struct uniform_distribution<float> {
  using value_type = float;
  template <class Rounds>
  SLUICE_HOST_DEVICE four<float> group(std::uint64_t seed, std::uint64_t g) const {
    const four<std::uint32_t> w = words_of_group<Rounds>(seed, g);
    return {{unit_interval(w.lane[0]), unit_interval(w.lane[1]), unit_interval(w.lane[2]),
             unit_interval(w.lane[3])}};
  }
};

template <>
struct uniform_distribution<double> {
  using value_type = double;
  template <class Rounds>
  SLUICE_HOST_DEVICE four<double> group(std::uint64_t seed, std::uint64_t g) const {
    const four<std::uint32_t> a = words_of_half_group<Rounds>(seed, g, 0);
    const four<std::uint32_t> b = words_of_half_group<Rounds>(seed, g, 1);
    return {{unit_interval(a.lane[0], a.lane[1]), unit_interval(a.lane[2], a.lane[3]),
             unit_interval(b.lane[0], b.lane[1]), unit_interval(b.lane[2], b.lane[3])}};
  }
};

template <class T>
struct normal_distribution;

// The multiplication and the addition are two roundings: the files that instantiate this are
// compiled without contraction into fma.

template <>
struct normal_distribution<float> {
  using value_type = float;
  float mean;
  float stddev;
  template <class Rounds>
  SLUICE_HOST_DEVICE four<float> group(std::uint64_t seed, std::uint64_t g) const {
    const four<std::uint32_t> w = words_of_group<Rounds>(seed, g);
    const auto first = box_muller(unit_interval(w.lane[0]), 2 * unit_interval(w.lane[1]));
    const auto second = box_muller(unit_interval(w.lane[2]), 2 * unit_interval(w.lane[3]));
    return {{first.sine * stddev + mean, first.cosine * stddev + mean, second.sine * stddev + mean,
             second.cosine * stddev + mean}};
  }
};

template <>
struct normal_distribution<double> {
  using value_type = double;
  double mean;
  double stddev;
  template <class Rounds>
  SLUICE_HOST_DEVICE four<double> group(std::uint64_t seed, std::uint64_t g) const {
    const auto first = pair<Rounds>(words_of_half_group<Rounds>(seed, g, 0));
    const auto second = pair<Rounds>(words_of_half_group<Rounds>(seed, g, 1));
    return {{first.sine * stddev + mean, first.cosine * stddev + mean, second.sine * stddev + mean,
             second.cosine * stddev + mean}};
  }

 private:
  template <class Rounds>
  SLUICE_HOST_DEVICE static sine_and_cosine<double> pair(const four<std::uint32_t>& w) {
    return box_muller(unit_interval(w.lane[0], w.lane[1]), 2 * unit_interval(w.lane[2], w.lane[3]));
  }
};

/// Stores those elements of group `g` that lie in [first, last] (both included, so that a range may
/// end at 2^64 - 1); element `first` goes to output[0].
template <class Rounds, class Distribution>
SLUICE_HOST_DEVICE inline void store_group(const Distribution& distribution, std::uint64_t seed,
                                           std::uint64_t g, std::uint64_t first, std::uint64_t last,
                                           typename Distribution::value_type* output) {
  using value = typename Distribution::value_type;
  const four<value> values = distribution.template group<Rounds>(seed, g);
  const std::uint64_t begin = 4 * g;
  if (begin >= first && last - begin >= 3 && begin <= last) {
    value* const target = output + (begin - first);
#if defined(__CUDA_ARCH__)
    if (reinterpret_cast<std::uintptr_t>(target) % alignof(four<value>) == 0) {
      *reinterpret_cast<four<value>*>(target) = values;
      return;
    }
#endif
    for (int i = 0; i < 4; ++i) target[i] = values.lane[i];
    return;
  }
  for (unsigned i = 0; i < 4; ++i) {
    if (begin + i >= first && begin + i <= last) output[begin + i - first] = values.lane[i];
  }
}

}  // namespace sluice::operations
