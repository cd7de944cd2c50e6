// SPDX-License-Identifier: Apache-2.0
// One launch from validation to release: the order of its steps, its replies and its owners.
#include "runtime/core/runtime_core.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/envelope/recording_trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::test;
using names = std::vector<std::string>;

/// A token that records its answer in `trace` as "reply" or "error".
reply_token<words> noting(const std::shared_ptr<recording_trace>& trace) {
  return reply_token<words>::from([trace](const words&) { trace->note("reply"); },
                                  [trace](const error&) { trace->note("error"); });
}

class kernel_envelope_test : public service_test {
 protected:
  std::shared_ptr<recording_trace> trace_ = std::make_shared<recording_trace>();
  kernel_envelope envelope_ =
      kernel_envelope({.library = "tests", .operation = "fill", .type = element_type::u32});

  void SetUp() override {
    service_test::SetUp();
    envelope_.trace(trace_).nvtx_label("fill words");
  }

  /// Fills `out` with one launch, and waits until its owners have been released.
  void run(const words& out, reply_on when, bool fails = false) {
    envelope_.run(test_lane(), access_all(runtime(), write(out, "out")), noting(trace_), out,
                  {.when = when, .sizes = {64, 2, 3, 4}}, [&](const launch_context& context) {
                    trace_->note("closure");
                    filling(out, 7)(context);
                    if (fails) throw error(errc::library_failure, "after enqueueing");
                  });
    settle(*service_);
  }
};

TEST_P(kernel_envelope_test, takes_a_closure_that_does_not_change) {
  const auto out = allocate();
  const auto closure = filling(out, 7);
  envelope_.run(test_lane(), access_all(runtime(), write(out, "out")), noting(trace_), out, {},
                closure);
  settle(*service_);
  expect_filled(out, 7);
}

TEST_P(kernel_envelope_test, takes_its_steps_in_order) {
  const auto out = allocate();
  run(out, reply_on::finished);
  EXPECT_EQ(trace_->names(), (names{"before_enqueue", "closure", "after_enqueue", "before_complete",
                                    "after_complete", "reply"}));
  expect_filled(out, 7);
}

TEST_P(kernel_envelope_test, answers_an_enqueued_request_before_the_hand_over) {
  const auto out = allocate();
  run(out, reply_on::enqueued);
  EXPECT_EQ(trace_->names(), (names{"before_enqueue", "closure", "after_enqueue", "before_complete",
                                    "reply", "after_complete"}));
  expect_filled(out, 7);
}

TEST_P(kernel_envelope_test, fires_every_hook_of_a_launch_whose_closure_fails) {
  for (const auto when : {reply_on::finished, reply_on::enqueued}) {
    trace_ = std::make_shared<recording_trace>();
    envelope_.trace(trace_);
    run(allocate(), when, true);
    EXPECT_EQ(trace_->names(), (names{"before_enqueue", "closure", "after_enqueue",
                                      "before_complete", "error", "after_complete"}));
    const auto calls = trace_->calls();
    EXPECT_EQ(calls[2].failure, errc::library_failure);
    EXPECT_EQ(calls[5].failure, errc::library_failure);
  }
}

TEST_P(kernel_envelope_test, fires_no_hook_when_preflight_refuses) {
  const auto out = allocate();
  auto uses = access_all(runtime(), write(out, "out"));
  runtime().deallocate(out.block());
  envelope_.run(test_lane(), std::move(uses), noting(trace_), out, {},
                [&](const launch_context&) { trace_->note("closure"); });
  EXPECT_EQ(trace_->names(), (names{"error"}));
}

TEST_P(kernel_envelope_test, holds_leases_until_the_commit_and_publishes_before_it_waits) {
  const auto out = allocate();
  std::map<std::string, runtime_statistics> counters;
  trace_->in_hook = [&](const std::string& hook) {
    counters[hook] = runtime().statistics();
  };
  const auto launches = runtime().statistics().launches;
  run(out, reply_on::finished);
  EXPECT_EQ(counters["before_enqueue"].leases, 1u);
  EXPECT_EQ(counters["after_enqueue"].leases, 1u);
  EXPECT_EQ(counters["before_enqueue"].launches, launches);
  EXPECT_EQ(counters["after_enqueue"].launches, launches);
  EXPECT_EQ(counters["before_complete"].leases, 0u);
  EXPECT_EQ(counters["before_complete"].launches, launches + 1);
}

