// SPDX-License-Identifier: Apache-2.0
// Thousands of shapes do not make an executor grow.
#include "runtime/base/sanitizers.hpp"
#include "runtime/host/annotations.hpp"
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/spectral.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;
constexpr std::size_t max_plan_bytes = 8 * mebibyte;

/// The number of shapes, unless a tool makes them a hundred times slower.
std::size_t shape_count() {
  return host::thread_sanitizer_on || under_compute_sanitizer() ? 200 : 2000;
}

/// Whether the memory of the process can be compared: sanitizers keep what has been freed.
bool measures_process_memory() {
#if defined(SLUICE_ADDRESS_SANITIZER)
  return false;
#else
  return !host::thread_sanitizer_on && !under_compute_sanitizer();
#endif
}

/// The memory of this process that is resident.
std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class many_shapes : public executor_test {
 protected:
  using request = std::function<pending_answer(executor&)>;

  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_budget_resource(
        make_pool_resource(make_statistics_resource(make_async_resource(), pool_memory_)));
    return options;
  }
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    const std::vector<float> zeros(std::size_t{1} << 20U);
    operands_ = upload(runtime(), stream(), zeros);
  }
  void TearDown() override {
    operands_ = {};
    executor_test::TearDown();
  }

  /// The memory that the pool holds from the driver.
  [[nodiscard]] memory_counters pool_memory() const { return pool_memory_->counters(); }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }

  /// An operand of zeros. All share their memory.
  tensor zeros(element_type type, const extents& shape) { return {operands_.block(), type, shape}; }
  template <class Operation>
  request request_of(Operation operation) {
    return [this, operation](executor& executor) {
      return submit(executor, operation);
    };
  }
  tensor complete(executor& executor, const request& r) {
    auto answer = r(executor);
    return wait(executor, answer);
  }

  /// A transform of `batch` rows of `length` elements; `kind` chooses one of eight.
  request transform(std::size_t kind, std::int64_t length, std::int64_t batch) {
    const bool is_double = kind % 2 == 0;
    const auto real = is_double ? element_type::f64 : element_type::f32;
    const auto complex = is_double ? element_type::c128 : element_type::c64;
    switch (kind / 2 % 4) {
      case 0:
        return request_of(fft{.x = zeros(complex, {batch, length})});
      case 1:
        return request_of(
            fft{.x = zeros(complex, {batch, length}), .direction = fft_direction::inverse});
      case 2:
        return request_of(rfft{.x = zeros(real, {batch, length})});
      default:
        return request_of(irfft{.x = zeros(complex, {batch, length / 2 + 1}), .length = length});
    }
  }
  /// Different transforms: of prime lengths, of powers of two in batches, and of other lengths.
  std::vector<request> transforms(std::size_t count) {
    std::vector<request> requests;
    std::int64_t prime = 2;
    const auto is_prime = [](std::int64_t n) {
      for (std::int64_t d = 2; d * d <= n; ++d) {
        if (n % d == 0) return false;
      }
      return true;
    };
    for (std::size_t i = 0; requests.size() < count; ++i) {
      const auto step = static_cast<std::int64_t>(i);
      while (!is_prime(++prime)) {
      }
      requests.push_back(transform(i, prime, 1 + step % 3));
      requests.push_back(transform(i / 12, std::int64_t{1} << (i % 12), 2 + step / 96));
      requests.push_back(transform(i, 60 + 6 * step, 1 + step % 4));
    }
    requests.resize(count);
    return requests;
  }
  /// Different convolutions; none if the build has no library for them.
  std::vector<request> convolutions(std::size_t count) {
    std::vector<request> requests;
    if (!descriptor_of(operation_type<conv2d>{}).makes_plans(runtime().device().id().kind))
      return requests;
    auto generator = make_generator();
    std::set<std::string> shapes;
    while (requests.size() < count) {
      const auto d = random_conv2d_description(generator);
      const auto& g = d.geometry;
      const auto shape =
          to_string(d.x) + to_string(d.w) +
          ::testing::PrintToString(std::vector<std::int64_t>{
              g.padding.h, g.padding.w, g.stride.h, g.stride.w, g.dilation.h, g.dilation.w});
      if (!shapes.insert(shape).second) continue;
      requests.push_back(
          request_of(conv2d{.x = zeros(element_type::f32, d.x),
                            .w = zeros(element_type::f32, d.w),
                            .bias = d.has_bias ? zeros(element_type::f32, {d.w[0]}) : tensor(),
                            .geometry = d.geometry,
                            .activation = d.activation}));
    }
    return requests;
  }
  /// Different products of matrices.
  std::vector<request> products(std::size_t count) {
    std::vector<request> requests;
    for (std::int64_t i = 0; requests.size() < count; ++i) {
      const auto m = 1 + i % 31;
      const auto n = 1 + i / 31 % 29;
      const auto k = 1 + i % 67;
      requests.push_back(request_of(
          gemm{.a = zeros(element_type::f32, {m, k}), .b = zeros(element_type::f32, {k, n})}));
    }
    return requests;
  }
  /// Shapes of all kinds in a random order.
  std::vector<request> all_shapes() {
    const std::size_t count = shape_count();
    auto requests = convolutions(3 * count / 10);
    requests.reserve(count);
    for (auto& r : products(count / 5)) requests.push_back(std::move(r));
    for (auto& r : transforms(count - requests.size())) requests.push_back(std::move(r));
    std::shuffle(requests.begin(), requests.end(), make_generator());
    return requests;
  }

 private:
  std::shared_ptr<memory_statistics> pool_memory_ = std::make_shared<memory_statistics>();
  gpu_ref<float> operands_;
};

