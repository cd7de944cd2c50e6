// SPDX-License-Identifier: Apache-2.0
// What is proved of runs that are computed together.
#include "operations/program/batch_rules.hpp"
#include "tests/operations/program/batched_programs.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/run_axes_steps.hpp"
#include "tests/operations/program/stacked_program.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/operation_table.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using step_value = program_value;
using axes = run_axes_of_inputs;

class batch_proofs : public programs {
 protected:
  struct drawn_input {
    extents shape;
    std::optional<std::size_t> axis = 0;
    element_type type = element_type::f32;
    int most = 0;
  };
  using adding = std::function<step_value(program_builder&, const std::vector<step_value>&)>;

  static program build(const std::vector<drawn_input>& inputs, const adding& add) {
    program_builder p;
    std::vector<step_value> values;
    for (const auto& input : inputs) {
      values.push_back(p.input("x" + std::to_string(values.size()), input.type, input.shape));
    }
    return std::move(p).build({add(p, values)});
  }
  static batch_axes axes_of(const program& what, const std::vector<drawn_input>& inputs) {
    std::vector<tensor_spec> specs;
    axes along;
    for (const auto& input : inputs) {
      specs.push_back(tensor_spec::row_major(input.type, input.shape));
      along.push_back(input.axis);
    }
    return find_batch_axes(what, specs, along);
  }
  /// A shape with the extent 1 in front of dimension `axis`.
  static extents with_one(const extents& shape, std::size_t axis) {
    extents all;
    for (std::size_t d = 0; d <= shape.size(); ++d) {
      if (d == axis) all.push_back(1);
      if (d < shape.size()) all.push_back(shape[d]);
    }
    return all;
  }
  host_tensor result_of(const program& what, const std::vector<host_tensor>& inputs) {
    return run(test_executor(), run_to_host{what, {inputs.begin(), inputs.end()}}).front();
  }
  /// The runs lie along this axis of the result, and each has the result that it has alone.
  void expect_axis(std::size_t axis, const std::vector<drawn_input>& inputs, const adding& add) {
    const auto what = build(inputs, add);
    const auto found = axes_of(what, inputs);
    ASSERT_TRUE(found) << found.reason << '\n' << what.text();
    ASSERT_EQ(found.outputs, std::vector<std::size_t>{axis});
    constexpr std::size_t count = 4;
    std::vector<tensor_spec> specs;
    std::vector<std::vector<host_tensor>> runs(count);
    std::vector<host_tensor> together;
    for (const auto& input : inputs) {
      specs.push_back(tensor_spec::row_major(input.type, input.shape));
      std::vector<host_tensor> parts;
      for (auto& run : runs) {
        const bool is_same = !input.axis && !parts.empty();
        parts.push_back(is_same ? parts[0] : drawn_constant(input.type, input.shape, input.most));
        run.push_back(parts.back());
      }
      together.push_back(input.axis ? joined_along(*input.axis, parts) : parts[0]);
    }
    const auto all = result_of(stacked_program(what, specs, found.inputs, count), together);
    for (std::size_t r = 0; r < count; ++r) {
      const auto part = part_along(axis, all, r, count).to(element_type::f64);
      const auto alone = result_of(what, runs[r]).to(element_type::f64);
      ASSERT_EQ(part.shape(), alone.shape());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_NEAR(part.values<double>()[i], alone.values<double>()[i], 1e-5);
      }
    }
  }
  static void expect_mixed(const std::string& text, const std::vector<drawn_input>& inputs,
                           const adding& add) {
    const auto found = axes_of(build(inputs, add), inputs);
    EXPECT_FALSE(found);
    EXPECT_TRUE(found.outputs.empty());
    EXPECT_NE(found.reason.find(text), std::string::npos) << found.reason;
  }
};

