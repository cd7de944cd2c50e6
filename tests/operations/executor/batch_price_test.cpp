// SPDX-License-Identifier: Apache-2.0
// The cost of a batch for the thread that launches it: launches, calls of the device, heap
// allocations, wakes and instructions. No clock is involved. The device is a host device that
// presents itself as a GPU, and the operation is a call that does nothing.
#include "runtime/base/sanitizers.hpp"
#include "runtime/seam.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/instruction_count.hpp"
#include "tests/support/pretended_gpu.hpp"

#include <sluice/envelope/recycled_memory.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using sizes = std::vector<std::size_t>;

/// Reads x and writes y, with a plan or without.
template <bool Planned>
struct touch {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &touch::x), output("y", &touch::y));
  }
};

struct touch_call {
  struct plan_key {
    std::array<std::uint64_t, 8> parameters;
  } key;
  std::size_t count;
};

class touch_plan final : public operation_plan {
 public:
  std::size_t bytes() const noexcept override { return 1; }
};

std::shared_ptr<const operation_plan> make_touch_plan(lane_libraries&, const touch_call&) {
  return std::make_shared<touch_plan>();
}

/// The sizes of the launches of `touch`, in order.
sizes& launched() {
  static sizes launch_sizes;
  return launch_sizes;
}

template <bool Planned>
const operation_descriptor& descriptor_of(operation_type<touch<Planned>>) {
  using touch = test::touch<Planned>;
  static const typed_operation_descriptor<touch, touch_call> descriptor(
      {.name = "touch",
       .infer = [](const touch& op, inference& inference) -> touch_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, x.shape);
         return {{}, x.size()};
       },
       .cuda = {.library = "test", .make_plan = Planned ? &make_touch_plan : nullptr},
       .enqueue = [](lane_libraries&, const touch_call&,
                     const launch_of<touch>&) { launched().push_back(1); },
       .batches = {.most = [](const touch_call&) -> std::size_t { return 128; },
                   .same = [](const touch_call& a,
                              const touch_call& b) { return a.count == b.count; },
                   .enqueue =
                       [](lane_libraries&, const touch_call&, const batch_of<touch>& batch) {
                         launched().push_back(batch.size());
                       }}});
  return descriptor;
}

/// A pretended GPU that counts calls for events and makes them free: it has no work to order. While
/// it is held, no event completes.
class counting_gpu final : public pretended_gpu {
 public:
  counting_gpu() : pretended_gpu(0, open_host_device()) {}

  std::atomic<bool> held{false};
  std::atomic<std::uint64_t> records{0};
  std::atomic<std::uint64_t> waits{0};
  std::atomic<std::uint64_t> queries{0};  // of the thread that made the device

  void record(native_event*, std::uint64_t, native_stream*) override { ++records; }
  void wait(native_stream*, native_event*, std::uint64_t) override { ++waits; }
  event_state query(native_event*, std::uint64_t) noexcept override {
    if (std::this_thread::get_id() == owner_) ++queries;
    return held ? event_state::pending : event_state::complete;
  }
  void acquire(native_event*, std::uint64_t) noexcept override {}
  [[nodiscard]] bool needs_acquire() const noexcept override { return false; }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
};

/// What the launching thread has done.
struct price {
  std::uint64_t allocations;
  std::uint64_t records;
  std::uint64_t waits;
  std::uint64_t queries;
  std::uint64_t wakes;
};

class batch_price : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(SLUICE_THREAD_SANITIZER)
    GTEST_SKIP() << "the events of this device order nothing";
