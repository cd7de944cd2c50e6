// SPDX-License-Identifier: Apache-2.0
#include "tests/actors/session.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <thread>

namespace sluice::test {
namespace {

/// Downloads up to this size take another way on a GPU.
constexpr std::size_t small_bytes = 64 * 1024;

class device_actor_tests : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    session_ = std::make_unique<session>(GetParam());
    actor_ = spawn_device(session_->system(), session_->service());
  }
  void TearDown() override {
    if (!session_) return;
    if (actor_) session_->end(*actor_);
    actor_.reset();
    session_->expect_nothing_left();
  }
  [[nodiscard]] session& s() { return *session_; }
  [[nodiscard]] const device_actor& actor() const { return *actor_; }
  /// The elements of `x`, from the actor.
  template <class T>
  [[nodiscard]] std::vector<T> downloaded(const tensor& x) {
    const auto there = s().ask<host_tensor>(actor(), sluice::download{.x = x});
    EXPECT_EQ(there.shape(), x.shape());
    return there.to_vector<T>();
  }
  void forget_actor() { actor_.reset(); }

  /// Calls `check(T{})` for each element type.
  template <class Check>
  static void for_each_type(Check check) {
    check(std::uint32_t{});
    check(float{});
    check(double{});
    check(std::complex<float>{});
    check(std::complex<double>{});
  }

 private:
  std::unique_ptr<session> session_;
  std::optional<device_actor> actor_;
};

TEST_P(device_actor_tests, brings_values_to_the_device_and_back) {
  for_each_type([this]<class T>(T) {
    const auto boundary = small_bytes / sizeof(T);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{37}, boundary - 1,
                                    boundary, boundary + 1, 3 * boundary + 5}) {
      SCOPED_TRACE(count);
      const auto values = s().numbers<T>(count);
      for (const auto when : {reply_on::finished, reply_on::enqueued}) {
        const auto there = s().ask<tensor>(actor(), sluice::upload{.values = values},
                                           request_options{.reply = when});
        EXPECT_EQ(there.type(), element_type_v<T>);
        EXPECT_EQ(there.shape(), extents{static_cast<std::int64_t>(count)});
        EXPECT_EQ(there.device(), s().device().id());
        EXPECT_EQ(downloaded<T>(there), values);
      }
      // Into a part of something larger, and from it.
      const auto elements = s().numbers<T>(count + 7);
      const auto large = s().put(elements);
      const auto part = large.subspan(3, count);
      EXPECT_EQ(s().ask<tensor>(actor(), sluice::upload{.values = values, .y = part}),
                tensor(part));
      auto expected = elements;
      std::copy(values.begin(), values.end(), expected.begin() + 3);
      EXPECT_EQ(downloaded<T>(large), expected);
      EXPECT_EQ(downloaded<T>(part), values);
    }
  });
}

TEST_P(device_actor_tests, allocates_fills_and_copies) {
  for_each_type([this]<class T>(T) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{513}, std::size_t{30'011}}) {
      SCOPED_TRACE(count);
      const auto allocated = s().ask<tensor>(
          actor(),
          allocate{.shape = extents{static_cast<std::int64_t>(count)}, .type = element_type_v<T>});
      const auto memory = allocated.as<T>();
      EXPECT_EQ(memory.size(), count);
      const T value = s().numbers<T>(1).front();
      EXPECT_EQ(s().ask<tensor>(actor(), fill{.value = value, .y = memory}), allocated);
      EXPECT_EQ(s().get(memory), std::vector<T>(count, value));
      if (count < 100) continue;
      const T other = s().numbers<T>(1).front();
      (void)s().ask<tensor>(actor(), fill{.value = other, .y = memory.subspan(9, count - 20)},
                            request_options{.reply = reply_on::enqueued});
      auto expected = std::vector<T>(count, other);
      std::fill_n(expected.begin(), 9, value);
      std::fill_n(expected.end() - 11, 11, value);
      const auto copied = s().ask<tensor>(actor(), strided_copy{.x = memory});
      EXPECT_FALSE(copied == allocated);
      EXPECT_EQ(s().get(copied.as<T>()), expected);
      // Within one block, from the end to the beginning.
      (void)s().ask<tensor>(
          actor(), strided_copy{.x = memory.subspan(count - 40, 40), .y = memory.subspan(0, 40)});
      EXPECT_EQ(s().get(memory.subspan(0, 40)),
                std::vector<T>(expected.end() - 40, expected.end()));
    }
  });
}

