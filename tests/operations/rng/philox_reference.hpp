// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

/// The definition of the random sequences, element by element: Philox4x32-10 (Salmon et al.,
/// "Parallel random numbers: as easy as 1, 2, 3", 2011) in cuRAND's default order.
namespace sluice::test {

using philox_words = std::array<std::uint32_t, 4>;

inline philox_words philox(philox_words counter, std::uint64_t seed) {
  const auto low = [](std::uint64_t v) {
    return static_cast<std::uint32_t>(v);
  };
  std::uint32_t key[] = {low(seed), low(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {low(odd >> 32) ^ counter[1] ^ key[0], low(odd),
               low(even >> 32) ^ counter[3] ^ key[1], low(even)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

inline philox_words philox_block(std::uint64_t seed, std::uint64_t subsequence,
                                 std::uint64_t block) {
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                 static_cast<std::uint32_t>(subsequence), 0},
                seed);
}

/// The words of elements `i` and its neighbour in a sequence of 64-bit numbers.
inline philox_words philox_block_of_double(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t q = i / 4;
  return philox_block(seed, q % 65536, 2 * (q / 65536) + i % 4 / 2);
}

/// Element `i` of the random bits.
inline std::uint32_t philox_word(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t p = i / 4;
  return philox_block(seed, p % 65536, p / 65536)[i % 4];
}

/// 53 bits of two words as a number in (0, 1].
inline double unit(std::uint32_t x, std::uint32_t y) {
  const std::uint64_t z = x ^ (std::uint64_t{y} << 21);
  return static_cast<double>(z) * 0x1p-53 + 0x1p-54;
}

/// Element `i` of the uniform numbers.
template <class T>
T uniform_reference(std::uint64_t seed, std::uint64_t i);
template <>
inline float uniform_reference(std::uint64_t seed, std::uint64_t i) {
  return static_cast<float>(philox_word(seed, i)) * 0x1p-32f + 0x1p-33f;
}
template <>
inline double uniform_reference(std::uint64_t seed, std::uint64_t i) {
  const auto words = philox_block_of_double(seed, i);
  return unit(words[2 * (i % 2)], words[2 * (i % 2) + 1]);
}

}  // namespace sluice::test
