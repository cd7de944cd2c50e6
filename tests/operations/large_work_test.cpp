// SPDX-License-Identifier: Apache-2.0
// Operations that a host device cuts for its threads. The number of threads must not change a bit.
#include "tests/operations/executing.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Runs operations on a host device with a number of threads, one after the other.
class host_lane {
 public:
  explicit host_lane(int threads)
      : service_(std::make_shared<device_service>(open_host_device({.threads = threads}))),
        executor_(service_) {
    executor_.on_wake([rung = rung_] { rung->ring(); });
  }
  template <class Operation>
  tensor run(Operation operation) {
    pending_answer answer(rung_);
    executor_.submit(std::move(operation), {}, answer.token());
    for (executor_.work(); !answer.answered(); executor_.work()) rung_->await();
    return answer.get();
  }
  tensor upload(const host_tensor& values) { return run(sluice::upload{.values = values}); }
  std::vector<std::byte> download(const tensor& x) {
    const auto result = std::make_shared<host_tensor>();
    (void)run(sluice::download{.x = x, .target = result});
    std::vector<std::byte> bytes(result->bytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), result->data().get(), bytes.size());
    return bytes;
  }

 private:
  std::shared_ptr<alarm> rung_ = std::make_shared<alarm>();
  std::shared_ptr<device_service> service_;
  executor executor_;
};

class large_work : public ::testing::Test {
 protected:
  template <class T>
  host_tensor random(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return {random_values<T>(generator_, count), shape};
  }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }
  /// `operation_on(inputs)` makes the operation for these tensors.
  template <class MakeOperation>
  static void expect_same_bits(const std::vector<host_tensor>& inputs,
                               const MakeOperation& operation_on) {
    std::vector<std::byte> alone;
    for (const int threads : {1, 2, 8}) {
      host_lane lane(threads);
      for (int round = 0; round < 3; ++round) {
        std::vector<tensor> tensors;
        for (const auto& values : inputs) tensors.push_back(lane.upload(values));
        auto bytes = lane.download(lane.run(operation_on(tensors)));
        if (alone.empty()) {
          alone = std::move(bytes);
        } else {
          EXPECT_TRUE(bytes == alone) << threads << " threads";
        }
      }
    }
    EXPECT_FALSE(alone.empty());
  }
  /// The result for small parts of the inputs along the first axis must be that part of the result.
  /// A small part is not cut.
  template <class MakeOperation>
  static void expect_same_in_parts(const std::vector<host_tensor>& inputs, std::int64_t step,
                                   const MakeOperation& operation_on) {
    host_lane lane(2);
    std::vector<tensor> tensors;
    for (const auto& values : inputs) tensors.push_back(lane.upload(values));
    const auto all = lane.download(lane.run(operation_on(tensors)));
    std::vector<std::byte> joined;
    const auto extent = tensors[0].shape()[0];
    for (std::int64_t begin = 0; begin < extent; begin += step) {
      std::vector<tensor> parts;
      for (const auto& t : tensors)
        parts.push_back(t.slice(0, begin, std::min(begin + step, extent)));
      const auto bytes = lane.download(lane.run(operation_on(parts)));
      joined.insert(joined.end(), bytes.begin(), bytes.end());
    }
    EXPECT_TRUE(all == joined);
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

// Products

template <class T>
class large_products : public large_work {};
using product_types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(large_products, product_types);

TYPED_TEST(large_products, do_not_depend_on_threads) {
  for (int round = 0; round < 4; ++round) {
    const auto m = this->between(130, 400);
    const auto n = this->between(130, 400);
    const auto k = this->between(200, 300);
    const bool transposes_a = this->between(0, 1) == 1;
    const bool transposes_b = this->between(0, 1) == 1;
    const auto a = this->template random<TypeParam>(transposes_a ? extents{k, m} : extents{m, k});
    const auto b = this->template random<TypeParam>(transposes_b ? extents{n, k} : extents{k, n});
    const auto c = this->template random<TypeParam>(extents{m, n});
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
    this->expect_same_bits({a, b, c}, [&](const std::vector<tensor>& x) {
      return gemm{.a = transposes_a ? x[0].transposed() : x[0],
                  .b = transposes_b ? x[1].transposed() : x[1],
                  .c = x[2],
                  .alpha = 2,
                  .beta = round == 0 ? 0.0 : 1.0};
    });
  }
}

TYPED_TEST(large_products, of_a_stack_do_not_depend_on_threads) {
  for (const std::int64_t count : {3, 300}) {
    const auto side = this->between(30, 60) * (count == 3 ? 6 : 1);
    const auto a = this->template random<TypeParam>(extents{count, side, side + 1});
    const auto b = this->template random<TypeParam>(extents{side + 1, side + 2});
    SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(side));
    this->expect_same_bits({a, b}, [&](const std::vector<tensor>& x) {
      return gemm{.a = x[0], .b = x[1].broadcast_to({count, side + 1, side + 2})};
    });
  }
}

