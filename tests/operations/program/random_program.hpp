// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/program/programs.hpp"

#include <sluice/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// A value of a program beside the tensor that single requests make of it.
struct followed_value {
  program_value value;
  tensor alone;
};

/// Builds a random program of f32 matrices, and sends each step as a request of its own.
class random_program {
 public:
  /// Programs that are captured when they are prepared take no scalars, because they would not be.
  random_program(programs& test, std::mt19937_64& generator, std::size_t steps,
                 const program_options& options = {})
      : generator_(generator), takes_scalars_(options.capture != capture_policy::at_prepare) {
    for (int i = 0; i < 3; ++i) {
      const auto equal_shapes = i > 0 && number(0, 1) == 0;
      inputs_.push_back(
          test.numbers(equal_shapes ? inputs_[0].shape() : extents{number(1, 6), number(1, 6)}));
      values_.push_back({builder_.input("input" + std::to_string(i)), inputs_.back()});
    }
    for (std::size_t i = 0; i < steps; ++i) add_step(test, "step" + std::to_string(i));
    std::vector<program_value> outputs;
    // The last result is one in any case.
    for (std::size_t i = 3; i < values_.size(); ++i) {
      if (is_result_[i - 3] && (i + 1 == values_.size() || number(0, 2) == 0)) {
        outputs.push_back(values_[i].value);
        expected_.push_back(values_[i].alone);
      }
    }
    program_ = std::move(builder_).build(std::move(outputs), options);
  }
  [[nodiscard]] const program& get() const noexcept { return program_; }
  [[nodiscard]] const std::vector<tensor>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<scalar>& scalars() const noexcept { return scalars_; }
  /// What the steps compute, sent one by one.
  [[nodiscard]] const std::vector<tensor>& expected() const noexcept { return expected_; }
  /// The constants on the device.
  [[nodiscard]] const std::vector<tensor>& constants() const noexcept { return constants_; }
  /// Sends all steps once more, after a change of the constants.
  void repeat_steps() const {
    for (const auto& step : repeated_) step();
  }

