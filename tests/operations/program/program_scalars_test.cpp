// SPDX-License-Identifier: Apache-2.0
// Numbers that each run of a program gives.
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class program_scalars : public programs {};

TEST_P(program_scalars, are_parameters_of_their_steps) {
  program_builder p;
  const auto x = p.input("x");
  const auto seed = p.scalar("seed");
  const auto factor = p.scalar("factor");
  const auto noise = p.add("noise", random_normal{.shape = extents{4, 8}, .seed = seed});
  const auto sum = p.add("sum", add(x, noise));
  const program program =
      std::move(p).build({p.add("scaled", affine{.x = sum, .factor = factor, .offset = 1})});
  EXPECT_EQ(program.scalars(), 2U);
  EXPECT_EQ(program.text(),
            "seed = scalar\n"
            "factor = scalar\n"
            "x = input\n"
            "noise = random_normal(seed = seed)\n"
            "sum = add(a = x, b = noise)\n"
            "scaled = affine(x = sum, factor = factor)\n"
            "outputs: scaled\n");
  const auto input = numbers({4, 8});
  std::uint64_t plans = 0;
  auto generator = make_generator();
  for (int round = 0; round < 20; ++round) {
    const auto seed_of_run = generator();
    const auto factor_of_run = static_cast<float>(generator() % 100) / 8;
    const auto result = results_of(
        {.what = program, .inputs = {input}, .scalars = {seed_of_run, factor_of_run}})[0];
    const auto z = alone(random_normal{.shape = extents{4, 8}, .seed = seed_of_run});
    const auto expected =
        alone(affine{.x = alone(add(input, z)), .factor = scalar(factor_of_run), .offset = 1});
    EXPECT_EQ(bits(result), bits(expected));
    // All runs share an executable.
    if (round == 1) plans = test_executor().status().plans.made;
  }
  EXPECT_EQ(test_executor().status().plans.made, plans);
}

// With a beta of 0, gemm does not read its c, so that these runs need another executable.
TEST_P(program_scalars, may_change_what_a_step_reads) {
  const auto c = numbers({3, 3});
  program_builder p;
  const auto a = p.input("a");
  const auto alpha = p.scalar("alpha");
  const auto beta = p.scalar("beta");
  const auto product =
      p.add("product", gemm{.a = a, .b = a, .c = p.constant("c", c), .alpha = alpha, .beta = beta});
  const program program = std::move(p).build({product});
  const auto x = numbers({3, 3});
  const auto expected = [&](double of_product, double of_c) {
    const auto y = alone(strided_copy{.x = c});
    (void)alone(gemm{.a = x, .b = x, .c = y, .alpha = of_product, .beta = of_c});
    return bits(y);
  };
  for (int round = 0; round < 3; ++round) {
    for (const auto& [of_product, of_c] : std::vector<std::pair<double, double>>{
             {1, 1}, {2, 0.5}, {1, 0}, {0, 1}, {0, 0}, {0, 3}, {-1, 1}}) {
      const auto result =
          results_of({.what = program, .inputs = {x}, .scalars = {of_product, of_c}})[0];
      EXPECT_EQ(bits(result), expected(of_product, of_c));
    }
  }
}

TEST_P(program_scalars, are_checked_before_anything_is_queued) {
  program_builder p;
  const auto seed = p.scalar("seed");
  const auto noise = p.add("noise", random_bits{.shape = extents{5}, .seed = seed});
  const program program = std::move(p).build({noise});
  program_builder q;
  const auto other = q.scalar("other");
  const auto refused = [&](const char* text, std::vector<scalar> scalars) {
    SCOPED_TRACE(text);
    const auto before = runtime().statistics();
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] {
      (void)results_of({.what = program, .scalars = std::move(scalars)});
    }));
    EXPECT_EQ(runtime().statistics().launches, before.launches);
    EXPECT_EQ(runtime().statistics().blocks, before.blocks);
  };
  refused("scalars: there are 0, but the program takes 1", {});
  refused("scalars: there are 2, but the program takes 1", {1, 2});
  refused("seed: is a scalar of a program", {other});
  refused("step 'noise': seed: -1 is negative", {-1});
  (void)results_of({.what = program, .scalars = {1}});
  refused("step 'noise': seed: 0.5 is not an integer", {0.5});
  refused("step 'noise': seed: nan is not an integer", {std::nan("")});
}

TEST_P(program_scalars, belong_to_one_program) {
  program_builder p;
  program_builder q;
  const auto other = q.scalar("other");
  EXPECT_TRUE(
      throws(errc::invalid_argument, "step 'noise': seed: is a scalar of another program",
             [&] { (void)p.add("noise", random_bits{.shape = extents{5}, .seed = other}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "seed: is a scalar of a program",
                     [&] { (void)alone(random_bits{.shape = extents{5}, .seed = other}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "alpha: is a scalar of a program",
                     [&] { (void)alone(gemm{.a = small(1), .b = small(1), .alpha = other}); }));
}

// Numbers, outputs and specs of requests that wait count as their bytes.
TEST_P(program_scalars, count_among_the_bytes_that_wait) {
  program_builder p;
  const auto x = p.input("x");
  for (int i = 0; i < 20'000; ++i) (void)p.scalar("unused");
  const program many_scalars = std::move(p).build({p.add("sum", add(x, x))});
  program_builder q;
  const auto y = q.input("y");
  for (int i = 0; i < 20'000; ++i) (void)q.input("unused");
  const program many_inputs = std::move(q).build({q.add("sum", add(y, y))});
  const auto value = small(1);
  const auto spec = tensor_spec::of(value);
  const sluice::run request{
      .what = many_scalars, .inputs = {value}, .scalars = std::vector<scalar>(20'000, 1)};
  const sluice::prepare prepared_ahead{.what = many_inputs,
                                       .inputs = std::vector<tensor_spec>(20'001, spec)};

  const auto narrow = make_executor({.max_waiting_bytes = 1U << 20U});
  gate closed;
  closed.hold(narrow->lane().stream());
  std::vector<pending_answer> launched;
  while (!narrow->lane().full()) {
    launched.push_back(submit(*narrow, add(value, value)));
    while (narrow->waiting() != 0) narrow->work();
  }
  auto waiting = submit(*narrow, request);
  EXPECT_GE(narrow->status().bytes, 20'000 * sizeof(scalar));
  auto refused = submit(*narrow, prepared_ahead);
  EXPECT_TRUE(throws(errc::overloaded, "bytes", [&] { (void)refused.get(); }));
  auto refused_too = submit(*narrow, request);
  EXPECT_TRUE(throws(errc::overloaded, "bytes", [&] { (void)refused_too.get(); }));
  closed.open();
  for (auto& one : launched) (void)wait(*narrow, one);
  EXPECT_EQ(values(wait(*narrow, waiting)[0]), std::vector<float>{2});
}

INSTANTIATE_TEST_SUITE_P(devices, program_scalars, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
