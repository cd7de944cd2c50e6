// SPDX-License-Identifier: Apache-2.0
// Products with panels, with each kind of vectors that the processor has.
#include "operations/dnn/product_loops.hpp"

#include "tests/operations/every_vector_target.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {
namespace {

TEST(product_loops, have_the_same_bits_for_any_number_of_rows) {
  auto generator = make_generator();
  const auto draw = [&](std::int64_t count) {
    return random_values<float>(generator, static_cast<std::size_t>(count));
  };
  constexpr std::int64_t rows = 11;
  for (const std::int64_t inner : {1, 7, 128, 129, 300}) {
    for (const std::int64_t panels : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << inner << " terms, " << panels << " panels");
      const auto a_row = inner + 3;
      const auto c_row = panels * host::product_columns + 5;
      const auto a = draw(rows * a_row);
      const auto b = draw(panels * host::product_columns * inner);
      const auto before = draw(rows * c_row);
      const host::column_panels matrix{b.data(), panels, inner};
      for_each_vector_target([&] {
        auto alone = before;
        for (std::int64_t i = 0; i < rows; ++i) {
          host::add_product_f32({a.data() + i * a_row, a_row}, 1, matrix,
                                {alone.data() + i * c_row, c_row});
        }
        for (std::int64_t count = 1; count <= rows; ++count) {
          auto together = before;
          host::add_product_f32({a.data(), a_row}, count, matrix, {together.data(), c_row});
          auto expected = alone;
          std::copy(before.begin() + count * c_row, before.end(), expected.begin() + count * c_row);
          EXPECT_EQ(together, expected) << count << " rows";
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < c_row; ++j) {
            const auto position = static_cast<std::size_t>(i * c_row + j);
            double sum = before[position];
            const auto panel = j / host::product_columns;
            for (std::int64_t l = 0; panel < panels && l < inner; ++l) {
              sum += double{a[static_cast<std::size_t>(i * a_row + l)]} *
                     b[static_cast<std::size_t>((panel * inner + l) * host::product_columns +
                                                j % host::product_columns)];
            }
            EXPECT_NEAR(alone[position], sum, 1e-5 * static_cast<double>(inner + 1));
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace sluice::test
