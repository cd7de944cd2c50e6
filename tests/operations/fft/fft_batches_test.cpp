// SPDX-License-Identifier: Apache-2.0
// Transforms of several requests in one launch.
#include "tests/operations/executing.hpp"
#include "tests/operations/fft/dft.hpp"
#include "tests/operations/gathering_executor.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/fft.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class fft_batches : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    traced_ = std::make_unique<gathering_executor>(service(), waking());
  }
  void TearDown() override {
    traced_.reset();
    executor_test::TearDown();
  }

  /// Runs transforms of `inputs`, of `rows` rows each, that wait together. Returns the results.
  template <class Operation, class Result, class Value>
  std::vector<std::vector<Result>> together(const Operation& like,
                                            const std::vector<std::vector<Value>>& inputs,
                                            std::int64_t rows,
                                            const request_options& options = {}) {
    const auto request = [&](const std::vector<Value>& values) {
      auto operation = like;
      operation.x = tensor(upload(runtime(), stream(), values)).reshape({rows, -1});
      return operation;
    };
    // The plan is made first: requests that wait for it would be launched one after the other.
    (void)wait(traced_->get(), submit_one(request(inputs.front()), options));
    traced_->begin();
    traced_->gather();
    std::vector<pending_answer> answers;
    answers.reserve(inputs.size());
    for (const auto& values : inputs) answers.push_back(submit_one(request(values), options));
    traced_->launch_gathered();
    std::vector<std::vector<Result>> results;
    for (auto& answer : answers) {
      const auto y = wait(traced_->get(), answer);
      results.push_back(download(y.reshape({-1}).template as<Result>(), stream()));
    }
    return results;
  }
  /// The sizes of the launches of the last call of `together`.
  [[nodiscard]] std::vector<std::size_t> launched() const { return traced_->launched(); }
  template <class Value>
  std::vector<std::vector<Value>> inputs(std::size_t count, std::int64_t elements) {
    std::vector<std::vector<Value>> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(random_values<Value>(random_, static_cast<std::size_t>(elements)));
    }
    return all;
  }
  std::int64_t number(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }

  /// Compares each row of results with `reference(row)`, times `scale`.
  template <class Value, class Result, class Reference>
  void expect_right(const std::vector<std::vector<Value>>& in,
                    const std::vector<std::vector<Result>>& out, std::size_t rows, double scale,
                    double bound, const Reference& reference) {
    ASSERT_EQ(in.size(), out.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::vector<typename decltype(reference(in[i].data()))::value_type> expected;
      for (std::size_t row = 0; row < rows; ++row) {
        auto of_row = reference(in[i].data() + row * (in[i].size() / rows));
        of_row.resize(out[i].size() / rows);
        for (const auto& value : of_row) expected.push_back(value * scale);
      }
      ASSERT_LE(relative_error(out[i], expected), bound) << "request " << i << " of " << in.size();
    }
  }

  using executor_test::wait;
  tensor wait(executor& executor, pending_answer&& answer) {
    return executor_test::wait(executor, answer);
  }

 private:
  template <class Operation>
  pending_answer submit_one(Operation operation, const request_options& options) {
    return submit(traced_->get(), std::move(operation), options);
  }
  std::unique_ptr<gathering_executor> traced_;
  std::mt19937_64 random_ = make_generator();
};

TEST_P(fft_batches, give_each_request_its_own_result) {
  // Transforms for 8 and for 64 requests, full and with places left, and single ones.
  for (const std::size_t count : {2, 3, 5, 8, 9, 20, 33, 64, 70, 130}) {
    const auto rows = number(1, 3);
    const auto length = number(2, 96);
    const auto n = static_cast<std::size_t>(length);
    const auto r = static_cast<std::size_t>(rows);
    const double scale = count % 2 == 0 ? 1 : 0.5;
    SCOPED_TRACE(::testing::Message()
                 << count << " requests, " << rows << " rows of length " << length);
    const auto reals = inputs<float>(count, rows * length);
    expect_right(reals, together<rfft, std::complex<float>>({.scale = scale}, reals, rows), r,
                 scale, 1e-5, [&](const float* row) { return dft(row, n, -1); });
    const auto values = inputs<std::complex<double>>(count, rows * length);
    expect_right(values,
                 together<fft, std::complex<double>>(
                     {.direction = fft_direction::inverse, .scale = scale}, values, rows),
                 r, scale, 1e-13, [&](const std::complex<double>* row) { return dft(row, n, +1); });
    const auto bins = inputs<std::complex<float>>(count, rows * (length / 2 + 1));
    expect_right(bins, together<irfft, float>({.length = length, .scale = scale}, bins, rows), r,
                 scale, 1e-5,
                 [&](const std::complex<float>* row) { return inverse_real_dft(row, n); });
  }
}

TEST_P(fft_batches, are_formed_by_requests_that_wait_together) {
  (void)together<rfft, std::complex<float>>({}, inputs<float>(130, 48), 1);
  EXPECT_EQ(launched(), (std::vector<std::size_t>{64, 64, 2}));
  (void)together<rfft, std::complex<float>>({}, inputs<float>(20, 48), 1,
                                            {.bits = result_bits::as_if_alone});
  EXPECT_EQ(launched(), std::vector<std::size_t>(20, 1));
  // More than 64 KiB each.
  (void)together<rfft, std::complex<float>>({}, inputs<float>(4, 1 << 14U), 1);
  EXPECT_EQ(launched(), std::vector<std::size_t>(4, 1));
}

// The plan of the first request leaves the cache while it waits, and those behind it get a new one.
TEST_P(fft_batches, are_of_requests_with_the_same_plan) {
  if (GetParam() != "host") GTEST_SKIP() << "a GPU may have to come to rest to make a plan";
  const auto trace = std::make_shared<batch_trace>();
  executor small(service(), trace, {.max_plan_bytes = 1});
  small.on_wake(waking());
  const auto row = [&](std::int64_t length) {
    return tensor(upload(runtime(), stream(), inputs<float>(1, length).front()));
  };
  const auto await_plans = [&](std::uint64_t plans) {
    await([&] {
      small.work();
      const auto status = small.status();
      return status.plans.made == plans && status.planning == 0;
    });
  };
  for (const std::int64_t length : {100, 200}) (void)run(small, rfft{.x = row(length)});
  const auto before = trace->batches().size();
  gate closed;
  closed.hold(small.lane().stream());
  std::vector<pending_answer> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(submit(small, rfft{.x = row(200)}));
  answers.push_back(submit(small, rfft{.x = row(100)}));
  await_plans(3);
  for (int i = 0; i < 5; ++i) answers.push_back(submit(small, rfft{.x = row(200)}));
  await_plans(4);
  closed.open();
  for (auto& answer : answers) (void)wait(small, std::move(answer));
  const auto all = trace->batches();
  EXPECT_EQ(std::vector(all.begin() + static_cast<std::ptrdiff_t>(before), all.end()),
            (std::vector<std::size_t>{1, 1, 1, 1, 5}));
}

INSTANTIATE_TEST_SUITE_P(devices, fft_batches, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
