// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/quantize_loops.hpp"

#include "tests/operations/every_vector_target.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {
namespace {

// All bits occur: infinities, NaN, numbers below the normal ones.
TEST(quantize_loops, compute_what_the_functions_of_one_element_do) {
  auto generator = make_generator();
  for_each_vector_target([&] {
    for (std::size_t count = 0; count < 70; ++count) {
      const auto numbers = [&](bool has_all_bits) {
        std::vector<float> values(count);
        for (auto& value : values) {
          const auto bits = static_cast<std::uint32_t>(generator());
          value = has_all_bits ? std::bit_cast<float>(bits)
                               : static_cast<float>(static_cast<std::int32_t>(bits) % 512) / 2;
        }
        return values;
      };
      for (const bool has_all_bits : {false, true}) {
        const auto x = numbers(has_all_bits);
        const auto scale = numbers(has_all_bits);
        const auto zero = numbers(false);
        std::vector<float> y(count);
        const auto expect_all = [&](const auto& function, bool has_zero) {
          for (std::size_t i = 0; i < count; ++i) {
            const auto wanted = function(x[i], scale[i], has_zero ? zero[i] : 0);
            EXPECT_TRUE(y[i] == wanted || (std::isnan(y[i]) && std::isnan(wanted)))
                << x[i] << ", scale " << scale[i] << ": " << y[i] << " is not " << wanted;
          }
        };
        for (const bool has_zero : {false, true}) {
          const auto* const zeros = has_zero ? zero.data() : nullptr;
          const auto size = static_cast<std::int64_t>(count);
          host::quantize_f32(x.data(), scale.data(), zeros, size, y.data());
          expect_all(operations::quantized(), has_zero);
          host::quantize_float(x.data(), scale.data(), zeros, size, y.data());
          expect_all(operations::quantized_float(), has_zero);
          host::dequantize_f32(x.data(), scale.data(), zeros, size, y.data());
          expect_all(operations::dequantized(), has_zero);
        }
      }
    }
  });
}

}  // namespace
}  // namespace sluice::test