TEST_P(kernel_envelope_test, tells_hooks_what_is_launched) {
  const auto out = allocate();
  run(out, reply_on::finished);
  run(out, reply_on::finished);
  std::vector<std::uint64_t> requests;
  for (const auto& call : trace_->calls()) {
    if (call.hook == "closure" || call.hook == "reply") continue;
    EXPECT_EQ(call.library, "tests");
    EXPECT_EQ(call.operation, "fill");
    EXPECT_EQ(call.label, "fill words");
    EXPECT_EQ(call.type, element_type::u32);
    EXPECT_EQ(call.device, runtime().device().id());
    EXPECT_EQ(call.stream, test_lane().stream().id());
    EXPECT_EQ(call.sizes, (std::array<std::int64_t, 4>{64, 2, 3, 4}));
    EXPECT_EQ(call.failure, std::nullopt);
    if (call.hook == "before_enqueue") requests.push_back(call.launch_id);
    EXPECT_EQ(call.launch_id, requests.back());
    if (call.hook == "after_complete") {
      EXPECT_GT(call.latency.count(), 0);
    }
  }
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_LT(requests[0], requests[1]);
}

TEST_P(kernel_envelope_test, drops_and_counts_what_hooks_throw) {
  const auto out = allocate();
  const auto dropped = dropped_trace_exceptions();
  trace_->in_hook = [](const std::string& hook) {
    if (hook == "after_enqueue") throw 42;
    throw std::runtime_error("from a hook");
  };
  run(out, reply_on::finished);
  EXPECT_EQ(trace_->names(), (names{"closure", "reply"}));
  EXPECT_EQ(dropped_trace_exceptions(), dropped + 4);
  expect_filled(out, 7);
}

TEST_P(kernel_envelope_test, has_a_short_form) {
  const auto out = allocate();
  mailbox<words> box;
  run_kernel(test_lane(), access_all(runtime(), write(out, "out", 64)), box.token(), out,
             filling(out, 9));
  EXPECT_EQ(box.value(), out);
  settle(*service_);
  EXPECT_EQ(box.count(), 1u);
  expect_filled(out, 9);
}

TEST_P(kernel_envelope_test, launches_what_touches_no_memory) {
  mailbox<int> box;
  bool called = false;
  envelope_.run(test_lane(), access_all(runtime()), box.token(), 5, {},
                [&](const launch_context& context) {
                  called = true;
                  EXPECT_EQ(context.stream, test_lane().stream());
                  EXPECT_EQ(context.native(), test_lane().stream().native());
                });
  EXPECT_EQ(box.value(), 5);
  EXPECT_TRUE(called);
  settle(*service_);
  EXPECT_EQ(trace_->names().size(), 4u);
}

TEST_P(kernel_envelope_test, carries_outputs_of_several_references) {
  const auto a = allocate();
  const auto b = allocate();
  mailbox<std::vector<words>> box;
  run_kernel(test_lane(), access_all(runtime(), write(a, "a"), write(b, "b")), box.token(),
             std::vector<words>{a, b}, [&](const launch_context& context) {
               filling(a, 1)(context);
               filling(b, 2)(context);
             });
  const auto got = box.value();
  ASSERT_EQ(got.size(), 2u);
  expect_filled(got[0], 1);
  expect_filled(got[1], 2);
}

TEST_P(kernel_envelope_test, does_not_answer_a_request_that_has_been_answered) {
  const auto out = allocate();
  mailbox<words> box;
  const auto token = box.token();
  token.fail(error(errc::overloaded, "answered elsewhere"));
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), token, out, filling(out, 3));
  settle(*service_);
  EXPECT_EQ(box.count(), 1u);
  EXPECT_EQ(box.failure(), errc::overloaded);
  expect_filled(out, 3);
}

TEST_P(kernel_envelope_test, holds_nothing_any_more_when_the_reply_arrives) {
  // A client that drops its references when the reply arrives can allocate the memory at once.
  const auto before = runtime().bytes_outstanding();
  std::size_t then = 1;
  std::optional<errc> code;
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> plan_alive = plan;
  {
    auto out = allocate();
    auto uses = access_all(runtime(), write(out, "out"));
    uses.keep(std::move(plan));
    auto fill_out = filling(out, 1);
    run_kernel(test_lane(), std::move(uses),
               reply_token<words>::from(
                   [&](words reply) {
                     reply = {};
                     then = runtime().bytes_outstanding();
                   },
                   [&](const error& why) { code = why.code(); }),
               std::exchange(out, {}), fill_out);
  }
  settle(*service_);
  EXPECT_EQ(code, std::nullopt);
  EXPECT_EQ(then, before);
  EXPECT_TRUE(plan_alive.expired());
}

