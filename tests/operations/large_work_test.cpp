// SPDX-License-Identifier: Apache-2.0
// Operations that a host device cuts for its threads. The number of threads must not change a bit.
#include "tests/operations/executing.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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
    (void)run(sluice::download{.x = x, .to = result});
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

}  // namespace
}  // namespace sluice::test