#endif
    launched().clear();
    launched().reserve(1024);
    executor_.on_wake([this] {
      ++wakes_;
      alarm_->ring();
    });
    executor_.on_more([this] { return gathers_; });
    make_operands();
    answers_.reserve(2 * most);
  }
  void TearDown() override {
    gpu_->held = false;
  }

  static constexpr std::size_t most = 256;  // two full batches

  [[nodiscard]] counting_gpu& gpu() {
    return *gpu_;
  }
  /// New operands, with other blocks between them: `count` in all.
  void make_operands(std::size_t count = 0) {
    operands_.clear();
    for (std::size_t i = 0; i < most; ++i) {
      for (std::size_t n = 0; n < count / most; ++n) others_.push_back(block());
      operands_.emplace_back(block(), block());
    }
  }
  /// Requests need plans from now on.
  void set_with_plans() {
    with_plans_ = true;
    submit(1);  // makes the plan
    await_answers();
  }
  /// Submits `count` requests for distinct operands.
  void submit(std::size_t count) {
    make_answers(count);
    submit_made(count);
  }
  void submit_gathered(std::size_t count) {
    make_answers(count);
    gather_and_launch(count);
  }
  void await_answers() {
    for (auto& a : answers_) {
      for (executor_.work(); !a.answered(); executor_.work()) alarm_->await();
      (void)a.get();
    }
    answers_.clear();
    await([&] { return executor_.lane().in_flight() == 0; });
    // Ended launches return their memory after their replies.
    detail::runtime_core::of(runtime())->releases().drain_and_wait();
  }
  /// The price of `batches` batches of `count` requests each.
  [[nodiscard]] price price_of(std::size_t batches, std::size_t count) {
    price sum{};
    for (std::size_t i = 0; i < batches; ++i) {
      make_answers(count);
      const auto before = now();
      gather_and_launch(count);
      const auto after = now();
      sum.allocations += after.allocations - before.allocations;
      sum.records += after.records - before.records;
      sum.waits += after.waits - before.waits;
      sum.queries += after.queries - before.queries;
      sum.wakes += after.wakes - before.wakes;
      gpu_->held = false;
      await_answers();
    }
    return sum;
  }

 private:
  [[nodiscard]] tensor block() {
    return tensor(runtime().allocate<float>(4, stream_.ref(), "test"));
  }
  [[nodiscard]] device_runtime& runtime() {
    return service_->runtime();
  }
  [[nodiscard]] price now() const {
    return {allocations_made(), gpu_->records, gpu_->waits, gpu_->queries, wakes_};
  }
  void make_answers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      tokens_.push_back(answers_.emplace_back(alarm_).token());
  }
  void submit_made(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto& [x, y] = operands_[i];
      if (with_plans_) {
        executor_.submit(touch<true>{.x = x, .y = y}, {}, std::move(tokens_[i]), {});
      } else {
        executor_.submit(touch<false>{.x = x, .y = y}, {}, std::move(tokens_[i]), {});
      }
    }
    tokens_.clear();
  }
  [[gnu::noinline]] void gather_and_launch(std::size_t count) {
    gpu_->held = true;  // otherwise the completion thread would take part
    gathers_ = true;
    submit_made(count);
    gathers_ = false;
    executor_.work();
  }

  std::shared_ptr<counting_gpu> gpu_ = std::make_shared<counting_gpu>();
  std::shared_ptr<device_service> service_ = std::make_shared<device_service>(gpu_);
  std::shared_ptr<alarm> alarm_ = std::make_shared<alarm>();
  std::atomic<std::uint64_t> wakes_{0};
  bool gathers_ = false;
  bool with_plans_ = false;
  executor executor_{service_, nullptr, {}};
  stream stream_ = service_->runtime().create_stream();
  std::vector<std::pair<tensor, tensor>> operands_;
  std::vector<tensor> others_;
  std::vector<pending_answer> answers_;
  std::vector<reply_token<tensor>> tokens_;
};

TEST_F(batch_price, is_paid_for_exactly_the_launches_that_depth_and_limits_allow) {
  gpu().held = true;
  submit(200);
  EXPECT_EQ(launched(), (sizes{1, 1}));
  gpu().held = false;
  await_answers();
  EXPECT_EQ(launched(), (sizes{1, 1, 128, 70}));

  launched().clear();
  submit_gathered(200);
  EXPECT_EQ(launched(), (sizes{128, 72}));
  submit_gathered(200);
  EXPECT_EQ(launched(), (sizes{128, 72}));
  gpu().held = false;
  await_answers();
  EXPECT_EQ(launched(), (sizes{128, 72, 128, 72}));
}

/// The environment variable with the number of requests in a batch, for the program under a tool
/// that counts instructions. 0: only the batches that come first.
const char* const requests_wanted = "SLUICE_TEST_REQUESTS";
/// The one with the number of live blocks beside the operands.
const char* const live_blocks = "SLUICE_TEST_LIVE_BLOCKS";
constexpr std::size_t batches = 16;
/// To make a million blocks takes minutes in a program whose instructions are counted.
constexpr std::size_t many_live_blocks = 30'000;
/// Six percent above the 7200 of GCC 12 at -O3, for other compilers and libraries.
constexpr std::uint64_t most_instructions = 7650;

