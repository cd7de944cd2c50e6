// SPDX-License-Identifier: Apache-2.0
// Plans that get what larger batches need after their first launch. The growth is scripted, so that
// it runs on a host device.
#include "operations/executor/batch_growth.hpp"

#include "tests/operations/executing.hpp"
#include "tests/operations/gathering_executor.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::batch_growth;
using sizes = std::vector<std::size_t>;

constexpr std::size_t most = 32;                // launches in a batch
constexpr std::size_t bytes_of_size = 100'000;  // of a plan, for each size

/// What the planner does for the growth of plans. One at a time.
struct growth_script {
  growth_script() { current() = this; }
  growth_script(const growth_script&) = delete;
  growth_script& operator=(const growth_script&) = delete;
  ~growth_script() { current() = nullptr; }
  static growth_script*& current() {
    static growth_script* script = nullptr;
    return script;
  }

  /// The sizes that the planner has begun to make, in order.
  [[nodiscard]] sizes begun() {
    const std::lock_guard lock(mutex);
    return begun_sizes;
  }
  std::mutex mutex;
  sizes begun_sizes;
  std::atomic<std::size_t> refused{0};  ///< the size that cannot be made
  std::atomic<bool> waits{false};       ///< while it is true, making a size lasts until others wait
  std::atomic<int> interruptions{0};
  std::atomic<int> ended{0};
};

class scripted_growth final : public batch_growth {
 public:
  scripted_growth() noexcept : batch_growth(most) {}
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * bytes_of_size; }

 private:
  bool make_size(std::size_t size, lane_libraries& libraries, const plan_limits&,
                 const std::function<bool()>& is_interrupted) noexcept override {
    auto& script = *growth_script::current();
    {
      const std::lock_guard lock(script.mutex);
      script.begun_sizes.push_back(size);
    }
    bool interrupted = false;
    await([&] { return (interrupted = is_interrupted()) || !script.waits; });
    if (script.waits && interrupted) {
      ++script.interruptions;
      ++script.ended;
      return true;
    }
    const bool made = size != script.refused && !libraries.runtime().device().lost();
    if (made) made_size_ = size;
    ++script.ended;
    return made;
  }
  std::size_t adopt_made() noexcept override {
    const std::size_t size = made_size_;
    if (size > std::exchange(adopted_, std::max(adopted_, size))) ++count_;
    return adopted_;
  }

  std::atomic<std::size_t> made_size_{1};
  std::size_t adopted_ = 1;
  std::size_t count_ = 0;  // of the sizes
};

class growing_plan final : public operation_plan {
 public:
  explicit growing_plan(std::size_t commands) noexcept : commands_(commands) {}
  std::size_t bytes() const noexcept override { return 1 + growth_.bytes(); }
  std::size_t commands() const noexcept override { return commands_; }
  std::size_t batch_commands(std::size_t) const noexcept override { return commands_; }
  batch_growth* growth() const noexcept override { return &growth_; }

 private:
  const std::size_t commands_;
  mutable scripted_growth growth_;
};

/// Requests with this key or a greater one enqueue as many device commands as a long program.
constexpr std::int64_t first_long_key = 100;

/// y = x + 1, with a plan for each key.
struct increment {
  operand x{};
  operand y{};
  std::int64_t key = 0;
  double planning_work = plan_price::usual_work;
  static constexpr auto members() {
    return std::make_tuple(input("x", &increment::x), output("y", &increment::y),
                           parameter("key", &increment::key),
                           parameter("planning_work", &increment::planning_work));
  }
};
struct increment_call {
  std::int64_t key;
  std::size_t count;
  double planning_work;
};

const operation_descriptor& descriptor_of(operation_type<increment>) {
  static const typed_operation_descriptor<increment, increment_call> descriptor(
      {.name = "increment",
       .infer = [](const increment& op, inference& inference) -> increment_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, x.shape);
         return {op.key, x.size(), op.planning_work};
       },
       .host = {.library = "test",
                .price =
                    [](const increment_call& call) {
                      return plan_price{1, call.planning_work};
                    },
                .make_plan = [](lane_libraries&, const increment_call& call)
                    -> std::shared_ptr<const operation_plan> {
                  return std::make_shared<growing_plan>(call.key < first_long_key ? 1 : 32);
                }},
       .compute =
           [](const increment_call& call, const launch_of<increment>& launch) {
             const auto* const x = launch.get<const std::uint32_t>(&increment::x);
             auto* const y = launch.get<std::uint32_t>(&increment::y);
             for (std::size_t i = 0; i < call.count; ++i) y[i] = x[i] + 1;
           },
       .batches = {.most = [](const increment_call&) -> std::size_t { return most; },
                   .same = [](const increment_call& a,
                              const increment_call& b) { return a.count == b.count; },
                   .enqueue =
                       [](lane_libraries&, const increment_call&, const batch_of<increment>&) {
                       }}});
  return descriptor;
}

