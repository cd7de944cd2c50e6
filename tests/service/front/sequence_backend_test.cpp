// SPDX-License-Identifier: Apache-2.0
// Sequences, over a backend whose models sum what they get.
#include "service/front/sequence_backend.hpp"

#include "tests/service/front/summing_backend.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service::test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

/// What a client has got for a request.
struct answer {
  std::atomic<int> count{0};
  std::promise<void> there{};
  std::optional<request_error> error{};
  std::int64_t y = 0;
  std::vector<std::string> outputs{};
  model_backend::number number = 0;

  [[nodiscard]] std::optional<request_status> status() const {
    if (!error) return std::nullopt;
    return error->status();
  }
  [[nodiscard]] std::string text() const { return error ? error->what() : ""; }
};

/// A request with x.
struct question {
  std::string id = "7";
  std::int64_t x = 0;
  bool starts = false;
  bool ends = false;
  std::string model = "sum";
  std::string tenant{};
  std::string version{};
  std::vector<std::string> outputs{};
  std::string input = "x";
  std::optional<steady_clock::time_point> deadline{};
};

std::shared_ptr<answer> ask(model_backend& service, const question& asked) {
  const std::vector<std::uint64_t> sizes{sizeof(asked.x)};
  auto inputs = service.allocate(sizes);
  std::memcpy(inputs->tensor(0).data(), &asked.x, sizeof(asked.x));
  const auto got = std::make_shared<answer>();
  got->number = service.submit(
      {.model = asked.model,
       .version = asked.version,
       .inputs = {{.name = asked.input, .type = datatype::int64, .shape = {1}}},
       .outputs = asked.outputs,
       .deadline = asked.deadline,
       .tenant = asked.tenant,
       .sequence = request_sequence{.id = asked.id, .starts = asked.starts, .ends = asked.ends}},
      std::move(inputs), [got](run_result result) {
        if (got->count.fetch_add(1) != 0) return;
        got->error = std::move(result.error);
        for (const auto& output : result.outputs) {
          got->outputs.push_back(output.name);
          if (output.name == "y") std::memcpy(&got->y, output.bytes.data(), sizeof(got->y));
        }
        got->there.set_value();
      });
  return got;
}

using status = request_status;

/// The sum that an answer has, or -1000 and less for an error.
std::int64_t sum_of(const std::shared_ptr<answer>& got) {
  EXPECT_EQ(got->count, 1);
  return got->error ? -1000 - static_cast<std::int64_t>(got->error->status()) : got->y;
}

TEST(sequence_backend, keeps_the_state_until_the_end) {
  summing_backend models;
  sequence_backend service(models);
  auto random = sluice::test::make_generator();
  std::int64_t sum = 0;
  for (int i = 0; i < 10; ++i) {
    const auto x = static_cast<std::int64_t>(random() >> 8U);
    sum += x;
    EXPECT_EQ(sum_of(ask(service, {.x = x, .starts = i == 0, .ends = i == 9})), sum);
    EXPECT_EQ(service.statistics().sequences, i == 9 ? 0U : 1U);
  }
  EXPECT_EQ(service.statistics().bytes, 0U);
  const auto late = ask(service, {.x = 1});
  EXPECT_EQ(late->status(), status::aborted);
  EXPECT_NE(late->text().find("sequence lost or not begun"), std::string::npos) << late->text();
  EXPECT_EQ(sum_of(ask(service, {.x = 5, .starts = true, .ends = true})), 5);
  EXPECT_EQ(service.statistics().sequences, 0U);
}

TEST(sequence_backend, returns_the_state_only_if_its_name_is_asked) {
  summing_backend models;
  sequence_backend service(models);
  EXPECT_EQ(ask(service, {.starts = true})->outputs, std::vector<std::string>{"y"});
  EXPECT_EQ(ask(service, {.outputs = {"y"}})->outputs, std::vector<std::string>{"y"});
  EXPECT_EQ(ask(service, {.outputs = {"t"}})->outputs, std::vector<std::string>{"t"});
  EXPECT_EQ(ask(service, {.outputs = {"t", "y"}})->outputs, (std::vector<std::string>{"t", "y"}));
}

