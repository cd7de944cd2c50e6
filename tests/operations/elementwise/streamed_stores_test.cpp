// SPDX-License-Identifier: Apache-2.0
// Copies past the caches, with each kind of vectors that the processor has.
#include "operations/elementwise/streamed_stores.hpp"

#include "tests/operations/every_vector_target.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {
namespace {

TEST(streamed_stores, copy_bytes_between_any_addresses) {
  auto random = make_generator();
  std::vector<std::uint8_t> x(700);
  for (auto& byte : x) byte = static_cast<std::uint8_t>(random());
  for_each_vector_target([&] {
    for (std::size_t count = 0; count < 600; count += 1 + count / 8) {
      const auto source = static_cast<std::size_t>(random() % 70);
      const auto target = static_cast<std::size_t>(random() % 70);
      std::vector<std::uint8_t> y(700, 7);
      auto expected = y;
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(source), count,
                  expected.begin() + static_cast<std::ptrdiff_t>(target));
      host::stream_bytes(x.data() + source, count, y.data() + target);
      host::finish_streams();
      EXPECT_EQ(y, expected) << count << " bytes from " << source << " to " << target;
    }
  });
}

}  // namespace
}  // namespace sluice::test