class batch_growths : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    x_ = upload(runtime(), stream(), std::vector<std::uint32_t>{7, 8});
    set_options({});
  }
  void TearDown() override {
    executor_.reset();
    x_ = tensor();
    executor_test::TearDown();
  }
  std::shared_ptr<device> opened_device() override { return open_host_device({.faults = faults_}); }

  void set_options(executor_options options) {
    executor_ = std::make_unique<gathering_executor>(service(), waking(), options);
  }
  [[nodiscard]] executor& tested() { return executor_->get(); }
  [[nodiscard]] growth_script& script() { return script_; }
  [[nodiscard]] fault_script& faults() { return *faults_; }
  [[nodiscard]] increment request(std::int64_t key) const { return {.x = x_, .key = key}; }
  void run_one(std::int64_t key = 1) { expect_result(run(tested(), request(key))); }
  /// Lets `count` requests wait together, then launches them and awaits the answers. Returns the
  /// sizes of the launches.
  sizes run_together(std::size_t count, std::int64_t key = 1) {
    executor_->begin();
    executor_->gather();
    std::vector<pending_answer> answers;
    for (std::size_t i = 0; i < count; ++i) answers.push_back(submit(tested(), request(key)));
    executor_->launch_gathered();
    for (auto& answer : answers) expect_result(wait(tested(), answer));
    return executor_->launched();
  }
  /// While it exists, or until `finish`, no launch of the lane ends.
  class held_lane {
   public:
    explicit held_lane(batch_growths& test) : test_(test) {
      closed_.hold(test.tested().lane().stream());
    }
    held_lane(const held_lane&) = delete;
    held_lane& operator=(const held_lane&) = delete;
    ~held_lane() { finish(); }
    /// Submits requests that are launched together if the executor launches them now.
    void submit(std::size_t count, std::int64_t key) {
      test_.executor_->gather();
      for (std::size_t i = 0; i < count; ++i) {
        answers_.push_back(test_.executor_test::submit(test_.tested(), test_.request(key)));
      }
      test_.executor_->launch_gathered();
    }
    /// Opens the lane and awaits the answers.
    void finish() {
      closed_.open();
      for (auto& answer : answers_) test_.expect_result(test_.wait(test_.tested(), answer));
      answers_.clear();
    }

   private:
    batch_growths& test_;
    gate closed_;
    std::vector<pending_answer> answers_;
  };
  void begin() { executor_->begin(); }
  /// Then batches of up to 8 requests can be made, and `launched` begins.
  void make_batches_of_eight(std::int64_t key) {
    run_one(key);
    (void)run_together(8, key);
    await_attempts(3);
    begin();
  }
  [[nodiscard]] sizes launched() const { return executor_->launched(); }
  /// Serves the executor until the planner has ended `count` attempts.
  void await_attempts(int count) {
    await([&] {
      tested().work();
      return script_.ended.load() == count;
    });
    // The note of the last one may be on its way. Another job of the same thread comes after it.
    settle();
  }
  /// Runs something whose plan is made after all that the planner does now, and adopts it.
  void settle() {
    (void)run(tested(), increment{.x = x_, .key = --last_key_, .planning_work = 1e9});
    tested().work();
  }
  [[nodiscard]] plan_status plans() { return tested().status().plans; }
  void destroy_executor() { executor_.reset(); }
  void expect_result(const tensor& y) {
    EXPECT_EQ(download(y.as<std::uint32_t>(), stream()), (std::vector<std::uint32_t>{8, 9}));
  }
  [[nodiscard]] const tensor& x() const { return x_; }

 private:
  growth_script script_;
  std::shared_ptr<fault_script> faults_ = std::make_shared<fault_script>();
  tensor x_;
  std::int64_t last_key_ = -1000;
  std::unique_ptr<gathering_executor> executor_;
};

TEST_P(batch_growths, are_not_for_requests_that_come_one_by_one) {
  for (int i = 0; i < 100; ++i) run_one();
  settle();
  EXPECT_EQ(script().begun(), sizes());
}

