// SPDX-License-Identifier: Apache-2.0
// Malformed requests are refused at once, with the argument that is wrong, and change nothing.
#include "tests/operations/executing.hpp"
#include "tests/operations/hostile/contents.hpp"
#include "tests/operations/hostile/judge.hpp"
#include "tests/operations/hostile/mutations.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/heap.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations.hpp>
#include <sluice/operations/operation_table.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

/// Whether this build computes an operation on devices of a kind.
bool is_available(const operation_mutations& operation, device_kind kind) {
  // Only convolutions need a library that the build may not have.
  if (operation.descriptor == nullptr) return true;
  const auto name = operation.descriptor->name();
  const bool needs_library =
      name == "conv2d" || name == "convolution" || name == "transposed_convolution";
  return !needs_library || operation.descriptor->makes_plans(kind);
}

class hostile_requests : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    driver_ = std::make_shared<memory_statistics>();
    service_ = std::make_shared<device_service>(
        GetParam(),
        device_service_options{.runtime = {.resource = make_pool_resource(make_statistics_resource(
                                               make_async_resource(), driver_))}});
    executor_ = std::make_unique<executor>(service_);
    executor_->on_wake([wakes = wakes_, alarm = alarm_] {
      ++*wakes;
      alarm->ring();
    });
    stream_ = runtime().create_stream();
    other_ = std::make_unique<device_runtime>(open_device(GetParam()));
    other_stream_ = other_->create_stream();
    for (auto& operation : all_mutations()) {
      if (is_available(operation, runtime().device().id().kind)) {
        operations_.push_back(std::move(operation));
      }
    }
  }
  void TearDown() override {
    executor_.reset();
    stream_ = sluice::stream();
    other_stream_ = sluice::stream();
    other_.reset();
    service_.reset();
  }

  [[nodiscard]] device_runtime& runtime() { return service_->runtime(); }
  [[nodiscard]] const std::vector<operation_mutations>& operations() const { return operations_; }
  [[nodiscard]] bench make_bench() {
    return {runtime(), stream_.ref(), *other_, other_stream_.ref(), generator_};
  }
  /// One of the numbers from 0 to `count` - 1.
  [[nodiscard]] std::size_t draw(std::size_t count) { return generator_() % count; }

  [[nodiscard]] observed observe() {
    return {runtime().statistics(), driver_->counters(), wakes_->load()};
  }
  /// Sends a request that should be refused. Returns what is wrong with the answer or has changed;
  /// nothing if all is well.
  [[nodiscard]] std::string judge(const mutation& m, bool with_contents) {
    auto test_bench = make_bench();
    const auto request = m.make(test_bench);
    std::optional<contents> kept;
    if (with_contents) kept.emplace(*request, runtime(), stream_.ref(), generator_);
    const counted_answers answers(alarm_);
    const auto before = observe();
    request->submit(*executor_, answers.token());
    const bool at_once = answers.count() == 1;
    const auto waiting = executor_->status();
    const auto after = observe();
    if (!at_once) answers.await(*executor_);
    auto wrong = wrong_answer(answers, m);
    if (!wrong.empty()) return wrong;
    if (!at_once) return "was not answered at once";
    if (waiting.requests != 0 || waiting.planning != 0 || waiting.bytes != 0) {
      return "waits in the queue";
    }
    wrong = before.change(after);
    return wrong.empty() && kept ? kept->changes(*request) : wrong;
  }
  [[nodiscard]] std::string judge(const operation_mutations& operation, const mutation& m,
                                  bool with_contents) {
    const auto wrong = judge(m, with_contents);
    return wrong.empty() ? "" : operation.name + ", " + m.description + ": " + wrong;
  }
  /// Returns when the planner has done all that it was asked for.
  void await_planner() {
    struct meeting {
      std::mutex mutex;
      std::condition_variable changed;
      bool over = false;
    };
    const auto met = std::make_shared<meeting>();
    planner::client mine(service_->planner());
    mine.post([met] {
      const std::lock_guard lock(met->mutex);
      met->over = true;
      met->changed.notify_all();
    });
    std::unique_lock lock(met->mutex);
    met->changed.wait(lock, [&] { return met->over; });
  }
  /// Waits for the launches of this test, and gives the driver all memory that nothing refers to.
  void rest() {
    stream_.synchronize();
    (void)runtime().trim_memory();
    (void)other_->trim_memory();
  }
  [[nodiscard]] const std::shared_ptr<alarm>& waking_alarm() const { return alarm_; }
  [[nodiscard]] executor& test_executor() { return *executor_; }
  /// How often the planner or the lane has woken the owner of the executor.
  [[nodiscard]] int wakes() const { return wakes_->load(); }

 private:
  std::mt19937_64 generator_ = make_generator();
  std::shared_ptr<alarm> alarm_ = std::make_shared<alarm>();
  std::shared_ptr<std::atomic<int>> wakes_ = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<memory_statistics> driver_;
  std::shared_ptr<device_service> service_;
  std::unique_ptr<executor> executor_;
  sluice::stream stream_;
  std::unique_ptr<device_runtime> other_;
  sluice::stream other_stream_;
  std::vector<operation_mutations> operations_;
};
INSTANTIATE_TEST_SUITE_P(devices, hostile_requests, every_device(), parameter_name);