// A product has the same bits alone and in a stack.
TEST_F(large_work, a_product_does_not_depend_on_its_stack) {
  const auto side = between(200, 400);
  const auto a = random<float>({3, side, 256});
  const auto b = random<float>({256, side});
  host_lane lane(2);
  const auto x = lane.upload(a);
  const auto y = lane.upload(b);
  const auto all = lane.download(lane.run(gemm{.a = x, .b = y.broadcast_to({3, 256, side})}));
  const auto bytes = all.size() / 3;
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto one = lane.download(lane.run(gemm{.a = x.select(0, i), .b = y}));
    ASSERT_EQ(one.size(), bytes);
    EXPECT_EQ(std::memcmp(one.data(), all.data() + static_cast<std::size_t>(i) * bytes, bytes), 0);
  }
}

// Loops over elements

TEST_F(large_work, maps_do_not_depend_on_threads) {
  const std::vector<extents> shapes{{between(1'000'000, 1'500'000)},
                                    {between(900, 1200), between(900, 1200)},
                                    {3, between(300'000, 400'000)},
                                    {between(100'000, 200'000), 7},
                                    {2, 3, between(300, 500), between(400, 600)}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(to_string(shape));
    const auto a = random<float>(shape);
    const auto b = random<float>(shape);
    expect_same_bits({a, b}, [](const std::vector<tensor>& x) { return add(x[0], x[1]); });
    expect_same_bits({a}, [](const std::vector<tensor>& x) {
      return cast{.x = x[0], .type = element_type::f16};
    });
    expect_same_bits({a}, [](const std::vector<tensor>& x) {
      return affine{.x = x[0], .factor = 0.3, .offset = -7};
    });
    if (shape.size() < 2) continue;
    auto turned = shape;
    std::swap(turned[shape.size() - 2], turned[shape.size() - 1]);
    expect_same_bits({a, b}, [&](const std::vector<tensor>& x) {
      return multiply(x[0], x[1].reshape(turned).transposed());
    });
    expect_same_bits(
        {a}, [](const std::vector<tensor>& x) { return strided_copy{.x = x[0].transposed()}; });
  }
}

TEST_F(large_work, maps_of_other_types_do_not_depend_on_threads) {
  const extents shape{between(200, 300), 2, between(400, 600)};
  const auto doubles = random<double>(shape);
  expect_same_bits({doubles}, [](const std::vector<tensor>& x) { return add(x[0], x[0]); });
  const auto integers = random<std::int32_t>(shape);
  expect_same_bits({integers}, [](const std::vector<tensor>& x) {
    return maximum(x[0], x[0].slice(0, 0, 1).broadcast_to(x[0].shape()));
  });
  const auto numbers = random<std::complex<float>>(shape);
  expect_same_bits({numbers},
                   [](const std::vector<tensor>& x) { return power_spectrum{.x = x[0]}; });
}