TEST_P(batch_growths, make_the_sizes_that_have_waited_the_smallest_first) {
  run_one();
  script().waits = true;
  EXPECT_EQ(run_together(5), sizes(5, 1)) << "there is nothing for batches yet";
  script().waits = false;
  await_attempts(2);
  EXPECT_EQ(script().begun(), (sizes{2, 4}));
  EXPECT_EQ(run_together(5), sizes{5});
  EXPECT_EQ(run_together(7), sizes{7});
  settle();
  EXPECT_EQ(script().begun(), (sizes{2, 4})) << "eight have not waited";
  EXPECT_EQ(run_together(40), (sizes{32, 8}));
  await_attempts(5);
  EXPECT_EQ(script().begun(), (sizes{2, 4, 8, 16, 32}));
  EXPECT_EQ(run_together(40), (sizes{32, 8}));
  settle();
  EXPECT_EQ(script().begun().size(), 5U);
}

TEST_P(batch_growths, end_with_the_size_that_cannot_be_made) {
  script().refused = 4;
  run_one();
  (void)run_together(40);
  await_attempts(2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run_together(32), sizes{32});
    settle();
  }
  EXPECT_EQ(script().begun(), (sizes{2, 4}));
}

TEST_P(batch_growths, leave_requests_alone_if_nothing_can_be_made) {
  script().refused = 2;
  run_one();
  (void)run_together(40);
  await_attempts(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run_together(32), sizes(32, 1));
    settle();
  }
  EXPECT_EQ(script().begun(), sizes{2});
}

TEST_P(batch_growths, count_in_the_size_of_a_plan) {
  run_one();
  const auto before = plans();
  (void)run_together(9);
  await_attempts(3);
  const auto settled_plans = plans().made - before.made;  // of `settle`
  EXPECT_EQ(plans().alive_bytes, before.alive_bytes + 3 * bytes_of_size + settled_plans);
  EXPECT_GE(plans().kept_bytes, before.kept_bytes + 3 * bytes_of_size);
  EXPECT_LE(plans().kept_bytes, before.kept_bytes + 3 * bytes_of_size + settled_plans * 1000);
}

TEST_P(batch_growths, displace_plans_that_were_used_before) {
  set_options({.max_plan_bytes = 4 * bytes_of_size});
  run_one(2);
  run_one(1);
  const auto made = plans().made;
  (void)run_together(32);
  await([&] {
    tested().work();
    return script().ended.load() == 5;
  });
  await([&] {
    tested().work();
    return plans().alive_bytes > 5 * bytes_of_size;
  });
  EXPECT_EQ(plans().kept, 1U) << "the last one is kept whatever its size";
  run_one(1);
  EXPECT_EQ(plans().made, made);
  run_one(2);
  EXPECT_EQ(plans().made, made + 1);
  // All of it has been counted.
  await([&] {
    runtime().reap_pending();
    tested().work();
    return plans().alive == plans().kept;
  });
  EXPECT_EQ(plans().alive_bytes, plans().kept);
}

TEST_P(batch_growths, let_plans_for_requests_pass) {
  run_one();
  script().waits = true;
  (void)run_together(2);
  await([&] { return !script().begun().empty(); });
  EXPECT_EQ(script().interruptions, 0);
  // Its plan is made by the thread that makes the size.
  expect_result(run(tested(), increment{.x = x(), .key = 2, .planning_work = 1e9}));
  EXPECT_EQ(script().interruptions, 1);
  script().waits = false;
  await([&] {
    tested().work();
    return script().ended.load() > 1;
  });
  settle();
  EXPECT_EQ(run_together(2), sizes{2}) << "it has been tried again";
}

TEST_P(batch_growths, end_with_the_executor) {
  run_one();
  script().waits = true;
  (void)run_together(2);
  await([&] { return !script().begun().empty(); });
  destroy_executor();  // otherwise waits for ever
  EXPECT_EQ(script().interruptions, 1);
}

TEST_P(batch_growths, of_a_plan_that_is_dropped_do_no_harm) {
  set_options({.max_plan_bytes = 1});  // one plan
  run_one(1);
  script().waits = true;
  (void)run_together(2, 1);
  await([&] { return !script().begun().empty(); });
  run_one(2);  // drops the other plan, and makes its own on the thread for short jobs
  EXPECT_EQ(plans().kept, 1U);
  script().waits = false;
  settle();
  await([&] {
    runtime().reap_pending();
    tested().work();
    return plans().alive == 1;
  });
  EXPECT_EQ(plans().alive_bytes, 1U);
  run_one(1);
}