TEST_P(kernel_envelope_test, outlives_its_names) {
  // The envelope is destroyed right after the launch; the strings of the hooks must live longer.
  const auto out = allocate();
  const std::string long_name(200, 'n');
  mailbox<words> box;
  {
    kernel_envelope short_lived({.library = long_name, .operation = long_name});
    short_lived.trace(trace_).nvtx_label(long_name);
    short_lived.run(test_lane(), access_all(runtime(), write(out, "out")), box.token(), out, {},
                    filling(out, 1));
  }
  (void)box.value();
  settle(*service_);
  const auto calls = trace_->calls();
  ASSERT_EQ(calls.size(), 4u);
  for (const auto& call : calls) {
    EXPECT_EQ(call.library, long_name);
    EXPECT_EQ(call.operation, long_name);
    EXPECT_EQ(call.label, long_name);
  }
}

TEST_P(kernel_envelope_test, a_copy_keeps_its_own_trace_and_label) {
  auto other_trace = std::make_shared<recording_trace>();
  auto copy = envelope_;
  copy.trace(other_trace).nvtx_label("other");
  const auto out = allocate();
  mailbox<words> box;
  copy.run(test_lane(), access_all(runtime(), write(out, "out")), box.token(), out, {},
           filling(out, 1));
  (void)box.value();
  run(out, reply_on::finished);
  EXPECT_EQ(other_trace->calls().front().label, "other");
  EXPECT_EQ(trace_->calls().front().label, "fill words");
}

INSTANTIATE_TEST_SUITE_P(devices, kernel_envelope_test,
                         testing::Combine(every_device(), every_strategy()), name_of_where);

/// Tests that need a stream behind a closed gate.
class gated_envelope_test : public service_test {};

TEST_P(gated_envelope_test, a_finished_reply_waits_for_the_device) {
  const auto out = allocate();
  const auto early = allocate();
  gate closed;
  mailbox<words> before;
  run_kernel(test_lane(), access_all(runtime(), write(early, "early")), before.token(), early,
             filling(early, 1));
  (void)before.value();
  closed.hold(test_lane().stream());
  mailbox<words> box;
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box.token(), out,
             filling(out, 2));
  // There is no reply even after a complete launch on another lane.
  lane other(service_);
  mailbox<words> aside;
  run_kernel(other, access_all(runtime(), write(early, "early")), aside.token(), early,
             filling(early, 3));
  (void)aside.value();
  EXPECT_EQ(box.count(), 0u);
  EXPECT_GE(service_->engine().pending(), 1u);
  closed.open();
  EXPECT_EQ(box.value(), out);
  settle(*service_);
  EXPECT_EQ(box.count(), 1u);
  expect_filled(out, 2);
}

TEST_P(gated_envelope_test, a_long_kernel_does_not_delay_another_streams_replies) {
  gate closed;
  const auto slow = allocate();
  closed.hold(test_lane().stream());
  mailbox<words> late;
  run_kernel(test_lane(), access_all(runtime(), write(slow, "slow")), late.token(), slow,
             filling(slow, 1));
  lane other(service_);
  const auto fast = allocate();
  // The launch must not wait for the gate, so it needs memory of its own stream.
  const auto mine = runtime().allocate<std::uint32_t>(64, other.stream());
  for (std::uint32_t i = 0; i < 100; ++i) {
    mailbox<words> box;
    run_kernel(other, access_all(runtime(), write(mine, "mine")), box.token(), mine,
               filling(mine, i));
    EXPECT_EQ(box.value(), mine);
  }
  EXPECT_EQ(late.count(), 0u);
  closed.open();
  EXPECT_EQ(late.value(), slow);
}