TEST_F(batch_price, is_one_record_one_wake_and_no_heap_memory) {
  std::vector<std::size_t> counts{1, 8, 64, 128};
  if (const auto* const wanted = std::getenv(requests_wanted)) {
    counts = {std::strtoull(wanted, nullptr, 10)};
  }
  if (const auto* const live = std::getenv(live_blocks)) {
    make_operands(std::strtoull(live, nullptr, 10));
  }
  for (const auto count : counts) {
    (void)price_of(2, most);  // lets everything grow to its final size
    if (count == 0) continue;
    launched().clear();
    const auto paid = price_of(batches, count);
    EXPECT_EQ(launched(), sizes(batches, count));
    // Under AddressSanitizer every launch has new memory.
    if (detail::recycled_memory::keeps_blocks) {
      EXPECT_EQ(paid.allocations, 0U) << count;
    }
    EXPECT_EQ(paid.records, batches) << count;
    EXPECT_EQ(paid.waits, 0U) << count;
    EXPECT_EQ(paid.queries, 0U) << count;
    EXPECT_EQ(paid.wakes, batches) << count;
  }
}

TEST_F(batch_price, is_the_same_with_a_plan) {
  if (!has_device("cuda")) GTEST_SKIP() << "the planner loads kernels, which needs a GPU's driver";
  set_with_plans();
  (void)price_of(2, most);
  launched().clear();
  const auto paid = price_of(batches, 64);
  EXPECT_EQ(launched(), sizes(batches, 64));
  if (detail::recycled_memory::keeps_blocks) {
    EXPECT_EQ(paid.allocations, 0U);
  }
  EXPECT_EQ(paid.records, batches);
  EXPECT_EQ(paid.waits, 0U);
  EXPECT_EQ(paid.queries, 0U);
  EXPECT_EQ(paid.wakes, batches);
}

TEST_F(batch_price, is_the_same_among_a_million_live_blocks) {
  std::vector<price> paid;
  for (const std::size_t live : {1'000, 1'000'000}) {
    make_operands(live);
    (void)price_of(2, most);
    paid.push_back(price_of(batches, 64));
  }
  EXPECT_EQ(paid[0].allocations, paid[1].allocations);
  EXPECT_EQ(paid[0].records, paid[1].records);
  EXPECT_EQ(paid[0].waits, paid[1].waits);
  EXPECT_EQ(paid[0].queries, paid[1].queries);
  EXPECT_EQ(paid[0].wakes, paid[1].wakes);
}

/// Counts the instructions of the launching thread for the batches of `count` requests, and for
/// those that come first.
std::optional<std::uint64_t> instructions_with(std::size_t count) {
  (void)::setenv(requests_wanted, std::to_string(count).c_str(), 1);
  const auto counted = count_instructions("batch_price.is_one_record_one_wake_and_no_heap_memory",
                                          "*gather_and_launch*");
  (void)::unsetenv(requests_wanted);
  return counted;
}

TEST_F(batch_price, is_a_bounded_number_of_instructions_for_each_request) {
  SLUICE_REQUIRE_INSTRUCTION_COUNT();
  const auto first = instructions_with(0);
  const auto with_64 = instructions_with(64);
  const auto with_128 = instructions_with(128);
  (void)::setenv(live_blocks, std::to_string(many_live_blocks).c_str(), 1);
  const auto among_many = instructions_with(64);
  (void)::unsetenv(live_blocks);
  ASSERT_TRUE(first && with_64 && with_128 && among_many);
  const auto of_64 = (*with_64 - *first) / (batches * 64);
  const auto of_128 = (*with_128 - *first) / (batches * 128);
  const auto of_64_among_many = (*among_many - *first) / (batches * 64);
  std::printf(
      "instructions a request: %llu in batches of 64, %llu in batches of 128; %llu in batches of "
      "64 among %zu live blocks\n",
      static_cast<unsigned long long>(of_64), static_cast<unsigned long long>(of_128),
      static_cast<unsigned long long>(of_64_among_many), many_live_blocks);
  RecordProperty("instructions", static_cast<int>(of_128));
  EXPECT_LE(of_128, most_instructions);
  EXPECT_GE(of_128, most_instructions / 4) << "what was counted were no batches";
  EXPECT_LE(of_128, of_64 + of_64 / 20) << "the cost grows with the batch";
  EXPECT_LE(of_64_among_many, of_64 + of_64 / 20) << "the cost grows with the live blocks";
}

}  // namespace
}  // namespace sluice::test
