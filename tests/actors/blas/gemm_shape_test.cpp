// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/gemm_shape.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace {

using namespace sluice;
using actors::gemm_extents;
using actors::gemm_shape;
using sluice::test::throws;

TEST(gemm_shape, row_major_extents_reach_to_the_last_element) {
  const gemm_extents e = actors::validate({.m = 3, .n = 4, .k = 5, .lda = 7, .ldb = 4, .ldc = 6});
  EXPECT_EQ(e.a, 2u * 7 + 5);
  EXPECT_EQ(e.b, 4u * 4 + 4);
  EXPECT_EQ(e.c, 2u * 6 + 4);
}

TEST(gemm_shape, transposed_column_major_extents) {
  const gemm_extents e = actors::validate({.layout = layout::column_major,
                                           .transpose_a = transpose::yes,
                                           .m = 3,
                                           .n = 4,
                                           .k = 5,
                                           .lda = 5,
                                           .ldb = 9,
                                           .ldc = 3});
  EXPECT_EQ(e.a, 2u * 5 + 5);  // k × m as stored: 3 columns of 5
  EXPECT_EQ(e.b, 3u * 9 + 5);  // k × n: 4 columns of 5
  EXPECT_EQ(e.c, 3u * 3 + 3);  // m × n: 4 columns of 3
}

TEST(gemm_shape, packed_is_the_smallest_that_passes) {
  for (const layout l : {layout::row_major, layout::column_major}) {
    for (const transpose ta : {transpose::no, transpose::yes}) {
      for (const transpose tb : {transpose::no, transpose::yes}) {
        const gemm_shape s = actors::packed(
            {.layout = l, .transpose_a = ta, .transpose_b = tb, .m = 3, .n = 4, .k = 5});
        const gemm_extents e = actors::validate(s);
        EXPECT_EQ(e.a, 15u);
        EXPECT_EQ(e.b, 20u);
        EXPECT_EQ(e.c, 12u);
        const auto narrower = [&](std::int64_t gemm_shape::*leading) {
          gemm_shape t = s;
          --(t.*leading);
          return t;
        };
        using sluice::errc;
        EXPECT_TRUE(throws(errc::invalid_argument, "lda",
                           [&] { actors::validate(narrower(&gemm_shape::lda)); }));
        EXPECT_TRUE(throws(errc::invalid_argument, "ldb",
                           [&] { actors::validate(narrower(&gemm_shape::ldb)); }));
        EXPECT_TRUE(throws(errc::invalid_argument, "ldc",
                           [&] { actors::validate(narrower(&gemm_shape::ldc)); }));
      }
    }
  }
}

TEST(gemm_shape, packed_keeps_what_is_given) {
  EXPECT_EQ(actors::packed({.m = 3, .n = 4, .k = 5, .lda = 9}).lda, 9);
}

TEST(gemm_shape, empty_matrices_cover_nothing_but_need_a_leading_dimension) {
  const gemm_extents e = actors::validate(actors::packed({.m = 3, .n = 4, .k = 0}));
  EXPECT_EQ(e.a, 0u);
  EXPECT_EQ(e.b, 0u);
  EXPECT_EQ(e.c, 12u);
  EXPECT_TRUE(throws(errc::invalid_argument, "lda", [] {
    actors::validate({.m = 3, .n = 4, .k = 0, .lda = 0, .ldb = 4, .ldc = 4});
  }));
}

TEST(gemm_shape, negative_dimensions_are_refused_by_name) {
  EXPECT_TRUE(throws(errc::invalid_argument, "m is -1",
                     [] { actors::validate(actors::packed({.m = -1, .n = 4, .k = 5})); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "n is -2",
                     [] { actors::validate(actors::packed({.m = 1, .n = -2, .k = 5})); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "k is -3",
                     [] { actors::validate(actors::packed({.m = 1, .n = 4, .k = -3})); }));
}

TEST(gemm_shape, sizes_that_overflow_are_refused) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_TRUE(throws(errc::invalid_argument, "size of A overflows",
                     [] { actors::validate(actors::packed({.m = huge, .n = 1, .k = 3})); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "size of C overflows",
                     [] { actors::validate(actors::packed({.m = 8, .n = huge, .k = 0})); }));
}

}  // namespace
