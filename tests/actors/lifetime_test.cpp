// SPDX-License-Identifier: Apache-2.0
// Devices, actor systems and references that end in every order that users are allowed.
#include "tests/actors/session.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/error.hpp>

#include <chrono>
#include <thread>

namespace sluice::test {
namespace {

using ref = gpu_ref<float>;

class lifetime : public named_device_test {};

caf::message small_gemm(const ref& a, const ref& c = {}, reply_on when = reply_on::finished) {
  return caf::make_message(sgemm{.m = 3, .n = 3, .k = 3, .a = a, .b = a, .c = c},
                           request_options{.reply = when});
}

TEST_P(lifetime, a_device_ends_with_requests_in_flight_and_waiting) {
  for (int round = 0; round < 10; ++round) {
    configured configuration;
    caf::actor_system system{configuration};
    std::vector<std::shared_ptr<answers<ref>>> pending_replies;
    {
      scoped_device device(system, GetParam(), nullptr,
                           {.lanes_per_actor = 1 + static_cast<std::size_t>(round % 3)});
      const auto a =
          ask<tensor>(system, device.actor(), sluice::upload{.values = std::vector<float>(9, 0.5F)})
              .as<float>();
      for (const auto when : {reply_on::finished, reply_on::enqueued}) {
        for (const auto& target : {untyped(device.blas()), untyped(device.actor())}) {
          pending_replies.push_back(std::make_shared<answers<ref>>(400));
          system.spawn<counting_client<ref>>(
              pending_replies.back(), target,
              std::vector<caf::message>(
                  400, target == untyped(device.actor())
                           ? caf::make_message(strided_copy{.x = a}, request_options{.reply = when})
                           : small_gemm(a, {}, when)));
        }
      }
      await([&] { return pending_replies.front()->answered() > static_cast<std::size_t>(round); });
    }
    for (const auto& replies : pending_replies) {
      for (const auto& a : replies->wait()) {
        // Finished, or refused by whoever it reached.
        if (a.value) {
          EXPECT_TRUE(a.value->stale());
        } else if (a.failure) {
          EXPECT_TRUE(a.failure->code() == errc::cancelled ||
                      a.failure->code() == errc::shutting_down)
              << a.failure->what();
        }
      }
      EXPECT_EQ(replies->replies(), 400U);
    }
  }
}

TEST_P(lifetime, references_and_handles_may_outlive_their_device) {
  configured configuration;
  caf::actor_system system{configuration};
  ref result;
  std::optional<blas_actor> blas;
  std::optional<device_actor> actor;
  {
    scoped_device device(system, GetParam());
    actor = device.actor();
    blas = device.blas();
    result = ask<tensor>(system, *actor, sluice::upload{.values = std::vector<float>(9, 0.5F)})
                 .as<float>();
    result = ask<ref>(system, *blas, sgemm{.m = 3, .n = 3, .k = 3, .a = result, .b = result});
    EXPECT_FALSE(result.stale());
  }
  EXPECT_TRUE(result.stale());
  EXPECT_EQ(result.size(), 9U);
  EXPECT_THROW((void)ask<ref>(system, *blas, sgemm{.m = 3, .n = 3, .k = 3, .a = result}), error);
  EXPECT_THROW((void)ask<tensor>(system, *actor, allocate{.shape = extents{1}}), error);
  scoped_device again(system, GetParam());
  EXPECT_TRUE(throws(errc::stale_ref, "a:", [&] {
    (void)ask<ref>(system, again.blas(), sgemm{.m = 3, .n = 3, .k = 3, .a = result, .b = result});
  }));
  const auto copied = result.subspan(2, 3);
  result = {};
}

TEST_P(lifetime, a_reference_may_outlive_the_actor_system) {
  ref result;
  {
    configured configuration;
    caf::actor_system system{configuration};
    scoped_device device(system, GetParam());
    result = ask<tensor>(system, device.rng(), random_uniform{.shape = extents{10}}).as<float>();
  }
  EXPECT_TRUE(result.stale());
}

TEST_P(lifetime, nobody_needs_to_use_a_device) {
  configured configuration;
  caf::actor_system system{configuration};
  const scoped_device unused(system, GetParam());
}

TEST_P(lifetime, two_devices_work_side_by_side_and_refuse_each_others_memory) {
  configured configuration;
  caf::actor_system system{configuration};
  // Of one name, and of two.
  scoped_device first(system, GetParam());
  scoped_device second(system, GetParam());
  scoped_device third(system, std::make_shared<device_service>(open_host_device({.ordinal = 1})));
  std::vector<ref> memory;
  for (auto* device : {&first, &second, &third}) {
    const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9};
    memory.push_back(
        ask<tensor>(system, device->actor(), sluice::upload{.values = values}).as<float>());
  }
  std::vector<scoped_device*> devices{&first, &second, &third};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& matrix = memory[i];
    const auto c = ask<ref>(system, devices[i]->blas(),
                            sgemm{.m = 3, .n = 3, .k = 3, .a = matrix, .b = matrix});
    EXPECT_EQ(
        ask<host_tensor>(system, devices[i]->actor(), sluice::download{.x = c}).to_vector<float>(),
        (std::vector<float>{30, 36, 42, 66, 81, 96, 102, 126, 150}));
    for (std::size_t j = 0; j < 3; ++j) {
      if (i == j) continue;
      EXPECT_TRUE(throws(errc::invalid_argument, "b:", [&] {
        (void)ask<ref>(system, devices[i]->blas(),
                       sgemm{.m = 3, .n = 3, .k = 3, .a = matrix, .b = memory[j]});
      }));
      EXPECT_TRUE(throws(errc::invalid_argument, "x:", [&] {
        (void)ask<tensor>(system, devices[i]->actor(), strided_copy{.x = memory[j]});
      }));
    }
  }
}

