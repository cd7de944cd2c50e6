// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/uncached_copy.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

TEST(uncached_copy, copies_exactly_its_bytes_whatever_their_alignment) {
  auto random = make_generator();
  const auto up_to = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  std::vector<std::byte> from(8192);
  for (auto& byte : from) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 2000; ++i) {
    const auto bytes = up_to(i % 2 == 0 ? 200 : 4096);
    const auto source = up_to(from.size() - bytes);
    const auto target = up_to(from.size() - bytes);
    std::vector<std::byte> expected(from.size(), std::byte{0xa5});
    auto destination = expected;
    std::copy_n(from.data() + source, bytes, expected.data() + target);
    detail::uncached_copy(destination.data() + target, from.data() + source, bytes);
    ASSERT_EQ(destination, expected) << bytes << " bytes from " << source << " to " << target;
  }
}

}  // namespace
}  // namespace sluice::test
