// SPDX-License-Identifier: Apache-2.0
#include "tests/actors/session.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/heap.hpp"

#include <sluice/actors/ask.hpp>
#include <sluice/actors/spin_for_message.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

using integer = std::int32_t;
using promise = caf::response_promise;

class asking : public ::testing::Test {
 protected:
  [[nodiscard]] session& s() { return session_; }
  [[nodiscard]] caf::actor_system& system() { return session_.system(); }
  /// An actor that adds one.
  [[nodiscard]] caf::actor adder() {
    return s().spawn([](caf::event_based_actor*) -> caf::behavior {
      return {[](integer x) -> integer {
        return x + 1;
      }};
    });
  }
  /// An actor that keeps its requests and never answers them.
  [[nodiscard]] caf::actor silent() {
    return s().spawn([](caf::event_based_actor* self) -> caf::behavior {
      return {[self, slot = std::make_shared<std::vector<promise>>()](integer) {
        slot->push_back(self->make_response_promise());
        return slot->back();
      }};
    });
  }
  /// An actor that answers with `why`.
  [[nodiscard]] caf::actor refusing(const caf::error& why) {
    return s().spawn([why](caf::event_based_actor*) -> caf::behavior {
      return {[why](integer) -> caf::result<integer> {
        return why;
      }};
    });
  }

 private:
  session session_{"host"};
};

TEST_F(asking, returns_the_answer) {
  const auto actor = adder();
  EXPECT_EQ(ask<integer>(system(), actor, integer{1}), 2);
  EXPECT_EQ(ask<integer>(system(), actor, 1h, integer{2}), 3);
  EXPECT_EQ(ask<integer>(system(), actor, std::chrono::hours::max(), integer{3}), 4);
  EXPECT_EQ(ask<integer>(system(), actor, std::chrono::nanoseconds::max(), integer{4}), 5);
  const std::chrono::duration<double> infinite(std::numeric_limits<double>::infinity());
  EXPECT_EQ(ask<integer>(system(), actor, infinite, integer{5}), 6);
}

TEST_F(asking, ends_when_the_time_limit_passes) {
  const auto actor = silent();
  EXPECT_TRUE(throws(errc::deadline_exceeded, "time limit",
                     [&] { ask<integer>(system(), actor, 1ms, integer{1}); }));
  const std::chrono::duration<double, std::micro> fraction(0.5);
  EXPECT_TRUE(throws(errc::deadline_exceeded, "time limit",
                     [&] { ask<integer>(system(), actor, fraction, integer{1}); }));
  s().end(actor);  // its promises keep it alive
}

TEST_F(asking, sends_nothing_within_no_time) {
  auto received = std::make_shared<std::vector<integer>>();
  const auto actor = s().spawn([received](caf::event_based_actor*) -> caf::behavior {
    return {[received](integer x) -> integer {
      received->push_back(x);
      return x;
    }};
  });
  for (const auto limit : {0s, -1s, std::chrono::seconds::min()}) {
    EXPECT_TRUE(throws(errc::deadline_exceeded, "not positive",
                       [&] { ask<integer>(system(), actor, limit, integer{1}); }));
  }
  EXPECT_EQ(ask<integer>(system(), actor, integer{2}), 2);
  EXPECT_EQ(*received, std::vector<integer>{2});
}

TEST_F(asking, an_absent_actor_is_shutting_down) {
  for (const auto& absent : {caf::actor(), caf::actor(nullptr)}) {
    EXPECT_TRUE(
        throws(errc::shutting_down, "empty", [&] { ask<integer>(system(), absent, integer{1}); }));
    EXPECT_TRUE(throws(errc::shutting_down, "empty",
                       [&] { ask<integer>(system(), absent, 1h, integer{1}); }));
  }
  EXPECT_TRUE(throws(errc::shutting_down, "empty", [&] {
    (void)ask<device_status>(system(), device_actor(), get_statistics{});
  }));
}

TEST_F(asking, an_actor_that_has_ended_is_shutting_down) {
  for (const auto reason : {caf::exit_reason::user_shutdown, caf::exit_reason::kill}) {
    const auto actor = adder();
    s().end(actor, reason);
    EXPECT_TRUE(
        throws(errc::shutting_down, "ended", [&] { ask<integer>(system(), actor, integer{1}); }));
    EXPECT_TRUE(throws(errc::shutting_down, "ended",
                       [&] { ask<integer>(system(), actor, 1h, integer{1}); }));
  }
}