TEST_P(device_actor_tests, answers_many_downloads_at_once) {
  std::vector<caf::message> requests;
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < 600; ++i) {
    values.push_back(s().numbers<float>(i % 7 == 0 ? small_bytes / sizeof(float) + i : i));
    requests.push_back(caf::make_message(sluice::download{.x = s().put(values.back())}));
  }
  const auto replies = s().send<host_tensor>(untyped(actor()), requests);
  requests.clear();
  const auto got = replies->wait();
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(succeeded(got[i]));
    EXPECT_EQ(got[i].value->to_vector<float>(), values[i]);
  }
  s().settle();
  EXPECT_EQ(replies->replies(), values.size());
}

TEST_P(device_actor_tests, refuses_downloads_of_what_is_not_there) {
  session elsewhere("host");
  const auto failure = [&](const gpu_ref<float>& x, errc code) {
    return throws(code,
                  "x: ", [&] { (void)s().ask<host_tensor>(actor(), sluice::download{.x = x}); });
  };
  EXPECT_TRUE(failure({}, errc::invalid_argument));
  EXPECT_TRUE(failure(s().stale<float>(4), errc::stale_ref));
  EXPECT_TRUE(failure(elsewhere.put(elsewhere.numbers<float>(4)), errc::invalid_argument));
}

