// SPDX-License-Identifier: Apache-2.0
#include "tests/envelope/kernel_failure.hpp"

#include "tests/envelope/recording_trace.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

// Access (step 2 of a launch): the references are checked before anything is acquired.

TEST_P(kernel_failure_test, access_refuses_what_cannot_be_used) {
  const auto good = allocate();
  const auto stale = allocate();
  runtime().deallocate(stale.block());
  device_runtime other(open_host_device());
  const auto elsewhere = other.create_stream();
  const auto foreign = other.allocate<std::uint32_t>(64, elsewhere);
  struct refused {
    words ref;
    std::size_t elements;
    errc code;
  };
  for (const auto& r :
       {refused{{}, 0, errc::invalid_argument}, refused{stale, 0, errc::stale_ref},
        refused{foreign, 0, errc::invalid_argument}, refused{good, 65, errc::invalid_argument}}) {
    const mailbox<words> box;
    const auto token = box.token();
    // As in an actor, the exception becomes the reply.
    try {
      run_kernel(test_lane(),
                 access_all(runtime(), read(good, "a"), write(r.ref, "second", r.elements)), token,
                 r.ref, [](const launch_context&) { FAIL() << "must not run"; });
    } catch (...) {
      token.fail(current_error());
    }
    expect_failure(box, r.code, "second");
  }
}

// Preflight (step 4 of a launch).

TEST_P(kernel_failure_test, memory_given_back_after_access) {
  {
    const auto out = allocate();
    auto uses = access_all(runtime(), write(out, "out"));
    runtime().deallocate(out.block());
    run_kernel(test_lane(), std::move(uses), box_.token(), out,
               [](const launch_context&) { FAIL() << "must not run"; });
  }
  expect_failure(box_, errc::stale_ref);
}

TEST_P(kernel_failure_test, memory_that_cannot_be_tracked) {
  runtime_options options;
  options.resource = make_direct_resource();
  open_service(std::move(options));
  {
    const auto out = allocate();
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
               [](const launch_context&) { FAIL() << "must not run"; });
  }
  expect_failure(box_, errc::stream_misuse, "does not track");
  open_service();
}

TEST_P(kernel_failure_test, a_lease_that_this_thread_holds_itself) {
  const auto out = allocate();
  auto holding = launch_recorder::strict(test_lane().stream());
  holding.write(out);
  holding.preflight();
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             [](const launch_context&) { FAIL() << "must not run"; });
  EXPECT_EQ(box_.failure(), errc::stream_misuse);
  (void)holding.commit();
  expect_failure(box_, errc::stream_misuse, "lease");
}

TEST_P(kernel_failure_test, nothing_is_held_any_more_when_a_refusal_arrives) {
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> plan_alive = plan;
  std::optional<std::size_t> then;
  bool plan_then = true;
  const auto before = runtime().bytes_outstanding();
  {
    auto out = allocate();
    const auto gone = allocate();
    auto uses = access_all(runtime(), write(out, "out"), read(gone, "gone"));
    uses.keep(std::move(plan));
    runtime().deallocate(gone.block());
    run_kernel(test_lane(), std::move(uses),
               reply_token<words>::from([](const words&) {},
                                        [&](const error&) {
                                          then = runtime().bytes_outstanding();
                                          plan_then = !plan_alive.expired();
                                        }),
               std::exchange(out, {}), [](const launch_context&) {});
  }
  EXPECT_EQ(then, before);
  EXPECT_FALSE(plan_then);
}

TEST_P(kernel_failure_test, an_input_whose_launch_has_failed) {
  const auto in = allocate();
  const auto out = allocate();
  mailbox<words> failing;
  run_kernel(test_lane(), access_all(runtime(), write(in, "in")), failing.token(), in,
             [](const launch_context&) { throw error(errc::unsupported, "the cause"); });
  EXPECT_EQ(failing.failure(), errc::unsupported);
  for (const bool reads : {true, false}) {
    mailbox<words> box;
    auto uses = reads ? access_all(runtime(), read(in, "in"), write(out, "out"))
                      : access_all(runtime(), read_write(in, "in"));
    run_kernel(test_lane(), std::move(uses), box.token(), out,
               [](const launch_context&) { FAIL() << "must not run"; });
    expect_failure(box, errc::upstream_failed, "the cause");
  }
  // A write of the whole block clears the failure; a partial write does not.
  mailbox<words> part;
  run_kernel(test_lane(), access_all(runtime(), write(in.subspan(0, 8), "in")), part.token(), in,
             [](const launch_context&) { FAIL() << "must not run"; });
  expect_failure(part, errc::upstream_failed);
  fill(in, 4);
  expect_filled(in, 4);
}

