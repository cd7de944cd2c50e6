// SPDX-License-Identifier: Apache-2.0
// Outputs that a run gives.
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class program_outputs : public programs {
 protected:
  /// x · xᵀ, its largest element in each row, and its transpose.
  static program similarity() {
    program_builder p;
    const auto x = p.input("x");
    const auto product = p.add("product", gemm{.a = x, .b = x.transposed()});
    const auto largest =
        p.add("largest", reduce{.x = product, .kind = reduction::max, .axes = extents{1}});
    return std::move(p).build({product, largest, product.transposed()});
  }
  /// y = 2 x, one result.
  static program doubled() {
    program_builder p;
    const auto x = p.input("x");
    return std::move(p).build({p.add("doubled", add(x, x))});
  }
  tensor undefined(const extents& shape) {
    return {runtime().allocate_bytes(4 * count_of(shape), test_executor().lane().stream()),
            element_type::f32, shape};
  }

 private:
  static std::size_t count_of(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
};

TEST_P(program_outputs, are_written_and_returned) {
  const auto program = similarity();
  const auto x = numbers({4, 3});
  const auto expected = results_of({program, {x}});
  const auto wide = numbers({4, 9});
  const auto unused = values(wide.slice(1, 4, 9));
  const std::vector<operand> outputs{undefined({4, 4}), undefined({4}), wide.slice(1, 0, 4)};
  for (unsigned output_mask = 1; output_mask < 8; ++output_mask) {
    SCOPED_TRACE(output_mask);
    std::vector<operand> some(3);
    for (unsigned i = 0; i < 3; ++i) {
      if ((output_mask >> i & 1U) != 0) some[i] = outputs[i];
    }
    const auto results = results_of({program, {x}, some});
    ASSERT_EQ(results.size(), 3U);
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_EQ(bits(results[i]), bits(expected[i])) << i;
      EXPECT_EQ(results[i] == outputs[i].value(), (output_mask >> i & 1U) != 0) << i;
    }
  }
  EXPECT_EQ(values(wide.slice(1, 4, 9)), unused);
}

// The first form needs no copy: the step writes the output.
TEST_P(program_outputs, cost_memory_only_if_they_are_copied) {
  const auto program = doubled();
  const auto x = numbers({1000, 100});
  const auto expected = bits(alone(add(x, x)));
  const auto outstanding = runtime().statistics().bytes_outstanding;
  const auto y = undefined({1000, 100});
  (void)results_of({program, {x}, {y}});
  EXPECT_EQ(bits(y), expected);
  EXPECT_LE(runtime().statistics().bytes_outstanding, outstanding + y.bytes() + 4096);
  const auto columns = undefined({100, 1000}).transposed();
  (void)results_of({program, {x}, {columns}});
  EXPECT_EQ(bits(columns), expected);
}

TEST_P(program_outputs, may_lie_in_the_memory_of_inputs) {
  program_builder p;
  const auto a = p.input("a");
  const auto b = p.input("b");
  const auto product = p.add("product", gemm{.a = a, .b = b});
  const auto sum = p.add("sum", add(product, a));
  const program program = std::move(p).build({product, sum});
  for (int round = 0; round < 3; ++round) {
    const auto x = numbers({5, 5});
    const auto y = numbers({5, 5});
    const auto expected = results_of({program, {x, y}});
    const auto first = bits(expected[0]);
    const auto second = bits(expected[1]);
    // The later step reads `a` after the first one has ended.
    const std::vector<operand> outputs{round == 1 ? x.transposed() : x, round == 2 ? operand() : y};
    const auto results = results_of({program, {x, y}, outputs});
    EXPECT_EQ(bits(results[0]), first);
    EXPECT_EQ(bits(results[1]), second);
  }
}

/// A program of two inputs, whose output is the first one.
struct overwriting {
  const char* text;
  std::function<program_value(program_builder&, program_value, program_value)> last_step;
  bool in_place;
  std::size_t intermediates = 0;  // matrices in scratch memory
};

