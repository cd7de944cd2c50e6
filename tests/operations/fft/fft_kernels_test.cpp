// SPDX-License-Identifier: Apache-2.0
// The FFT library's own kernels, without the library that it calls: the program does not even load
// cuFFT, so that compute-sanitizer's racecheck can judge it (see tests/run-sanitized).
#include "operations/fft/scale_kernel.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

struct rows {
  std::size_t length;
  std::size_t batch;
  std::size_t distance;
};

template <class Real>
class fft_kernels_on_cuda : public ::testing::Test {};
using reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(fft_kernels_on_cuda, reals);

TYPED_TEST(fft_kernels_on_cuda, scale_rows_and_nothing_between_them) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  device_runtime runtime(open_device("cuda"));
  const auto stream = runtime.create_stream();
  {
    const current_device_scope current(runtime.device());
    ASSERT_EQ(operations::load_scale_kernels(), 0);
  }
  auto generator = make_generator();
  const auto random = [&generator](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(generator);
  };
  std::vector<rows> shapes{{1, 1, 1},      {256, 1, 256}, {257, 3, 257},
                           {2, 40'000, 3}, {1, 100, 9},   {5000, 7, 6001}};
  for (int i = 0; i < 20; ++i) {
    const auto length = random(1, 2000);
    shapes.push_back({length, random(1, 50), length + random(0, 1) * random(1, 100)});
  }
  for (const auto& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.batch) + " rows of " + std::to_string(shape.length) +
                 " at a distance of " + std::to_string(shape.distance));
    auto values = random_values<TypeParam>(generator, shape.batch * shape.distance);
    const auto factor = random_values<TypeParam>(generator, 1).front();
    const auto memory = upload(runtime, stream.ref(), values);
    auto recorder = launch_recorder::strict(stream);
    recorder.read_write(memory);
    recorder.preflight();
    {
      const current_device_scope current(runtime.device());
      EXPECT_EQ(operations::launch_scale(memory.data(), shape.length, shape.batch, shape.distance,
                                         factor, stream.ref().native()),
                0);
    }
    (void)recorder.commit();
    for (std::size_t row = 0; row < shape.batch; ++row) {
      for (std::size_t i = 0; i < shape.length; ++i) values[row * shape.distance + i] *= factor;
    }
    EXPECT_EQ(download(memory, stream.ref()), values);
  }
}

}  // namespace
}  // namespace sluice::test
