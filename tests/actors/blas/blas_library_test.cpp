// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/blas_library.hpp"

#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace sluice;
using actors::gemm_call;
using actors::gemm_extents;
using actors::gemm_shape;
using sluice::test::download;
using sluice::test::error_bound;
using sluice::test::relative_error;
using sluice::test::upload;

/// One product with its operands in host memory, gaps included.
template <class T>
struct problem {
  gemm_shape shape{};
  T alpha = 1;
  T beta = 0;
  std::vector<T> a{};
  std::vector<T> b{};
  std::vector<T> c{};
};

/// Where element (row, column) of a stored matrix lies.
std::size_t position(layout l, std::int64_t leading, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(l == layout::row_major ? row * leading + column
                                                         : column * leading + row);
}

template <class T>
T a_at(const problem<T>& p, std::int64_t row, std::int64_t column) {
  const bool transposed = p.shape.transpose_a == transpose::yes;
  return p.a[position(p.shape.layout, p.shape.lda, transposed ? column : row,
                      transposed ? row : column)];
}

template <class T>
T b_at(const problem<T>& p, std::int64_t row, std::int64_t column) {
  const bool transposed = p.shape.transpose_b == transpose::yes;
  return p.b[position(p.shape.layout, p.shape.ldb, transposed ? column : row,
                      transposed ? row : column)];
}

/// Wide enough to judge T.
template <class T>
using wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// alpha·op(A)·op(B) + beta·C, row by row, from the definition.
template <class T>
std::vector<wide<T>> reference(const problem<T>& p) {
  std::vector<wide<T>> result;
  for (std::int64_t i = 0; i < p.shape.m; ++i) {
    for (std::int64_t j = 0; j < p.shape.n; ++j) {
      wide<T> sum = 0;
      if (p.alpha != T(0)) {
        for (std::int64_t l = 0; l < p.shape.k; ++l) {
          sum += static_cast<wide<T>>(a_at(p, i, l)) * static_cast<wide<T>>(b_at(p, l, j));
        }
      }
      wide<T> value = static_cast<wide<T>>(p.alpha) * sum;
      if (p.beta != T(0)) {
        value += static_cast<wide<T>>(p.beta) *
                 static_cast<wide<T>>(p.c[position(p.shape.layout, p.shape.ldc, i, j)]);
      }
      result.push_back(value);
    }
  }
  return result;
}

/// The elements of C, row by row, without the gaps.
template <class T>
std::vector<T> elements_of_c(const gemm_shape& shape, const std::vector<T>& c) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      result.push_back(c[position(shape.layout, shape.ldc, i, j)]);
    }
  }
  return result;
}

template <class T>
std::vector<T> random_values(std::size_t count, std::mt19937_64& generator) {
  std::uniform_real_distribution<T> values(T(-1), T(1));
  std::vector<T> result(count);
  for (T& v : result) v = values(generator);
  return result;
}

/// Fills in the operands; C is NaN where beta says that it is not read.
template <class T>
problem<T> fill(const gemm_shape& shape, T alpha, T beta, std::mt19937_64& generator) {
  const gemm_extents extents = actors::validate(shape);
  problem<T> p{.shape = shape, .alpha = alpha, .beta = beta};
  p.a = random_values<T>(extents.a, generator);
  p.b = random_values<T>(extents.b, generator);
  p.c = random_values<T>(extents.c, generator);
  if (beta == T(0)) {
    std::fill(p.c.begin(), p.c.end(), std::numeric_limits<T>::quiet_NaN());
  }
  return p;
}

std::string describe(const gemm_shape& s) {
  const auto sign = [](transpose t) {
    return t == transpose::yes ? "T" : "N";
  };
  return std::string(s.layout == layout::row_major ? "row" : "column") + "-major " +
         sign(s.transpose_a) + sign(s.transpose_b) + " m " + std::to_string(s.m) + " n " +
         std::to_string(s.n) + " k " + std::to_string(s.k) + " lda " + std::to_string(s.lda) +
         " ldb " + std::to_string(s.ldb) + " ldc " + std::to_string(s.ldc);
}

bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}
bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

class blas_library : public sluice::test::device_test {
 protected:
  /// C after the library has computed it, gaps included.
  template <class T>
  std::vector<T> compute(actors::blas_library& library, const problem<T>& p) {
    const auto a = upload(runtime(), stream(), p.a);
    const auto b = upload(runtime(), stream(), p.b);
    const auto c = upload(runtime(), stream(), p.c);
    launch_recorder recorder = launch_recorder::strict(stream());
    recorder.read(a).read(b).read_write(c);
    recorder.preflight();
    library.gemm(gemm_call<T>{.shape = p.shape,
                              .alpha = p.alpha,
                              .a = a.data(),
                              .b = b.data(),
                              .beta = p.beta,
                              .c = c.data()});
    recorder.commit();
    return download(c, stream());
  }