/// Such a result has the extents of A, which is not read.
TEST_P(batch_proofs, follow_results_of_operands_that_are_not_read) {
  const auto rows = [](program_builder& p, const step_value& x) {
    return p.add(gemm{.a = x,
                      .b = p.constant("w", drawn_constant(element_type::f32, {3, 3}, 0)),
                      .alpha = 0,
                      .bias = p.constant("b", drawn_constant(element_type::f32, {3}, 0))});
  };
  expect_axis(0, {{{1, 3}}}, [&](program_builder& p, const std::vector<step_value>& x) {
    return p.add(add(x[0], rows(p, x[0])));
  });
  expect_mixed("cumulative mixes axis 0", {{{1, 3}}},
               [&](program_builder& p, const std::vector<step_value>& x) {
                 return p.add(add(x[0], p.add(cumulative{.x = rows(p, x[0]), .axis = 0})));
               });
}

TEST_P(batch_proofs, give_each_run_a_scale_of_its_own) {
  const std::vector<drawn_input> inputs{{{1, 4}}, {{1}}};
  expect_axis(0, inputs, [](program_builder& p, const std::vector<step_value>& x) {
    return p.add(affine{.x = x[0], .scale = x[1], .axis = 0});
  });
  expect_axis(0, {{{1, 4}, 0, element_type::u8, 200}, {{1}}},
              [](program_builder& p, const std::vector<step_value>& x) {
                return p.add(dequantize{.x = x[0], .scale = x[1], .axis = 0});
              });
}

/// Sizes that keep the ratio of the extents depend on the number of runs.
TEST_P(batch_proofs, refuse_sizes_that_depend_on_all_extents) {
  expect_mixed(
      "resize mixes axis 0", {{{1, 2, 2}}},
      [](program_builder& p, const std::vector<step_value>& x) {
        return p.add(resize{
            .x = x[0], .sizes = {3, 2, 2}, .axes = {0, 1, 2}, .policy = resize_policy::not_larger});
      });
}

TEST_P(batch_proofs, follow_views_that_state_the_extents_of_one_run) {
  const auto copied = [](const auto& view) {
    return [view](program_builder& p, const std::vector<step_value>& x) {
      return p.add(strided_copy{.x = view(x[0])});
    };
  };
  expect_axis(0, {{{1, 12}}}, copied([](const step_value& x) { return x.reshape({1, 3, 4}); }));
  expect_axis(0, {{{1, 3, 4}}}, copied([](const step_value& x) { return x.reshape({12}); }));
  expect_axis(0, {{{2, 12}}}, copied([](const step_value& x) { return x.reshape({2, 3, 4}); }));
  expect_axis(0, {{{2, 12}}}, copied([](const step_value& x) { return x.reshape({6, 4}); }));
  expect_axis(0, {{{2, 12}}}, copied([](const step_value& x) { return x.reshape({6, -1}); }));
  expect_axis(1, {{{3, 2, 4}, 1}}, copied([](const step_value& x) { return x.reshape({3, 8}); }));
  expect_axis(1, {{{1, 5, 4}}}, copied([](const step_value& x) { return x.permute({2, 0, 1}); }));
  expect_axis(0, {{{1, 5}}}, copied([](const step_value& x) { return x.select(0, 0); }));
  expect_axis(1, {{{1, 5}}}, copied([](const step_value& x) { return x.unsqueeze(0); }));
  expect_axis(0, {{{1, 5}}}, copied([](const step_value& x) { return x.unsqueeze(2); }));
  expect_axis(0, {{{2, 5}}}, copied([](const step_value& x) { return x.select(1, 3); }));
  expect_axis(0, {{{2, 5}}}, copied([](const step_value& x) { return x.slice(0, 1, 2); }));
  expect_axis(0, {{{4, 5}}}, copied([](const step_value& x) { return x.slice(0, 1, 4, 2); }));
  expect_axis(1, {{{2, 5}}}, copied([](const step_value& x) { return x.broadcast_to({3, 2, 5}); }));
  expect_axis(0, {{{1, 1, 5}}}, copied([](const step_value& x) {
                return x.broadcast_to({1, 4, 5});
              }));
  const auto mixed = [&](const extents& shape, const auto& view) {
    expect_mixed("mixes the runs", {{shape}}, copied(view));
  };
  mixed({4, 5}, [](const step_value& x) { return x.slice(0, 0, 2); });
  mixed({4, 5}, [](const step_value& x) { return x.slice(0, 1); });
  mixed({4, 5}, [](const step_value& x) { return x.select(0, 2); });
  mixed({3, 3, 4}, [](const step_value& x) { return x.permute({1, 0, 2}).slice(1, 0, 2); });
  expect_mixed("reshape", {{{3, 2}, 1}},
               copied([](const step_value& x) { return x.reshape({6}); }));
}