TEST_F(asking, an_actor_that_ends_with_the_request_is_shutting_down) {
  for (const bool limited : {false, true}) {
    // The promise outlives the actor, so the request is never answered.
    auto slot = std::make_shared<std::optional<promise>>();
    const auto actor = s().spawn([slot](caf::event_based_actor* self) -> caf::behavior {
      return {[self, slot](integer) {
        *slot = self->make_response_promise();
        self->quit();
        return **slot;
      }};
    });
    EXPECT_TRUE(throws(errc::shutting_down, "ended", [&] {
      limited ? ask<integer>(system(), actor, 1h, integer{1})
              : ask<integer>(system(), actor, integer{1});
    }));
    s().end(actor);
    slot->reset();
  }
}

TEST_F(asking, an_actor_whose_promise_ends_with_it_is_shutting_down) {
  const auto actor = s().spawn([](caf::event_based_actor* self) -> caf::behavior {
    return {[self, slot = std::make_shared<std::optional<promise>>()](integer) {
      *slot = self->make_response_promise();
      self->quit();
      return **slot;
    }};
  });
  EXPECT_TRUE(
      throws(errc::shutting_down, "ended", [&] { ask<integer>(system(), actor, integer{1}); }));
  s().end(actor);
}

TEST_F(asking, an_actor_that_ends_before_it_has_looked_is_shutting_down) {
  std::promise<void> entered;
  std::promise<void> open;
  const auto actor = s().spawn<caf::detached>([&](caf::event_based_actor* self) -> caf::behavior {
    return {[&, self](bool) {
              entered.set_value();
              open.get_future().wait();
              self->quit();
            },
            [](integer x) {
              return x;
            }};
  });
  post(actor, true);
  entered.get_future().wait();
  auto answer = std::async(std::launch::async, [&] {
    return throws(errc::shutting_down, "ended", [&] { ask<integer>(system(), actor, integer{1}); });
  });
  open.set_value();
  EXPECT_TRUE(answer.get());
  s().end(actor);
}

TEST_F(asking, throws_errors_of_sluice_as_they_are) {
  const error refused(errc::stale_ref, "x: the memory has been freed");
  const auto actor = refusing(to_caf_error(refused));
  EXPECT_TRUE(
      throws(errc::stale_ref, "x: the memory", [&] { ask<integer>(system(), actor, integer{1}); }));
}

TEST_F(asking, throws_errors_of_caf_as_library_failures) {
  const auto actor = refusing(caf::make_error(caf::sec::invalid_argument));
  EXPECT_TRUE(throws(errc::library_failure, "invalid_argument",
                     [&] { ask<integer>(system(), actor, integer{1}); }));
  EXPECT_TRUE(throws(errc::library_failure, "unexpected",
                     [&] { ask<integer>(system(), adder(), std::string("no number")); }));
}

TEST_F(asking, tells_that_a_handler_threw) {
  const auto actor = s().spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](integer) -> integer {
      throw std::runtime_error("a handler fails");
    }};
  });
  EXPECT_TRUE(throws(errc::library_failure, "ask: a handler of the actor threw an exception",
                     [&] { ask<integer>(system(), actor, integer{1}); }));
}

TEST_F(asking, an_actor_that_spins_for_it_is_answered) {
  const auto target = adder();
  const auto client = s().spawn([target](caf::event_based_actor* self) -> caf::behavior {
    return {[self, target](integer rounds) -> caf::result<integer> {
      const auto answer = self->make_response_promise();
      const auto again = [self, target, answer, rounds](const auto& next, integer x) -> void {
        if (x == rounds) return (void)promise(answer).deliver(x);
        request(self, target, caf::infinite, x).then([next](integer sum) { next(next, sum); });
        spin_for_message(self);
      };
      again(again, 0);
      return answer;
    }};
  });
  EXPECT_EQ(ask<integer>(system(), client, integer{50}), 50);
}

TEST_F(asking, leaves_nothing_in_the_actor) {
  const auto actor = adder();
  constexpr integer requests = 4000;
  const auto ask_often = [&] {
    for (integer i = 0; i < requests; ++i) ASSERT_EQ(ask<integer>(system(), actor, i), i + 1);
  };
  ask_often();
  const auto before = heap_in_use();
  ask_often();
  // A watch that stayed would keep its client, too: several hundred bytes a request.
  EXPECT_LT(heap_in_use(), before + requests * sizeof(void*));
}

}  // namespace
}  // namespace sluice::test
