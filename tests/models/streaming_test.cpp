// SPDX-License-Identifier: Apache-2.0
// Requests to models that are launched together, on any axes: the streams of many clients, whose
// recurrent state stays on the device, and random graphs.
#include "tests/models/onnx_graph.hpp"
#include "tests/models/random_graph.hpp"
#include "tests/operations/program/batched_programs.hpp"

#include <sluice/models/model.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class streaming_models : public batched_programs {
 protected:
  static constexpr std::int64_t features = 24;
  static constexpr std::int64_t hidden = 128;

  /// A detector of one step: the hidden and the cell state of an LSTM lie one behind the other in
  /// `state`, of shape (2, batch, 128). `batch` is a symbol if `has_symbol`.
  model detector(bool has_symbol) {
    const auto constant = [&](std::int64_t count) {
      auto values = get(numbers({count})).to_vector<float>();
      for (auto& value : values) value *= 0.2F;
      return values;
    };
    const std::int64_t batch = has_symbol ? -1 : 1;
    onnx_graph g;
    g.input("x", {batch, features}).input("state", {2, batch, hidden});
    g.output("score").output("new_state");
    g.constant("first", std::vector<std::int64_t>{0})
        .constant("second", std::vector<std::int64_t>{1})
        .constant("w", constant(4 * hidden * features), {1, 4 * hidden, features})
        .constant("r", constant(4 * hidden * hidden), {1, 4 * hidden, hidden})
        .constant("b", constant(8 * hidden), {1, 8 * hidden})
        .constant("head", constant(hidden), {hidden, 1});
    g.node("Unsqueeze", {"x", "first"}, {"sequence"});
    g.node("Gather", {"state", "first"}, {"h"}).with("axis", 0);
    g.node("Gather", {"state", "second"}, {"c"}).with("axis", 0);
    g.node("LSTM", {"sequence", "w", "r", "b", "", "h", "c"}, {"y", "new_h", "new_c"})
        .with("hidden_size", hidden);
    g.node("Concat", {"new_h", "new_c"}, {"new_state"}).with("axis", 0);
    g.node("Squeeze", {"new_h", "first"}, {"last"});
    g.node("MatMul", {"last", "head"}, {"product"});
    g.node("Sigmoid", {"product"}, {"score"});
    return g.make();
  }
  static tensor_spec spec_of(const extents& shape) {
    return tensor_spec::row_major(element_type::f32, shape);
  }
};

TEST_P(streaming_models, keep_the_streams_of_clients_apart) {
  constexpr std::size_t clients = 32;
  constexpr int steps = 6;
  for (const bool has_symbol : {true, false}) {
    const auto network = detector(has_symbol);
    const std::map<std::string, tensor_spec> specs{{"x", spec_of({1, features})},
                                                   {"state", spec_of({2, 1, hidden})}};
    const auto batched = network.program_for(specs, {}, {.max_in_batch = 64});
    ASSERT_TRUE(batched.batching) << batched.batching.reason;
    EXPECT_EQ(batched.max_in_batch, 64U);
    EXPECT_EQ(batched.inputs, (std::vector<std::string>{"x", "state"}));
    EXPECT_EQ(batched.batching.inputs, (std::vector<std::optional<std::size_t>>{0, 1}));
    EXPECT_EQ(batched.batching.outputs, (std::vector<std::size_t>{0, 1}));
    const auto single = network.program_for(specs, {}, {.max_in_batch = 1});
    EXPECT_EQ(prepare_of({.what = batched.program, .inputs = {specs.at("x"), specs.at("state")}})
                  .not_batched,
              "");
    std::vector<tensor> states;
    std::vector<tensor> states_alone;
    for (std::size_t i = 0; i < clients; ++i) {
      states.push_back(numbers({2, 1, hidden}));
      states_alone.push_back(states.back());
    }
    prepare_batches(
        sluice::run{.what = batched.program, .inputs = {numbers({1, features}), states[0]}});
    for (int step = 0; step < steps; ++step) {
      std::vector<sluice::run> runs;
      for (auto& state : states) {
        runs.push_back({.what = batched.program,
                        .inputs = {numbers({1, features}), std::exchange(state, tensor())}});
      }
      const auto requests = runs;
      auto answers = submit_at_once(std::move(runs));
      std::vector<tensors> found;
      for (std::size_t i = 0; i < clients; ++i) {
        found.push_back(answer_of(answers[i]));
        states[i] = found.back()[1];
      }
      // A host device cuts batches, because it computes the members one by one.
      if (GetParam() == "host") {
        EXPECT_LT(launches().size(), clients);
      } else {
        EXPECT_EQ(launches(), sizes{clients});
      }
      for (std::size_t i = 0; i < clients; ++i) {
        const auto& x = requests[i].inputs[0].on_device();
        const auto expected = results_of({single.program, {x, states_alone[i]}});
        states_alone[i] = expected[1];
        expect_equal(found[i], expected);
        if (GetParam() == "host") {
          EXPECT_EQ(bits(found[i][1]), bits(expected[1]));
        }
      }
      // Another client's results would be seen.
      EXPECT_NE(values(states[0]), values(states[1]));
    }
  }
}

// Whatever axes are proved, and however the inputs and outputs of such graphs lie in memory.
TEST_P(streaming_models, give_each_request_to_a_random_graph_its_own_results) {
  auto generator = make_generator();
  std::uniform_int_distribution<std::size_t> count(2, 7);
  int together = 0;
  int moved = 0;
  for (int i = 0; i < 250; ++i) {
    graph_writer writer(generator);
    writer.write();
    std::map<std::string, tensor_spec> specs;
    for (const auto& [name, shape] : writer.inputs()) specs.emplace(name, spec_of(shape));
    model_program made;
    try {
      made = writer.graph().make().program_for(specs, {}, {.max_in_batch = 8});
    } catch (const error&) {
      continue;
    }
    if (made.max_in_batch == 1) continue;
    SCOPED_TRACE("graph " + std::to_string(i) + ":\n" + writer.text() + made.program.text());
    std::vector<run_input> shared;
    for (const auto& name : made.inputs) shared.emplace_back(numbers(writer.inputs().at(name)));
    std::vector<sluice::run> runs;
    for (auto rest = count(generator); rest != 0; --rest) {
      auto& one = runs.emplace_back(sluice::run{.what = made.program, .inputs = shared});
      for (std::size_t k = 0; k < shared.size(); ++k) {
        if (made.batching.inputs[k]) one.inputs[k] = numbers(writer.inputs().at(made.inputs[k]));
      }
    }
    prepare_batches(runs.front());
    auto answers = submit_at_once(runs);
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const auto found = answer_of(answers[k]);
      const auto expected = results_of(runs[k]);
      for (std::size_t output = 0; output < found.size(); ++output) {
        ASSERT_EQ(get(found[output]).type(), get(expected[output]).type());
        if (found[output].type() == element_type::f32) {
          expect_equal({found[output]}, {expected[output]});
        } else {
          EXPECT_EQ(get(found[output]).to(element_type::f64).to_vector<double>(),
                    get(expected[output]).to(element_type::f64).to_vector<double>());
        }
      }
    }
    ASSERT_FALSE(HasFailure());
    if (launches().size() != 1) continue;
    ++together;
    for (const auto& axis : made.batching.inputs) {
      if (axis.value_or(0) == 0) continue;
      ++moved;
      break;
    }
  }
  std::cout << together << " graphs in batches, " << moved << " of them along other axes than 0\n";
  EXPECT_GT(together, 10);
  EXPECT_GT(moved, 0);
}

INSTANTIATE_TEST_SUITE_P(devices, streaming_models, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