TEST_P(lifetime, an_actor_that_nobody_knows_any_more_answers_first) {
  session s(GetParam());
  {
    const auto a = s.put(s.numbers<float>(9));
    std::vector<caf::actor> actors;
    for (int i = 0; i < 20; ++i) {
      actors.push_back(untyped(spawn_blas(s.system(), s.service())));
      EXPECT_TRUE(succeeded(s.ask_all<ref>(actors.back(), {small_gemm(a)})[0]));
    }
    s.settle();
    gate g;
    s.hold(g, a);
    std::vector<std::shared_ptr<answers<ref>>> pending_replies;
    while (!actors.empty()) {
      // The client alone has the handle, and drops it when it has sent its requests.
      const auto actor = std::move(actors.back());
      actors.pop_back();
      pending_replies.push_back(s.send<ref>(actor, {small_gemm(a), small_gemm(a)}));
    }
    await([&] { return s.service()->engine().pending() >= 40; });
    g.open();
    for (const auto& replies : pending_replies) {
      for (const auto& one : replies->wait()) EXPECT_TRUE(succeeded(one));
    }
  }
  s.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(devices, lifetime, every_device(), parameter_name);

TEST(shutting_down, a_device_that_does_not_finish_in_time_is_lost_and_everything_answered) {
  configured configuration;
  caf::actor_system system{configuration};
  gate g;
  const auto replies = std::make_shared<answers<ref>>(300);
  std::vector<answer<ref>> got;
  std::size_t in_flight = 0;
  std::thread opener;
  {
    device_service_options options;
    options.runtime.drain_timeout = std::chrono::milliseconds(50);
    const auto service = std::make_shared<device_service>("host", std::move(options));
    auto device = std::make_unique<scoped_device>(system, service);
    auto stream = service->runtime().create_stream();
    const auto c = service->runtime().allocate<float>(9, stream);
    {
      auto recorder = launch_recorder::strict(stream);
      recorder.write(c);
      recorder.preflight();
      g.hold(stream);
      recorder.commit();
    }
    system.spawn<counting_client<ref>>(
        replies, untyped(device->actor()),
        std::vector<caf::message>(300, caf::make_message(fill{.value = 1, .y = c})));
    in_flight = service->max_in_flight();
    await([&] { return service->engine().pending() == in_flight; });
    device.reset();  // what waited has been answered with the actor's end
    await([&] { return replies->answered() == 300 - in_flight; });
    // The stream's thread stands at the gate until the answers are there.
    opener = std::thread([&] {
      got = replies->wait();
      g.open();
    });
  }
  opener.join();
  std::size_t lost = 0;
  for (const auto& a : got) {
    EXPECT_FALSE(a.value);
    if (a.failure && a.failure->code() == errc::device_lost) ++lost;
  }
  EXPECT_EQ(lost, in_flight);
  EXPECT_EQ(replies->replies(), 300U);
}

TEST(starting, fails_where_it_is_called) {
  configured configuration;
  caf::actor_system system{configuration};
  EXPECT_TRUE(throws(errc::invalid_argument, "", [&] { scoped_device(system, "nonsense"); }));
  const auto service = std::make_shared<device_service>("host");
  service->device().lose(error(errc::device_lost, "the test lost it"));
  EXPECT_TRUE(
      throws(errc::device_lost, "the test lost it", [&] { (void)spawn_device(system, service); }));
  EXPECT_TRUE(
      throws(errc::device_lost, "the test lost it", [&] { scoped_device(system, service); }));
  EXPECT_TRUE(
      throws(errc::device_lost, "the test lost it", [&] { (void)spawn_blas(system, service); }));
}

}  // namespace
}  // namespace sluice::test
