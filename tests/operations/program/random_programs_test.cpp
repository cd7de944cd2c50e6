// SPDX-License-Identifier: Apache-2.0
// Programs equal their steps sent one by one.
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/random_program.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(programs, equal_their_steps_sent_one_by_one) {
  auto generator = make_generator();
  for (int round = 0; round < 40; ++round) {
    const random_program random(*this, generator, 1 + generator() % 20);
    for (int again = 0; again < 4; ++again) {
      std::vector<tensor> inputs;
      for (const auto& input : random.inputs()) inputs.push_back(alone(strided_copy{.x = input}));
      std::vector<operand> outputs;
      if (again > 1) outputs = random_outputs(*this, generator, random.expected(), inputs);
      std::vector<run_input> run_inputs(inputs.begin(), inputs.end());
      for (auto& input : run_inputs) {
        if (generator() % 4 == 0) input = get(input.on_device());
      }
      const auto results = results_of({random.get(), run_inputs, outputs, random.scalars()});
      ASSERT_EQ(results.size(), random.expected().size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(results[i].shape(), random.expected()[i].shape());
        ASSERT_EQ(bits(results[i]), bits(random.expected()[i])) << random.get().text();
        if (!outputs.empty() && outputs[i]) {
          ASSERT_EQ(results[i], outputs[i].value());
        }
      }
    }
  }
}

// The inferences of a program are shared by all threads that run it.
TEST_P(programs, are_run_by_several_executors_at_a_time) {
  program_builder p;
  const auto x = p.input("x");
  const auto product = p.add("product", gemm{.a = x, .b = x.transposed()});
  const program program = std::move(p).build({product});
  std::vector<tensor> inputs;
  std::vector<std::vector<float>> expected;
  for (std::int64_t n = 1; n <= 24; ++n) {
    inputs.push_back(numbers({n, 3}));
    expected.push_back(values(alone(gemm{.a = inputs.back(), .b = inputs.back().transposed()})));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const auto ringing = std::make_shared<alarm>();
      executor mine(service());
      mine.on_wake([ringing] { ringing->ring(); });
      std::vector<tensors> results(inputs.size());
      std::atomic<std::size_t> answered{0};
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        mine.submit(sluice::run{program, {inputs[i]}}, {},
                    reply_token<tensors>::from(
                        [&, i, ringing](tensors result) {
                          results[i] = std::move(result);
                          ++answered;
                          ringing->ring();
                        },
                        [&, ringing](const error&) {
                          ++wrong;
                          ++answered;
                          ringing->ring();
                        }));
      }
      for (mine.work(); answered != inputs.size(); mine.work()) ringing->await();
      const auto stream = runtime().create_stream();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (results[i].empty() ||
            test::download(results[i][0].as<float>(), stream) != expected[i]) {
          ++wrong;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice::test
