// SPDX-License-Identifier: Apache-2.0
// Random graphs: where it is proved that requests batch, each has the result that it has alone.
#include "tests/models/batching_test.hpp"
#include "tests/models/random_graph.hpp"

#include <algorithm>
#include <iostream>

namespace sluice::test {
namespace {

/// The axis whose extent is `count` times as large.
std::optional<std::size_t> multiplied_axis(const extents& one, const extents& all,
                                           std::int64_t count) {
  if (one.size() != all.size()) return std::nullopt;
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < one.size(); ++d) {
    if (one[d] == all[d]) continue;
    if (axis || all[d] != count * one[d]) return std::nullopt;
    axis = d;
  }
  return axis;
}

class random_batching : public batching_test {
 protected:
  /// What shapes alone say of requests along axis 0 of each input.
  static std::optional<batch_axes> axes_of_shapes(const model_program& made,
                                                  const std::vector<tensor_spec>& specs) {
    batch_axes where{.inputs = run_axes_of_inputs(specs.size(), 0)};
    try {
      auto all = specs;
      for (auto& spec : all) {
        spec.shape[0] *= 3;
        spec = tensor_spec::row_major(spec.type, spec.shape);
      }
      const auto together = stacked_program(made.program, specs, where.inputs, 3);
      const auto inferred = operations::infer_program(
          *together.graph(), all, {},
          std::vector<operations::given_output>(together.graph()->outputs().size()));
      for (std::size_t i = 0; i < made.results.size(); ++i) {
        const auto value = together.graph()->outputs()[i];
        const auto axis =
            multiplied_axis(made.results[i].shape, inferred.values[value].layout.shape(), 3);
        if (!axis) return std::nullopt;
        where.outputs.push_back(*axis);
      }
    } catch (const error&) {
      return std::nullopt;
    }
    return where;
  }
  /// Requests with different inputs, but for those that are the same for all.
  std::vector<tensor_map> requests_of(const model_program& made, const batch_axes& where,
                                      const std::map<std::string, extents>& inputs,
                                      std::int64_t count) {
    std::vector<tensor_map> requests(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const auto& name = made.inputs[i];
      const auto same = random_tensor(inputs.at(name));
      for (auto& request : requests) {
        request.emplace(name, where.inputs[i] ? random_tensor(inputs.at(name)) : same);
      }
    }
    return requests;
  }
};

TEST_P(random_batching, gives_each_request_the_result_that_it_has_alone) {
  auto generator = make_generator();
  std::uniform_int_distribution<std::int64_t> count(2, 5);
  int imported = 0;
  int proved = 0;
  int moved = 0;
  int with_shapes = 0;
  int mixed = 0;
  const int graphs = GetParam() == "host" ? 2000 : 200;
  for (int i = 0; i < graphs; ++i) {
    graph_writer writer(generator);
    writer.write();
    std::map<std::string, tensor_spec> specs;
    std::vector<tensor_spec> in_order;
    for (const auto& [name, shape] : writer.inputs()) {
      specs.emplace(name, tensor_spec::row_major(element_type::f32, shape));
      in_order.push_back(specs.at(name));
    }
    model_program made;
    try {
      made = writer.graph().make().program_for(specs, {}, {.max_in_batch = 64});
    } catch (const error&) {
      continue;
    }
    ++imported;
    std::string text = "graph " + std::to_string(i) + ":\n" + writer.text() + "of";
    for (const auto& [name, shape] : writer.inputs()) text += ' ' + name + to_string(shape);
    SCOPED_TRACE(text + "\n" + made.program.text());
    if (made.batching) {
      ++proved;
      EXPECT_EQ(made.max_in_batch, 64U);
      const auto& where = made.batching;
      if (std::any_of(where.inputs.begin(), where.inputs.end(),
                      [](const auto& axis) { return axis.value_or(0) != 0; }) ||
          std::any_of(where.outputs.begin(), where.outputs.end(),
                      [](auto axis) { return axis != 0; })) {
        ++moved;
      }
      const auto requests = requests_of(made, made.batching, writer.inputs(), count(generator));
      ASSERT_EQ(difference_of(made, made.batching, requests), "");
    } else if (const auto shapes = axes_of_shapes(made, in_order)) {
      // What the rules refuse although the shapes fit must be wrong at least sometimes, or this
      // test would not see anything.
      ++with_shapes;
      if (!difference_of(made, *shapes, requests_of(made, *shapes, writer.inputs(), 3)).empty())
        ++mixed;
    }
  }
  std::cout << imported << " graphs, " << proved << " proved, " << moved
            << " of them along other axes than 0, " << with_shapes
            << " refused though their shapes fit, " << mixed << " of which mix requests\n";
  EXPECT_GT(proved, graphs / 8);
  EXPECT_GT(moved, graphs / 100);
  EXPECT_GT(mixed, graphs / 200);
}

INSTANTIATE_TEST_SUITE_P(devices, random_batching, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
