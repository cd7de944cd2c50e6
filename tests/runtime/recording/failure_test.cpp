// SPDX-License-Identifier: Apache-2.0
#include "runtime/recording/launch_dependencies.hpp"
#include "tests/support/copy_side.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

/// A host device on which single launches fail as scripted.
class failure_of_launches : public ::testing::Test {
 protected:
  failure_of_launches()
      : script_(std::make_shared<fault_script>()),
        runtime_(open_host_device({.faults = script_})),
        stream_(runtime_.create_stream()) {}

  [[nodiscard]] device_runtime& runtime() { return runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] gpu_ref<int> fresh() { return runtime_.allocate<int>(16, stream_, "vector"); }
  void fail_next_launch() { script_->fail_nth(fault_target::launch, 1); }
  [[nodiscard]] fault_script& script() { return *script_; }

  /// Makes a launch with the registrations of `note` and one task that does nothing.
  template <class Note>
  timeline_point launch(stream_ref stream, Note note) {
    auto recorder = launch_recorder::strict(stream);
    note(recorder);
    recorder.preflight();
    submit_host_task(stream, [] {});
    return recorder.commit();
  }
  [[nodiscard]] std::optional<error> outcome(timeline_point point) {
    auto* line = detail::runtime_core::of(runtime_)->find(point.stream);
    line->wait_until(point.ticket);
    return line->failure_of(point.ticket);
  }
  [[nodiscard]] ::testing::AssertionResult failed(timeline_point point, errc code) {
    const auto why = outcome(point);
    if (!why) return ::testing::AssertionFailure() << "it succeeded";
    if (why->code() != code) {
      return ::testing::AssertionFailure() << to_string(why->code()) << ": " << why->what();
    }
    return ::testing::AssertionSuccess();
  }
  [[nodiscard]] ::testing::AssertionResult preflight_refuses(access_kind access,
                                                             const gpu_ref<int>& ref) {
    return throws(errc::upstream_failed, "vector", [&] {
      auto recorder = launch_recorder::strict(stream_);
      recorder.use(ref.block(), access, ref.bytes() == ref.block().bytes());
      recorder.preflight();
    });
  }

  /// Makes every second launch on `stream()` fail, more often than the stream remembers. Then waits
  /// until it could forget.
  void fail_many() {
    using detail::ticket_failures;
    const auto ref = fresh();
    const auto commit = [&](std::optional<error> why) {
      auto recorder = begin_write(ref, stream());
      (void)recorder.commit(why);
    };
    for (std::size_t i = 0; i < ticket_failures::max_reasons + ticket_failures::max_forgotten + 100;
         ++i) {
      commit(error(errc::unsupported, "failure " + std::to_string(i)));
      commit(std::nullopt);
      if (i % 16 == 0) stream().synchronize();
    }
    stream().synchronize();
    detail::runtime_core::of(runtime_)->finish_reclaiming();
  }

  /// Waits until `stream()` has forgotten all outcomes that it does not have to keep.
  void await_forgotten() {
    using detail::ticket_failures;
    const auto ref = fresh();
    await([&] {
      (void)launch(stream(), [&](auto& r) { r.write(ref); });
      stream().synchronize();
      return detail::timeline::of(stream())->failures().size() <=
             ticket_failures::max_reasons + ticket_failures::max_forgotten;
    });
  }

 private:
  std::shared_ptr<fault_script> script_;
  device_runtime runtime_;
  sluice::stream stream_;
};

// A chain that fails at its first launch is one entry, and its tickets share one text. Nothing
// queries them one by one.
TEST_F(failure_of_launches, of_a_chain_takes_no_more_memory_than_that_of_one) {
  const auto a = fresh();
  gate closed;
  closed.hold(stream());
  fail_next_launch();
  const auto first = launch(stream(), [&](auto& r) { r.write(a); });
  std::vector<timeline_point> chain;
  for (int i = 0; i < 500; ++i) {
    chain.push_back(launch(stream(), [&](auto& r) { r.read_write(a); }));
  }
  closed.open();
  ASSERT_TRUE(failed(first, errc::library_failure));
  const auto text = outcome(chain.front());
  ASSERT_TRUE(text.has_value());
  for (const auto& point : chain) {
    ASSERT_TRUE(failed(point, errc::upstream_failed));
    EXPECT_EQ(outcome(point)->what(), text->what()) << "the same text, not an equal one";
  }
  const auto after = launch(stream(), [&](auto& r) { r.write(a); });
  EXPECT_FALSE(outcome(after).has_value());
}