TEST_P(batch_proofs, follow_steps_that_move_the_axis) {
  expect_axis(0, {{{1, 6}}}, [](auto& p, const auto& x) {
    return p.add(gemm{.a = x[0], .b = p.constant("w", drawn_constant(element_type::f32, {6, 4}))});
  });
  expect_axis(0, {{{1, 6}}}, [](auto& p, const auto& x) {
    return p.add(gemm{.a = x[0],
                      .b = p.constant("w", drawn_constant(element_type::f32, {6, 4})),
                      .bias = p.constant("b", drawn_constant(element_type::f32, {4})),
                      .activation = activation::relu});
  });
  expect_axis(1, {{{6, 2}, 1}}, [](auto& p, const auto& x) {
    return p.add(gemm{.a = p.constant("w", drawn_constant(element_type::f32, {3, 6})), .b = x[0]});
  });
  expect_axis(0, {{{3, 2, 4}, 1}}, [](auto& p, const auto& x) {
    return p.add(reduce{.x = x[0], .kind = reduction::sum, .axes = {0}});
  });
  expect_axis(1, {{{2, 3}}}, [](auto& p, const auto& x) {
    return p.add(stack{.x = {x[0], x[0]}});
  });
  expect_axis(0, {{{1, 3}, 0, element_type::i64, 4}}, [](auto& p, const auto& x) {
    return p.add(gather{.x = p.constant("t", drawn_constant(element_type::f32, {5, 2})),
                        .indices = x[0],
                        .axis = 0});
  });
  // A table of the runs' own, along another axis than the one that is gathered.
  expect_axis(0, {{{2, 5}}}, [](auto& p, const auto& x) {
    return p.add(gather{.x = x[0],
                        .indices = p.constant("i", drawn_constant(element_type::i64, {3}, 4)),
                        .axis = 1});
  });
  expect_axis(0, {{{1, 3, 4}}, {{1, 4, 2}}},
              [](auto& p, const auto& x) { return p.add(gemm{.a = x[0], .b = x[1]}); });
  expect_axis(0, {{{2, 4}}, {{3, 4}, {}}}, [](auto& p, const auto& x) {
    return p.add(gemm{.a = x[0], .b = x[1].transposed()});
  });
}

// Steps with several operands that depend on the run, whose results have an axis of the right
// extent.
TEST_P(batch_proofs, are_not_of_extents_alone) {
  // All indices would be those of the first run's row.
  expect_mixed("gather_elements mixes axis 0 of x0", {{{1, 6}}, {{2, 3}, 0, element_type::i64, 5}},
               [](auto& p, const auto& x) {
                 const auto y =
                     p.add(gather_elements{.x = x[0], .indices = x[1].reshape({1, -1}), .axis = 1});
                 return p.add(strided_copy{.x = y.reshape({2, 3})});
               });
  // Two runs have a scale for one half of the columns each.
  expect_mixed("dequantize mixes axis", {{{1, 12}, 0, element_type::u8, 200}, {{1, 1}, 1}},
               [](auto& p, const auto& x) { return p.add(dequantize{.x = x[0], .scale = x[1]}); });
  expect_mixed("step", {{{1, 4}}},
               [](auto& p, const auto& x) { return p.add(add(x[0], x[0].transposed())); });
  expect_mixed("gemm mixes axis 0", {{{1, 4}}}, [](auto& p, const auto& x) {
    return p.add(gemm{.a = x[0], .b = x[0].transposed()});
  });
  expect_mixed("gemm mixes axis 1", {{{4, 2}, 1}, {{2, 3}, 0}},
               [](auto& p, const auto& x) { return p.add(gemm{.a = x[0], .b = x[1]}); });
  expect_mixed("concatenate mixes axis 0", {{{2, 4}}}, [](auto& p, const auto& x) {
    return p.add(concatenate{.x = {x[0], x[0]}, .axis = 0});
  });
  expect_mixed("depends on no input of a run", {{{2, 4}}}, [](auto& p, const auto&) {
    return p.add(fill{.value = 1, .shape = extents{2, 4}});
  });
  // Elements that there are for several runs only.
  expect_mixed("x0.slice", {{{2, 4}}}, [](auto& p, const auto& x) {
    return p.add(add(x[0], p.add(reduce{.x = x[0].slice(0, 2), .axes = {0}})));
  });
}