TEST_P(gated_envelope_test, chains_of_enqueued_replies_run_without_the_client) {
  // Three lanes: each launch uses the output of the previous one before any of them has run.
  constexpr std::size_t count = 256;
  lane second(service_);
  lane third(service_);
  gate closed;
  const auto result = staging(device_, count);
  closed.hold(test_lane().stream());
  kernel_envelope envelope({.library = "tests", .operation = "chain"});

  mailbox<words> first_reply;
  {
    const auto x = allocate(count);
    envelope.run(test_lane(), access_all(runtime(), write(x, "x")), first_reply.token(), x,
                 {.when = reply_on::enqueued}, filling(x, 41));
  }
  mailbox<words> second_reply;
  {
    const auto x = first_reply.value();
    const auto y = runtime().allocate<std::uint32_t>(count, second.stream());
    envelope.run(second, access_all(runtime(), read(x, "x"), write(y, "y")), second_reply.token(),
                 y, {.when = reply_on::enqueued}, copying(y, x));
  }
  mailbox<int> last_reply;
  {
    const auto y = second_reply.value();
    auto uses = access_all(runtime(), read(y, "y"));
    uses.keep(result);
    envelope.run(third, std::move(uses), last_reply.token(), 1, {},
                 [&](const launch_context& context) {
                   context.stream.device().copy(result.get(), y.data(), y.bytes(),
                                                copy_direction::device_to_host, context.native());
                 });
  }
  first_reply = {};
  second_reply = {};
  // The clients hold no reference; the owners keep both blocks.
  EXPECT_EQ(last_reply.count(), 0u);
  EXPECT_EQ(service_->engine().pending(), 3u);
  EXPECT_EQ(runtime().bytes_outstanding(), 2 * count * sizeof(std::uint32_t));
  closed.open();
  EXPECT_EQ(last_reply.value(), 1);
  EXPECT_EQ(std::vector<std::uint32_t>(result.get(), result.get() + count),
            std::vector<std::uint32_t>(count, 41));
  settle(*service_);
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

TEST_P(gated_envelope_test, only_the_caller_takes_leases) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> count{0};
  std::atomic<int> elsewhere{0};
  detail::runtime_core::of(runtime())->at_each_step([&](detail::launch_step step) {
    if (step != detail::launch_step::leasing && step != detail::launch_step::blocked) return;
    (std::this_thread::get_id() == caller ? count : elsewhere).fetch_add(1);
  });
  constexpr int launches = 50;
  for (int i = 0; i < launches; ++i) {
    auto out = allocate();
    // The completion thread drops the last references: the output's and an owner's.
    auto uses = access_all(runtime(), write(out, "out"));
    uses.keep(std::make_shared<words>(allocate()));
    auto filled = filling(out, 1);
    run_kernel(test_lane(), std::move(uses), reply_token<words>(), std::move(out), filled);
  }
  settle(*service_);
  EXPECT_EQ(count.load(), launches);
  EXPECT_EQ(elsewhere.load(), 0);
  open_service();  // replaces the service whose launches were counted
}

TEST_P(gated_envelope_test, owners_outlive_the_kernel_when_the_reply_is_dropped) {
  constexpr std::size_t count = 256;
  const auto result = staging(device_, count);
  gate closed;
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> plan_alive = plan;
  {
    const auto x = allocate(count);
    closed.hold(test_lane().stream());
    run_kernel(test_lane(), access_all(runtime(), write(x, "x")), reply_token<words>(), x,
               filling(x, 5));
    auto uses = access_all(runtime(), read(x, "x"));
    uses.keep(std::move(plan));
    run_kernel(test_lane(), std::move(uses), reply_token<int>(), 0,
               [&](const launch_context& context) {
                 context.stream.device().copy(result.get(), x.data(), x.bytes(),
                                              copy_direction::device_to_host, context.native());
               });
  }
  // A new allocation of the same size does not reuse the memory of the pending kernels.
  const auto other = allocate(count);
  EXPECT_EQ(runtime().bytes_outstanding(), 2 * count * sizeof(std::uint32_t));
  EXPECT_FALSE(plan_alive.expired());
  closed.open();
  settle(*service_);
  EXPECT_EQ(result.get()[0], 5u);
  EXPECT_EQ(result.get()[count - 1], 5u);
  EXPECT_TRUE(plan_alive.expired());
  EXPECT_EQ(runtime().bytes_outstanding(), count * sizeof(std::uint32_t));
}

TEST_P(gated_envelope_test, answers_in_the_order_of_the_stream) {
  gate closed;
  const auto out = allocate();
  std::vector<int> order;  // the completion thread writes it; the test reads it at the end
  closed.hold(test_lane().stream());
  int launches = 0;
  for (; !test_lane().full(); ++launches) {
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")),
               reply_token<int>::from([&order](int n) { order.push_back(n); },
                                      [&order](const error&) { order.push_back(-1); }),
               launches, filling(out, static_cast<std::uint32_t>(launches)));
  }
  closed.open();
  settle(*service_);
  EXPECT_EQ(test_lane().in_flight(), 0u);
  ASSERT_EQ(order.size(), static_cast<std::size_t>(launches));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

INSTANTIATE_TEST_SUITE_P(devices, gated_envelope_test,
                         testing::Combine(every_device(), asynchronous_strategies()),
                         name_of_where);

}  // namespace