  /// Holds the library's result against the reference, and the gaps of C against what was there.
  template <class T>
  void expect_right(actors::blas_library& library, const problem<T>& p) {
    SCOPED_TRACE(describe(p.shape) + " alpha " + std::to_string(p.alpha) + " beta " +
                 std::to_string(p.beta));
    const std::vector<T> c = compute(library, p);
    EXPECT_LE(relative_error(elements_of_c(p.shape, c), reference(p)),
              error_bound<T>(static_cast<std::size_t>(p.shape.k)));
    std::vector<bool> written(c.size(), false);
    for (std::int64_t i = 0; i < p.shape.m; ++i) {
      for (std::int64_t j = 0; j < p.shape.n; ++j) {
        written[position(p.shape.layout, p.shape.ldc, i, j)] = true;
      }
    }
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (!written[i]) {
        ASSERT_TRUE(same(c[i], p.c[i])) << "the gap at " << i << " was written";
      }
    }
  }

  template <class T>
  void sweep() {
    auto generator = sluice::test::make_generator();
    const auto library = actors::make_blas_library(runtime(), stream());
    std::uniform_int_distribution<std::int64_t> dimension(1, 97);
    std::uniform_int_distribution<std::int64_t> gap(0, 5);
    std::uniform_int_distribution<int> coin(0, 1);
    std::uniform_int_distribution<int> choice(0, 2);
    std::uniform_real_distribution<T> factor(T(-2), T(2));
    for (int draw = 0; draw < 48; ++draw) {
      const auto m = coin(generator) != 0 ? dimension(generator) : 1 + gap(generator);
      const auto n = coin(generator) != 0 ? dimension(generator) : 1 + gap(generator);
      gemm_shape shape =
          actors::packed({.layout = (draw & 1) != 0 ? layout::row_major : layout::column_major,
                          .transpose_a = (draw & 2) != 0 ? transpose::yes : transpose::no,
                          .transpose_b = (draw & 4) != 0 ? transpose::yes : transpose::no,
                          .m = m,
                          .n = m * n < 4 ? n + 3 : n,
                          .k = coin(generator) != 0 ? dimension(generator) : 1 + gap(generator)});
      shape.lda += gap(generator);
      shape.ldb += gap(generator);
      shape.ldc += gap(generator);
      const T betas[] = {T(0), T(1), factor(generator)};
      expect_right(*library, fill<T>(shape, coin(generator) != 0 ? T(1) : factor(generator),
                                     betas[choice(generator)], generator));
    }
  }

  template <class T>
  void long_sums() {
    auto generator = sluice::test::make_generator();
    const auto library = actors::make_blas_library(runtime(), stream());
    std::uniform_int_distribution<std::int64_t> dimension(2'000, 6'000);
    const gemm_shape shape = actors::packed({.m = 17, .n = 13, .k = dimension(generator)});
    expect_right(*library, fill<T>(shape, T(1), T(0), generator));
  }

  /// Large enough for several threads and for tiled kernels.
  template <class T>
  void large() {
    auto generator = sluice::test::make_generator();
    const auto library = actors::make_blas_library(runtime(), stream());
    std::uniform_int_distribution<std::int64_t> dimension(200, 400);
    const gemm_shape shape = actors::packed({.transpose_b = transpose::yes,
                                             .m = dimension(generator),
                                             .n = dimension(generator),
                                             .k = dimension(generator)});
    expect_right(*library, fill<T>(shape, T(-0.5), T(2), generator));
  }

  /// alpha == 0 or k == 0: A and B are not read, C becomes beta·C.
  template <class T>
  void no_products() {
    auto generator = sluice::test::make_generator();
    const auto library = actors::make_blas_library(runtime(), stream());
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    for (const layout l : {layout::row_major, layout::column_major}) {
      for (const T beta : {T(0), T(1), T(-1.5)}) {
        gemm_shape shape = actors::packed({.layout = l, .m = 5, .n = 7, .k = 0});
        shape.ldc += 2;
        expect_right(*library, fill<T>(shape, T(1), beta, generator));

        shape = actors::packed({.layout = l, .m = 5, .n = 7, .k = 3});
        shape.ldc += 2;
        problem<T> p = fill<T>(shape, T(0), beta, generator);
        std::fill(p.a.begin(), p.a.end(), nan);
        std::fill(p.b.begin(), p.b.end(), nan);
        expect_right(*library, p);
      }
    }
  }

  /// m == 0 or n == 0: no memory is touched at all.
  template <class T>
  void no_result() {
    const auto library = actors::make_blas_library(runtime(), stream());
    for (const gemm_shape& shape :
         {gemm_shape{.m = 0, .n = 3, .k = 2}, gemm_shape{.m = 3, .n = 0, .k = 2}}) {
      library->gemm(gemm_call<T>{.shape = actors::packed(shape)});
    }
    stream().synchronize();
  }

  /// NaN in A reaches the rows of C that it belongs to, and no others.
  template <class T>
  void nan_in_a_factor() {
    auto generator = sluice::test::make_generator();
    const auto library = actors::make_blas_library(runtime(), stream());
    const gemm_shape shape = actors::packed({.m = 9, .n = 6, .k = 4});
    problem<T> p = fill<T>(shape, T(1), T(0), generator);
    p.a[2 * 4 + 1] = std::numeric_limits<T>::quiet_NaN();
    const std::vector<T> c = compute(*library, p);
    for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(std::isnan(c[i]), i / 6 == 2) << i;
  }

  template <class T>
  void same_bits() {
    auto generator = sluice::test::make_generator();
    const auto library = actors::make_blas_library(runtime(), stream());
    const gemm_shape shape = actors::packed({.m = 150, .n = 130, .k = 170});
    const problem<T> p = fill<T>(shape, T(1), T(0), generator);
    EXPECT_EQ(compute(*library, p), compute(*library, p));
  }
};

