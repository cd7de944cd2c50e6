// SPDX-License-Identifier: Apache-2.0
// Steps that write their result where the step behind them copies it, in another order.
#include "tests/operations/program/programs.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class permuted_copy : public programs {
 protected:
  static constexpr std::int64_t batch = 2;
  static constexpr std::int64_t heads = 3;
  static constexpr std::int64_t queries = 5;
  static constexpr std::int64_t head_size = 16;

  /// What follows an attention whose result is `y`. Returns the outputs.
  using ending =
      std::function<std::vector<program_value>(program_builder&, const program_value& y)>;

  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    for (std::size_t i = 0; i < 3; ++i)
      inputs_.push_back(numbers({batch, queries, heads, head_size}));
  }
  void use_16_bits() {
    for (auto& input : inputs_) input = alone(cast{.x = input, .type = element_type::f16});
  }

  [[nodiscard]] static program with_attention(const ending& follow, bool fuse) {
    program_builder p;
    const auto in_heads = [&](const char* name) {
      return p.input(name).permute({0, 2, 1, 3});
    };
    const auto q = in_heads("q");
    const auto k = in_heads("k");
    const auto v = in_heads("v");
    const auto y = p.add(attention{.q = q, .k = k, .v = v});
    return std::move(p).build(follow(p, y), {.fuse = fuse});
  }
  /// The results, with the copy apart or where it is joined with the attention.
  std::vector<std::vector<std::uint32_t>> results(const program& what) {
    std::vector<std::vector<std::uint32_t>> found;
    for (const auto& y : results_of({what, {inputs_.begin(), inputs_.end()}})) {
      found.push_back(bits(alone(cast{.x = y, .type = element_type::f32})));
    }
    return found;
  }
  /// Expects the results of single steps although so many are computed together.
  void expect_together(const ending& follow, std::size_t count) {
    const auto fused = with_attention(follow, true);
    EXPECT_EQ(await_kernels(fused, inputs_).fused_steps, count) << fused.text();
    EXPECT_EQ(results(fused), results(with_attention(follow, false)));
  }

  std::vector<tensor> inputs_;
};

TEST_P(permuted_copy, of_an_attention_is_its_result) {
  const ending follow = [](program_builder& p, const program_value& y) {
    const auto copy = p.add(strided_copy{.x = y.permute({0, 2, 1, 3})});
    return std::vector{copy.reshape({batch, queries, heads * head_size})};
  };
  expect_together(follow, 2);
  use_16_bits();
  expect_together(follow, 2);
}

TEST_P(permuted_copy, takes_any_order_of_the_dimensions) {
  for (const auto& order : {extents{3, 2, 1, 0}, extents{1, 0, 2, 3}, extents{0, 1, 3, 2}}) {
    const ending follow = [&](program_builder& p, const program_value& y) {
      return std::vector{p.add(strided_copy{.x = y.permute(order)})};
    };
    expect_together(follow, 2);
  }
}

TEST_P(permuted_copy, lies_in_a_given_output) {
  const auto what = with_attention(
      [](program_builder& p, const program_value& y) {
        return std::vector{p.add(strided_copy{.x = y.permute({0, 2, 1, 3})})};
      },
      true);
  const auto wanted = results(what);
  for (const auto& order : {extents{0, 1, 2, 3}, extents{0, 2, 1, 3}}) {
    const auto memory =
        numbers(order == extents{0, 1, 2, 3} ? extents{batch, queries, heads, head_size}
                                             : extents{batch, heads, queries, head_size});
    sluice::run request{.what = what, .inputs = {inputs_.begin(), inputs_.end()}};
    request.outputs = {memory.permute(order)};
    EXPECT_EQ(bits(alone(strided_copy{.x = results_of(std::move(request))[0]})), wanted[0]);
  }
}

TEST_P(permuted_copy, is_a_step_if_the_result_is_needed) {
  expect_together(
      [](program_builder& p, const program_value& y) {
        return std::vector{y, p.add(strided_copy{.x = y.permute({0, 2, 1, 3})})};
      },
      0);
  expect_together(
      [](program_builder& p, const program_value& y) {
        const auto copy = p.add(strided_copy{.x = y.permute({0, 2, 1, 3})});
        return std::vector{copy, p.add(reduce{.x = y, .kind = reduction::sum, .axes = {3}})};
      },
      0);
}

TEST_P(permuted_copy, is_a_step_if_it_is_not_all_of_the_result) {
  expect_together(
      [](program_builder& p, const program_value& y) {
        return std::vector{p.add(strided_copy{.x = y.slice(2, 1, 4)})};
      },
      0);
  expect_together(
      [](program_builder& p, const program_value& y) {
        return std::vector{p.add(
            strided_copy{.x = y.unsqueeze(0).broadcast_to({2, batch, heads, queries, head_size})})};
      },
      0);
}

INSTANTIATE_TEST_SUITE_P(devices, permuted_copy, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
