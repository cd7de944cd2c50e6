// SPDX-License-Identifier: Apache-2.0
// Programs equal their steps while constants are written, executables are dropped, other clients
// run and launches fail.
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/random_program.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Host devices delay each task by a random time.
class disturbed_programs : public programs {
 protected:
  std::shared_ptr<device> opened_device() override {
    if (GetParam() != "host") return programs::opened_device();
    return open_host_device({.jitter = host_jitter{.seed = make_generator()(),
                                                   .longest = std::chrono::microseconds(60)},
                             .faults = faults_});
  }
  [[nodiscard]] fault_script& faults() { return *faults_; }

 private:
  std::shared_ptr<fault_script> faults_ = std::make_shared<fault_script>();
};

/// A client in a thread of its own. It writes the constants of its program between the runs,
/// without waiting for any.
class client {
 public:
  client(std::shared_ptr<device_service> service, const random_program& program,
         executor_options options)
      : executor_(std::move(service), nullptr, options), program_(program) {
    executor_.on_wake([alarm = alarm_] { alarm->ring(); });
  }
  /// Submits a write of all constants, then a run.
  void submit(std::vector<tensor> constants, sluice::run request) {
    for (std::size_t i = 0; i < constants.size(); ++i) {
      pending_answer written(alarm_);
      executor_.submit(strided_copy{.x = constants[i], .y = program_.constants()[i]}, {},
                       written.token());
      writes_.push_back(std::move(written));
    }
    pending<tensors> result(alarm_);
    executor_.submit(std::move(request), {}, result.token());
    runs_.push_back(std::move(result));
  }
  /// Waits for the answers to all runs.
  /// @throws error an answer, if it is an error
  std::vector<tensors> results() {
    std::vector<tensors> all;
    for (auto& write : writes_) (void)wait(write);
    for (auto& run : runs_) all.push_back(wait(run));
    return all;
  }

 private:
  template <class Result>
  Result wait(pending<Result>& answer) {
    for (executor_.work(); !answer.answered(); executor_.work()) alarm_->await();
    return answer.get();
  }

  std::shared_ptr<alarm> alarm_ = std::make_shared<alarm>();
  executor executor_;
  const random_program& program_;
  std::vector<pending_answer> writes_;
  std::vector<pending<tensors>> runs_;
};

TEST_P(disturbed_programs, equal_their_steps) {
  constexpr std::size_t clients = 3;
  constexpr std::size_t runs = 6;
  auto generator = make_generator();
  for (int round = 0; round < (under_compute_sanitizer() ? 1 : 8); ++round) {
    struct session {
      std::unique_ptr<random_program> program;
      std::vector<std::vector<tensor>> constants;  // by run
      std::vector<sluice::run> requests;
      std::vector<tensors> results;
      std::optional<error> failure;
    };
    std::vector<session> all(clients);
    for (auto& s : all) {
      s.program = std::make_unique<random_program>(*this, generator, 1 + generator() % 20);
      for (std::size_t i = 0; i < runs; ++i) {
        auto& constants = s.constants.emplace_back();
        for (const auto& c : s.program->constants()) constants.push_back(numbers(c.shape()));
        std::vector<tensor> inputs;
        for (const auto& input : s.program->inputs()) {
          inputs.push_back(alone(strided_copy{.x = input}));
        }
        // Each program has several executables.
        std::vector<operand> outputs;
        if (i % 2 != 0) outputs = random_outputs(*this, generator, s.program->expected(), inputs);
        s.requests.push_back(
            {s.program->get(), {inputs.begin(), inputs.end()}, outputs, s.program->scalars()});
      }
    }
    std::vector<std::thread> threads;
    for (auto& s : all) {
      threads.emplace_back([this, &s] {
        try {
          // The cache keeps one executable.
          client session_client(service(), *s.program, {.max_plan_bytes = 1});
          for (std::size_t i = 0; i < runs; ++i)
            session_client.submit(s.constants[i], s.requests[i]);
          s.results = session_client.results();
        } catch (const error& why) {
          s.failure = why;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (auto& s : all) {
      ASSERT_FALSE(s.failure) << s.failure->what() << "\n" << s.program->get().text();
      for (std::size_t i = 0; i < runs; ++i) {
        for (std::size_t c = 0; c < s.constants[i].size(); ++c) {
          (void)alone(strided_copy{.x = s.constants[i][c], .y = s.program->constants()[c]});
        }
        s.program->repeat_steps();
        for (std::size_t o = 0; o < s.results[i].size(); ++o) {
          ASSERT_EQ(bits(s.results[i][o]), bits(s.program->expected()[o]))
              << "run " << i << ", output " << o << "\n"
              << s.program->get().text();
        }
      }
    }
  }
}

// A failure fails the whole run, and later ones are as before.
TEST_P(disturbed_programs, survive_failures) {
  if (runtime().device().id().kind != device_kind::host)
    GTEST_SKIP() << "faults of the host device";
  auto generator = make_generator();
  int failed = 0;
  for (int round = 0; round < 6; ++round) {
    const random_program random(*this, generator, 1 + generator() % 12);
    std::vector<std::vector<std::uint32_t>> expected;
    for (const auto& e : random.expected()) expected.push_back(bits(e));
    for (int i = 0; i < 30; ++i) {
      const std::vector<tensor> inputs = random.inputs();
      std::vector<run_input> run_inputs(inputs.begin(), inputs.end());
      if (i % 3 == 0) run_inputs[0] = get(inputs[0]);
      constexpr std::array targets{fault_target::launch, fault_target::copy,
                                   fault_target::allocation};
      const auto target = targets[generator() % targets.size()];
      faults().fail_nth(target, 1 + generator() % 3, 1 + generator() % 2);
      std::optional<tensors> results;
      try {
        results = results_of({random.get(), run_inputs, {}, random.scalars()});
      } catch (const error& why) {
        ++failed;
        const std::array codes{errc::library_failure, errc::out_of_memory, errc::upstream_failed};
        ASSERT_NE(std::find(codes.begin(), codes.end(), why.code()), codes.end()) << why.what();
      }
      faults().fail_nth(target, 0);
      if (!results) results = results_of({random.get(), run_inputs, {}, random.scalars()});
      for (std::size_t o = 0; o < expected.size(); ++o) {
        ASSERT_EQ(bits((*results)[o]), expected[o]) << random.get().text();
      }
    }
  }
  EXPECT_GT(failed, 0);
}

TEST_P(disturbed_programs, tell_why_their_constants_are_not_there) {
  if (GetParam() != "host") GTEST_SKIP() << "faults of the host device";
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.constant("c", host_tensor(std::vector<float>{2}));
  const program program = std::move(p).build({p.add("sum", add(x, c))});
  const auto input = small(1);
  faults().fail_nth(fault_target::copy, 1);
  EXPECT_TRUE(throws(errc::library_failure, "scripted failure", [&] {
    (void)results_of({program, {input}});
  }));
  EXPECT_EQ(values(results_of({program, {input}})[0]), std::vector<float>{3});
}

INSTANTIATE_TEST_SUITE_P(devices, disturbed_programs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
