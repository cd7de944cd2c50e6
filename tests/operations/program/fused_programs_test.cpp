// SPDX-License-Identifier: Apache-2.0
// Random programs of element-wise steps and reductions equal those whose steps are computed one by
// one.
#include "tests/operations/program/programs.hpp"
#include "tests/support/compute_sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::array types{element_type::f32, element_type::f16, element_type::bf16,
                           element_type::f64, element_type::i32, element_type::u8};

bool is_floating(element_type type) {
  return type >= element_type::f16 && type <= element_type::f64;
}

/// A program of element-wise steps and reductions on square matrices, rows, columns and single
/// numbers.
class element_wise_program {
 public:
  element_wise_program(programs& test, std::uint64_t seed) : test_(test), generator_(seed) {
    constexpr std::array<std::int64_t, 8> extents_of{1, 2, 3, 7, 31, 64, 97, 130};
    n_ = extents_of[generator_() % extents_of.size()];
    for (std::size_t i = 0; i < 5; ++i) {
      const auto shape = shape_of(generator_() % 5);
      inputs_.push_back(random_tensor(i == 0 ? element_type::f32 : types[generator_() % 6], shape));
    }
    seed_of_steps_ = generator_();
  }
  [[nodiscard]] const std::vector<tensor>& inputs() const { return inputs_; }
  /// The last outputs, so many, are rounded: their last bits depend on the order of additions.
  [[nodiscard]] std::size_t rounded_outputs() const { return norms_.size(); }

