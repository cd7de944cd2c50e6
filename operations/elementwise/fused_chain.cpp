// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/fused_chain.hpp"

#include "operations/elementwise/f32_arithmetic.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace sluice::host {
namespace {

using namespace operations;

template <class Call>
[[nodiscard]] bool all_f32(const Call& call) {
  return std::all_of(std::begin(call.layout.types), std::end(call.layout.types),
                     [](storage type) { return type == storage::f32; });
}

/// Whether a function can be a step of a chain.
struct step_condition {
  const fused_map::function& function;

  bool operator()(const unary_call& call) const {
    return all_f32(call) && is_arithmetic(call.function);
  }
  bool operator()(const binary_call& call) const {
    return all_f32(call) && is_arithmetic(call.function);
  }
  bool operator()(const affine_call& call) const {
    for (std::size_t operand = 0; operand < std::size(call.layout.types); ++operand) {
      const bool is_given = operand == 0 || function.arguments[operand - 1] != fused_map::none;
      if (is_given && call.layout.types[operand] != storage::f32) return false;
    }
    return !call.is_double();
  }
  template <class Call>
  bool operator()(const Call&) const {
    return false;
  }
};

/// Makes the steps of functions that follow each other.
class chain_builder {
 public:
  chain_builder(const fused_map& map, std::size_t first) : map_(map), value_(map.inputs + first) {}

  /// Adds the next function.
  void add(const fused_map::function& function) {
    std::visit([&](const auto& call) { add_call(call, function.arguments); }, function.call);
    last_step_.push_back(steps_.size() - 1);
    kept_ = static_cast<std::uint8_t>(value_++);
  }
  /// The steps, which store the values that steps or later functions read.
  std::vector<fused_part::step> build() {
    const auto first = value_ - last_step_.size();
    for (std::size_t i = value_ - map_.inputs; i < map_.functions.size(); ++i) {
      for (const auto argument : map_.functions[i].arguments) note_read(argument);
    }
    note_read(static_cast<std::uint8_t>(map_.inputs + map_.functions.size() - 1));
    std::vector<fused_part::step> steps;
    std::size_t next = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      steps.push_back(steps_[i]);
      if (next == last_step_.size() || last_step_[next] != i) continue;
      const auto value = static_cast<std::uint8_t>(first + next++);
      if (std::find(read_.begin(), read_.end(), value) == read_.end()) continue;
      steps.push_back({.step = {.kind = f32_step::action::store}, .y = value});
    }
    return steps;
  }

 private:
  using arguments_type = decltype(fused_map::function::arguments);

  void note_read(std::uint8_t value) {
    if (value != fused_map::none) read_.push_back(value);
  }
  void keep(std::uint8_t value) {
    if (std::exchange(kept_, value) == value) return;
    note_read(value);
    steps_.push_back({.step = {.kind = f32_step::action::load}, .a = value});
  }
  void add_call(const unary_call& call, const arguments_type& arguments) {
    keep(arguments[0]);
    steps_.push_back({.step = {.kind = f32_step::action::unary,
                               .unary = call.function,
                               .alpha = call.alpha.get<float>(),
                               .beta = call.beta.get<float>()}});
  }
  void add_call(const binary_call& call, const arguments_type& arguments) {
    fused_part::step step{.step = {.kind = f32_step::action::binary, .binary = call.function}};
    const auto [a, b] = std::pair(arguments[0], arguments[1]);
    if (const int operand = call.operand_of_number(); operand != 0) {
      keep(operand == 1 ? b : a);
      step.step.alpha = call.number.bits<float>();
      step.step.operands =
          operand == 1 ? step_operands::number_and_registers : step_operands::registers_and_number;
    } else if (a == b) {
      keep(a);
      step.step.operands = step_operands::registers_twice;
    } else if (b == kept_) {
      step.step.operands = step_operands::memory_and_registers;
      note_read(step.a = a);
    } else {
      keep(a);
      step.step.operands = step_operands::registers_and_memory;
      note_read(step.a = b);
    }
    steps_.push_back(step);
  }
  void add_call(const affine_call& call, const arguments_type& arguments) {
    keep(arguments[0]);
    note_read(arguments[1]);
    note_read(arguments[2]);
    steps_.push_back({.step = {.kind = f32_step::action::affine,
                               .alpha = static_cast<float>(call.factor),
                               .beta = static_cast<float>(call.offset)},
                      .a = arguments[1],
                      .b = arguments[2]});
  }
  template <class Call>
  void add_call(const Call&, const arguments_type&) {}

  const fused_map& map_;
  std::size_t value_;                    // of the next function
  std::uint8_t kept_ = fused_map::none;  // the value in registers
  std::vector<fused_part::step> steps_{};
  std::vector<std::size_t> last_step_{};  // by function
  std::vector<std::uint8_t> read_{};      // values that are read from memory
};

}  // namespace

std::vector<fused_part> parts_of(const fused_map& map) {
  const auto is_step = [&](std::size_t i) {
    const auto& function = map.functions[i];
    return std::visit(step_condition{function}, function.call);
  };
  std::vector<fused_part> parts;
  for (std::size_t i = 0; i < map.functions.size();) {
    fused_part part{.first = i};
    if (is_step(i)) {
      chain_builder chain(map, i);
      do {
        chain.add(map.functions[i++]);
      } while (i < map.functions.size() && is_step(i));
      part.count = i - part.first;
      part.steps = chain.build();
    } else {
      ++i;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace sluice::host