// The closure (step 5 of a launch).

TEST_P(kernel_failure_test, a_closure_that_throws_before_it_has_enqueued_anything) {
  const auto out = allocate();
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             [](const launch_context&) { throw error(errc::unsupported, "not this one"); });
  expect_failure(box_, errc::unsupported, "not this one");
}

TEST_P(kernel_failure_test, a_closure_that_throws_after_it_has_enqueued_something) {
  const auto out = allocate();
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             [&](const launch_context& context) {
               filling(out, 1)(context);
               throw std::runtime_error("half way");
             });
  expect_failure(box_, errc::library_failure, "half way");
}

TEST_P(kernel_failure_test, a_closure_that_throws_what_is_no_exception) {
  const auto out = allocate();
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             [](const launch_context&) { throw 42; });
  expect_failure(box_, errc::library_failure);
}

TEST_P(kernel_failure_test, a_closure_without_memory) {
  const auto out = allocate();
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             [](const launch_context&) { throw std::bad_alloc(); });
  expect_failure(box_, errc::out_of_memory);
}

TEST_P(kernel_failure_test, a_closure_without_operands_that_throws) {
  run_kernel(test_lane(), access_all(runtime()), box_.token(), words(),
             [](const launch_context&) { throw error(errc::unsupported, "no"); });
  expect_failure(box_, errc::unsupported, "no");
}

TEST_P(kernel_failure_test, an_output_that_cannot_be_copied_for_its_enqueued_reply) {
  struct uncopyable {
    uncopyable() = default;
    explicit uncopyable(bool t) : throws(t) {}
    uncopyable(const uncopyable& other) : throws(other.throws) {
      if (throws) throw std::bad_alloc();
    }
    uncopyable(uncopyable&&) noexcept = default;
    uncopyable& operator=(const uncopyable&) = default;
    uncopyable& operator=(uncopyable&&) noexcept = default;
    bool throws = false;
  };
  std::optional<errc> code;
  int values = 0;
  kernel_envelope envelope({.library = "tests", .operation = "uncopyable"});
  envelope.run(test_lane(), access_all(runtime()),
               reply_token<uncopyable>::from([&](uncopyable) { ++values; },
                                             [&](const error& why) { code = why.code(); }),
               uncopyable(true), {.when = reply_on::enqueued}, [](const launch_context&) {});
  settle(*service_);
  EXPECT_EQ(code, errc::out_of_memory);
  EXPECT_EQ(values, 0);
}

TEST_P(kernel_failure_test, a_closure_that_has_enqueued_nothing) {
  const auto out = allocate();
  fill(out, 5);
  const auto trace = std::make_shared<recording_trace>();
  kernel_envelope envelope({.library = "tests", .operation = "refused"});
  envelope.trace(trace);
  const auto refuse = [](const launch_context&) {
    throw nothing_enqueued(error(errc::unsupported, "not these sizes"));
  };
  envelope.run(test_lane(), access_all(runtime(), read_write(out, "out")), box_.token(), out, {},
               refuse);
  expect_failure(box_, errc::unsupported, "not these sizes");
  EXPECT_EQ(trace->names(), (std::vector<std::string>{"before_enqueue", "after_enqueue",
                                                      "before_complete", "after_complete"}));
  // The output is as it was, and what follows does not fail.
  expect_filled(out, 5);
  mailbox<int> without;
  run_kernel(test_lane(), operands(), without.token(), 0, refuse);
  EXPECT_EQ(without.failure(), errc::unsupported);
}

// Shutdown.

TEST_P(kernel_failure_test, launches_while_shutting_down) {
  const auto out = allocate();
  auto uses = access_all(runtime(), write(out, "out"));
  EXPECT_TRUE(runtime().shut_down(std::chrono::seconds(10)));
  run_kernel(test_lane(), std::move(uses), box_.token(), out,
             [](const launch_context&) { FAIL() << "must not run"; });
  expect_failure(box_, errc::shutting_down);
  mailbox<int> without;
  run_kernel(test_lane(), operands(), without.token(), 0,
             [](const launch_context&) { FAIL() << "must not run"; });
  EXPECT_EQ(without.failure(), errc::shutting_down);
  open_service();
}

INSTANTIATE_TEST_SUITE_P(devices, kernel_failure_test,
                         testing::Combine(every_device(), every_strategy()), name_of_where);

/// Faults that only the host device can produce.
class host_failure_test : public kernel_failure_test {};