// After many failures a stream forgets reasons, then outcomes. The blocks that the launches wrote
// still know theirs.
TEST_F(failure_of_launches, of_which_there_are_many_takes_bounded_memory) {
  using detail::ticket_failures;
  auto& line = *detail::timeline::of(stream());
  const auto good = fresh();
  const auto spoilt = fresh();
  const auto other = fresh();
  const auto write = [&](const gpu_ref<int>& ref, std::optional<error> why) {
    auto recorder = begin_write(ref, stream());
    return recorder.commit(why);
  };
  (void)write(good, std::nullopt);
  const auto first = write(spoilt, error(errc::unsupported, "the first"));
  constexpr std::size_t failures =
      ticket_failures::max_reasons + ticket_failures::max_forgotten * 3 / 2;
  timeline_point newest;
  for (std::size_t i = 0; i < failures; ++i) {
    newest = write(other, error(errc::unsupported, "failure " + std::to_string(i)));
    (void)write(other, std::nullopt);
    if (i % 16 == 0) stream().synchronize();
  }
  stream().synchronize();
  await([&] {
    return line.failures().size() <= ticket_failures::max_reasons + ticket_failures::max_forgotten;
  });
  EXPECT_TRUE(preflight_refuses(access_kind::read, spoilt));
  EXPECT_TRUE(failed(newest, errc::unsupported)) << "the reason of a recent failure";
  EXPECT_TRUE(failed(first, errc::upstream_failed)) << "that of an old one is forgotten";
  EXPECT_FALSE(outcome(launch(stream(), [&](auto& r) { r.read(good); })).has_value());
  EXPECT_FALSE(outcome(launch(stream(), [&](auto& r) { r.read(other); })).has_value());
}

// Successful launches do not count as failed while their outcome may be queried, even if thousands
// of others fail.

TEST_F(failure_of_launches, is_not_blamed_on_what_a_launch_depends_on_while_it_is_being_made) {
  const auto a = fresh();
  const auto reader_stream = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  (void)launch(stream(), [&](auto& r) { r.write(a); });
  auto recorder = begin_read(a, reader_stream);
  ASSERT_EQ(detail::launch_dependencies::of(recorder).size(), 1u);
  closed.open();
  fail_many();
  EXPECT_FALSE(outcome(recorder.commit()));
}

TEST_F(failure_of_launches, of_others_on_the_stream_is_not_that_of_a_launch_that_is_being_made) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  fail_many();
  EXPECT_FALSE(outcome(recorder.commit()));
}

TEST_F(failure_of_launches, is_not_blamed_on_the_ticket_that_one_of_another_runtime_waits_for) {
  const auto idle_stream = runtime().create_stream();
  const auto a = fresh();
  (void)launch(stream(), [&](auto& r) { r.write(a); });
  side other("host");
  const auto copied = other.runtime->allocate<int>(a.size(), other.stream, "copied");
  gate closed;
  closed.hold(other.stream);
  const auto point = enqueue_copy(copied, other.stream, a, stream());
  fail_many();
  closed.open();
  await([&] { return other.done(point); });
  EXPECT_FALSE(other.failure_of(point));
}

// A launch's blocks learn its ticket only after it has been taken.
TEST_F(failure_of_launches, is_not_blamed_on_a_launch_that_is_being_published) {
  using detail::launch_step;
  using detail::ticket_failures;
  static thread_local bool stops = false;
  std::atomic<bool> stopped{false};
  std::atomic<bool> goes_on{false};
  detail::runtime_core::of(runtime())->at_each_step([&](launch_step step) {
    if (!stops || step != launch_step::submitted) return;
    stopped.store(true);
    await([&] { return goes_on.load(); });
  });
  const auto a = fresh();
  std::thread publishing([&] {
    stops = true;
    (void)launch(stream(), [&](auto& r) { r.write(a); });
  });
  await([&] { return stopped.load(); });
  fail_many();
  goes_on.store(true);
  publishing.join();
  await_forgotten();
  EXPECT_FALSE(outcome(launch(stream(), [&](auto& r) { r.read(a); })));
}