TEST_P(hostile_requests, are_each_refused_with_the_name_of_the_argument) {
  for (const auto& operation : operations()) {
    for (const auto& m : operation.mutations) EXPECT_EQ(judge(operation, m, true), "");
    RecordProperty(operation.name, static_cast<int>(operation.mutations.size()));
  }
  await_planner();
  EXPECT_EQ(wakes(), 0);
}

TEST_P(hostile_requests, tens_of_thousands_change_nothing) {
  const auto round = [&](int requests) {
    constexpr int with_contents = 50;
    for (int i = 0; i < requests; ++i) {
      const auto& operation = operations()[draw(operations().size())];
      const auto& m = operation.mutations[draw(operation.mutations.size())];
      ASSERT_EQ(judge(operation, m, i % with_contents == 0), "") << "request " << i;
    }
    rest();
  };
  round(10'000);  // everything grows to its size
  const auto before = observe();
  const auto heap_before = heap_in_use();
  // So many that a leak is larger than what the heap grows by once, which is less than a megabyte.
  constexpr int requests = 100'000;
  round(requests);
  const auto heap_after = heap_in_use();
  const auto after = observe();
  EXPECT_EQ(after.runtime.blocks, before.runtime.blocks);
  EXPECT_EQ(after.runtime.bytes_outstanding, before.runtime.bytes_outstanding);
  EXPECT_EQ(after.runtime.references, before.runtime.references);
  EXPECT_EQ(after.runtime.points, before.runtime.points);
  EXPECT_EQ(after.runtime.events, before.runtime.events);
  EXPECT_EQ(after.driver.bytes.current, before.driver.bytes.current);
  EXPECT_EQ(after.driver.allocations.current, before.driver.allocations.current);
  // A leak would take at least 32 bytes for each request.
  EXPECT_LE(heap_after, heap_before + std::size_t{requests} * 16);
  await_planner();
  EXPECT_EQ(wakes(), 0);
}

// Beside an extent of 0, the product of the others does not fit into 64 bits.
TEST_P(hostile_requests, of_no_elements_are_answered_whatever_the_other_extents_are) {
  auto test_bench = make_bench();
  constexpr auto many = std::int64_t{1} << 40U;
  const auto c64 = test_bench.empty(element_type::c64, {many, many, 0, 4});
  const auto f32 = test_bench.empty(element_type::f32, {many, many, 0, 4});
  const auto succeed = [&](auto operation) {
    const counted_answers answers(waking_alarm());
    const request_for request(std::move(operation));
    request.submit(test_executor(), answers.token());
    answers.await(test_executor());
    EXPECT_EQ(answers.count(), 1);
    EXPECT_FALSE(answers.failure()) << answers.failure()->what();
  };
  succeed(gemm{.a = f32, .b = f32.reshape({many, many, 4, 0}), .c = {}});
  succeed(fft{.x = c64});
  succeed(rfft{.x = f32});
  succeed(irfft{.x = c64});
  succeed(sluice::cast{.x = f32, .type = element_type::f64});
  succeed(strided_copy{.x = f32});
  succeed(affine{.x = f32});
  succeed(concatenate{.x = {f32, f32}, .axis = -1});
  succeed(stack{.x = {f32, f32}});
  succeed(sort{.x = f32});
  succeed(add(f32, f32));
  succeed(reduce{.x = f32, .axes = extents{3}});
  succeed(resize{.x = test_bench.empty(element_type::u8, {many, many, 0, 3, 4}), .sizes = {2, 3}});
  succeed(quantize{.x = f32, .scale = test_bench.make(element_type::f32, {})});
  succeed(dynamic_quantize{.x = f32});
  succeed(histogram{.x = f32, .bins = 5, .low = 0, .high = 1});
  succeed(depth_to_space{.x = f32, .block = 1});
  succeed(sluice::reverse{.x = f32, .axes = {0, 3}});
  succeed(frame_signal{.signal = f32, .n_fft = 2, .hop = 1});
  succeed(power_spectrum{.x = c64});
  succeed(power_to_decibel{.x = f32, .reference = test_bench.make(element_type::f32, {1})});
  succeed(random_bits{.shape = f32.shape()});
  succeed(fill{.shape = f32.shape()});
}

TEST_P(hostile_requests, cannot_have_operands_of_types_that_do_not_exist) {
  auto test_bench = make_bench();
  const auto known = test_bench.make(element_type::f32, {4});
  for (const int value : {static_cast<int>(element_type::c128) + 1, 255}) {
    const auto type = static_cast<element_type>(value);
    const auto refused = [](auto&& make) {
      return throws(errc::invalid_argument, "type: ", make);
    };
    EXPECT_TRUE(refused([&] { (void)tensor(known.block(), type, {4}); }));
    EXPECT_TRUE(refused([&] { (void)tensor(known.block(), type, {2, 2}, {1, 2}, 4); }));
    EXPECT_TRUE(refused([&] { (void)known.reinterpret(type); }));
    EXPECT_TRUE(refused([&] { (void)host_tensor(type, {4}); }));
    EXPECT_TRUE(refused([&] { (void)tensor_spec::row_major(type, {0}); }));
  }
}

// Negative controls: a request that the tests above must not take for a refused one.

/// The mutation of `name` with `description`.
mutation find_mutation(const std::vector<operation_mutations>& all, const std::string& name,
                       const std::string& description) {
  for (const auto& operation : all) {
    for (const auto& m : operation.mutations) {
      if (operation.name == name && m.description == description) return m;
    }
  }
  throw error(errc::invalid_argument, name + " has no mutation '" + description + "'");
}

TEST_P(hostile_requests, a_valid_request_is_found) {
  auto list = mutations_of<binary>([](bench& test_bench) {
    const auto shape = test_bench.shape(2);
    return sluice::add(test_bench.make(element_type::i32, shape),
                       test_bench.make(element_type::i32, shape));
  });
  list.add("nothing", errc::invalid_argument, "a", [](binary&, bench&) {});
  const auto all = std::move(list).take();
  EXPECT_EQ(judge(all.mutations.front(), true), "was not refused");
}

TEST_P(hostile_requests, a_request_that_reaches_the_planner_is_found) {
  auto list = mutations_of<fft>([](bench& test_bench) -> fft {
    return {.x = test_bench.make(element_type::c64, test_bench.shape(2))};
  });
  list.add("nothing", errc::invalid_argument, "x", [](fft&, bench&) {});
  const auto all = std::move(list).take();
  ASSERT_EQ(wakes(), 0);
  EXPECT_EQ(judge(all.mutations.front(), false), "was not refused");
  EXPECT_GT(wakes(), 0);
}

TEST_P(hostile_requests, another_code_or_argument_is_found) {
  auto m = find_mutation(operations(), "gemm", "stale a");
  EXPECT_EQ(judge(m, true), "");
  m.code = errc::invalid_argument;
  EXPECT_NE(judge(m, true), "");
  m.code = errc::stale_ref;
  m.argument = "b";
  EXPECT_NE(judge(m, true), "");
}

TEST_P(hostile_requests, changed_elements_are_found) {
  auto test_bench = make_bench();
  const auto shape = test_bench.shape(2);
  const auto x = test_bench.make(element_type::i32, shape);
  const request_for<sluice::download> request(sluice::download{
      .x = x,
      .target = std::make_shared<host_tensor>(test_bench.process(element_type::i32, shape))});
  std::mt19937_64 generator = make_generator();
  const auto on_stream = runtime().create_stream();
  const contents before(request, runtime(), on_stream, generator);
  EXPECT_EQ(before.changes(request), "");
  auto target = request.host_tensors().front();
  static_cast<std::uint8_t*>(target.data().get())[0] ^= 1U;
  EXPECT_NE(before.changes(request), "");
  static_cast<std::uint8_t*>(target.data().get())[0] ^= 1U;
  const contents other(request, runtime(), on_stream, generator);
  EXPECT_NE(before.changes(request), "");
}

TEST(hostile_mutations, spoil_each_operand_of_every_operation) {
  const auto all = all_mutations();
  for (const auto& described : describe_operations()) {
    const auto* const descriptor = described.descriptor;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& o) {
      return o.descriptor == descriptor ||
             std::count(o.functions.begin(), o.functions.end(), descriptor) != 0;
    });
    if (found == all.end()) {
      ADD_FAILURE() << "there are no mutations of " << descriptor->name();
      continue;
    }
    for (const auto& operand : found->operands) {
      EXPECT_TRUE(std::any_of(found->mutations.begin(), found->mutations.end(),
                              [&](const mutation& m) { return m.argument == operand; }))
          << descriptor->name() << " has no mutation of " << operand;
    }
  }
}

TEST(observed, states_what_has_changed) {
  const observed before;
  EXPECT_EQ(before.change(before), "");
  for (const auto counter : {&runtime_statistics::blocks, &runtime_statistics::bytes_outstanding,
                             &runtime_statistics::peak_bytes, &runtime_statistics::references}) {
    auto after = before;
    ++(after.runtime.*counter);
    EXPECT_NE(before.change(after), "");
  }
  auto launched = before;
  ++launched.runtime.launches;
  EXPECT_EQ(before.change(launched), "launches: 0 became 1; ");
  auto allocated = before;
  ++allocated.driver.allocations.total;
  EXPECT_NE(before.change(allocated), "");
  auto woken = before;
  ++woken.wakes;
  EXPECT_NE(before.change(woken), "");
}

}  // namespace
}  // namespace sluice::test
