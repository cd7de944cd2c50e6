// SPDX-License-Identifier: Apache-2.0
// Programs with names, as sources of models.
#include "tests/support/expect_error.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/element_functions.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/program_source.hpp>

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class program_sources : public ::testing::Test {
 protected:
  using value_list = std::vector<model_value>;
  using spec_map = std::map<std::string, tensor_spec>;

  static tensor_spec f32(const extents& shape) {
    return tensor_spec::row_major(element_type::f32, shape);
  }
  static program product() {
    program_builder p;
    const auto a = p.input("a");
    const auto b = p.input("b");
    return std::move(p).build({p.add("y", gemm{.a = a, .b = b})});
  }
};

TEST_F(program_sources, have_the_program_with_its_names) {
  const auto what = product();
  const program_source source(what, {{.name = "left"}, {.name = "right"}}, {{.name = "product"}});
  ASSERT_EQ(source.inputs().size(), 2U);
  EXPECT_EQ(source.inputs()[1].name, "right");
  ASSERT_EQ(source.outputs().size(), 1U);
  const auto made = source.program_for({{"right", f32({4, 5})}, {"left", f32({3, 4})}}, {}, {});
  EXPECT_EQ(made.program, what);
  EXPECT_EQ(made.inputs, (std::vector<std::string>{"left", "right"}));
  EXPECT_EQ(made.outputs, std::vector<std::string>{"product"});
  ASSERT_EQ(made.results.size(), 1U);
  EXPECT_EQ(made.results[0].shape, (extents{3, 5}));
  EXPECT_EQ(made.results[0].type, element_type::f32);
  EXPECT_EQ(made.max_in_batch, 1U);
  EXPECT_FALSE(made.batching);
}

TEST_F(program_sources, keep_the_batches_of_the_program) {
  program_builder p;
  const auto x = p.input("x", per_request);
  auto what = std::move(p).build({p.add("y", multiply(x, 2))}, {.max_in_batch = 16});
  const program_source source(std::move(what), {{.name = "x"}}, {{.name = "y"}});
  EXPECT_EQ(source.program_for({{"x", f32({1, 4})}}, {}, {}).max_in_batch, 16U);
}

TEST_F(program_sources, refuse_names_that_do_not_fit) {
  const auto refused = [](const std::string& word, const program& what, const value_list& inputs,
                          const value_list& outputs) {
    EXPECT_TRUE(
        throws(errc::invalid_argument, word, [&] { (void)program_source(what, inputs, outputs); }));
  };
  const value_list two{{.name = "a"}, {.name = "b"}};
  const value_list one{{.name = "y"}};
  refused("what", program(), two, one);
  refused("inputs: are 1", product(), one, one);
  refused("outputs: are 2", product(), two, two);
  refused("inputs: two have the name a", product(), {{.name = "a"}, {.name = "a"}}, one);
  refused("outputs: one has no name", product(), two, value_list(1));
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("y", affine{.x = x, .factor = p.scalar("factor")});
  refused("scalars", std::move(p).build({y}), one, one);
}

TEST_F(program_sources, refuse_inputs_that_do_not_fit) {
  const std::vector<model_dimension> shape{{.symbol = "rows"}, {.extent = 4}};
  const program_source source(
      product(), {{.name = "a", .type = element_type::f32, .shape = shape}, {.name = "b"}},
      {{.name = "y"}});
  const auto refused = [&](const std::string& word, const spec_map& inputs,
                           const std::map<std::string, host_tensor>& bound = {}) {
    EXPECT_TRUE(
        throws(errc::invalid_argument, word, [&] { (void)source.program_for(inputs, bound, {}); }));
  };
  const spec_map right{{"a", f32({3, 4})}, {"b", f32({4, 5})}};
  EXPECT_EQ(source.program_for(right, {}, {}).results[0].shape, (extents{3, 5}));
  refused("b: the input is not given", {{"a", f32({3, 4})}});
  refused("c: is not an input", {{"a", f32({3, 4})}, {"b", f32({4, 5})}, {"c", f32({1})}});
  refused("a: has the shape [3, 5], but the model declares [rows, 4]",
          {{"a", f32({3, 5})}, {"b", f32({5, 5})}});
  refused("a: has the shape [4]", {{"a", f32({4})}, {"b", f32({4, 5})}});
  refused("a: has the type f64",
          {{"a", tensor_spec::row_major(element_type::f64, {3, 4})}, {"b", f32({4, 5})}});
  refused("step 'y'", {{"a", f32({3, 4})}, {"b", f32({3, 5})}});
  refused("a: cannot be bound", {{"b", f32({4, 5})}},
          {{"a", host_tensor(element_type::f32, {3, 4})}});
  refused("c: is not an input", right, {{"c", host_tensor(element_type::f32, {1})}});
}

}  // namespace
}  // namespace sluice::test