TEST_F(failure_of_launches, is_forgotten_once_the_launch_that_might_have_asked_is_made) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  fail_many();
  using detail::ticket_failures;
  auto& line = *detail::timeline::of(stream());
  EXPECT_GT(line.failures().size(), ticket_failures::max_reasons + ticket_failures::max_forgotten);
  (void)recorder.commit();
  await_forgotten();
}

TEST_F(failure_of_launches, is_asked_for_once_by_the_readers_of_a_block) {
  const auto a = fresh();
  (void)launch(stream(), [&](auto& r) { r.write(a); });
  stream().synchronize();
  fail_next_launch();
  EXPECT_TRUE(failed(launch(stream(), [&](auto& r) { r.read(a); }), errc::library_failure));
  EXPECT_EQ(uses_of(a).outcome, detail::use_state::outcome::succeeds);
}

TEST_F(failure_of_launches, belongs_to_its_ticket) {
  const auto a = fresh();
  const auto before = launch(stream(), [&](auto& r) { r.write(a); });
  fail_next_launch();
  const auto struck = launch(stream(), [&](auto& r) { r.write(a); });
  const auto after = launch(stream(), [&](auto& r) { r.write(a); });
  EXPECT_TRUE(failed(struck, errc::library_failure));
  EXPECT_FALSE(outcome(before).has_value());
  EXPECT_FALSE(outcome(after).has_value());
}

TEST_F(failure_of_launches, is_what_left_the_task) {
  const auto a = fresh();
  const auto run = [&](auto task) {
    auto recorder = begin_write(a, stream());
    submit_host_task(stream(), task);
    return recorder.commit();
  };
  const auto ours = run([] { throw error(errc::unsupported, "odd shape"); });
  const auto standard = run([] { throw std::runtime_error("boom"); });
  const auto any = run([] { throw 7; });
  EXPECT_TRUE(failed(ours, errc::unsupported));
  EXPECT_STREQ(outcome(ours)->what(), "odd shape");
  EXPECT_TRUE(failed(standard, errc::library_failure));
  EXPECT_STREQ(outcome(standard)->what(), "boom");
  EXPECT_TRUE(failed(any, errc::library_failure));
}

TEST_F(failure_of_launches, of_several_in_one_launch_the_first_counts) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  submit_host_task(stream(), [] {});
  submit_host_task(stream(), [] { throw error(errc::unsupported, "first"); });
  submit_host_task(stream(), [] { throw error(errc::unsupported, "second"); });
  const auto point = recorder.commit();
  EXPECT_STREQ(outcome(point).value().what(), "first");
}

TEST_F(failure_of_launches, of_copies_and_fills_counts_too) {
  const auto a = fresh();
  script().fail_nth(fault_target::copy, 2);
  const auto filled = launch_fill(a, 5, stream());
  int out[16] = {};
  auto copying = begin_read(a, stream());
  runtime().device().copy(out, a.data(), a.bytes(), copy_direction::device_to_host,
                          stream().native());
  const auto copied = copying.commit();
  EXPECT_FALSE(outcome(filled).has_value());
  EXPECT_TRUE(failed(copied, errc::library_failure));
  EXPECT_EQ(out[0], 0) << "a task that is struck does not run";
}

