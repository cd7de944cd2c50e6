// SPDX-License-Identifier: Apache-2.0
// Launches that fail after they were queued, memory that runs out, a device that is lost: on the
// host device, which can be told to.
#include "tests/actors/library_actor_test.hpp"

namespace sluice::test {
namespace {

class failing_library_actor : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    session_ = std::make_unique<session>(open_host_device({.faults = script_}));
    actor_ = kind().start(*session_, nullptr);
    // Until here the actor may have allocated and launched.
    wait_until_handled(*session_, actor_);
  }
  void TearDown() override {
    session_->end(actor_);
    actor_ = nullptr;
    session_->expect_nothing_left();
  }
  [[nodiscard]] session& s() { return *session_; }
  [[nodiscard]] const library_kind& kind() const { return library_kinds()[GetParam()]; }
  [[nodiscard]] const caf::actor& actor() const { return actor_; }
  [[nodiscard]] fault_script& script() { return *script_; }
  [[nodiscard]] fault_target launch_fault() const {
    return kind().operation == "upload" ? fault_target::copy : fault_target::launch;
  }

 private:
  std::shared_ptr<fault_script> script_ = std::make_shared<fault_script>();
  std::unique_ptr<session> session_;
  caf::actor actor_;
};

TEST_P(failing_library_actor, answers_a_failed_launch_with_its_failure) {
  for (const bool has_output : {false, true}) {
    // Requests in a batch may pass others.
    const sample_options options{.output_given = has_output, .bits = result_bits::as_if_alone};
    const auto bad = kind().make(s(), options);
    const auto good = kind().make(s(), options);
    // Requests that wait for a plan may be passed by those that have one.
    for (const auto& a : s().ask_all<ref>(actor(), {good.request, bad.request})) {
      EXPECT_TRUE(succeeded(a));
    }
    script().fail_nth(launch_fault(), 2);
    const auto replies = s().send<ref>(actor(), {good.request, bad.request, good.request});
    const auto got = replies->wait();
    EXPECT_TRUE(succeeded(got[0]));
    EXPECT_TRUE(failed_with(got[1], errc::library_failure, "scripted"));
    EXPECT_TRUE(succeeded(got[2]));
    if (!has_output) expect_right(s(), good, got[2]);
    expect_one_reply_each(s(), *replies, 3);
  }
}

TEST_P(failing_library_actor, passes_a_failure_on_to_who_uses_an_early_answer) {
  gate g;
  const auto first = kind().make(s(), {.output_given = true, .reply = reply_on::enqueued});
  s().hold(g, first.output);
  script().fail_nth(launch_fault(), 1);
  const auto early = s().ask_all<ref>(actor(), {first.request});
  ASSERT_TRUE(succeeded(early[0]));
  const auto device = spawn_device(s().system(), s().service());
  const auto copying = [&](reply_on when) {
    return caf::make_message(strided_copy{.x = *early[0].value}, request_options{.reply = when});
  };
  // Queued before the failure is known, and after.
  const auto queued =
      s().send<ref>(untyped(device), {copying(reply_on::finished), copying(reply_on::enqueued)});
  await([&] { return queued->answered() == 1; });
  const auto second = queued->order().front();
  EXPECT_EQ(second, 1U);
  g.open();
  const auto got = queued->wait();
  EXPECT_TRUE(failed_with(got[0], errc::upstream_failed, "scripted"));
  ASSERT_TRUE(succeeded(got[1]));
  const auto later =
      s().ask_all<ref>(untyped(device), {copying(reply_on::finished), copying(reply_on::enqueued),
                                         caf::make_message(strided_copy{.x = *got[1].value})});
  for (const auto& a : later) EXPECT_TRUE(failed_with(a, errc::upstream_failed, "scripted"));
  // Writing all of it makes it good again.
  const auto filled =
      s().ask_all<ref>(untyped(device), {caf::make_message(fill{.value = 2.5, .y = first.output})});
  ASSERT_TRUE(succeeded(filled[0]));
  EXPECT_EQ(s().get(first.output), std::vector<float>(first.output.size(), 2.5F));
  s().end(device);
}

TEST_P(failing_library_actor, answers_with_the_want_of_memory_and_can_be_asked_again) {
  const auto wanted = kind().make(s(), {});
  script().fail_nth(fault_target::allocation, 1, 2);
  const auto replies = s().send<ref>(actor(), {wanted.request, wanted.request});
  const auto got = replies->wait();
  EXPECT_TRUE(failed_with(got[0], errc::out_of_memory));
  expect_right(s(), wanted, got[1]);
  expect_one_reply_each(s(), *replies, 2);
}

TEST_P(failing_library_actor, answers_everything_when_the_device_is_lost) {
  constexpr std::size_t waiting = 33;
  const auto held = make_to_be_held(s(), kind(), actor());
  const auto early = make_to_be_held(s(), kind(), actor(), reply_on::enqueued);
  gate g;
  s().hold(g, held.output);
  s().hold(g, early.output);
  g.wait_until_reached();
  std::vector<caf::message> requests(max_in_flight - 1 + waiting, held.request);
  requests.insert(requests.begin(), early.request);
  const auto replies = s().send<ref>(actor(), requests);
  wait_until_handled(s(), actor(), *replies);
  s().device().lose(error(errc::device_lost, "the test lost it"));
  const auto got = replies->wait();  // with the gate closed
  EXPECT_TRUE(succeeded(got[0]));
  for (std::size_t i = 1; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(failed_with(got[i], errc::device_lost, "the test lost it"));
  }
  const auto later = s().ask_all<ref>(actor(), {held.request});
  EXPECT_TRUE(failed_with(later[0], errc::device_lost, "the test lost it"));
  g.open();
  expect_one_reply_each(s(), *replies, requests.size());
}

TEST_P(failing_library_actor, answers_when_the_device_is_lost_while_a_launch_is_queued) {
  for (const auto when : {reply_on::finished, reply_on::enqueued}) {
    {
      const auto wanted = kind().make(s(), {.reply = when});
      script().fail_nth(fault_target::loss, 3);
      const auto replies = s().send<ref>(actor(), std::vector<caf::message>(6, wanted.request));
      const auto got = replies->wait();
      for (std::size_t i = 2; i < got.size(); ++i)
        EXPECT_TRUE(failed_with(got[i], errc::device_lost));
      expect_one_reply_each(s(), *replies, 6);
    }
    TearDown();
    SetUp();
  }
}

TEST_P(failing_library_actor, cannot_be_started_on_a_lost_or_closed_device) {
  s().device().lose(error(errc::device_lost, "the test lost it"));
  EXPECT_THROW((void)kind().start(s(), nullptr), error);
  session closed("host");
  (void)closed.runtime().shut_down();
  EXPECT_THROW((void)kind().start(closed, nullptr), error);
}

TEST_P(failing_library_actor, refuses_requests_while_its_runtime_shuts_down) {
  const auto wanted = kind().make(s(), {.output_given = true});
  (void)s().runtime().shut_down();
  const auto got = s().ask_all<ref>(actor(), {wanted.request, wanted.request});
  for (const auto& a : got) EXPECT_TRUE(failed_with(a, errc::shutting_down));
}

INSTANTIATE_TEST_SUITE_P(kinds, failing_library_actor, ::testing::ValuesIn(every_kind()),
                         [](const auto& tested) { return library_kinds()[tested.param].name; });

}  // namespace
}  // namespace sluice::test