// An output that is an input costs no memory if the step can work in place.
TEST_P(program_outputs, overwrite_an_input_in_place) {
  const extents shape{256, 256};
  const std::vector<overwriting> all{
      {"elementwise", [](auto& p, auto x, auto y) { return p.add("sum", add(x, y)); }, true},
      {"of a step before",
       [](auto& p, auto x, auto) {
         return p.add("sum", add(x, p.add("copy", strided_copy{.x = x})));
       },
       true, 1},
      {"nothing reads it",
       [](auto& p, auto, auto y) { return p.add("product", gemm{.a = y, .b = y}); }, true},
      {"updates",
       [](auto& p, auto x, auto y) {
         return p.add("product", gemm{.a = y, .b = y, .c = x, .beta = 2});
       },
       true},
      {"reads it elsewhere",
       [](auto& p, auto x, auto y) { return p.add("product", gemm{.a = x, .b = y}); }, false},
      {"reads it transposed",
       [](auto& p, auto x, auto y) { return p.add("sum", add(x.transposed(), y)); }, false},
      {"updates it and reads it",
       [](auto& p, auto x, auto y) {
         return p.add("product", gemm{.a = x, .b = y, .c = x, .beta = 2});
       },
       false},
  };
  const auto matrix = 256 * 256 * sizeof(float);
  for (const auto& one : all) {
    SCOPED_TRACE(one.text);
    program_builder p;
    const auto a = p.input("a");
    const auto b = p.input("b");
    const program program = std::move(p).build({one.last_step(p, a, b)});
    const auto x = numbers(shape);
    const auto y = numbers(shape);
    const auto expected = bits(results_of({program, {x, y}})[0]);
    // Half a matrix of scratch memory is not enough for a result that is copied.
    const auto bounded =
        make_executor({.max_device_bytes_of_plan = one.intermediates * matrix + matrix / 2});
    const sluice::run request{program, {x, y}, {x}};
    if (one.in_place) {
      EXPECT_EQ(run(*bounded, request)[0], x);
    } else {
      EXPECT_TRUE(throws(errc::unsupported, "max_device_bytes_of_plan",
                         [&] { (void)run(*bounded, request); }));
      EXPECT_EQ(results_of(request)[0], x);
    }
    EXPECT_EQ(bits(x), expected);
  }
}

// A later step reads the input, so that the output is written last.
TEST_P(program_outputs, do_not_overwrite_what_a_later_step_reads) {
  program_builder p;
  const auto a = p.input("a");
  const auto b = p.input("b");
  const auto sum = p.add("sum", add(a, b));
  const auto later = p.add("later", subtract(sum, a.reshape({-1})));
  const program program = std::move(p).build({sum, later});
  const auto x = numbers({7});
  const auto y = numbers({7});
  const auto expected = results_of({program, {x, y}});
  const auto first = bits(expected[0]);
  const auto second = bits(expected[1]);
  const auto results = results_of({program, {x, y}, {x, y}});
  EXPECT_EQ(bits(results[0]), first);
  EXPECT_EQ(bits(results[1]), second);
  EXPECT_EQ(results[0], x);
  // The same tensor for both inputs: one of them is still read.
  const auto z = numbers({7});
  const auto twice = results_of({program, {z, z}});
  const auto doubled = bits(twice[0]);
  const auto difference = bits(twice[1]);
  const auto overwritten = results_of({program, {z, z}, {z, operand()}});
  EXPECT_EQ(bits(overwritten[0]), doubled);
  EXPECT_EQ(bits(overwritten[1]), difference);
}

TEST_P(program_outputs, are_updated_in_place_of_a_copy) {
  const auto c = numbers({3, 3});
  program_builder p;
  const auto a = p.input("a");
  const program program =
      std::move(p).build({p.add("sum", gemm{.a = a, .b = a, .c = c, .beta = 1})});
  const auto x = numbers({3, 3});
  const auto before = bits(c);
  const auto y = undefined({3, 3});
  (void)results_of({program, {x}, {y}});
  EXPECT_EQ(bits(y), bits(results_of({program, {x}})[0]));
  EXPECT_EQ(bits(c), before);
}