TEST_P(blas_library, tells_its_name_and_version) {
  const auto library = actors::make_blas_library(runtime(), stream());
  EXPECT_EQ(library->name(), on_host() ? "OpenBLAS" : "cuBLAS");
  const std::string version = library->version();
  EXPECT_TRUE(!version.empty() && version.front() >= '0' && version.front() <= '9') << version;
  EXPECT_NE(version.find('.'), std::string::npos) << version;
}

TEST_P(blas_library, gemm_f32_shapes) {
  sweep<float>();
}
TEST_P(blas_library, gemm_f64_shapes) {
  sweep<double>();
}
TEST_P(blas_library, gemm_f32_long_sums) {
  long_sums<float>();
}
TEST_P(blas_library, gemm_f64_long_sums) {
  long_sums<double>();
}
TEST_P(blas_library, gemm_f32_large) {
  large<float>();
}
TEST_P(blas_library, gemm_f64_large) {
  large<double>();
}
TEST_P(blas_library, gemm_f32_without_products_scales_c) {
  no_products<float>();
}
TEST_P(blas_library, gemm_f64_without_products_scales_c) {
  no_products<double>();
}
TEST_P(blas_library, gemm_f32_without_result_does_nothing) {
  no_result<float>();
}
TEST_P(blas_library, gemm_f64_without_result_does_nothing) {
  no_result<double>();
}
TEST_P(blas_library, gemm_f32_keeps_nan) {
  nan_in_a_factor<float>();
}
TEST_P(blas_library, gemm_f64_keeps_nan) {
  nan_in_a_factor<double>();
}
TEST_P(blas_library, gemm_f32_gives_the_same_bits_again) {
  same_bits<float>();
}
TEST_P(blas_library, gemm_f64_gives_the_same_bits_again) {
  same_bits<double>();
}

TEST_P(blas_library, gives_its_memory_back) {
  const std::size_t before = runtime().bytes_outstanding();
  {
    auto generator = sluice::test::make_generator();
    const auto library = actors::make_blas_library(runtime(), stream());
    const gemm_shape shape = actors::packed({.m = 20, .n = 30, .k = 40});
    expect_right(*library, fill<float>(shape, 1, 0, generator));
  }
  stream().synchronize();
  EXPECT_EQ(runtime().bytes_outstanding(), before);
}

INSTANTIATE_TEST_SUITE_P(devices, blas_library, sluice::test::every_device(),
                         sluice::test::parameter_name);

/// The host library only queues: behind a closed gate the call returns, and C is still as it was.
TEST(blas_library_host, gemm_waits_for_its_turn_on_the_stream) {
  device_runtime runtime(open_device("host"));
  const stream lane = runtime.create_stream();
  const auto library = actors::make_blas_library(runtime, lane);
  const gemm_shape shape = actors::packed({.m = 2, .n = 2, .k = 1});
  const std::vector<float> factors{1, 1};
  const std::vector<float> zeros(4, 0);
  const auto a = upload(runtime, lane, factors);
  const auto c = upload(runtime, lane, zeros);

  std::atomic<bool> open{false};
  float seen = -1;
  submit_host_task(lane, [&open, &seen, first = c.data()] {
    open.wait(false);
    seen = *first;
  });
  library->gemm(gemm_call<float>{.shape = shape, .a = a.data(), .b = a.data(), .c = c.data()});
  open = true;
  open.notify_all();
  lane.synchronize();
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(download(c, lane), std::vector<float>(4, 1));
}

TEST(blas_library_host, dimensions_beyond_the_library_are_unsupported) {
  device_runtime runtime(open_device("host"));
  const stream lane = runtime.create_stream();
  const auto library = actors::make_blas_library(runtime, lane);
  const std::vector<float> one{1};
  const auto memory = upload(runtime, lane, one);
  gemm_shape shape = actors::packed({.m = 1, .n = 1, .k = 1});
  shape.ldb = std::int64_t{1} << 40;
  const gemm_call<float> call{
      .shape = shape, .a = memory.data(), .b = memory.data(), .c = memory.data()};
  EXPECT_TRUE(sluice::test::throws(errc::unsupported, "ldb", [&] { library->gemm(call); }));
}

}  // namespace