TEST_P(batch_growths, go_on_after_a_request_has_been_cancelled) {
  run_one();
  const request_sender sender{3};
  std::optional<pending_answer> cancelled;
  {
    script().waits = true;
    (void)run_together(2);
    await([&] { return !script().begun().empty(); });
    cancelled =
        submit(tested(), increment{.x = x(), .key = 9, .planning_work = 1e9}, {.id = 4}, sender);
    tested().cancel(sender, 4);
    script().waits = false;
  }
  EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)wait(tested(), *cancelled); }));
  settle();
  settle();
  EXPECT_EQ(run_together(2), sizes{2});
}

TEST_P(batch_growths, let_the_runs_of_a_long_plan_take_turns_in_two_batches) {
  constexpr auto key = first_long_key;
  make_batches_of_eight(key);
  {
    held_lane lane(*this);
    lane.submit(8, key);
    lane.submit(3, key);
    EXPECT_EQ(launched(), (sizes{8, 3}));
  }
  held_lane lane(*this);
  lane.submit(4, key);
  lane.submit(2, key);
  EXPECT_EQ(launched(), (sizes{8, 3, 4})) << "there were eleven";
  lane.submit(4, key);
  EXPECT_EQ(launched(), (sizes{8, 3, 4, 6})) << "one less is expected with each launch";
  lane.submit(2, key);
  EXPECT_EQ(launched(), (sizes{8, 3, 4, 6})) << "two batches are in flight";
  lane.finish();
  EXPECT_EQ(launched(), (sizes{8, 3, 4, 6, 2})) << "launched when those before it had ended";
}

TEST_P(batch_growths, cut_the_batches_of_a_long_plan_into_sizes_that_are_made) {
  constexpr auto key = first_long_key;
  script().refused = 16;
  make_batches_of_eight(key);
  held_lane lane(*this);
  lane.submit(5, key);
  EXPECT_EQ(launched(), (sizes{4, 1}));
  lane.submit(32, key);
  lane.finish();
  EXPECT_EQ(launched(), (sizes{4, 1, 8, 8, 8, 8}));
}

TEST_P(batch_growths, await_no_company_while_another_request_waits) {
  constexpr auto key = first_long_key;
  for (const auto any : {key, key + 1, std::int64_t{1}}) {
    run_one(any);
    (void)run_together(2, any);
  }
  await_attempts(3);
  for (const auto other : {key + 1, std::int64_t{1}}) {
    begin();
    {
      held_lane lane(*this);
      lane.submit(2, key);
      lane.submit(2, key);
      EXPECT_EQ(launched(), (sizes{2, 2}));
    }
    begin();
    held_lane lane(*this);
    lane.submit(1, key);
    lane.submit(1, key);
    EXPECT_EQ(launched(), sizes{1}) << "there were four";
    lane.submit(1, other);
    EXPECT_EQ(launched(), (sizes{1, 1}));
    lane.finish();
    EXPECT_EQ(launched(), (sizes{1, 1, 1}));
  }
}

TEST_P(batch_growths, let_no_batch_of_a_short_plan_wait_for_company) {
  run_one();
  (void)run_together(4);
  await_attempts(2);
  begin();
  {
    held_lane lane(*this);
    lane.submit(4, 1);
    lane.submit(4, 1);
  }
  held_lane lane(*this);
  lane.submit(4, 1);
  lane.submit(1, 1);
  EXPECT_EQ(launched(), (sizes{4, 4, 4, 1}));
}

INSTANTIATE_TEST_SUITE_P(devices, batch_growths, ::testing::Values("host"), parameter_name);

TEST(batch_growth, asks_once_for_each_size) {
  growth_script script;
  scripted_growth growth;
  EXPECT_EQ(growth.size(), 1U);
  EXPECT_EQ(growth.next_size(), 2U);
  EXPECT_TRUE(growth.may_take_batches());
  EXPECT_FALSE(growth.wants_next());
  growth.note_waiting(3);
  EXPECT_TRUE(growth.wants_next());
  EXPECT_FALSE(growth.wants_next());
  growth.end_request();
  EXPECT_TRUE(growth.wants_next()) << "it has not been made";
  EXPECT_EQ(growth.most_counted(), most);
  growth.note_waiting(most);
  EXPECT_EQ(growth.most_counted(), 0U) << "more make no difference";
}

}  // namespace
}  // namespace sluice::test
