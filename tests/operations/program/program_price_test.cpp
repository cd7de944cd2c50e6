// SPDX-License-Identifier: Apache-2.0
// The price of a program is that of the plans which its executable makes.
#include "operations/program/program_price.hpp"

#include "operations/program/program_graph.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/unary.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// The plans that a price counts beside its steps.
double plans_of(const program& program, device_kind kind, const std::vector<extents>& shapes,
                element_type type = element_type::f32) {
  std::vector<tensor_spec> inputs;
  for (const auto& shape : shapes) inputs.push_back(tensor_spec::row_major(type, shape));
  const auto& graph = *program.graph();
  const auto run = graph.infer(inputs, {}, std::vector<operations::given_output>(1));
  const auto price = operations::price_of_plans(graph, *run.shared, kind);
  constexpr double work_of_step = 1024;
  return (price.work - work_of_step * static_cast<double>(run.shared->steps.size())) /
         plan_price::usual_work;
}

/// A product with a function of its elements.
program product_with_function(program_options options = {}) {
  program_builder p;
  const auto product = p.add("product", gemm{.a = p.input("a"), .b = p.input("b")});
  return std::move(p).build({p.add("function", relu(product))}, options);
}

class program_price : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!descriptor_of(gemm{.activation = activation::relu}).makes_plans(device_kind::cuda)) {
      GTEST_SKIP() << "this build has no plans of products on a GPU";
    }
  }
};

TEST_F(program_price, counts_the_plan_of_a_product_with_an_epilogue) {
  const std::vector<extents> shapes{{64, 32}, {32, 48}};
  EXPECT_EQ(plans_of(product_with_function(), device_kind::cuda, shapes), 1);
  EXPECT_EQ(plans_of(product_with_function(), device_kind::host, shapes), 0);
  EXPECT_EQ(plans_of(product_with_function({.fuse = false}), device_kind::cuda, shapes), 0);
}

TEST_F(program_price, counts_a_plan_that_several_products_share_once) {
  program_builder p;
  const auto a = p.input("a");
  auto x = a;
  for (int i = 0; i < 3; ++i) x = p.add(relu(p.add(gemm{.a = x, .b = a})));
  const auto program = std::move(p).build({x});
  EXPECT_EQ(plans_of(program, device_kind::cuda, {{64, 64}}), 1);
}

TEST_F(program_price, counts_no_plan_of_a_step_that_is_computed_with_another) {
  program_builder p;
  const auto a = p.input("a");
  const auto first = p.add(relu(p.add(gemm{.a = a, .b = a})));
  const auto second = p.add(gelu(p.add(gemm{.a = first, .b = a})));
  const auto program = std::move(p).build({second});
  EXPECT_EQ(plans_of(program, device_kind::cuda, {{64, 64}}), 2);
}

}  // namespace
}  // namespace sluice::test