 private:
  std::int64_t number(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator_);
  }
  const followed_value& any() {
    return values_[static_cast<std::size_t>(
        number(0, static_cast<std::int64_t>(values_.size()) - 1))];
  }
  void add_value(program_value value, tensor alone, bool is_result = true) {
    values_.push_back({std::move(value), std::move(alone)});
    is_result_.push_back(is_result);
  }
  /// A value as it is, or a view of it. Sometimes a tensor instead: a constant.
  std::pair<operand, tensor> operand_of(programs& test) {
    const auto from = any();
    const auto& t = from.alone;
    switch (number(0, 7)) {
      case 0:
        return {from.value.transposed(), t.transposed()};
      case 1: {
        const auto last = number(1, t.shape()[0]);
        return {from.value.slice(0, last - 1, last), t.slice(0, last - 1, last)};
      }
      case 2:
        return {from.value.slice(1, 0, std::nullopt, 2), t.slice(1, 0, t.shape()[1], 2)};
      case 3: {
        const auto constant = test.numbers(t.shape());
        if (number(0, 1) == 0) return {builder_.constant("constant", test.get(constant)), constant};
        constants_.push_back(constant);
        return {constant, constant};
      }
      case 4:
        if (t.is_contiguous()) return {from.value.reshape({-1, 1}), t.reshape({-1, 1})};
        return {from.value, t};
      case 5: {
        const auto row = from.value.select(0, 0);
        return {row.broadcast_to({3, t.shape()[1]}),
                t.select(0, 0).broadcast_to({3, t.shape()[1]})};
      }
      default:
        return {from.value, t};
    }
  }
  /// Sends one step, and again with the same output in `repeat_steps`.
  template <class Operation>
  tensor alone(programs& test, Operation by_itself) {
    const auto result = test.alone(by_itself);
    if constexpr (requires { by_itself.y; }) {
      by_itself.y = result;
    } else {
      by_itself.c = result;
    }
    repeated_.emplace_back([&test, by_itself] { (void)test.alone(by_itself); });
    return result;
  }
  void add_step(programs& test, const std::string& name) {
    const auto operands = operand_of(test);
    const operand a = operands.first;
    const tensor one = operands.second;
    const auto step = [&](auto in_program, auto by_itself) {
      add_value(builder_.add(name, in_program), alone(test, by_itself));
    };
    switch (number(0, takes_scalars_ ? 8 : 6)) {
      case 8: {  // a program, sometimes a second time in itself
        scalars_.emplace_back(static_cast<double>(number(-8, 8)) / 4);
        const auto scale = scalars_.back();
        auto value = builder_.add(name, inner_, {a, a}, {builder_.scalar("scale")}).front();
        auto by_itself = alone(test, affine{.x = one, .factor = scale});
        by_itself = alone(test, add(by_itself, one));
        if (number(0, 1) == 0) {
          value = builder_.add(name, inner_, {value, a}, {2}).front();
          const auto doubled = alone(test, affine{.x = by_itself, .factor = 2});
          by_itself = alone(test, add(doubled, one));
        }
        return add_value(value, by_itself);
      }
      case 7: {
        scalars_.emplace_back(static_cast<double>(number(-8, 8)) / 4);
        return step(affine{.x = a, .factor = builder_.scalar("factor"), .offset = 1},
                    affine{.x = one, .factor = scalars_.back(), .offset = 1});
      }
      case 0: {  // a · aᵀ, whatever the shape of a
        const auto from = any();
        return step(gemm{.a = from.value, .b = from.value.transposed()},
                    gemm{.a = from.alone, .b = from.alone.transposed()});
      }
      case 1: {  // updates a value, which stays as it is
        const auto from = any();
        const auto n = from.alone.shape()[0];
        const auto c = test.numbers({n, n});
        const auto kept = builder_.add(name + ".c", strided_copy{.x = c});
        const auto copy = alone(test, strided_copy{.x = c});
        add_value(kept, alone(test, strided_copy{.x = c}));
        return step(gemm{.a = from.value, .b = from.value.transposed(), .c = kept, .beta = 0.5},
                    gemm{.a = from.alone, .b = from.alone.transposed(), .c = copy, .beta = 0.5});
      }
      case 2:
        return step(reduce{.x = a, .axes = extents{1}, .keep_dims = true},
                    reduce{.x = one, .axes = extents{1}, .keep_dims = true});
      case 3:
        return step(add(a, a), add(one, one));
      case 4:
        return step(maximum(a, test.small(1)), maximum(one, test.small(1)));
      case 5:
        return step(strided_copy{.x = a}, strided_copy{.x = one});
      default: {
        const auto repeated = test.small(3);
        return step(multiply(a, repeated), multiply(one, repeated));
      }
    }
  }

  /// scale · x + y.
  static program scaled_sum() {
    program_builder p;
    const auto x = p.input("x");
    const auto y = p.input("y");
    const auto scaled = p.add("scaled", affine{.x = x, .factor = p.scalar("scale")});
    return std::move(p).build({p.add("sum", add(scaled, y))});
  }

  std::mt19937_64& generator_;
  const bool takes_scalars_;
  const program inner_ = scaled_sum();
  program_builder builder_;
  std::vector<tensor> inputs_;
  std::vector<scalar> scalars_;
  std::vector<followed_value> values_;
  std::vector<bool> is_result_;  // of each value after the inputs
  std::vector<tensor> expected_;
  std::vector<tensor> constants_;
  std::vector<std::function<void()>> repeated_;
  program program_;
};

/// Outputs with the shapes of `expected`, some of them not given. Those that are have various
/// strides, and some lie in the memory of an input, which belongs to the test.
inline std::vector<operand> random_outputs(programs& test, std::mt19937_64& generator,
                                           const std::vector<tensor>& expected,
                                           std::vector<tensor> inputs) {
  std::vector<operand> outputs(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto shape = expected[i].shape();
    const auto count = static_cast<std::int64_t>(expected[i].size());
    switch (generator() % 6) {
      case 0:
        outputs[i] = test.numbers(shape);
        break;
      case 1:
        // The products of a random program are square. Transposed, they may have other last bits,
        // because OpenBLAS sums elements (i, j) and (j, i) in different orders at some sizes.
        if (shape[0] != shape[1]) {
          outputs[i] = test.numbers({shape[1], shape[0]}).transposed();
        }
        break;
      case 2:
        outputs[i] = test.numbers({shape[0], shape[1] + 3}).slice(1, 2, 2 + shape[1]);
        break;
      case 3:
        if (!inputs.empty() && inputs.back().size() >= expected[i].size()) {
          const auto flat = inputs.back().reshape({-1});
          outputs[i] = flat.slice(0, 0, count).reshape(shape);
          inputs.pop_back();
        }
        break;
      case 4:  // an input itself, which a step may overwrite in place
        for (auto& input : inputs) {
          if (input.shape() == shape) {
            outputs[i] = std::exchange(input, inputs.back());
            inputs.pop_back();
            break;
          }
        }
        break;
      default:
        break;
    }
  }
  return outputs;
}

}  // namespace sluice::test