// Outputs with less alignment than an allocation.
TEST_P(program_outputs, may_begin_anywhere) {
  program_builder p;
  const auto x = p.input("x");
  const auto spectrum = p.add("spectrum", rfft{.x = x});
  const auto power = p.add("power", power_spectrum{.x = spectrum});
  const program program = std::move(p).build({spectrum, power});
  const auto signal = numbers({2, 9});
  const auto expected = results_of({program, {signal}});
  const auto memory = undefined({64});
  for (std::int64_t first = 1; first < 4; ++first) {
    const auto y = memory.slice(0, first, first + 10).reshape({2, 5});
    EXPECT_EQ(bits(results_of({program, {signal}, {operand(), y}})[1]), bits(expected[1]));
    const auto z = memory.slice(0, 20 + 2 * first, 40 + 2 * first).reinterpret(element_type::c64);
    const auto results = results_of({program, {signal}, {z.reshape({2, 5}), operand()}});
    EXPECT_EQ(bits(alone(power_spectrum{.x = results[0]})), bits(expected[1]));
  }
}

// The steps and the views of a result see the alignment of new memory.
TEST_P(program_outputs, that_begin_anywhere_change_no_step) {
  program_builder p;
  const auto x = p.input("x");
  const auto signal = p.add("signal", irfft{.x = x, .length = 8});
  const auto pairs = p.add("pairs", power_spectrum{.x = signal.reinterpret(element_type::c64)});
  const program program = std::move(p).build({signal, pairs});
  const auto spectrum = numbers({3, 10}).reinterpret(element_type::c64);
  const auto expected = results_of({program, {spectrum}});
  const auto y = undefined({64}).slice(0, 1, 25).reshape({3, 8});
  const auto results = results_of({program, {spectrum}, {y, operand()}});
  EXPECT_EQ(results[0], y);
  EXPECT_EQ(bits(y), bits(expected[0]));
  EXPECT_EQ(bits(results[1]), bits(expected[1]));
}

TEST_P(program_outputs, are_refused_with_their_number) {
  const auto constant = numbers({4, 4});
  program_builder p;
  const auto x = p.input("x");
  const auto sum = p.add("sum", add(x, constant));
  const auto product = p.add("product", gemm{.a = sum, .b = x});
  const program program = std::move(p).build({sum, product.transposed()});
  const auto in = numbers({4, 4});
  const auto refused = [&](errc code, const char* text, std::vector<operand> outputs) {
    SCOPED_TRACE(text);
    const auto unchanged = bits(constant);
    const auto before = runtime().statistics();
    EXPECT_TRUE(throws(code, text, [&] { (void)results_of({program, {in}, outputs}); }));
    EXPECT_EQ(runtime().statistics().launches, before.launches);
    EXPECT_EQ(runtime().statistics().blocks, before.blocks);
    EXPECT_EQ(bits(constant), unchanged);
  };
  const auto y = undefined({4, 4});
  refused(errc::invalid_argument, "outputs: there is 1, but the program has 2", {y});
  refused(errc::invalid_argument, "outputs[0]: has the shape [4]", {numbers({4}), operand()});
  refused(errc::invalid_argument, "outputs[1]: has the shape [4]", {operand(), numbers({4})});
  refused(errc::invalid_argument, "outputs[1]: is of type i32",
          {operand(), y.reinterpret(element_type::i32)});
  refused(errc::invalid_argument, "outputs[0]: is of type i32",
          {y.reinterpret(element_type::i32), operand()});
  refused(errc::invalid_argument, "outputs[1]: shares memory with outputs[0]", {y, y.transposed()});
  refused(errc::invalid_argument, "outputs[0]: shares memory with the constant sum.b",
          {constant, operand()});
  refused(errc::invalid_argument, "outputs[0]: has the shape [4, 4] and the strides",
          {numbers({4}).broadcast_to({4, 4}), operand()});
  refused(errc::invalid_argument, "outputs[1]: is a value of a program", {operand(), x});
  auto freed = undefined({4, 4});
  const auto stale = freed;
  runtime().deallocate(freed.block());
  refused(errc::stale_ref, "outputs[0]", {stale, operand()});
}

INSTANTIATE_TEST_SUITE_P(devices, program_outputs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
