// SPDX-License-Identifier: Apache-2.0
// What every actor that launches on a device keeps to, on every device.
#include "tests/actors/library_actor_test.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <numeric>
#include <thread>

namespace sluice::test {
namespace {

class library_actor : public ::testing::TestWithParam<std::tuple<std::size_t, std::string>> {
 protected:
  void SetUp() override {
    const auto& [kind, device] = GetParam();
    if (!has_device(device)) GTEST_SKIP() << "this machine has no device '" << device << "'";
    session_ = std::make_unique<session>(device);
    try {
      start();
    } catch (const error& e) {
      if (e.code() != errc::unsupported) throw;
      GTEST_SKIP() << e.what();
    }
  }
  void TearDown() override {
    if (!actor_) return;
    session_->end(actor_);
    actor_ = nullptr;
    session_->expect_nothing_left();
  }

  [[nodiscard]] session& s() { return *session_; }
  [[nodiscard]] const library_kind& kind() const {
    return library_kinds()[std::get<0>(GetParam())];
  }
  [[nodiscard]] const caf::actor& actor() const { return actor_; }
  void start(std::shared_ptr<kernel_trace> trace = nullptr) {
    actor_ = kind().start(*session_, std::move(trace));
  }
  [[nodiscard]] sample make(const sample_options& options = {}) {
    return kind().make(*session_, options);
  }

  [[nodiscard]] sample make_to_be_held(reply_on when = reply_on::finished) {
    return test::make_to_be_held(*session_, kind(), actor_, when);
  }

