// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/blas_library.hpp"

#include "tests/actors/library_test.hpp"
#include "tests/actors/references/gemm.hpp"
#include "tests/support/expect_error.hpp"
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
#include <vector>

namespace sluice::test {
namespace {

using actors::gemm_call;

std::string describe(const gemm_shape& s) {
  const auto sign = [](transpose t) {
    return t == transpose::yes ? "T" : "N";
  };
  return std::string(s.layout == layout::row_major ? "row" : "column") + "-major " +
         sign(s.transpose_a) + sign(s.transpose_b) + " m " + std::to_string(s.m) + " n " +
         std::to_string(s.n) + " k " + std::to_string(s.k) + " lda " + std::to_string(s.lda) +
         " ldb " + std::to_string(s.ldb) + " ldc " + std::to_string(s.ldc);
}

class blas_library : public library_test<actors::make_blas_library> {
 protected:
  /// C after the library has computed it, gaps included.
  template <class T>
  std::vector<T> compute(const gemm_problem<T>& p) {
    const auto a = upload(runtime(), stream(), p.a);
    const auto b = upload(runtime(), stream(), p.b);
    const auto c = upload(runtime(), stream(), p.c);
    launch_recorder recorder = launch_recorder::strict(stream());
    recorder.read(a).read(b).read_write(c);
    recorder.preflight();
    library_->gemm(gemm_call<T>{.shape = p.shape,
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
  void expect_right(const gemm_problem<T>& p) {
    SCOPED_TRACE(describe(p.shape) + " alpha " + std::to_string(p.alpha) + " beta " +
                 std::to_string(p.beta));
    expect_memory_of_c(p, compute(p));
  }

  template <class T>
  void sweep() {
    auto generator = make_generator();
    std::uniform_real_distribution<T> factor(T(-2), T(2));
    for (int draw = 0; draw < 48; ++draw) {
      gemm_shape shape = random_gemm_shape(generator, 97);
      shape.layout = (draw & 1) != 0 ? layout::row_major : layout::column_major;
      shape.transpose_a = (draw & 2) != 0 ? transpose::yes : transpose::no;
      shape.transpose_b = (draw & 4) != 0 ? transpose::yes : transpose::no;
      const T alpha = generator() % 2 == 0 ? T(1) : factor(generator);
      const T betas[] = {T(0), T(1), factor(generator)};
      expect_right(
          random_gemm<T>(with_gaps(shape, generator), alpha, betas[generator() % 3], generator));
    }
  }

  template <class T>
  void long_sums() {
    auto generator = make_generator();
    std::uniform_int_distribution<std::int64_t> dimension(2'000, 6'000);
    const gemm_shape shape = actors::packed({.m = 17, .n = 13, .k = dimension(generator)});
    expect_right(random_gemm<T>(shape, T(1), T(0), generator));
  }

  /// Large enough for several threads and for tiled kernels.
  template <class T>
  void large() {
    auto generator = make_generator();
    std::uniform_int_distribution<std::int64_t> dimension(200, 400);
    const gemm_shape shape = actors::packed({.transpose_b = transpose::yes,
                                             .m = dimension(generator),
                                             .n = dimension(generator),
                                             .k = dimension(generator)});
    expect_right(random_gemm<T>(shape, T(-0.5), T(2), generator));
  }

  /// alpha == 0 or k == 0: A and B are not read, C becomes beta·C.
  template <class T>
  void no_products() {
    auto generator = make_generator();
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    for (const layout l : {layout::row_major, layout::column_major}) {
      for (const T beta : {T(0), T(1), T(-1.5)}) {
        gemm_shape shape = actors::packed({.layout = l, .m = 5, .n = 7, .k = 0});
        shape.ldc += 2;
        expect_right(random_gemm<T>(shape, T(1), beta, generator));

        shape = actors::packed({.layout = l, .m = 5, .n = 7, .k = 3});
        shape.ldc += 2;
        gemm_problem<T> p = random_gemm<T>(shape, T(0), beta, generator);
        std::fill(p.a.begin(), p.a.end(), nan);
        std::fill(p.b.begin(), p.b.end(), nan);
        expect_right(p);
      }
    }
  }

  /// m == 0 or n == 0: no memory is touched at all.
  template <class T>
  void no_result() {
    for (const gemm_shape& shape :
         {gemm_shape{.m = 0, .n = 3, .k = 2}, gemm_shape{.m = 3, .n = 0, .k = 2}}) {
      library_->gemm(gemm_call<T>{.shape = actors::packed(shape)});
    }
    stream().synchronize();
  }

  /// NaN in A reaches the rows of C that it belongs to, and no others.
  template <class T>
  void nan_in_a_factor() {
    auto generator = make_generator();
    const gemm_shape shape = actors::packed({.m = 9, .n = 6, .k = 4});
    gemm_problem<T> p = random_gemm<T>(shape, T(1), T(0), generator);
    p.a[2 * 4 + 1] = std::numeric_limits<T>::quiet_NaN();
    const std::vector<T> c = compute(p);
    for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(std::isnan(c[i]), i / 6 == 2) << i;
  }

  template <class T>
  void same_bits() {
    auto generator = make_generator();
    const gemm_shape shape = actors::packed({.m = 150, .n = 130, .k = 170});
    const gemm_problem<T> p = random_gemm<T>(shape, T(1), T(0), generator);
    EXPECT_EQ(compute(p), compute(p));
  }
};

TEST_P(blas_library, tells_its_name_and_version) {
  EXPECT_EQ(library_->name(), on_host() ? "OpenBLAS" : "cuBLAS");
  const std::string version = library_->version();
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
  library_.reset();
  stream().synchronize();
  const std::size_t before = runtime().bytes_outstanding();
  library_ = actors::make_blas_library(runtime(), stream());
  auto generator = make_generator();
  const gemm_shape shape = actors::packed({.m = 20, .n = 30, .k = 40});
  expect_right(random_gemm<float>(shape, 1, 0, generator));
  library_.reset();
  stream().synchronize();
  EXPECT_EQ(runtime().bytes_outstanding(), before);
}

INSTANTIATE_TEST_SUITE_P(devices, blas_library, every_device(), parameter_name);

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
  EXPECT_TRUE(throws(errc::unsupported, "ldb", [&] { library->gemm(call); }));
}

}  // namespace
}  // namespace sluice::test