TEST_P(many_shapes, need_the_bytes_of_the_caches) {
  // What may come on top of the plans that are kept. oneDNN keeps 1024 primitives of its own, about
  // 30 KiB each. On a GPU the driver keeps the kernels that it has loaded, and workspaces grow.
  const std::size_t most_for_libraries = (on_host() ? 64 : 1024) * mebibyte;
  const std::size_t most_more_for_the_second_half = (on_host() ? 32 : 256) * mebibyte;
  const std::size_t most_more_device_memory = (on_host() ? 4 : 256) * mebibyte;
  const auto small = make_executor({.max_plan_bytes = max_plan_bytes});
  const auto requests = all_shapes();
  const auto resident_at_first = resident_bytes();
  std::size_t resident_at_half = 0;
  std::size_t outstanding_at_half = 0;
  std::size_t taken_at_half = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i == requests.size() / 2) {
      resident_at_half = resident_bytes();
      outstanding_at_half = runtime().bytes_outstanding();
      taken_at_half = pool_memory().bytes.current;
    }
    (void)complete(*small, requests[i]);
    // The same shape again makes no plan and takes no memory from the driver.
    const auto plan_count = small->status().plans.made;
    const auto allocations = pool_memory().allocations.total;
    (void)complete(*small, requests[i]);
    const auto plans = small->status().plans;
    ASSERT_EQ(plans.made, plan_count) << i;
    ASSERT_EQ(pool_memory().allocations.total, allocations) << i;
    ASSERT_LE(plans.kept_bytes, max_plan_bytes);
  }
  const auto plans = small->status().plans;
  EXPECT_GT(plans.made, requests.size() / 2);
  // Plans that have been dropped are destroyed a little later.
  EXPECT_LT(plans.kept, plans.made);
  await([&] { return small->status().plans.alive <= plans.kept; });
  EXPECT_LE(small->status().plans.alive_bytes, max_plan_bytes);

  const auto resident = resident_bytes();
  const auto outstanding = runtime().bytes_outstanding();
  const auto held = pool_memory().bytes.current;
  std::printf(
      "%s: %zu shapes, %llu plans, %zu kept with %zu bytes\n"
      "  process memory: %zu MiB at first, %zu at half, %zu at last\n"
      "  device memory in use: %zu KiB at half, %zu at last; held by the pool: %zu, %zu\n",
      GetParam().c_str(), requests.size(), static_cast<unsigned long long>(plans.made), plans.kept,
      plans.kept_bytes, resident_at_first / mebibyte, resident_at_half / mebibyte,
      resident / mebibyte, outstanding_at_half / 1024, outstanding / 1024, taken_at_half / 1024,
      held / 1024);
  EXPECT_LE(outstanding, outstanding_at_half + most_more_device_memory);
  EXPECT_LE(held, taken_at_half + most_more_device_memory);
  if (!measures_process_memory()) return;
  EXPECT_LE(resident, resident_at_half + most_more_for_the_second_half);
  EXPECT_LE(resident, resident_at_first + max_plan_bytes + most_for_libraries);
}

