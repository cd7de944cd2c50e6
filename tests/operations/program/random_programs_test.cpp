// SPDX-License-Identifier: Apache-2.0
// Programs equal their steps sent one by one.
#include "tests/operations/program/programs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A value of a program beside the tensor that single requests make of it.
struct followed_value {
  program_value value;
  tensor alone;
};

/// Builds a random program of f32 matrices, and sends each step as a request of its own.
class random_program {
 public:
  template <class Test>
  random_program(Test& test, std::mt19937_64& generator, std::size_t steps)
      : generator_(generator) {
    for (int i = 0; i < 3; ++i) {
      inputs_.push_back(test.numbers({number(1, 6), number(1, 6)}));
      values_.push_back({builder_.input("input" + std::to_string(i)), inputs_.back()});
    }
    for (std::size_t i = 0; i < steps; ++i) add_step(test, "step" + std::to_string(i));
    std::vector<program_value> outputs;
    // The last result is one in any case.
    for (std::size_t i = 3; i < values_.size(); ++i) {
      if (is_result_[i - 3] && (i + 1 == values_.size() || number(0, 2) == 0)) {
        outputs.push_back(values_[i].value);
        expected_.push_back(values_[i].alone);
      }
    }
    made_ = std::move(builder_).build(std::move(outputs));
  }
  [[nodiscard]] const program& get() const noexcept { return made_; }
  [[nodiscard]] const std::vector<tensor>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<scalar>& scalars() const noexcept { return scalars_; }
  [[nodiscard]] const std::vector<tensor>& expected() const noexcept { return expected_; }

 private:
  std::int64_t number(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator_);
  }
  const followed_value& any() {
    return values_[static_cast<std::size_t>(
        number(0, static_cast<std::int64_t>(values_.size()) - 1))];
  }
  void add_value(program_value value, tensor alone, bool is_result = true) {
    values_.push_back({std::move(value), std::move(alone)});
    is_result_.push_back(is_result);
  }
  /// A value as it is, or a view of it. Sometimes a tensor instead: a constant.
  template <class Test>
  std::pair<operand, tensor> operand_of(Test& test) {
    const auto from = any();
    const auto& t = from.alone;
    switch (number(0, 7)) {
      case 0:
        return {from.value.transposed(), t.transposed()};
      case 1: {
        const auto last = number(1, t.shape()[0]);
        return {from.value.slice(0, last - 1, last), t.slice(0, last - 1, last)};
      }
      case 2:
        return {from.value.slice(1, 0, std::nullopt, 2), t.slice(1, 0, t.shape()[1], 2)};
      case 3: {
        const auto constant = test.numbers(t.shape());
        if (number(0, 1) == 0) return {builder_.constant("constant", test.get(constant)), constant};
        return {constant, constant};
      }
      case 4:
        if (t.is_contiguous()) return {from.value.reshape({-1, 1}), t.reshape({-1, 1})};
        return {from.value, t};
      case 5: {
        const auto row = from.value.select(0, 0);
        return {row.broadcast_to({3, t.shape()[1]}),
                t.select(0, 0).broadcast_to({3, t.shape()[1]})};
      }
      default:
        return {from.value, t};
    }
  }
  template <class Test>
  void add_step(Test& test, const std::string& name) {
    const auto [a, alone] = operand_of(test);
    const auto step = [&](auto in_program, auto by_itself) {
      add_value(builder_.add(name, in_program), test.alone(by_itself));
    };
    switch (number(0, 7)) {
      case 7: {
        scalars_.emplace_back(static_cast<double>(number(-8, 8)) / 4);
        return step(affine{.x = a, .factor = builder_.scalar("factor"), .offset = 1},
                    affine{.x = alone, .factor = scalars_.back(), .offset = 1});
      }
      case 0: {  // a · aᵀ, whatever the shape of a
        const auto from = any();
        return step(gemm{.a = from.value, .b = from.value.transposed()},
                    gemm{.a = from.alone, .b = from.alone.transposed()});
      }
      case 1: {  // updates a value, which stays as it is
        const auto from = any();
        const auto n = from.alone.shape()[0];
        const auto c = test.numbers({n, n});
        const auto kept = builder_.add(name + ".c", strided_copy{.x = c});
        const auto copy = test.alone(strided_copy{.x = c});
        add_value(kept, test.alone(strided_copy{.x = c}));
        return step(gemm{.a = from.value, .b = from.value.transposed(), .c = kept, .beta = 0.5},
                    gemm{.a = from.alone, .b = from.alone.transposed(), .c = copy, .beta = 0.5});
      }
      case 2:
        return step(reduce{.x = a, .axes = extents{1}, .keep_dims = true},
                    reduce{.x = alone, .axes = extents{1}, .keep_dims = true});
      case 3:
        return step(add{.a = a, .b = a}, add{.a = alone, .b = alone});
      case 4:
        return step(maximum{.a = a, .b = test.small(1)}, maximum{.a = alone, .b = test.small(1)});
      case 5:
        return step(strided_copy{.x = a}, strided_copy{.x = alone});
      default: {
        const auto repeated = test.small(3);
        return step(multiply{.a = a, .b = repeated}, multiply{.a = alone, .b = repeated});
      }
    }
  }

  std::mt19937_64& generator_;
  program_builder builder_;
  std::vector<tensor> inputs_;
  std::vector<scalar> scalars_;
  std::vector<followed_value> values_;
  std::vector<bool> is_result_;  // of each value after the inputs
  std::vector<tensor> expected_;
  program made_;
};

/// Outputs with the shapes of `expected`, some of them not given. Those that are have various
/// strides, and some lie in the memory of an input, which belongs to the test.
template <class Test>
std::vector<operand> random_outputs(Test& test, std::mt19937_64& generator,
                                    const std::vector<tensor>& expected,
                                    std::vector<tensor> inputs) {
  std::vector<operand> outputs(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto shape = expected[i].shape();
    const auto count = static_cast<std::int64_t>(expected[i].size());
    switch (generator() % 5) {
      case 0:
        outputs[i] = test.numbers(shape);
        break;
      case 1:
        outputs[i] = test.numbers({shape[1], shape[0]}).transposed();
        break;
      case 2:
        outputs[i] = test.numbers({shape[0], shape[1] + 3}).slice(1, 2, 2 + shape[1]);
        break;
      case 3:
        if (!inputs.empty() && inputs.back().size() >= expected[i].size()) {
          const auto flat = inputs.back().reshape({-1});
          outputs[i] = flat.slice(0, 0, count).reshape(shape);
          inputs.pop_back();
        }
        break;
      default:
        break;
    }
  }
  return outputs;
}

TEST_P(programs, equal_their_steps_sent_one_by_one) {
  auto generator = make_generator();
  for (int round = 0; round < 40; ++round) {
    const random_program random(*this, generator, 1 + generator() % 20);
    for (int again = 0; again < 4; ++again) {
      std::vector<tensor> inputs;
      for (const auto& input : random.inputs()) inputs.push_back(alone(strided_copy{.x = input}));
      std::vector<operand> outputs;
      if (again > 1) outputs = random_outputs(*this, generator, random.expected(), inputs);
      std::vector<run_input> given(inputs.begin(), inputs.end());
      for (auto& input : given) {
        if (generator() % 4 == 0) input = get(input.on_device());
      }
      const auto results = results_of({random.get(), given, outputs, random.scalars()});
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
  const program made = std::move(p).build({product});
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
        mine.submit(sluice::run{made, {inputs[i]}}, {},
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