TEST_P(device_actor_tests, orders_downloads_after_writes) {
  gate g;
  const auto memory = s().put(s().numbers<float>(100'000));
  (void)s().ask<tensor>(actor(), fill{.value = 3, .y = memory});  // loads the kernel
  s().hold(g, memory);
  (void)s().ask<tensor>(actor(), fill{.value = 4, .y = memory},
                        request_options{.reply = reply_on::enqueued});
  const auto replies =
      s().send<host_tensor>(untyped(actor()), {caf::make_message(sluice::download{.x = memory})});
  await([&] { return s().ask<device_status>(actor(), get_statistics{}).launches_pending == 2; });
  EXPECT_EQ(replies->answered(), 0U);
  g.open();
  EXPECT_EQ(replies->wait()[0].value->to_vector<float>(), std::vector<float>(100'000, 4.0F));
}

TEST_P(device_actor_tests, gives_clients_pinned_memory) {
  const auto before = s().ask<device_status>(actor(), get_statistics{}).memory;
  auto values = s().ask<host_tensor>(actor(), allocate_pinned{.shape = {300, 1000}});
  EXPECT_EQ(values.shape(), (extents{300, 1000}));
  EXPECT_EQ(values.type(), element_type::f32);
  const auto numbers = s().numbers<float>(values.size());
  std::copy(numbers.begin(), numbers.end(), values.values<float>().begin());
  const auto x = s().ask<tensor>(actor(), sluice::upload{.values = values});
  EXPECT_EQ(s().get(x.as<float>()), numbers);
  const auto after = s().ask<device_status>(actor(), get_statistics{}).memory;
  EXPECT_EQ(after.client_pinned_bytes - before.client_pinned_bytes, values.bytes());
  EXPECT_TRUE(throws(errc::invalid_argument, "",
                     [&] { (void)s().ask<host_tensor>(actor(), allocate_pinned{.shape = {-1}}); }));
}

TEST_P(device_actor_tests, gives_pinned_memory_again_after_a_transfer) {
  device_service_options options;
  options.runtime.client_pinned_limit = 6 << 20U;  // one of the tensors
  const scoped_device limited(
      s().system(), std::make_shared<device_service>(open_device(GetParam()), std::move(options)));
  const auto x = s().ask<tensor>(limited.actor(), allocate{.shape = {1 << 20}});
  for (int i = 0; i < 100; ++i) {
    auto values = s().ask<host_tensor>(limited.actor(), allocate_pinned{.shape = {1 << 20}});
    (void)s().ask<tensor>(limited.actor(), sluice::upload{.values = std::move(values), .y = x});
  }
}

TEST_P(device_actor_tests, tells_what_it_has_in_its_hands) {
  const auto before = s().ask<device_status>(actor(), get_statistics{});
  EXPECT_EQ(before.info.id, s().device().id());
  EXPECT_EQ(before.launches_pending, 0U);
  {
    const auto memory =
        s().ask<tensor>(actor(), allocate{.shape = {10, 100}, .type = element_type::f64});
    const auto during = s().ask<device_status>(actor(), get_statistics{});
    EXPECT_EQ(during.memory.bytes_outstanding - before.memory.bytes_outstanding, 8'000U);
    EXPECT_EQ(during.memory.blocks - before.memory.blocks, 1U);
    EXPECT_EQ(during.memory.leases, 0U);
  }
  const auto after = s().ask<device_status>(actor(), get_statistics{});
  EXPECT_EQ(after.memory.bytes_outstanding, before.memory.bytes_outstanding);
  EXPECT_GE(after.memory.peak_bytes, 8'000U);
}

TEST_P(device_actor_tests, makes_each_library_actor_once_and_again_when_it_has_ended) {
  const auto blas = s().ask<blas_actor>(actor(), get_blas{});
  EXPECT_EQ(s().ask<blas_actor>(actor(), get_blas{}), blas);
  s().end(blas, caf::exit_reason::kill);
  // The device actor learns of the end by a message.
  blas_actor again;
  await([&] {
    again = s().ask<blas_actor>(actor(), get_blas{});
    return again != blas;
  });
  const auto a = s().put(std::vector<float>{1});
  const auto c = s().ask<gpu_ref<float>>(again, sgemm{.m = 2, .n = 2, .k = 0, .a = a, .b = a});
  EXPECT_EQ(s().get(c), std::vector<float>(4, 0.0F));
  EXPECT_NE(s().ask<fft_actor>(actor(), get_fft{}), nullptr);
  EXPECT_NE(s().ask<rng_actor>(actor(), get_rng{}), nullptr);
  EXPECT_NE(s().ask<elementwise_actor>(actor(), get_elementwise{}), nullptr);
}

TEST_P(device_actor_tests, ends_its_library_actors_however_it_ends) {
  for (const auto reason : {caf::exit_reason::user_shutdown, caf::exit_reason::kill}) {
    const auto device = spawn_device(s().system(), s().service());
    const auto blas = s().ask<blas_actor>(device, get_blas{});
    const auto rng = s().ask<rng_actor>(device, get_rng{});
    s().end(device, reason);
    caf::scoped_actor self{s().system()};
    self->wait_for(blas, rng);
  }
}

TEST_P(device_actor_tests, answers_downloads_that_are_in_flight_when_it_ends) {
  gate g;
  const auto values = s().numbers<double>(small_bytes);
  const auto memory = s().put(values);
  s().hold(g, memory);
  const auto replies = s().send<host_tensor>(
      untyped(actor()), {caf::make_message(sluice::download{.x = memory}),
                         caf::make_message(sluice::download{.x = memory.subspan(5, 10)})});
  await([&] { return s().service()->engine().pending() == 2; });
  s().end(actor());
  forget_actor();
  EXPECT_EQ(replies->answered(), 0U);
  g.open();
  const auto got = replies->wait();
  ASSERT_TRUE(succeeded(got[0]));
  EXPECT_EQ(got[0].value->to_vector<double>(), values);
  ASSERT_TRUE(succeeded(got[1]));
  EXPECT_EQ(got[1].value->to_vector<double>(),
            std::vector<double>(values.begin() + 5, values.begin() + 15));
}

TEST_P(device_actor_tests, drops_the_requests_of_a_sender_that_ends) {
  gate g;
  const auto memory = s().put(s().numbers<float>(10));
  (void)s().ask<tensor>(actor(), fill{.value = 1, .y = memory});  // loads the kernel
  s().settle();
  s().hold(g, memory);
  const auto held = s().send<gpu_ref<float>>(
      untyped(actor()),
      std::vector<caf::message>(max_in_flight, caf::make_message(fill{.value = 2, .y = memory})));
  held->wait_until_sent();
  const auto await_waiting = [&](std::size_t count) {
    await([&] { return s().ask<queue_status>(actor(), get_queue_status{}).requests == count; });
  };
  {
    caf::scoped_actor ends{s().system()};
    for (int i = 0; i < 3; ++i) {
      send(ends, actor(), fill{.value = 3, .y = memory}, request_options{.while_alive = true});
    }
    await_waiting(3);
  }
  await_waiting(0);
  g.open();
  for (const auto& a : held->wait()) EXPECT_TRUE(succeeded(a));
  EXPECT_EQ(s().get(memory), std::vector<float>(10, 2.0F));
}

TEST_P(device_actor_tests, waits_for_its_library_actors_and_serves_meanwhile) {
  // Requests that arrive while it ends are answered one way or the other.
  for (int round = 0; round < 20; ++round) {
    const auto device = spawn_device(s().system(), s().service());
    (void)s().ask<blas_actor>(device, get_blas{});
    const auto memory = s().put(s().numbers<float>(10));
    const auto replies = s().send<gpu_ref<float>>(
        untyped(device),
        std::vector<caf::message>(50, caf::make_message(strided_copy{.x = memory})));
    caf::scoped_actor self{s().system()};
    self->send_exit(device, caf::exit_reason::user_shutdown);
    const auto late = s().send<blas_actor>(untyped(device), {caf::make_message(get_blas{})});
    self->wait_for(device);
    (void)replies->wait();
    (void)late->wait();
    s().settle();
    EXPECT_EQ(replies->replies(), 50U);
    EXPECT_EQ(late->replies(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, device_actor_tests, every_device(), parameter_name);

TEST(device_actor_on_a_failing_device, answers_failed_transfers) {
  const auto script = std::make_shared<fault_script>();
  session s(open_host_device({.faults = script}));
  {
    const auto device = spawn_device(s.system(), s.service());
    const auto values = s.numbers<float>(100);
    const auto memory = s.put(values);
    const auto uploading = [&] {
      (void)s.ask<tensor>(device, sluice::upload{.values = values, .y = memory});
    };
    const auto downloading = [&] {
      return s.ask<host_tensor>(device, sluice::download{.x = memory}).to_vector<float>();
    };
    script->fail_nth(fault_target::copy, 1);
    EXPECT_TRUE(throws(errc::library_failure, "scripted", [&] { (void)downloading(); }));
    // A failed read harms nothing.
    EXPECT_EQ(downloading(), values);
    script->fail_nth(fault_target::copy, 1);
    EXPECT_TRUE(throws(errc::library_failure, "scripted", uploading));
    EXPECT_TRUE(throws(errc::upstream_failed, "scripted", [&] { (void)downloading(); }));
    // A new upload makes it good.
    uploading();
    EXPECT_EQ(downloading(), values);

    for (const int nth : {1, 2}) {
      script->fail_nth(fault_target::allocation, static_cast<std::uint64_t>(nth), 2);
      const auto got = s.ask_all<gpu_ref<float>>(
          untyped(device),
          std::vector<caf::message>(3, caf::make_message(allocate{.shape = extents{10}})));
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(i + 1 == nth
                        ? failed_with(got[static_cast<std::size_t>(i)], errc::out_of_memory)
                        : succeeded(got[static_cast<std::size_t>(i)]));
      }
    }
    s.device().lose(error(errc::device_lost, "the test lost it"));
    EXPECT_TRUE(throws(errc::device_lost, "the test lost it",
                       [&] { (void)s.ask<blas_actor>(device, get_blas{}); }));
    EXPECT_TRUE(throws(errc::device_lost, "the test lost it",
                       [&] { (void)s.ask<tensor>(device, allocate{.shape = extents{1}}); }));
    s.end(device);
  }
  s.expect_nothing_left();
}

}  // namespace
}  // namespace sluice::test