 private:
  std::unique_ptr<session> session_;
  caf::actor actor_;
};

TEST_P(library_actor, answers_with_the_right_numbers) {
  std::vector<sample> samples;
  std::vector<caf::message> requests;
  for (int i = 0; i < 32; ++i) {
    samples.push_back(make({.output_given = i % 2 == 0,
                            .reply = i % 4 < 2 ? reply_on::finished : reply_on::enqueued}));
    requests.push_back(samples.back().request);
  }
  const auto replies = s().send<ref>(actor(), requests);
  const auto got = replies->wait();
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    expect_right(s(), samples[i], got[i]);
  }
  expect_one_reply_each(s(), *replies, samples.size());
}

TEST_P(library_actor, refuses_mistakes_and_lets_be_what_they_name) {
  session elsewhere("host");
  const auto bad = kind().make_mistakes(s(), elsewhere);
  std::vector<caf::message> requests;
  std::vector<sample> between;
  for (const auto& m : bad.all) {
    requests.push_back(m.request);
    between.push_back(make());
    requests.push_back(between.back().request);
  }
  const auto replies = s().send<ref>(actor(), requests);
  const auto got = replies->wait();
  for (std::size_t i = 0; i < bad.all.size(); ++i) {
    SCOPED_TRACE(bad.all[i].description);
    EXPECT_TRUE(failed_with(got[2 * i], bad.all[i].code, bad.all[i].word));
    expect_right(s(), between[i], got[2 * i + 1]);
  }
  expect_one_reply_each(s(), *replies, requests.size());
  EXPECT_EQ(s().get(bad.untouched), bad.contents);
}

TEST_P(library_actor, errors_of_messages_that_are_no_requests_are_counted_and_harm_nobody) {
  session elsewhere("host");
  const auto bad = kind().make_mistakes(s(), elsewhere);
  const auto good = make();
  const auto before = unsent_errors();

  const auto results = std::make_shared<answers<ref>>(2);
  const auto sender = s().spawn(
      [results, target = actor(), &bad, &good](caf::event_based_actor* self) -> caf::behavior {
        send(self, target, good.request);
        for (const auto& m : bad.all) send(self, target, m.request);
        send(self, target, good.request);
        return {[results](ref& r) { results->succeed(results->answered(), std::move(r)); },
                [results](tensor& t) {
                  results->succeed(results->answered(), t.reshape({-1}).as<float>());
                },
                [](int value) {
                  return value;
                }};
      });
  const auto got = results->wait();
  for (const auto& a : got) expect_right(s(), good, a);

  for (const auto& m : bad.all) post(actor(), m.request);
  post(actor(), good.request);
  wait_until_handled(s(), actor());
  EXPECT_EQ(unsent_errors() - before, 2 * bad.all.size());
  EXPECT_EQ(s().ask<int>(sender, 7), 7) << "the sender has ended";
  s().end(sender);
}

TEST_P(library_actor, waits_for_earlier_uses_of_its_operands) {
  const auto first = make_to_be_held();
  const auto second = make_to_be_held(reply_on::enqueued);
  gate g;
  s().hold(g, first.output);
  s().hold(g, second.output);
  g.wait_until_reached();
  const auto finished = s().send<ref>(actor(), {first.request});
  const auto enqueued = s().ask_all<ref>(actor(), {second.request});
  ASSERT_TRUE(succeeded(enqueued[0]));
  wait_until_handled(s(), actor(), *finished);
  EXPECT_EQ(finished->answered(), 0U);
  g.open();
  expect_right(s(), first, finished->wait()[0]);
  expect_right(s(), second, enqueued[0]);
}

TEST_P(library_actor, keeps_requests_waiting_in_order_while_the_lane_is_full) {
  constexpr std::size_t count = 3 * max_in_flight + 11;
  const auto held = make_to_be_held();
  gate g;
  s().hold(g, held.output);
  const auto replies = s().send<ref>(actor(), std::vector<caf::message>(count, held.request));
  wait_until_handled(s(), actor(), *replies);
  EXPECT_EQ(s().service()->engine().pending(), max_in_flight);
  EXPECT_EQ(replies->answered(), 0U);
  g.open();
  for (const auto& a : replies->wait()) EXPECT_TRUE(succeeded(a));
  expect_one_reply_each(s(), *replies, count);
  const auto order = replies->order();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(library_actor, serves_thousands_of_requests_of_several_clients) {
  constexpr std::size_t clients = 5;
  constexpr std::size_t each = 300;
  std::vector<sample> samples;
  std::vector<std::shared_ptr<answers<ref>>> pending_replies;
  for (std::size_t c = 0; c < clients; ++c) {
    samples.push_back(make());
    pending_replies.push_back(
        s().send<ref>(actor(), std::vector<caf::message>(each, samples.back().request)));
  }
  for (std::size_t c = 0; c < clients; ++c) {
    const auto got = pending_replies[c]->wait();
    for (std::size_t i = 0; i < each; ++i) {
      ASSERT_TRUE(succeeded(got[i]));
      if (i % 50 == 0) expect_right(s(), samples[c], got[i]);
    }
    expect_one_reply_each(s(), *pending_replies[c], each);
  }
}

TEST_P(library_actor, answers_what_waits_when_it_ends) {
  constexpr std::size_t waiting = 57;
  for (const auto reason : {caf::exit_reason::user_shutdown, caf::exit_reason::kill}) {
    const auto held = make_to_be_held();
    const auto early = make_to_be_held(reply_on::enqueued);
    gate g;
    s().hold(g, held.output);
    s().hold(g, early.output);
    std::vector<caf::message> requests(max_in_flight - 1 + waiting, held.request);
    requests.insert(requests.begin(), early.request);
    const auto replies = s().send<ref>(actor(), requests);
    wait_until_handled(s(), actor(), *replies);
    s().end(actor(), reason);
    await([&] { return replies->answered() == 1 + waiting; });  // by now, with the gate closed
    g.open();
    const auto got = replies->wait();
    for (std::size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_TRUE(i < max_in_flight ? succeeded(got[i]) : failed_with(got[i], errc::cancelled));
    }
    expect_right(s(), early, got[0]);
    expect_one_reply_each(s(), *replies, requests.size());
    // What comes later finds nobody.
    const auto late = s().ask_all<ref>(actor(), {held.request});
    EXPECT_FALSE(late[0].value);
    start();
  }
}

TEST_P(library_actor, survives_requesters_that_die_before_their_answers) {
  const auto held = make_to_be_held();
  gate g;
  s().hold(g, held.output);
  const auto replies = std::make_shared<answers<ref>>(40);
  const auto client = s().system().spawn<counting_client<ref>>(
      replies, actor(), std::vector<caf::message>(40, held.request));
  wait_until_handled(s(), actor(), *replies);
  s().end(client, caf::exit_reason::kill);
  g.open();
  s().settle();
  EXPECT_EQ(replies->answered(), 0U);
  const auto again = make();
  expect_right(s(), again, s().ask_all<ref>(actor(), {again.request})[0]);
}

TEST_P(library_actor, answers_whoever_a_request_was_delegated_for) {
  session elsewhere("host");
  const auto bad = kind().make_mistakes(s(), elsewhere);
  const auto middle = s().spawn([target = actor()](caf::event_based_actor* self) -> caf::behavior {
#if CAF_MAJOR_VERSION >= 1
    return {[self, target](caf::message& any) -> caf::result<caf::message> {
      return self->mail(std::move(any)).delegate(target);
    }};
#else
    self->set_default_handler(
        [target](caf::scheduled_actor* me, caf::message_view& view) -> caf::result<caf::message> {
          return static_cast<caf::event_based_actor*>(me)->delegate(target,
                                                                    view.move_content_to_message());
        });
    return {[](int) {
    }};
#endif
  });
  const auto good = make();
  const auto replies = s().send<ref>(middle, {good.request, bad.all.front().request, good.request});
  const auto got = replies->wait();
  expect_right(s(), good, got[0]);
  EXPECT_TRUE(failed_with(got[1], bad.all.front().code));
  expect_right(s(), good, got[2]);
  expect_one_reply_each(s(), *replies, 3);
  s().end(middle);
}

#if CAF_MAJOR_VERSION < 1  // CAF 1.x has no stages
TEST_P(library_actor, hands_results_to_the_next_stage_and_errors_to_the_requester) {
  session elsewhere("host");
  const auto bad = kind().make_mistakes(s(), elsewhere);
  const auto passed = std::make_shared<std::atomic<int>>(0);
  const auto next = s().spawn([passed](caf::event_based_actor*) -> caf::behavior {
    return {[passed](ref& r) {
              ++*passed;
              return std::move(r);
            },
            [passed](tensor& t) {
              ++*passed;
              return std::move(t);
            }};
  });
  const auto good = make();
  const auto replies =
      s().send<ref>(next * actor(), {good.request, bad.all.front().request, good.request});
  const auto got = replies->wait();
  expect_right(s(), good, got[0]);
  EXPECT_TRUE(failed_with(got[1], bad.all.front().code, bad.all.front().word));
  expect_right(s(), good, got[2]);
  EXPECT_EQ(passed->load(), 2);
  expect_one_reply_each(s(), *replies, 3);
  s().end(next);
}
#endif

TEST_P(library_actor, answers_every_sort_of_requester) {
  const auto good = make();
  answer<ref> got;
  const auto on_error = [&got](const caf::error& e) {
    got.raw = e;
    got.failure = from_caf_error(e);
  };
  const auto check = [&](const char* sort) {
    SCOPED_TRACE(sort);
    expect_right(s(), good, got);
    got = {};
  };
  const auto check_all = [&](auto on_value) {
    {
      caf::scoped_actor self{s().system()};
      request(self, actor(), caf::infinite, good.request).receive(on_value, on_error);
      check("scoped");
      request(self, actor(), std::chrono::minutes(60), good.request).receive(on_value, on_error);
      check("scoped, with a time limit of CAF's");
    }
    caf::scoped_actor self{s().system()};
    const auto run = [&](auto client) {
      self->wait_for(client);
    };
    run(s().spawn<caf::no_spawn_options, caf::blocking_actor>([&](caf::blocking_actor* me) {
      request(me, actor(), caf::infinite, good.request).receive(on_value, on_error);
    }));
    check("blocking");
    run(s().spawn([&](caf::event_based_actor* me) {
      request(me, actor(), caf::infinite, good.request).then(on_value, on_error);
    }));
    check("then");
    run(s().spawn([&](caf::event_based_actor* me) {
      request(me, actor(), caf::infinite, good.request).await(on_value, on_error);
    }));
    check("await");
    run(s().spawn<caf::detached>([&](caf::event_based_actor* me) {
      request(me, actor(), caf::infinite, good.request).then(on_value, on_error);
    }));
    check("detached");
  };
  if (kind().answers_tensors) {
    // Moved out: CAF may keep the message for a little longer than the client runs.
    check_all([&got](tensor& t) { got.value = std::exchange(t, {}).reshape({-1}).as<float>(); });
  } else {
    check_all([&got](ref& r) { got.value = std::move(r); });
  }
}

/// Notes what the hooks are told, by request.
class noting_trace final : public kernel_trace {
 public:
  struct launch {
    std::array<int, 4> calls{};
    std::string library;
    std::string operation;
    bool failed = false;
  };
  void before_enqueue(const kernel_info& info) override { note(info, 0); }
  void after_enqueue(const kernel_info& info, const error*) override { note(info, 1); }
  void before_complete(const kernel_info& info) override { note(info, 2); }
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override {
    note(info, 3, outcome.failure != nullptr);
  }
  [[nodiscard]] std::map<std::uint64_t, launch> launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
  }

 private:
  void note(const kernel_info& info, std::size_t hook, bool failed = false) {
    const std::lock_guard lock(mutex_);
    auto& l = launches_[info.launch_id];
    ++l.calls[hook];
    l.failed = l.failed || failed;
    l.library = info.library;
    l.operation = info.operation;
  }
  mutable std::mutex mutex_;
  std::map<std::uint64_t, launch> launches_;
};

TEST_P(library_actor, tells_its_trace_of_every_launch_also_after_its_end) {
  s().end(actor());
  const auto trace = std::make_shared<noting_trace>();
  start(trace);
  const auto held = make_to_be_held();
  gate g;
  s().hold(g, held.output);
  const auto replies = s().send<ref>(actor(), std::vector<caf::message>(10, held.request));
  wait_until_handled(s(), actor(), *replies);
  s().end(actor());
  g.open();
  for (const auto& a : replies->wait()) EXPECT_TRUE(succeeded(a));
  s().settle();
  const auto launches = trace->launches();
  EXPECT_EQ(launches.size(), 11U);  // one of them to make the sample
  for (const auto& [id, l] : launches) {
    EXPECT_EQ(l.calls, (std::array<int, 4>{1, 1, 1, 1}));
    EXPECT_EQ(l.operation, kind().operation);
    EXPECT_FALSE(l.library.empty());
    EXPECT_FALSE(l.failed);
  }
}

std::string name_of(const ::testing::TestParamInfo<library_actor::ParamType>& info) {
  return library_kinds()[std::get<0>(info.param)].name + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(kinds, library_actor,
                         ::testing::Combine(::testing::ValuesIn(every_kind()), every_device()),
                         name_of);

}  // namespace
}  // namespace sluice::test