TEST_F(large_work, reductions_do_not_depend_on_threads) {
  const extents shape{between(40, 60), between(200, 300), between(200, 300)};
  const auto x = random<float>(shape);
  const auto d = random<double>(shape);
  for (const auto& axes : {extents{0}, extents{1}, extents{2}, extents{0, 1}, extents{1, 2},
                           extents{0, 2}, extents{0, 1, 2}}) {
    for (const auto kind : {reduction::sum, reduction::max}) {
      SCOPED_TRACE(to_string(axes));
      const auto reduced = [&](const std::vector<tensor>& input) {
        return reduce{.x = input[0], .kind = kind, .axes = std::optional<extents>(axes)};
      };
      expect_same_bits({x}, reduced);
      expect_same_bits({d}, reduced);
    }
  }
}

TEST_F(large_work, is_computed_as_its_parts_are) {
  for (const auto& shape :
       {extents{between(1'000'000, 1'500'000)}, extents{between(900, 1200), between(900, 1200)},
        extents{between(100'000, 200'000), 7}}) {
    SCOPED_TRACE(to_string(shape));
    const auto step = 10'000 * shape[0] / (shape.size() == 1 ? shape[0] : shape[0] * shape[1]);
    const auto a = random<float>(shape);
    const auto b = random<float>(shape);
    expect_same_in_parts({a, b}, step,
                         [](const std::vector<tensor>& x) { return add(x[0], x[1]); });
    expect_same_in_parts({a}, step, [](const std::vector<tensor>& x) {
      return cast{.x = x[0], .type = element_type::f16};
    });
    expect_same_in_parts({random<double>(shape)}, step,
                         [](const std::vector<tensor>& x) { return add(x[0], x[0]); });
    if (shape.size() == 1) continue;
    expect_same_in_parts(
        {a}, step, [](const std::vector<tensor>& x) { return reduce{.x = x[0], .axes = {1}}; });
  }
  const auto x = random<float>({between(200, 300), 30, between(200, 300)});
  expect_same_in_parts({x}, 3, [](const std::vector<tensor>& input) {
    return reduce{.x = input[0], .kind = reduction::max, .axes = {1}};
  });
  const auto images = random<float>({70, 3, 40, 50});
  expect_same_in_parts({images}, 1, [](const std::vector<tensor>& input) {
    return resize{.x = input[0], .sizes = {90, 80}};
  });
}

// One image is cut by its rows.
TEST_F(large_work, resizes_a_large_image_right) {
  const auto height = between(30, 90);
  const auto width = between(30, 90);
  const auto values = random<float>({height, width});
  const auto pixels = values.values<float>();
  constexpr std::int64_t larger = 700;
  host_lane lane(2);
  const auto bytes =
      lane.download(lane.run(resize{.x = lane.upload(values), .sizes = {larger, larger}}));
  std::vector<float> result(static_cast<std::size_t>(larger * larger));
  ASSERT_EQ(bytes.size(), result.size() * sizeof(float));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  const auto position = [](std::int64_t index, std::int64_t extent) {
    const auto exact =
        (static_cast<double>(index) + 0.5) * static_cast<double>(extent) / larger - 0.5;
    return std::clamp(exact, 0.0, static_cast<double>(extent - 1));
  };
  for (std::int64_t i = 0; i < larger; ++i) {
    for (std::int64_t j = 0; j < larger; ++j) {
      const double row = position(i, height);
      const double column = position(j, width);
      const auto pixel = [&](double r, double c) {
        const auto y = std::min(static_cast<std::int64_t>(r), height - 1);
        const auto x = std::min(static_cast<std::int64_t>(c), width - 1);
        return static_cast<double>(pixels[static_cast<std::size_t>(y * width + x)]);
      };
      const double down = row - std::floor(row);
      const double across = column - std::floor(column);
      const double wanted =
          (1 - down) * ((1 - across) * pixel(row, column) + across * pixel(row, column + 1)) +
          down * ((1 - across) * pixel(row + 1, column) + across * pixel(row + 1, column + 1));
      ASSERT_NEAR(result[static_cast<std::size_t>(i * larger + j)], wanted, 1e-5) << i << ", " << j;
    }
  }
}