TEST_P(batch_proofs, mark_the_inputs_of_a_program) {
  const auto add = [](auto& p, const auto& x) {
    return p.add(multiply(x[0], x[0].reshape({2, 3})));
  };
  const auto what = build({{{2, 3}}}, add);
  const auto proof = axes_of(what, {{{2, 3}}});
  ASSERT_TRUE(proof) << proof.reason;
  const auto batched = what.with_batches(proof, 16);
  EXPECT_NE(batched, what);
  EXPECT_NE(batched.text().find("x0 = input per request"), std::string::npos);
  EXPECT_EQ(batched.steps(), what.steps());
  const auto x = drawn_constant(element_type::f32, {2, 3});
  EXPECT_EQ(result_of(batched, {x}).to_vector<float>(), result_of(what, {x}).to_vector<float>());
  // A run that is as large as two of them is none.
  EXPECT_TRUE(throws(errc::invalid_argument, "x0", [&] {
    (void)result_of(batched, {drawn_constant(element_type::f32, {4, 3})});
  }));
  for (const std::size_t most : {0, 1, 129}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "max_in_batch",
                       [&] { (void)what.with_batches(proof, most); }));
  }
  const auto along = build({{{3, 2}, 1}}, [](auto& p, const auto& y) { return p.add(exp(y[0])); });
  const auto turned = along.with_batches(axes_of(along, {{{3, 2}, 1}}), 16);
  EXPECT_NE(turned.text().find("x0 = input per request along 1"), std::string::npos);
  EXPECT_EQ(prepare_of({turned, {tensor_spec::row_major(element_type::f32, {3, 2})}}).not_batched,
            "");
  // A padded input leaves the runs along axis 0.
  program_builder padding;
  const auto clip = padding.input("clip", per_request, padded{1});
  const auto other = padding.input("other");
  const std::vector outputs{padding.add(exp(clip)), padding.add(exp(other))};
  const auto pads = std::move(padding).build(outputs, {.max_in_batch = 4});
  const std::vector pair(2, tensor_spec::row_major(element_type::f32, {1, 1}));
  const auto first = find_batch_axes(pads, pair, axes{0, 0});
  ASSERT_TRUE(first) << first.reason;
  EXPECT_EQ(pads.with_batches(first, 8).inputs(), 2U);
  for (const auto& along_second : {axes{0, 1}, axes{1, 0}, axes{1, 1}}) {
    const auto found = find_batch_axes(pads, pair, along_second);
    ASSERT_TRUE(found) << found.reason;
    EXPECT_TRUE(throws(errc::invalid_argument, "axis 1, but an input",
                       [&] { (void)pads.with_batches(found, 8); }));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "axes",
                     [&] { (void)what.with_batches({.reason = "no"}, 16); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "axes: are those of another program",
                     [&] { (void)what.with_batches({}, 16); }));
}

TEST_P(batch_proofs, have_dimensions_of_one_index) {
  const auto refused = [&](std::size_t axis) {
    const auto what =
        build({{{2, 3}}}, [&](auto& p, const auto& x) { return p.add(exp(x[0].unsqueeze(axis))); });
    EXPECT_TRUE(throws(errc::invalid_argument, "unsqueeze: there is no place", [&] {
      (void)result_of(what, {drawn_constant(element_type::f32, {2, 3})});
    }));
  };
  refused(3);
  refused(std::size_t{1} << 40U);
  const auto x = drawn_constant(element_type::f32, {2, 3});
  for (const std::size_t axis : {0, 1, 2}) {
    const auto what = build({{{2, 3}}}, [&](auto& p, const auto& y) {
      return p.add(strided_copy{.x = y[0].transposed().unsqueeze(axis)});
    });
    const auto turned = build({{{2, 3}}}, [&](auto& p, const auto& y) {
      return p.add(strided_copy{.x = y[0].transposed()});
    });
    const auto result = result_of(what, {x});
    EXPECT_EQ(result.shape(), with_one({3, 2}, axis));
    EXPECT_EQ(result.to_vector<float>(), result_of(turned, {x}).to_vector<float>());
  }
}

