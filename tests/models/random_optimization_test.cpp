// SPDX-License-Identifier: Apache-2.0
// Random graphs, and graphs that are nearly those that the rules know: an optimised program
// computes what the program as it is computes.
#include "tests/models/optimization_test.hpp"
#include "tests/models/random_graph.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>

namespace sluice::test {
namespace {

class random_optimization : public optimization_test {
 protected:
  static bool is_finite(const host_tensor& x) {
    const auto elements = x.to(element_type::f64).to_vector<double>();
    return std::all_of(elements.begin(), elements.end(), [](double e) { return std::isfinite(e); });
  }
  std::size_t draw(std::size_t count) {
    return static_cast<std::size_t>(between(0, static_cast<std::int64_t>(count) - 1));
  }

  /// Changes one thing.
  void mutate(std::vector<node_text>& nodes, std::vector<std::string>& outputs) {
    auto& node = nodes[draw(nodes.size())];
    const auto argument = draw(node.arguments.size());
    switch (draw(5)) {
      case 0:
        outputs.push_back(node.output);
        break;
      case 1: {
        static const std::vector<std::string> factors{"0.5", "1", "2", "3", "6", "0.001"};
        node.arguments[argument] = factors[draw(factors.size())];
        break;
      }
      case 2:
        std::swap(node.arguments.front(), node.arguments.back());
        break;
      case 3:
        node.arguments[argument] = draw(3) == 0 ? "x" : nodes[draw(nodes.size())].output;
        break;
      default:
        for (auto& attribute : node.attributes) {
          if (attribute.starts_with("axes")) attribute = draw(2) == 0 ? "axes=[1]" : "axes=[0,1]";
          if (attribute.starts_with("axis")) attribute = "axis=1";
        }
        break;
    }
  }
};

TEST_P(random_optimization, of_random_graphs_changes_no_result) {
  auto generator = make_generator();
  int compared = 0;
  int changed = 0;
  const int graphs = GetParam() == "host" ? 1000 : 200;
  for (int i = 0; i < graphs; ++i) {
    graph_writer writer(generator);
    writer.write();
    const auto network = writer.graph().make();
    tensor_map inputs;
    for (const auto& [name, shape] : writer.inputs()) inputs.emplace(name, random_tensor(shape));
    model_program made;
    model_program unchanged;
    try {
      unchanged = network.program_for(specs_of(inputs), {}, {.max_in_batch = 8, .optimize = false});
    } catch (const error&) {
      continue;
    }
    made = network.program_for(specs_of(inputs), {}, {.max_in_batch = 8});
    ++compared;
    if (!made.optimizations.empty()) ++changed;
    // What was proved of the graph is proved of the result. More is if a step is left out.
    EXPECT_GE(made.max_in_batch, unchanged.max_in_batch) << writer.text() << made.batching.reason;
    const auto found = run(made, inputs);
    const auto expected = run(unchanged, inputs);
    for (std::size_t k = 0; k < found.size(); ++k) {
      expect_near(found[k], expected[k]);
      if (HasFailure()) FAIL() << writer.text() << made.program.text();
    }
  }
  std::cout << compared << " graphs compared, " << changed << " changed\n";
  EXPECT_GT(compared, graphs / 2);
  EXPECT_GT(changed, graphs / 100);
}

TEST_P(random_optimization, of_mutated_forms_changes_no_result) {
  static const std::vector<const char*> forms{
      "m = ReduceMean x axes=[-1] keepdims=1\nd = Sub x m\nq = Pow d 2\n"
      "v = ReduceMean q axes=[-1] keepdims=1\ne = Add v 0.001\ns = Sqrt e\nn = Div d s\n"
      "k = Mul n g\ny = Add k g",
      "q = Mul x x\nv = ReduceMean q axes=[-1] keepdims=1\ne = Add v 0.001\ns = Sqrt e\n"
      "r = Div 1 s\nn = Mul x r\ny = Mul g n",
      "d = Div x 1.4142135623730951\ne = Erf d\na = Add e 1\nm = Mul x a\ny = Mul m 0.5",
      "p = Pow x 3\nc = Mul 0.044715 p\ns = Add x c\ni = Mul 0.7978845608028654 s\nt = Tanh i\n"
      "a = Add 1 t\nh = Mul 0.5 x\ny = Mul h a",
      "a = Mul x 1.702\ns = Sigmoid a\ny = Mul x s",
      "a = Add x 3\nl = Max a 0\nc = Min l 6\nm = Mul x c\ny = Div m 6",
      "m = ReduceMax x axes=[-1] keepdims=1\nd = Sub x m\ne = Exp d\ns = ReduceSum e [-1] "
      "keepdims=1\n"
      "y = Div e s",
      "z = Mul x 0.3\nt = Transpose x perm=[0,2,1]\ns = MatMul z t\np = Softmax s axis=-1\n"
      "r = MatMul p x\ny = Neg r",
  };
  int compared = 0;
  int fired = 0;
  const int graphs = GetParam() == "host" ? 600 : 100;
  for (int i = 0; i < graphs; ++i) {
    const auto form = draw(forms.size());
    const bool is_attention = form + 1 == forms.size();
    auto nodes = parse_nodes(forms[form]);
    std::vector<std::string> outputs{"y"};
    for (auto changes = draw(3); changes > 0; --changes) mutate(nodes, outputs);
    std::sort(outputs.begin(), outputs.end());
    outputs.erase(std::unique(outputs.begin(), outputs.end()), outputs.end());
    const tensor_map inputs{{"x", random_tensor({2, 3, 5})}};
    const tensor_map constants{{"g", random_tensor({5})}};
    const auto type = is_attention ? element_type::f32 : element_type::f64;
    model_program made;
    model_program unchanged;
    try {
      const auto network = model_of(nodes, inputs, constants, type, type, outputs);
      unchanged = network.program_for(input_specs(inputs), {}, {.optimize = false});
      made = network.program_for(input_specs(inputs));
    } catch (const error&) {
      continue;  // the mutation is no graph
    }
    const auto found = results_of(made, inputs);
    const auto expected = results_of(unchanged, inputs);
    if (!std::all_of(expected.begin(), expected.end(), is_finite)) continue;
    ++compared;
    if (made.program.steps() + 1 < unchanged.program.steps()) ++fired;
    for (std::size_t k = 0; k < found.size(); ++k) {
      EXPECT_LE(distance(found[k], expected[k]), is_attention ? 1e-5 : 1e-12)
          << rules_of(made) << unchanged.program.text() << made.program.text();
    }
  }
  std::cout << compared << " graphs compared, " << fired << " recognised\n";
  EXPECT_GT(compared, graphs / 4);
  EXPECT_GT(fired, graphs / 10);
}

INSTANTIATE_TEST_SUITE_P(devices, random_optimization, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