TEST_P(host_failure_test, a_kernel_that_fails_on_the_device) {
  const auto out = allocate();
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             [](const launch_context& context) {
               context.submit_host([] { throw error(errc::invalid_argument, "in the kernel"); });
             });
  expect_failure(box_, errc::invalid_argument, "in the kernel");
}

TEST_P(host_failure_test, nothing_is_held_any_more_when_a_late_failure_arrives) {
  const auto before = runtime().bytes_outstanding();
  std::optional<std::size_t> then;
  {
    auto out = allocate();
    auto uses = access_all(runtime(), write(out, "out"));
    run_kernel(
        test_lane(), std::move(uses),
        reply_token<words>::from([](const words&) {},
                                 [&](const error&) { then = runtime().bytes_outstanding(); }),
        std::exchange(out, {}), [](const launch_context& context) {
          context.submit_host([] { throw std::runtime_error("in the kernel"); });
        });
  }
  settle(*service_);
  EXPECT_EQ(then, before);
}

TEST_P(host_failure_test, scripted_launches_and_copies_fail) {
  const auto out = allocate();
  faults_->fail_nth(fault_target::launch, 2);
  for (const bool second : {false, true}) {
    mailbox<words> box;
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box.token(), out,
               [](const launch_context& context) { context.submit_host([] {}); });
    EXPECT_EQ(box.failure(), second ? std::optional(errc::library_failure) : std::nullopt);
  }
  faults_->fail_nth(fault_target::copy, 1);
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             filling(out, 1));
  expect_failure(box_, errc::library_failure, "scripted");
}

TEST_P(host_failure_test, a_failure_belongs_to_its_launch_and_to_what_depends_on_it) {
  const auto bad = allocate();
  const auto good = allocate();
  const auto after = allocate();
  std::vector<mailbox<words>> boxes(3);
  const auto launch = [&](std::size_t i, operands uses, bool fails) {
    run_kernel(test_lane(), std::move(uses), boxes[i].token(), good,
               [fails](const launch_context& context) {
                 context.submit_host([fails] {
                   if (fails) throw std::runtime_error("the first one");
                 });
               });
  };
  launch(0, access_all(runtime(), write(bad, "bad")), true);
  launch(1, access_all(runtime(), write(good, "good")), false);
  launch(2, access_all(runtime(), read(bad, "bad"), write(after, "after")), false);
  EXPECT_EQ(boxes[0].failure(), errc::library_failure);
  EXPECT_EQ(boxes[1].failure(), std::nullopt);
  EXPECT_EQ(boxes[2].failure(), errc::upstream_failed);
}

TEST_P(host_failure_test, memory_that_is_not_to_be_had) {
  faults_->fail_nth(fault_target::allocation, 1, 2);
  // As in an actor that allocates its output.
  const auto token = box_.token();
  try {
    const auto out = allocate();
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), token, out, filling(out, 1));
  } catch (...) {
    token.fail(current_error());
  }
  expect_failure(box_, errc::out_of_memory);
}

TEST_P(host_failure_test, a_device_that_was_lost_before) {
  const auto out = allocate();
  auto uses = access_all(runtime(), write(out, "out"));
  device_->lose(error(errc::library_failure, "the cause"));
  run_kernel(test_lane(), std::move(uses), box_.token(), out,
             [](const launch_context&) { FAIL() << "must not run"; });
  expect_failure(box_, errc::device_lost, "the cause");
}

TEST_P(host_failure_test, a_device_that_is_lost_while_enqueueing) {
  {
    const auto out = allocate();
    faults_->fail_nth(fault_target::loss, 1);
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
               filling(out, 1));
  }
  expect_failure(box_, errc::device_lost, "scripted loss");
}

TEST_P(host_failure_test, a_device_that_is_lost_by_the_closure_without_operands) {
  run_kernel(test_lane(), access_all(runtime()), box_.token(), words(), [&](const launch_context&) {
    device_->lose(error(errc::library_failure, "the cause"));
  });
  expect_failure(box_, errc::device_lost, "the cause");
}

TEST_P(host_failure_test, a_device_that_the_kernel_loses) {
  {
    const auto out = allocate();
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
               [&](const launch_context& context) {
                 context.submit_host(
                     [&] { device_->lose(error(errc::library_failure, "by the kernel")); });
               });
  }
  expect_failure(box_, errc::device_lost, "by the kernel");
}

INSTANTIATE_TEST_SUITE_P(devices, host_failure_test,
                         testing::Combine(testing::Values(std::string("host")), every_strategy()),
                         name_of_where);

}  // namespace
}  // namespace sluice::test