TEST_P(batch_proofs, refuse_what_is_no_axis) {
  const auto what = build({{{2, 3}}}, [](auto& p, const auto& x) { return p.add(exp(x[0])); });
  const auto spec = tensor_spec::row_major(element_type::f32, {2, 3});
  const auto refuse = [&](const std::string& text, const std::vector<tensor_spec>& specs,
                          const axes& along) {
    EXPECT_TRUE(
        throws(errc::invalid_argument, text, [&] { (void)find_batch_axes(what, specs, along); }));
  };
  refuse("inputs", {}, {});
  refuse("axes", {spec}, {});
  refuse("axes: x0 has the shape [2, 3], which has no axis 2", {spec}, {2});
  refuse("x0", {tensor_spec::row_major(element_type::f32, {2, 4})}, {0});
  EXPECT_TRUE(throws(errc::invalid_argument, "what",
                     [&] { (void)find_batch_axes({}, std::vector{spec}, axes{0}); }));
  EXPECT_NE(find_batch_axes(what, std::vector{spec}, axes{std::nullopt}).reason, "");
}

INSTANTIATE_TEST_SUITE_P(devices, batch_proofs, every_device(), parameter_name);

class batches_of_proofs : public batched_programs {};

// On a GPU, the runs are one launch.
TEST_P(batches_of_proofs, have_the_views_of_each_run) {
  for (const std::int64_t rows : {1, 2}) {
    program_builder p;
    const auto x = p.input("x", element_type::f32, {rows, 12});
    const auto scores = p.add(softmax{.x = x.reshape({rows, 3, 4}), .axis = 2});
    const auto w = p.constant("w", drawn_constant(element_type::f32, {4, 5}));
    const auto turned = p.add(gemm{.a = scores, .b = w}).permute({1, 0, 2}).unsqueeze(2);
    const auto sums =
        p.add(add(turned, p.constant("c", drawn_constant(element_type::f32, {3, 1, 1, 1}))));
    const auto y =
        p.add(exp(p.add(strided_copy{.x = sums.permute({1, 0, 2, 3})}).reshape({rows, 15})));
    const auto what = std::move(p).build({y});
    const std::vector specs{tensor_spec::row_major(element_type::f32, {rows, 12})};
    const auto proof = find_batch_axes(what, specs, axes{0});
    ASSERT_TRUE(proof) << proof.reason;
    const auto batched = what.with_batches(proof, 16);
    EXPECT_EQ(prepare_of({.what = batched, .inputs = specs}).not_batched, "");
    for (const std::size_t count : {2, 3, 7, 21}) {
      std::vector<tensor> inputs;
      std::vector<sluice::run> runs;
      for (std::size_t i = 0; i < count; ++i) {
        inputs.push_back(numbers({rows, 12}));
        runs.push_back({.what = batched, .inputs = {inputs.back()}});
      }
      auto answers = submit_together(std::move(runs));
      for (std::size_t i = 0; i < count; ++i) {
        expect_equal(answer_of(answers[i]), results_of({what, {inputs[i]}}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(devices, batches_of_proofs, every_device(), parameter_name);

/// A new operation needs a line in `batch_rules.cpp`.
TEST(batch_rules, are_known_of_all_operations) {
  for (const auto& description : describe_operations()) {
    const auto name = description.descriptor->name();
    if (name == "upload" || name == "download") continue;  // they are no steps
    EXPECT_TRUE(operations::rule_of(*description.descriptor)) << name;
  }
}

}  // namespace
}  // namespace sluice::test
