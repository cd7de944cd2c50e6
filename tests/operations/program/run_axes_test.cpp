// SPDX-License-Identifier: Apache-2.0
// Steps that mix the runs of a batch. For each operation and each axis of its operand: either the
// program is refused, and runs that are computed as one have other results than alone; or it is
// accepted, and they have the same.
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/run_axes_steps.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/operation_table.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using value = program_value;

class run_axes : public programs {
 protected:
  /// The program of a step whose operand has the parts of a run along `axis`. Its result is turned
  /// so that `output_axis` is the first one.
  static program build(const stepping& s, std::size_t axis, std::size_t output_axis,
                       std::size_t output_rank, bool is_marked) {
    program_builder p;
    const auto input = is_marked ? p.input("x", per_request) : p.input("x");
    const auto y = s.add(p, input.permute(from_front(axis, s.shape.size())));
    const auto turned = output_axis == 0 ? y : y.permute(to_front(output_axis, output_rank));
    return std::move(p).build({turned}, {.max_in_batch = is_marked ? std::size_t{4} : 1});
  }
  /// The order of dimensions that brings `axis` to the front, and the one that brings it back.
  ///@{
  static extents to_front(std::size_t axis, std::size_t rank) {
    extents order{static_cast<std::int64_t>(axis)};
    for (std::size_t d = 0; d < rank; ++d) {
      if (d != axis) order.push_back(static_cast<std::int64_t>(d));
    }
    return order;
  }
  static extents from_front(std::size_t axis, std::size_t rank) {
    extents order;
    for (std::size_t d = 0; d < rank; ++d) {
      order.push_back(static_cast<std::int64_t>(d == axis ? 0 : d < axis ? d + 1 : d));
    }
    return order;
  }
  ///@}
  std::optional<host_tensor> result_of(const program& program, const host_tensor& x) {
    try {
      return run(test_executor(), run_to_host{program, {x}}).front();
    } catch (const error&) {
      return std::nullopt;
    }
  }
  static std::vector<std::complex<double>> numbers_of(const host_tensor& x) {
    return x.to(element_type::c128).to_vector<std::complex<double>>();
  }
  /// Two runs, one behind the other along axis 0.
  static host_tensor joined(const host_tensor& a, const host_tensor& b) {
    auto all = numbers_of(a);
    const auto more = numbers_of(b);
    all.insert(all.end(), more.begin(), more.end());
    auto shape = a.shape();
    shape[0] += b.shape()[0];
    const host_tensor wide(std::move(all), shape);
    if (a.type() == element_type::c64) return wide.to(a.type());
    // Complex numbers do not become real ones.
    const auto numbers = numbers_of(wide);
    std::vector<double> real;
    for (const auto& number : numbers) real.push_back(number.real());
    return host_tensor(std::move(real), shape).to(a.type());
  }
  static bool are_near(const host_tensor& a, const host_tensor& b) {
    if (a.shape() != b.shape()) return false;
    const auto x = numbers_of(a);
    const auto y = numbers_of(b);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!(std::abs(x[i] - y[i]) <= 1e-4 * (1 + std::abs(y[i])))) return false;
    }
    return true;
  }
  static std::optional<std::size_t> doubled_axis(const extents& one, const extents& two) {
    std::optional<std::size_t> axis;
    if (one.size() != two.size()) return axis;
    for (std::size_t d = 0; d < one.size(); ++d) {
      if (one[d] == two[d]) continue;
      if (axis || two[d] != 2 * one[d]) return std::nullopt;
      axis = d;
    }
    return axis;
  }

  void check(const stepping& s, std::size_t axis) {
    auto shape = extents{s.shape[axis]};
    for (std::size_t d = 0; d < s.shape.size(); ++d) {
      if (d != axis) shape.push_back(s.shape[d]);
    }
    const int most = s.type == element_type::i64 ? 2 : s.type == element_type::u8 ? 200 : 0;
    const auto a = drawn_constant(s.type, shape, most);
    const auto b = drawn_constant(s.type, shape, most);
    // Constants are drawn when a program is built, so one program serves all of its runs.
    const auto plain = build(s, axis, 0, 0, false);
    const auto single = result_of(plain, a);
    ASSERT_TRUE(single.has_value());
    const auto both = result_of(plain, joined(a, b));
    const auto output_axis = both ? doubled_axis(single->shape(), both->shape()) : std::nullopt;
    const auto rank = single->shape().size();
    const auto marked = build(s, axis, output_axis.value_or(0), rank, true);
    const auto refusal = [&]() -> std::string {
      try {
        (void)run(test_executor(), run_to_host{marked, {a}});
        return {};
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::invalid_argument) << e.what();
        return e.what();
      }
    }();
    if (!output_axis) {
      EXPECT_FALSE(refusal.empty()) << "accepted, but no axis of the result counts the runs";
      return;
    }
    program_builder p;
    const auto input = p.input("x");
    const auto turned =
        p.add("turned", strided_copy{.x = input.permute(to_front(*output_axis, rank))});
    const auto turn = std::move(p).build({turned});
    const auto turned_result = [&](const host_tensor& x) {
      return *result_of(turn, *result_of(plain, x));
    };
    const auto are_independent = [&](const host_tensor& x, const host_tensor& y) {
      return are_near(turned_result(joined(x, y)), joined(turned_result(x), turned_result(y)));
    };
    bool is_independent = are_independent(a, b);
    // Runs that a step mixes may give near results by chance.
    for (int i = 0; i < 5 && is_independent && !refusal.empty(); ++i) {
      is_independent =
          are_independent(drawn_constant(s.type, shape, most), drawn_constant(s.type, shape, most));
    }
    if (s.refused_without_need.count(axis) != 0) {
      EXPECT_TRUE(is_independent && !refusal.empty());
      return;
    }
    ++(refusal.empty() ? accepted_ : refused_);
    EXPECT_EQ(refusal.empty(), is_independent) << refusal;
    if (!refusal.empty()) {
      EXPECT_NE(refusal.find("mixes"), std::string::npos) << refusal;
    }
  }
  [[nodiscard]] int accepted() const { return accepted_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  int accepted_ = 0;
  int refused_ = 0;
};