// One program, and as many executables as there are shapes.
TEST_P(many_shapes, of_one_program_need_the_bytes_of_the_cache) {
  // On a GPU the plan of the transform counts a mebibyte of device memory.
  const auto program_bytes = on_host() ? mebibyte : max_plan_bytes;
  program_builder p;
  const auto signal = p.input("signal");
  const auto power = p.add("power", power_spectrum{.x = p.add("spectrum", rfft{.x = signal})});
  const auto product = p.add("product", gemm{.a = power, .b = power.transposed()});
  const program program = std::move(p).build({product});
  const auto small = make_executor({.max_plan_bytes = program_bytes});
  for (std::size_t i = 0; i < shape_count(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    const sluice::run operation{program, {zeros(element_type::f32, {1 + n % 7, 2 + n})}};
    (void)run(*small, operation);
    const auto plans = small->status().plans.made;
    const auto allocations = pool_memory().allocations.total;
    (void)run(*small, operation);
    ASSERT_EQ(small->status().plans.made, plans) << i;
    ASSERT_EQ(pool_memory().allocations.total, allocations) << i;
    ASSERT_LE(small->status().plans.kept_bytes, program_bytes);
  }
  const auto plans = small->status().plans;
  EXPECT_GE(plans.made, shape_count());
  EXPECT_LT(plans.kept, plans.made);
  await([&] { return small->status().plans.alive <= plans.kept; });
  EXPECT_LE(small->status().plans.alive_bytes, program_bytes);
}

// Plans are not made long before they can be launched.
TEST_P(many_shapes, submitted_at_once_need_little_more) {
  const auto small = make_executor({.max_plan_bytes = max_plan_bytes});
  // Those in flight, those that wait with their requests, and those of the next work.
  const std::size_t most = service()->max_in_flight() + 64 + 4;
  const auto beyond_the_cache = [&] {
    const auto plans = small->status().plans;
    return plans.alive - std::min(plans.alive, plans.kept);
  };
  std::vector<pending_answer> answers;
  for (const auto& r : all_shapes()) answers.push_back(r(*small));
  for (auto& a : answers) {
    for (small->work(); !a.answered(); small->work()) {
      // The reclaim thread may be slow to destroy plans that have been dropped. If the others are
      // too many, they stay so without work of the executor.
      if (beyond_the_cache() > most) await([&] { return beyond_the_cache() <= most; });
      waking_alarm()->await();
    }
    (void)a.get();
  }
}

TEST_P(many_shapes, behind_batches_are_not_planned_far_ahead) {
  if (!on_host()) GTEST_SKIP() << "a GPU may not plan behind a closed gate";
  const auto small = make_executor({.max_plan_bytes = 1});
  const auto multiply = products(1).front();
  (void)complete(*small, multiply);
  gate closed;
  closed.hold(small->lane().stream());
  std::vector<pending_answer> answers;
  // Two in flight; the others wait for room.
  for (std::size_t i = 0; i < 102; ++i) answers.push_back(multiply(*small));
  const std::size_t first_plans = small->status().plans.made;
  for (std::int64_t i = 0; i < 200; ++i) answers.push_back(transform(2, 100 + i, 1)(*small));
  const auto planned = [&] {
    return small->status().plans.made - first_plans;
  };
  for (small->work(); planned() < 64; small->work()) waking_alarm()->await();
  for (int i = 0; i < 20; ++i, small->work()) let_others_run(100);
  EXPECT_LE(planned(), 64U + 2U);
  closed.open();
  for (auto& a : answers) (void)wait(*small, a);
  EXPECT_EQ(planned(), 200U);
}

// The plan of the host transforms one row at a time; that of cuFFT depends on the batch. One plan
// serves all transforms of no rows.
TEST_P(many_shapes, of_a_varying_batch_share_a_plan_on_the_host) {
  for (std::int64_t batch = 0; batch < 100; ++batch) {
    (void)complete(test_executor(), transform(0, 60, batch));
  }
  EXPECT_EQ(test_executor().status().plans.made, on_host() ? 2U : 100U);
}

TEST_P(many_shapes, are_refused_if_the_plan_of_one_is_too_large) {
  if (!on_host()) GTEST_SKIP() << "cuFFT does not tell the size of a plan in host memory";
  const auto small = make_executor({.max_host_bytes_of_plan = std::size_t{1} << 16U});
  for (std::size_t kind = 0; kind < 8; ++kind) {
    (void)complete(*small, transform(kind, 128, 1));
    EXPECT_TRUE(throws(errc::unsupported, "max_host_bytes_of_plan is 65536",
                       [&] { (void)complete(*small, transform(kind, 2003, 1)); }));
  }
  EXPECT_EQ(small->status().plans.made, 8U);
}

INSTANTIATE_TEST_SUITE_P(devices, many_shapes, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
