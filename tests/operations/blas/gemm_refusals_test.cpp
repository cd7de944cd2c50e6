// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/blas.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

/// Something wrong with an operation, and the answer.
template <class Operation>
struct mutation {
  std::string description;
  errc code;
  std::string argument;  ///< name at the beginning of the error's text
  std::function<void(Operation&)> apply;
};

class gemm_refusals : public executor_test {
 protected:
  tensor matrix(std::int64_t rows, std::int64_t columns, element_type type = element_type::f32) {
    const auto bytes = static_cast<std::size_t>(rows * columns) * size_of(type);
    return {runtime().allocate_bytes(bytes, stream(), "matrix"), type, {rows, columns}};
  }
  template <class Operation>
  void expect_refused(const std::vector<mutation<Operation>>& mutations,
                      const std::function<Operation()>& valid) {
    for (const auto& m : mutations) {
      SCOPED_TRACE(m.description);
      auto operation = valid();
      m.apply(operation);
      const auto before = runtime().statistics();
      EXPECT_TRUE(throws(m.code, m.argument + ": ",
                         [&] { (void)run(test_executor(), std::move(operation)); }));
      const auto after = runtime().statistics();
      EXPECT_EQ(after.launches, before.launches);
      EXPECT_EQ(after.peak_bytes, before.peak_bytes);
    }
    EXPECT_EQ(test_executor().waiting(), 0U);
  }
};

TEST_P(gemm_refusals, name_the_argument) {
  const auto a = matrix(3, 4);
  const auto b = matrix(4, 5);
  const auto c = matrix(3, 5);
  const auto stale = matrix(4, 5);
  runtime().deallocate(stale.block());
  device_runtime other(open_device(GetParam()));
  const auto foreign_stream = other.create_stream();
  const tensor foreign(other.allocate_bytes(80, foreign_stream, "foreign"), element_type::f32,
                       {4, 5});
  const auto integers = matrix(4, 5, element_type::i32);
  const auto doubles = matrix(4, 5, element_type::f64);
  constexpr auto bad = errc::invalid_argument;
  expect_refused<gemm>(
      {
          {"no a", bad, "a",
           [](gemm& g) {
             g.a = {};
           }},
          {"no b", bad, "b",
           [](gemm& g) {
             g.b = {};
           }},
          {"stale b", errc::stale_ref, "b",
           [&](gemm& g) {
             g.b = stale;
           }},
          {"foreign b", bad, "b",
           [&](gemm& g) {
             g.b = foreign;
           }},
          {"integers", bad, "b",
           [&](gemm& g) {
             g.b = integers;
           }},
          {"mixed types", bad, "b",
           [&](gemm& g) {
             g.b = doubles;
           }},
          {"a vector", bad, "a",
           [&](gemm& g) {
             g.a = a.reshape({12});
           }},
          {"b does not fit", bad, "b",
           [&](gemm& g) {
             g.b = b.transposed();
           }},
          {"c does not fit", bad, "c",
           [&](gemm& g) {
             g.c = c.transposed();
           }},
          {"c of another type", bad, "c",
           [&](gemm& g) {
             g.c = matrix(3, 5, element_type::f64);
           }},
          {"c is a", bad, "c",
           [&](gemm& g) {
             g.a = matrix(5, 5), g.b = matrix(5, 5), g.c = g.a;
           }},
          {"c shares a row with b", bad, "c",
           [&](gemm& g) {
             const auto memory = matrix(6, 5);
             g.b = memory.slice(0, 2, 6);
             g.c = memory.slice(0, 0, 3);
           }},
          {"c repeats a row", bad, "c",
           [&](gemm& g) {
             g.c = matrix(1, 5).broadcast_to({3, 5});
           }},
          {"a packed stack overflows", bad, "a",
           [&](gemm& g) {
             constexpr auto many = std::int64_t{1} << 30U;
             g.a = matrix(1, 1).reshape({1, 1, 1, 1}).broadcast_to({many, 1, 1, 16});
             g.b = matrix(1, 1).reshape({1, 1, 1, 1}).broadcast_to({1, many, 16, 1});
             g.c = {};
           }},
          {"stacks do not fit", bad, "b",
           [&](gemm& g) {
             g.a = matrix(6, 4).reshape({2, 3, 4});
             g.b = matrix(12, 5).reshape({3, 4, 5});
           }},
          {"beta without c", bad, "c",
           [](gemm& g) {
             g.c = {}, g.beta = 1;
           }},
          {"alpha is NaN", bad, "alpha",
           [](gemm& g) {
             g.alpha = std::numeric_limits<double>::quiet_NaN();
           }},
          {"alpha is beyond f32", bad, "alpha",
           [](gemm& g) {
             g.alpha = 1e300;
           }},
          {"beta is imaginary", bad, "beta",
           [](gemm& g) {
             g.beta = std::complex<double>(0, 1);
           }},
      },
      [&] { return gemm{.a = a, .b = b, .c = c}; });
}

TEST_P(gemm_refusals, state_the_extent_that_b_needs) {
  EXPECT_TRUE(
      throws(errc::invalid_argument,
             "b: has the shape [5, 4], but needs 4 rows, as many as a of shape [3, 4] has "
             "columns",
             [&] { (void)run(test_executor(), gemm{.a = matrix(3, 4), .b = matrix(5, 4)}); }));
}

TEST_P(gemm_refusals, name_the_argument_of_blas) {
  const auto a = runtime().allocate<float>(12, stream(), "a");
  const auto b = runtime().allocate<float>(20, stream(), "b");
  const auto c = runtime().allocate<float>(15, stream(), "c");
  constexpr auto bad = errc::invalid_argument;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::vector<mutation<sgemm>> mutations{
      {"no m", bad, "m",
       [](sgemm& s) {
         s.m = sgemm{}.m;
       }},
      {"no n", bad, "n",
       [](sgemm& s) {
         s.n = sgemm{}.n;
       }},
      {"no k", bad, "k",
       [](sgemm& s) {
         s.k = sgemm{}.k;
       }},
      {"negative k", bad, "k",
       [](sgemm& s) {
         s.k = -1;
       }},
      {"lda too small", bad, "lda",
       [](sgemm& s) {
         s.lda = 3;
       }},
      {"lda of the transpose", bad, "lda",
       [](sgemm& s) {
         s.transpose_a = transpose::yes, s.lda = 2;
       }},
      {"negative ldb", bad, "ldb",
       [](sgemm& s) {
         s.ldb = -7;
       }},
      {"a too small", bad, "a",
       [](sgemm& s) {
         s.lda = 5;
       }},
      {"sizes overflow", bad, "a",
       [](sgemm& s) {
         s.m = s.k = most;
       }},
      {"the leading dimension overflows", bad, "a",
       [](sgemm& s) {
         s.lda = most;
       }},
  };
  for (const auto& m : mutations) {
    SCOPED_TRACE(m.description);
    sgemm request{.m = 3, .n = 5, .k = 4, .a = a, .b = b, .c = c};
    m.apply(request);
    EXPECT_TRUE(throws(m.code, m.argument + ": ", [&] { (void)to_operation(request); }));
  }
}

INSTANTIATE_TEST_SUITE_P(devices, gemm_refusals, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