TEST_P(run_axes, are_mixed_by_no_step_that_is_accepted) {
  for (const auto& s : all_steppings()) {
    for (std::size_t axis = 0; axis < s.shape.size(); ++axis) {
      SCOPED_TRACE(s.operation + " of " + to_string(s.shape) + ", runs along axis " +
                   std::to_string(axis));
      check(s, axis);
    }
  }
  // Both kinds have been seen.
  EXPECT_GT(accepted(), 50);
  EXPECT_GT(refused(), 25);
}

TEST_P(run_axes, are_named_with_the_step) {
  const auto refuse = [&](const std::string& text, const auto& add_step) {
    program_builder p;
    const auto x = p.input("x", per_request);
    const auto y = add_step(p, x);
    const auto program = std::move(p).build({y}, {.max_in_batch = 8});
    const auto spec = tensor_spec::row_major(element_type::f32, {1, 5});
    EXPECT_TRUE(throws(errc::invalid_argument, text,
                       [&] { (void)prepare_of({.what = program, .inputs = {spec}}); }));
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] {
      (void)results_of({program, {numbers({1, 5})}});
    }));
  };
  refuse(
      "step 'probabilities': softmax mixes axis 0 of x, along which runs that are launched "
      "together lie; the step is softmax(x = x)",
      [](program_builder& p, const value& x) {
        return p.add("probabilities", softmax{.x = x, .axis = 0});
      });
  refuse("step 'mean': reduce mixes axis 0 of x", [](program_builder& p, const value& x) {
    const auto mean =
        p.add("mean", reduce{.x = x, .kind = reduction::mean, .axes = {0}, .keep_dims = true});
    return p.add("y", subtract(x, mean));
  });
  refuse("view 'copy.select(1, 0)': mixes the runs", [](program_builder& p, const value& x) {
    const auto copy = p.add("copy", strided_copy{.x = x.transposed()});
    return p.add("y", add(x, copy.select(1, 0)));
  });
}

/// Inputs that are the same for all runs may be mixed along any axis.
// A part that is empty for one run is not for two.
TEST_P(run_axes, lie_in_views_that_are_empty_for_one_run) {
  program_builder p;
  const auto x = p.input("x", per_request);
  const auto rest = p.add("rest", reduce{.x = x.slice(0, 1), .axes = {0}});
  const auto program = std::move(p).build({p.add("y", add(x, rest))}, {.max_in_batch = 8});
  const auto spec = tensor_spec::row_major(element_type::f32, {1, 5});
  EXPECT_TRUE(throws(errc::invalid_argument, "view 'x.slice(0, 1, end, 1)'",
                     [&] { (void)prepare_of({.what = program, .inputs = {spec}}); }));
}

TEST_P(run_axes, are_only_those_of_inputs_per_request) {
  program_builder p;
  const auto x = p.input("x", per_request);
  const auto shared = p.input("shared");
  const auto weights = p.add("weights", softmax{.x = shared, .axis = 0});
  const auto y = p.add("y", gemm{.a = x, .b = weights});
  const auto program = std::move(p).build({y}, {.max_in_batch = 8});
  EXPECT_EQ(results_of({program, {numbers({1, 4}), numbers({4, 2})}}).front().shape(),
            (extents{1, 2}));
}

INSTANTIATE_TEST_SUITE_P(devices, run_axes, every_device(), parameter_name);

/// A new operation needs a case above.
TEST(run_axes_of_operations, are_known_of_all) {
  std::set<std::string> known{"eye",           "range", "random_bits", "random_uniform",
                              "random_normal", "fill",  "upload",      "download"};
  for (const auto& s : all_steppings()) known.insert(s.operation);
  for (std::size_t i = 0; i < binary_function_count; ++i) {
    known.emplace(descriptor_of(binary{.function = static_cast<binary_function>(i)}).name());
  }
  for (std::size_t i = 0; i < unary_function_count; ++i) {
    known.emplace(descriptor_of(unary{.function = static_cast<unary_function>(i)}).name());
  }
  for (const auto& description : describe_operations()) {
    EXPECT_EQ(known.count(std::string(description.descriptor->name())), 1U)
        << description.descriptor->name();
  }
}

}  // namespace
}  // namespace sluice::test