TEST_F(failure_of_launches, makes_preflight_refuse_who_reads) {
  const auto a = fresh();
  fail_next_launch();
  EXPECT_TRUE(failed(launch(stream(), [&](auto& r) { r.write(a); }), errc::library_failure));
  EXPECT_TRUE(preflight_refuses(access_kind::read, a));
  EXPECT_TRUE(preflight_refuses(access_kind::read_write, a));
  EXPECT_TRUE(preflight_refuses(access_kind::write, a.subspan(0, 3)))
      << "a part depends on the rest";
  EXPECT_TRUE(throws(errc::upstream_failed, "",
                     [&] { (void)runtime().prepare_use(a.block(), stream(), access_kind::read); }));
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_F(failure_of_launches, is_cleared_by_a_write_of_the_whole_block) {
  const auto a = fresh();
  fail_next_launch();
  EXPECT_TRUE(failed(launch(stream(), [&](auto& r) { r.write(a); }), errc::library_failure));
  EXPECT_FALSE(outcome(launch(stream(), [&](auto& r) { r.write(a); })).has_value());
  EXPECT_FALSE(outcome(launch(stream(), [&](auto& r) { r.read(a); })).has_value());
}

TEST_F(failure_of_launches, is_not_cleared_by_a_write_of_a_part_that_is_queued_behind_it) {
  const auto a = fresh();
  gate closed;
  closed.hold(stream());
  fail_next_launch();
  const auto struck = launch(stream(), [&](auto& r) { r.write(a); });
  const auto part = launch(stream(), [&](auto& r) { r.write(a.subspan(4, 4)); });
  closed.open();
  EXPECT_TRUE(failed(struck, errc::library_failure));
  EXPECT_TRUE(failed(part, errc::upstream_failed));
  EXPECT_TRUE(preflight_refuses(access_kind::read, a));
}

TEST_F(failure_of_launches, runs_down_a_chain_that_was_queued_before) {
  const auto a = fresh();
  const auto b = fresh();
  const auto c = fresh();
  const auto second = runtime().create_stream();
  const auto third = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  fail_next_launch();
  const auto head = launch(stream(), [&](auto& r) { r.write(a); });
  const auto middle = launch(second, [&](auto& r) { r.read(a).write(b); });
  const auto tail = launch(third, [&](auto& r) { r.read(b).write(c); });
  const auto d = fresh();
  const auto beside = launch(third, [&](auto& r) { r.write(d); });
  closed.open();
  EXPECT_TRUE(failed(tail, errc::upstream_failed));
  EXPECT_TRUE(failed(middle, errc::upstream_failed));
  EXPECT_TRUE(failed(head, errc::library_failure));
  EXPECT_FALSE(outcome(beside).has_value());
  EXPECT_NE(std::string(outcome(tail)->what()).find("scripted"), std::string::npos);
  EXPECT_TRUE(preflight_refuses(access_kind::read, c));
}

TEST_F(failure_of_launches, runs_down_a_chain_on_one_stream) {
  const auto a = fresh();
  const auto b = fresh();
  gate closed;
  closed.hold(stream());
  fail_next_launch();
  const auto head = launch(stream(), [&](auto& r) { r.write(a); });
  const auto tail = launch(stream(), [&](auto& r) { r.read(a).write(b); });
  const auto c = fresh();
  const auto other = launch(stream(), [&](auto& r) { r.write(c); });
  closed.open();
  EXPECT_TRUE(failed(tail, errc::upstream_failed));
  EXPECT_TRUE(failed(head, errc::library_failure));
  EXPECT_FALSE(outcome(other).has_value()) << "it does not depend on them";
}

// Only the end of the chain queries watermarks.
TEST_F(failure_of_launches, is_found_through_long_chains_whose_middle_nobody_asked_for) {
  constexpr int length = 30;
  std::vector<sluice::stream> streams;
  std::vector<gpu_ref<int>> refs;
  refs.push_back(fresh());
  gate closed;
  closed.hold(stream());
  fail_next_launch();
  auto last = launch(stream(), [&](auto& r) { r.write(refs.back()); });
  for (int i = 0; i < length; ++i) {
    streams.push_back(runtime().create_stream());
    refs.push_back(fresh());
    last =
        launch(streams.back(), [&](auto& r) { r.read(refs[refs.size() - 2]).write(refs.back()); });
  }
  closed.open();
  EXPECT_TRUE(failed(last, errc::upstream_failed));
}

TEST_F(failure_of_launches, of_a_reader_does_not_spoil_what_it_read) {
  const auto a = fresh();
  (void)launch(stream(), [&](auto& r) { r.write(a); });
  fail_next_launch();
  EXPECT_TRUE(failed(launch(stream(), [&](auto& r) { r.read(a); }), errc::library_failure));
  EXPECT_FALSE(outcome(launch(stream(), [&](auto& r) { r.read(a); })).has_value());
}

TEST_F(failure_of_launches, known_at_commit_is_noted_at_once) {
  const auto a = fresh();
  gate closed;
  closed.hold(stream());
  auto recorder = begin_write(a, stream());
  const auto point = recorder.commit(error(errc::unsupported, "refused"));
  EXPECT_TRUE(preflight_refuses(access_kind::read, a));
  closed.open();
  EXPECT_TRUE(failed(point, errc::unsupported));
}

TEST_F(failure_of_launches, is_not_taken_away_by_who_synchronises_before_commit) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  submit_host_task(stream(), [] { throw error(errc::unsupported, "odd shape"); });
  std::thread([&] { stream().synchronize(); }).join();
  const auto point = recorder.commit();
  EXPECT_TRUE(failed(point, errc::unsupported));
  EXPECT_TRUE(preflight_refuses(access_kind::read, a));
}