TEST(sequence_backend, keeps_sequences_apart) {
  summing_backend models;
  sequence_backend service(models);
  const question others[] = {{.id = "7"},
                             {.id = "8"},
                             {.id = "7", .model = "sum2"},
                             {.id = "7", .tenant = "t"},
                             {.id = "7", .model = "sum2", .tenant = "t"}};
  for (int round = 0; round < 3; ++round) {
    std::int64_t x = 1;
    for (auto each : others) {
      each.x = x *= 10;
      each.starts = round == 0;
      EXPECT_EQ(sum_of(ask(service, each)), x * (round + 1));
    }
  }
  // A sequence begins again.
  EXPECT_EQ(sum_of(ask(service, {.x = 4, .starts = true})), 4);
  EXPECT_EQ(sum_of(ask(service, {.id = "8", .x = 4})), 304);
  EXPECT_EQ(service.statistics().sequences, 5U);
}

TEST(sequence_backend, leaves_the_state_as_it_was_if_a_request_fails) {
  summing_backend models;
  sequence_backend service(models);
  EXPECT_EQ(sum_of(ask(service, {.x = 3, .starts = true})), 3);
  models.is_prompt = false;
  const auto failed = ask(service, {.x = 100, .ends = true});
  models.end_any(status::unavailable);
  EXPECT_EQ(failed->status(), status::unavailable);
  models.is_prompt = true;
  const auto misshaped = ask(service, {.x = summing_backend::misshaping});
  EXPECT_EQ(misshaped->status(), status::invalid_argument);
  EXPECT_NE(misshaped->text().find("\"t\" into a INT64 of shape [2]"), std::string::npos)
      << misshaped->text();
  EXPECT_EQ(sum_of(ask(service, {.x = 4})), 7);
}

TEST(sequence_backend, does_not_begin_a_sequence_whose_first_request_fails) {
  summing_backend models;
  sequence_backend service(models);
  EXPECT_EQ(sum_of(ask(service, {.x = 3, .starts = true})), 3);
  models.is_prompt = false;
  const auto failed = ask(service, {.x = 100, .starts = true});
  const auto waiting = ask(service, {.x = 100});
  models.end_any(status::unavailable);
  EXPECT_EQ(failed->status(), status::unavailable);
  EXPECT_EQ(waiting->status(), status::aborted);
  EXPECT_TRUE(models.held().empty());
  EXPECT_EQ(service.statistics().sequences, 0U);
  EXPECT_EQ(service.statistics().bytes, 0U);
}

TEST(sequence_backend, runs_the_requests_of_a_sequence_one_after_the_other) {
  summing_backend models;
  models.is_prompt = false;
  sequence_backend service(models, {.waiting = 3});
  std::vector<std::shared_ptr<answer>> got;
  for (int i = 0; i < 4; ++i) got.push_back(ask(service, {.x = i + 1, .starts = i == 0}));
  EXPECT_EQ(ask(service, {.x = 9})->status(), status::resource_exhausted);
  EXPECT_EQ(ask(service, {.x = 9, .starts = true})->status(), status::aborted);
  const auto other = ask(service, {.id = "8", .x = 50, .starts = true});
  EXPECT_EQ(models.held().size(), 2U);
  models.end(models.held().back());
  EXPECT_EQ(sum_of(other), 50);
  for (std::int64_t i = 0, sum = 0; i < 4; ++i) {
    ASSERT_EQ(models.held().size(), 1U);
    for (auto k = static_cast<std::size_t>(i); k < 4; ++k) EXPECT_EQ(got[k]->count, 0);
    models.end_any();
    EXPECT_EQ(sum_of(got[static_cast<std::size_t>(i)]), sum += i + 1);
  }
}