  /// The same program each time, but for its option.
  [[nodiscard]] program build(bool fuse) {
    generator_.seed(seed_of_steps_);
    program_builder p;
    builder_ = &p;
    values_.clear();
    norms_.clear();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      values_.push_back({p.input("input" + std::to_string(i)), inputs_[i].type()});
    }
    const auto steps = 2 + generator_() % 24;
    for (std::size_t i = 0; i < steps; ++i) add_step("step" + std::to_string(i));
    std::vector<program_value> outputs;
    if (values_.size() > inputs_.size()) outputs.push_back(values_.back().value);
    for (std::size_t i = inputs_.size(); i + 1 < values_.size(); ++i) {
      if (generator_() % 6 == 0) outputs.push_back(values_[i].value);
    }
    outputs.insert(outputs.end(), norms_.begin(), norms_.end());
    return std::move(p).build(outputs, {.fuse = fuse});
  }

 private:
  struct typed_value {
    program_value value;
    element_type type;
  };

  [[nodiscard]] extents shape_of(std::size_t number) const {
    switch (number) {
      case 0:
        return {1, n_};
      case 1:
        return {n_, 1};
      case 2:
        return {1, 1};
      default:
        return {n_, n_};
    }
  }
  tensor random_tensor(element_type type, const extents& shape) {
    auto numbers = test_.alone(cast{.x = test_.numbers(shape), .type = element_type::f32});
    const auto scale = generator_() % 4 == 0 ? 1000.0 : 4.0;
    numbers = test_.alone(affine{.x = numbers, .factor = scale});
    // Zeros, infinities and NaN stand among them.
    if (generator_() % 3 == 0)
      numbers = test_.alone(binary{binary_function::divide, numbers, test_.alone(floor(numbers))});
    const auto result = test_.alone(cast{.x = numbers, .type = type});
    if (generator_() % 3 != 0) return result;
    return test_.alone(strided_copy{.x = result.transposed()}).transposed();
  }
  const typed_value& any() { return values_[generator_() % values_.size()]; }
  /// The last ones are taken more often, so that there are chains.
  const typed_value& recent() {
    const auto last = values_.size() - 1;
    return generator_() % 4 != 0 ? values_[last] : any();
  }
  program_value seen(const program_value& x) {
    switch (generator_() % 8) {
      case 0:
        return x.transposed();
      case 1:
        return x.slice(0, 0, 1);
      case 2:
        return x.slice(1, 0, 1);
      default:
        return x;
    }
  }
  template <class Operation>
  program_value add(const std::string& name, Operation operation, element_type type) {
    const auto value = builder_->add(name, std::move(operation));
    values_.push_back({value, type});
    return value;
  }
  void add_unary(const std::string& name, const typed_value& x) {
    constexpr std::array real{
        unary_function::exp,   unary_function::tanh,  unary_function::relu,
        unary_function::sqrt,  unary_function::erf,   unary_function::sigmoid,
        unary_function::gelu,  unary_function::floor, unary_function::negate,
        unary_function::log1p, unary_function::sign,  unary_function::leaky_relu,
        unary_function::clip,  unary_function::sin,   unary_function::isnan};
    constexpr std::array integer{unary_function::negate, unary_function::abs, unary_function::sign,
                                 unary_function::relu, unary_function::bitwise_not};
    if (x.type == element_type::boolean) {
      add(name, logical_not(seen(x.value)), x.type);
    } else if (!is_floating(x.type)) {
      add(name, unary{integer[generator_() % integer.size()], seen(x.value)}, x.type);
    } else {
      const auto f = real[generator_() % real.size()];
      unary step{f, seen(x.value)};
      if (f == unary_function::leaky_relu) step.alpha = 0.25;
      if (f == unary_function::clip) step.alpha = -1, step.beta = 2;
      add(name, step, f == unary_function::isnan ? element_type::boolean : x.type);
    }
  }
  /// Other steps read reductions that are exact.
  void add_reduction(const std::string& name, const typed_value& x) {
    reduce step{.x = generator_() % 2 == 0 ? x.value : seen(x.value), .keep_dims = true};
    const auto axes = generator_() % 4;
    if (axes < 2) step.axes = extents{static_cast<std::int64_t>(axes)};
    if (axes == 2) step.axes = extents{1, 0};
    const bool is_integer = !is_floating(x.type);
    switch (generator_() % 6) {
      case 0:
        step.kind = generator_() % 2 == 0 ? reduction::any : reduction::all;
        add(name, step, element_type::boolean);
        return;
      case 1:
      case 2:
        step.kind = generator_() % 2 == 0 ? reduction::max : reduction::min;
        add(name, step, x.type);
        return;
      default: {
        constexpr std::array norms{reduction::l1, reduction::sum_of_squares, reduction::l2};
        step.kind = norms[generator_() % (is_integer ? 2 : 3)];
        const bool is_unsigned = x.type == element_type::u8 || x.type == element_type::u64;
        if (is_integer) {
          add(name, step, is_unsigned ? element_type::u64 : element_type::i64);
        } else {
          norms_.push_back(builder_->add(name, step));
        }
      }
    }
  }
  void add_step(const std::string& name) {
    const auto x = recent();
    switch (generator_() % 9) {
      case 8:
        add_reduction(name, x);
        return;
      case 0: {
        const auto type = types[generator_() % types.size()];
        add(name, cast{.x = seen(x.value), .type = type}, type);
        return;
      }
      case 1: {
        affine step{.x = x.value, .factor = 0.75, .offset = -0.5};
        if (generator_() % 2 == 0) step.type = element_type::f32;
        if (generator_() % 3 == 0) {
          step.factor.reset();
          step.scale = inputs_[0];
          if (inputs_[0].shape() != extents{1, 1})
            step.scale = inputs_[0].slice(0, 0, 1).slice(1, 0, 1);
        }
        const auto type = step.type ? *step.type : is_floating(x.type) ? x.type : element_type::f32;
        add(name, step, type);
        return;
      }
      case 2:
        add(name, strided_copy{.x = x.value.transposed()}, x.type);
        return;
      case 3: {
        const auto y = other(x);
        const auto mask = builder_->add(name + ".mask", less(seen(x.value), y));
        add(name, where{.condition = mask, .a = x.value, .b = y}, x.type);
        return;
      }
      case 4:
      case 5: {
        constexpr std::array functions{binary_function::add, binary_function::subtract,
                                       binary_function::multiply, binary_function::maximum,
                                       binary_function::divide};
        add(name, binary{functions[generator_() % functions.size()], seen(x.value), other(x)},
            x.type);
        return;
      }
      default:
        add_unary(name, x);
    }
  }
  /// A value of the type of `x`.
  program_value other(const typed_value& x) {
    const auto y = any();
    if (y.type == x.type) return seen(y.value);
    return builder_->add("converted", cast{.x = y.value, .type = x.type});
  }

  programs& test_;
  std::mt19937_64 generator_;
  std::int64_t n_ = 0;
  std::uint64_t seed_of_steps_ = 0;
  std::vector<tensor> inputs_;
  program_builder* builder_ = nullptr;
  std::vector<typed_value> values_;
  std::vector<program_value> norms_;
};