TEST_F(failure_of_launches, is_its_own_although_another_thread_takes_a_ticket_before_commit) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  submit_host_task(stream(), [] { throw error(errc::unsupported, "odd shape"); });
  gpu_ref<int> between;
  std::thread([&] { between = fresh(); }).join();
  const auto point = recorder.commit();
  EXPECT_TRUE(failed(point, errc::unsupported));
  EXPECT_TRUE(preflight_refuses(access_kind::read, a));
}

// Uses outside a recorder

TEST_F(failure_of_launches, runs_down_to_a_use_that_was_prepared_before) {
  const auto a = fresh();
  const auto b = fresh();
  const auto second = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  fail_next_launch();
  const auto head = launch(stream(), [&](auto& r) { r.write(a); });
  const auto reading = runtime().prepare_use(a.block(), second, access_kind::read);
  const auto changing = runtime().prepare_use(b.block(), second, access_kind::read_write);
  submit_host_task(second, [] {});
  const auto read = runtime().finish_use(a.block(), second, access_kind::read, reading);
  const auto changed = runtime().finish_use(b.block(), second, access_kind::read_write, changing);
  closed.open();
  EXPECT_TRUE(failed(read, errc::upstream_failed));
  EXPECT_TRUE(failed(head, errc::library_failure));
  EXPECT_FALSE(outcome(changed).has_value()) << "it does not depend on them";
}

TEST_F(failure_of_launches, spoils_what_a_prepared_use_of_it_writes) {
  const auto a = fresh();
  gate closed;
  closed.hold(stream());
  fail_next_launch();
  (void)launch(stream(), [&](auto& r) { r.write(a); });
  const auto prepared = runtime().prepare_use(a.block(), stream(), access_kind::read_write);
  const auto changed = runtime().finish_use(a.block(), stream(), access_kind::read_write, prepared);
  closed.open();
  EXPECT_TRUE(failed(changed, errc::upstream_failed));
  EXPECT_TRUE(preflight_refuses(access_kind::read, a));
  const auto anew = runtime().prepare_use(a.block(), stream(), access_kind::write);
  EXPECT_FALSE(
      outcome(runtime().finish_use(a.block(), stream(), access_kind::write, anew)).has_value());
}

TEST_F(failure_of_launches, is_a_prepared_uses_own_although_another_thread_takes_a_ticket_before) {
  const auto a = fresh();
  const auto prepared = runtime().prepare_use(a.block(), stream(), access_kind::write);
  submit_host_task(stream(), [] { throw error(errc::unsupported, "odd shape"); });
  gpu_ref<int> between;
  std::thread([&] { between = fresh(); }).join();
  const auto point = runtime().finish_use(a.block(), stream(), access_kind::write, prepared);
  EXPECT_TRUE(failed(point, errc::unsupported));
  EXPECT_TRUE(preflight_refuses(access_kind::read, a));
  // The block allocated in between is not an output of the use.
  const auto first = runtime().prepare_use(between.block(), stream(), access_kind::read);
  EXPECT_FALSE(outcome(runtime().finish_use(between.block(), stream(), access_kind::read, first)));
}

TEST_F(failure_of_launches, before_a_use_is_prepared_is_not_its_own) {
  const auto a = fresh();
  const auto b = fresh();
  fail_next_launch();
  EXPECT_TRUE(failed(launch(stream(), [&](auto& r) { r.write(b); }), errc::library_failure));
  const auto prepared = runtime().prepare_use(a.block(), stream(), access_kind::write);
  EXPECT_FALSE(
      outcome(runtime().finish_use(a.block(), stream(), access_kind::write, prepared)).has_value());
}

TEST_F(failure_of_launches, of_an_abandoned_recorder_is_noted) {
  const auto a = fresh();
  {
    auto recorder = begin_write(a, stream());
    submit_host_task(stream(), [] { throw error(errc::unsupported, "odd shape"); });
  }
  EXPECT_TRUE(failed(uses_of(a).last_write, errc::unsupported));
}

}  // namespace
}  // namespace sluice::test