TEST_F(large_work, resized_images_do_not_depend_on_threads) {
  for (const bool first : {true, false}) {
    for (const std::int64_t images : {1, 70}) {
      const auto height = between(30, 90);
      const auto width = between(30, 90);
      const auto shape =
          first ? extents{images, 3, height, width} : extents{images, height, width, 3};
      const auto operation = [&](const std::vector<tensor>& x) {
        const std::int64_t larger = images == 1 ? 700 : 100;
        return resize{.x = x[0],
                      .sizes = {larger, larger + 13},
                      .axes = first ? extents{-2, -1} : extents{-3, -2}};
      };
      SCOPED_TRACE(to_string(shape));
      expect_same_bits({random<float>(shape)}, operation);
      expect_same_bits({random<std::uint8_t>(shape)}, operation);
      expect_same_bits({random<double>(shape)}, operation);
    }
  }
}

// Transforms

TEST_F(large_work, transforms_do_not_depend_on_threads) {
  // Powers of two, their multiples, other lengths, and a prime number.
  for (const std::int64_t length : {1024, 960, 945, 1009}) {
    const auto rows = between(150, 250);
    const auto real = random<float>({rows, length});
    const auto complex = random<std::complex<double>>({rows, length});
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(length));
    const auto real_transform = [](const std::vector<tensor>& x) {
      return rfft{.x = x[0]};
    };
    const auto complex_transform = [](const std::vector<tensor>& x) {
      return fft{.x = x[0]};
    };
    const auto inverse_transform = [&](const std::vector<tensor>& x) {
      return irfft{.x = x[0].slice(1, 0, length / 2 + 1), .length = length};
    };
    expect_same_bits({real}, real_transform);
    expect_same_bits({complex}, complex_transform);
    expect_same_bits({complex}, inverse_transform);
    expect_same_in_parts({real}, 7, real_transform);
    expect_same_in_parts({complex}, 7, complex_transform);
    expect_same_in_parts({complex}, 7, inverse_transform);
  }
}

// Convolutions

/// Whether the build has oneDNN.
bool has_convolutions() {
  return descriptor_of(operation_type<conv2d>{}).makes_plans(device_kind::host);
}

TEST_F(large_work, convolutions_do_not_depend_on_threads) {
  if (!has_convolutions()) GTEST_SKIP() << "this build has no oneDNN";
  for (const std::int64_t images : {1, 3, 40}) {
    const auto side = images == 40 ? between(50, 60) : between(150, 200);
    const auto x = random<float>({images, 8, side, side + 3});
    const auto w = random<float>({24, 8, 3, 5});
    const auto bias = random<float>({24});
    SCOPED_TRACE(to_string(x.shape()));
    expect_same_bits({x, w, bias}, [](const std::vector<tensor>& operands) {
      return conv2d{.x = operands[0],
                    .w = operands[1],
                    .bias = operands[2],
                    .geometry = {.padding = {.h = 1, .w = 2}}};
    });
  }
}

/// The threads of the process.
std::ptrdiff_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST_F(large_work, of_libraries_starts_no_threads) {
  host_lane lane(1);
  const auto x = lane.upload(random<float>({4, 16, 100, 100}));
  const auto w = lane.upload(random<float>({32, 16, 3, 3}));
  const auto a = lane.upload(random<float>({500, 500}));
  // Starts the planner.
  if (has_convolutions()) (void)lane.run(conv2d{.x = x.slice(1, 0, 1), .w = w.slice(1, 0, 1)});
  (void)lane.run(gemm{.a = a.slice(0, 0, 1), .b = a});
  const auto before = count_threads();
  if (has_convolutions()) (void)lane.run(conv2d{.x = x, .w = w});
  (void)lane.run(gemm{.a = a, .b = a});
  EXPECT_EQ(count_threads(), before);
}

}  // namespace
}  // namespace sluice::test