bool equal_bits(const host_tensor& a, const host_tensor& b) {
  return a.type() == b.type() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data().get(), b.data().get(), a.bytes()) == 0);
}

class fused_programs : public programs {
 protected:
  /// Whether two results are equal but for the last bits of numbers that are not negative.
  bool nearly_equal(const tensor& a, const tensor& b) {
    const auto numbers_of = [&](const tensor& x) {
      return get(alone(cast{.x = x, .type = element_type::f64})).to_vector<double>();
    };
    const double bound = a.type() == element_type::f16    ? 0x1p-10
                         : a.type() == element_type::bf16 ? 0x1p-7
                         : a.type() == element_type::f32  ? 0x1p-23
                                                          : 1e-14;
    const auto p = numbers_of(a);
    const auto q = numbers_of(b);
    if (a.type() != b.type() || a.shape() != b.shape()) return false;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const bool are_equal = p[i] == q[i] || (std::isnan(p[i]) && std::isnan(q[i]));
      if (!are_equal && !(std::abs(p[i] - q[i]) <= bound * std::abs(q[i]))) return false;
    }
    return true;
  }
  /// The elements of a result. NaN become zeros: a GPU has several NaN of 16-bit types, and of two
  /// NaN as operands, that of either may be the result of a step on a host device.
  host_tensor elements(const tensor& x) {
    if (!is_floating(x.type())) return get(x);
    const auto zero = alone(cast{.x = small(0), .type = x.type()});
    return get(alone(where{.condition = alone(isnan(x)), .a = zero, .b = x}));
  }
  /// Outputs like `expected`: some of them not given, some with other strides, and some that are
  /// an input.
  std::vector<operand> outputs_like(std::mt19937_64& generator, const tensors& expected,
                                    std::vector<tensor> inputs) {
    std::vector<operand> outputs(expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& one = expected[i];
      const auto how = generator() % 4;
      if (how == 0) outputs[i] = alone(strided_copy{.x = one});
      if (how == 1 && one.shape()[0] == one.shape()[1]) {
        outputs[i] = alone(strided_copy{.x = one}).transposed();
      }
      if (how != 2) continue;
      const auto same = std::find_if(inputs.begin(), inputs.end(), [&](const tensor& input) {
        return input.shape() == one.shape() && input.type() == one.type();
      });
      if (same == inputs.end()) continue;
      outputs[i] = *same;
      inputs.erase(same);
    }
    return outputs;
  }
};

TEST_P(fused_programs, equal_their_steps_one_by_one) {
  auto generator = make_generator();
  std::size_t fused = 0;
  // Each round of a GPU compiles several kernels.
  const bool on_host = runtime().device().id().kind == device_kind::host;
  const int rounds = on_host ? 150 : under_compute_sanitizer() ? 3 : 20;
  for (int round = 0; round < rounds; ++round) {
    element_wise_program random(*this, generator());
    const auto together = random.build(true);
    const auto one_by_one = random.build(false);
    ASSERT_EQ(together.text(), one_by_one.text());
    const std::vector<run_input> inputs(random.inputs().begin(), random.inputs().end());
    const auto known = await_kernels(together, random.inputs());
    if (!known.not_fused.empty()) GTEST_SKIP() << known.not_fused;
    fused += known.fused_steps;
    const auto results = results_of({together, inputs});
    const auto expected = results_of({one_by_one, inputs});
    ASSERT_EQ(results.size(), expected.size());
    const auto are_equal = [&](const tensors& all, std::size_t i) {
      return i + random.rounded_outputs() < all.size()
                 ? equal_bits(elements(all[i]), elements(expected[i]))
                 : nearly_equal(all[i], expected[i]);
    };
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i].strides(), expected[i].strides());
      ASSERT_TRUE(are_equal(results, i)) << "output " << i << " of\n" << together.text();
    }
    // Into memory that is given, also that of inputs.
    std::vector<tensor> copies;
    for (const auto& input : random.inputs()) copies.push_back(alone(strided_copy{.x = input}));
    const auto given = results_of(
        {together, {copies.begin(), copies.end()}, outputs_like(generator, expected, copies)});
    for (std::size_t i = 0; i < given.size(); ++i) {
      ASSERT_TRUE(are_equal(given, i)) << "given output " << i << " of\n" << together.text();
    }
  }
  EXPECT_GT(fused, static_cast<std::size_t>(2 * rounds));
}

INSTANTIATE_TEST_SUITE_P(devices, fused_programs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