TEST(sequence_backend, runs_what_waits_also_if_the_backend_answers_at_once) {
  summing_backend models;
  models.is_prompt = false;
  sequence_backend service(models, {.waiting = 20'000});
  std::vector<std::shared_ptr<answer>> got;
  for (int i = 0; i < 20'000; ++i) got.push_back(ask(service, {.x = 1, .starts = i == 0}));
  models.is_prompt = true;
  models.end_any();
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(sum_of(got[i]), static_cast<std::int64_t>(i + 1));
  }
}

TEST(sequence_backend, answers_what_follows_the_end_of_a_sequence) {
  summing_backend models;
  models.is_prompt = false;
  sequence_backend service(models);
  const auto first = ask(service, {.x = 1, .starts = true, .ends = true});
  const auto second = ask(service, {.x = 2});
  const auto third = ask(service, {.x = 3});
  models.end_any();
  EXPECT_EQ(sum_of(first), 1);
  EXPECT_EQ(second->status(), status::aborted);
  EXPECT_EQ(third->status(), status::aborted);
}

TEST(sequence_backend, ends_a_sequence_whose_version_is_replaced) {
  summing_backend models;
  sequence_backend service(models);
  EXPECT_EQ(sum_of(ask(service, {.x = 3, .starts = true, .version = "3"})), 3);
  EXPECT_EQ(ask(service, {.version = "2"})->status(), status::invalid_argument);
  EXPECT_EQ(sum_of(ask(service, {.x = 3})), 6);
  models.replace_models();
  const auto lost = ask(service, {.x = 3});
  EXPECT_EQ(lost->status(), status::aborted);
  EXPECT_NE(lost->text().find("sequence lost"), std::string::npos) << lost->text();
  EXPECT_EQ(service.statistics().sequences, 0U);
  EXPECT_EQ(sum_of(ask(service, {.x = 3, .starts = true})), 3);
}

TEST(sequence_backend, refuses_what_is_no_request_of_a_sequence) {
  summing_backend models;
  sequence_backend service(models);
  for (const bool starts : {true, false}) {
    const auto plain = ask(service, {.starts = starts, .model = "plain"});
    EXPECT_EQ(plain->status(), status::invalid_argument);
    EXPECT_NE(plain->text().find("\"plain\" names no state"), std::string::npos) << plain->text();
    EXPECT_EQ(ask(service, {.starts = starts, .model = "missing"})->status(), status::not_found);
  }
  EXPECT_EQ(ask(service, {.starts = true, .input = "s"})->status(), status::invalid_argument);
  EXPECT_EQ(service.statistics().sequences, 0U);
  EXPECT_EQ(sum_of(ask(service, {.x = 1, .starts = true})), 1);
  const auto state = ask(service, {.input = "s"});
  EXPECT_EQ(state->status(), status::invalid_argument);
  EXPECT_NE(state->text().find("\"s\""), std::string::npos) << state->text();
  EXPECT_EQ(sum_of(ask(service, {.x = 1})), 2);
}

TEST(sequence_backend, limits_sequences_and_their_bytes) {
  summing_backend models;
  sequence_backend few(models, {.sequences = 2});
  EXPECT_EQ(sum_of(ask(few, {.id = "1", .x = 1, .starts = true})), 1);
  EXPECT_EQ(sum_of(ask(few, {.id = "2", .x = 1, .starts = true})), 1);
  EXPECT_EQ(ask(few, {.id = "3", .starts = true})->status(), status::resource_exhausted);
  EXPECT_EQ(sum_of(ask(few, {.id = "2", .x = 1, .starts = true})), 1) << "it takes its own place";
  EXPECT_EQ(sum_of(ask(few, {.id = "1", .x = 1, .ends = true})), 2);
  EXPECT_EQ(sum_of(ask(few, {.id = "3", .x = 1, .starts = true})), 1);

  sequence_backend small(models, {.bytes = 100'000});
  EXPECT_EQ(ask(small, {.id = std::string(50'000, 'x'), .starts = true})->status(),
            status::resource_exhausted);
  EXPECT_EQ(sum_of(ask(small, {.x = 1, .starts = true})), 1);
  const auto bytes = small.statistics().bytes;
  EXPECT_GE(bytes, sizeof(std::int64_t));
  EXPECT_LT(bytes, 1'000U);

  models.is_full = false;
  models.is_prompt = false;
  const auto running = ask(small, {.x = 1});
  const auto waiting = ask(small, {.x = 2});
  models.is_full = true;
  models.end_any();
  EXPECT_EQ(sum_of(running), 2);
  EXPECT_EQ(waiting->status(), status::resource_exhausted);
  models.is_full = false;
  models.is_prompt = true;
  EXPECT_EQ(sum_of(ask(small, {.x = 3})), 5);
}

TEST(sequence_backend, ends_sequences_that_are_idle) {
  summing_backend models;
  steady_clock::time_point now{seconds(1000)};
  sequence_backend service(models, {}, [&] { return now; });
  EXPECT_EQ(sum_of(ask(service, {.id = "1", .x = 1, .starts = true})), 1);
  now += seconds(59);
  EXPECT_EQ(sum_of(ask(service, {.id = "1", .x = 1})), 2);
  now += seconds(59);
  EXPECT_EQ(sum_of(ask(service, {.id = "1", .x = 1})), 3) << "counted from the last reply";
  EXPECT_EQ(sum_of(ask(service, {.id = "2", .x = 1, .starts = true})), 1);
  now += seconds(59);
  models.is_prompt = false;
  const auto running = ask(service, {.id = "2", .x = 1});
  now += seconds(1);
  EXPECT_EQ(ask(service, {.id = "1", .x = 1})->status(), status::aborted);
  now += seconds(600);
  service.expire();
  EXPECT_EQ(service.statistics().sequences, 1U) << "one is busy";
  models.end_any();
  EXPECT_EQ(sum_of(running), 2);
  now += seconds(60);
  service.expire();
  EXPECT_EQ(service.statistics().sequences, 0U);
  EXPECT_EQ(service.statistics().bytes, 0U);
}

TEST(sequence_backend, cancels_requests_that_run_and_that_wait) {
  summing_backend models;
  sequence_backend service(models);
  EXPECT_EQ(sum_of(ask(service, {.x = 1, .starts = true})), 1);
  models.is_prompt = false;
  const auto first = ask(service, {.x = 10});
  const auto second = ask(service, {.x = 100});
  const auto third = ask(service, {.x = 1000});
  service.cancel(second->number);
  EXPECT_EQ(second->status(), status::cancelled);
  EXPECT_EQ(first->count, 0);
  service.cancel(first->number);
  EXPECT_EQ(first->status(), status::cancelled);
  models.end_any();
  EXPECT_EQ(sum_of(third), 1001);
  for (const auto& each : {first, second, third}) service.cancel(each->number);
  EXPECT_EQ(second->count, 1);
  EXPECT_EQ(first->count, 1);
  EXPECT_EQ(third->count, 1);
}

TEST(sequence_backend, keeps_the_deadline_of_a_request_that_waits) {
  summing_backend models;
  models.is_prompt = false;
  steady_clock::time_point now{seconds(1000)};
  sequence_backend service(models, {}, [&] { return now; });
  const auto first = ask(service, {.x = 1, .starts = true});
  const auto second = ask(service, {.x = 2, .deadline = now + seconds(3)});
  const auto third = ask(service, {.x = 4});
  service.expire();
  EXPECT_EQ(second->count, 0);
  now += seconds(3);
  service.expire();
  EXPECT_EQ(second->status(), status::deadline_exceeded);
  EXPECT_EQ(third->count, 0);
  models.end_any();
  models.end_any();
  EXPECT_EQ(sum_of(third), 5);
}

TEST(sequence_backend, answers_all_requests_when_it_ends) {
  summing_backend models;
  models.is_prompt = false;
  std::shared_ptr<answer> running;
  std::shared_ptr<answer> waiting;
  {
    sequence_backend service(models);
    running = ask(service, {.x = 1, .starts = true});
    waiting = ask(service, {.x = 2});
  }
  EXPECT_EQ(waiting->status(), status::unavailable);
  EXPECT_EQ(running->count, 0);
  models.end_any();
  EXPECT_EQ(sum_of(running), 1);
}

TEST(sequence_backend, begins_a_sequence_once_if_two_clients_begin_it) {
  for (int round = 0; round < 50; ++round) {
    summing_backend models;
    models.is_prompt = false;
    sequence_backend service(models);
    std::vector<std::shared_ptr<answer>> got(4);
    {
      std::vector<std::jthread> clients;
      for (std::size_t i = 0; i < got.size(); ++i) {
        clients.emplace_back([&, i] { got[i] = ask(service, {.x = 1, .starts = true}); });
      }
    }
    EXPECT_EQ(models.held().size(), 1U);
    models.end_any();
    int begun = 0;
    for (const auto& each : got) {
      ASSERT_EQ(each->count, 1);
      if (!each->error) ++begun;
      if (each->error) {
        EXPECT_EQ(each->status(), status::aborted);
      }
    }
    EXPECT_EQ(begun, 1);
  }
}

/// A client with one sequence of its own, which computes what each answer must be.
class checked_client {
 public:
  checked_client(sequence_backend& service, std::string id, std::mt19937_64 random)
      : service_(service), id_(std::move(id)), random_(random) {}

  void send() {
    // Only a client that waits for nothing may begin the sequence again.
    const bool starts = pending_.empty() && (!has_begun_ || random_() % 8 == 0);
    const auto x = static_cast<std::int64_t>(random_() % 1000);
    const bool ends = random_() % 8 == 0;
    pending_.push_back({.x = x,
                        .starts = starts,
                        .ends = ends,
                        .got = ask(service_, {.id = id_, .x = x, .starts = starts, .ends = ends})});
    if (random_() % 8 == 0) service_.cancel(pending_.back().got->number);
    while (pending_.size() > random_() % 4) take();
  }
  void finish() {
    while (!pending_.empty()) take();
  }
  [[nodiscard]] std::size_t right() const { return right_; }

 private:
  struct expected {
    std::int64_t x = 0;
    bool starts = false;
    bool ends = false;
    std::shared_ptr<answer> got{};
  };

  void take() {
    const auto first = std::move(pending_.front());
    pending_.pop_front();
    first.got->there.get_future().wait();
    const auto code = first.got->status();
    if (first.starts) {
      sum_ = 0;
      has_begun_ = true;
    }
    if (!has_begun_) {
      // A request that was cancelled while it waited does not know that its sequence has ended.
      EXPECT_TRUE(code == status::aborted || code == status::cancelled);
      return;
    }
    if (code) {
      EXPECT_NE(code, status::aborted) << first.got->text();
      if (first.starts) has_begun_ = false;
      return;
    }
    EXPECT_EQ(first.got->y, sum_ += first.x);
    ++right_;
    if (first.ends) has_begun_ = false;
  }

  sequence_backend& service_;
  const std::string id_;
  std::mt19937_64 random_;
  std::deque<expected> pending_{};
  std::int64_t sum_ = 0;
  bool has_begun_ = false;
  std::size_t right_ = 0;
};

TEST(sequence_backend, is_right_with_many_threads) {
  constexpr std::size_t client_threads = 3;
  constexpr int rounds = 1'500;
  summing_backend models;
  models.is_prompt = false;
  std::atomic<std::size_t> right{0};
  auto seeds = sluice::test::make_generator();
  std::vector<std::jthread> workers;
  {
    sequence_backend service(models);
    for (int i = 0; i < 2; ++i) {
      workers.emplace_back([&models, random = std::mt19937_64(seeds())]() mutable {
        const auto failure = [&]() -> std::optional<status> {
          if (random() % 8 == 0) return status::unavailable;
          return std::nullopt;
        };
        while (models.end_any(failure())) {
        }
      });
    }
    std::jthread timer([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        service.expire();
        (void)service.statistics();
        std::this_thread::yield();
      }
    });
    {
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < client_threads; ++t) {
        threads.emplace_back([&, t, random = std::mt19937_64(seeds())]() mutable {
          std::deque<checked_client> clients;
          for (int i = 0; i < 4; ++i) {
            clients.emplace_back(service, std::to_string(t) + "-" + std::to_string(i),
                                 std::mt19937_64(random()));
          }
          for (int i = 0; i < rounds; ++i) clients[random() % clients.size()].send();
          for (auto& each : clients) {
            each.finish();
            right += each.right();
          }
        });
      }
    }
  }
  models.close();
  EXPECT_GT(right, client_threads * rounds / 4);
}

}  // namespace
}  // namespace sluice::service::test
