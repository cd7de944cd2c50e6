// SPDX-License-Identifier: Apache-2.0
#include "models/optimizer.hpp"

#include "models/host_numbers.hpp"
#include "models/rules/rules.hpp"

#include <sluice/runtime/error.hpp>

#include <cmath>
#include <cstdint>
#include <map>

namespace sluice::models {

using value_kind = step_graph::value_kind;

const unary* optimizer::maker(number value, unary_function function,
                              std::vector<std::size_t>* steps) const {
  const auto* const found = maker<unary>(value, nullptr);
  if (found == nullptr || found->function != function) return nullptr;
  return maker<unary>(value, steps);
}
const binary* optimizer::maker(number value, binary_function function,
                               std::vector<std::size_t>* steps) const {
  const auto* const found = maker<binary>(value, nullptr);
  if (found == nullptr || found->function != function) return nullptr;
  return maker<binary>(value, steps);
}

const host_tensor* optimizer::constant_of(number value) const {
  value = graph_.resolve(value);
  while (graph_.kind(value) == value_kind::view) {
    const auto& [viewed, what] = graph_.view_of(value);
    using function = value_view::function;
    if (what.what != function::reshape && what.what != function::unsqueeze) return nullptr;
    value = graph_.resolve(viewed);
  }
  if (graph_.kind(value) != value_kind::constant) return nullptr;
  const auto& elements = graph_.constant_of(value).elements;
  return elements ? &elements : nullptr;
}

std::optional<double> optimizer::number_of(number value) const {
  const auto root = graph_.root(value);
  if (graph_.kind(root) != value_kind::constant || !is_real(graph_.spec(value).type)) return {};
  const auto& elements = graph_.constant_of(root).elements;
  if (!elements || elements.size() != 1 || elements.type() != graph_.spec(value).type) return {};
  return reals_in(elements).front();
}
std::optional<double> optimizer::number_of(const operand_or_number& x) const {
  if (x) return number_of(value_of(x));
  if (!x.number() || x.number()->is_of_program() || x.number()->non_finite()) return {};
  return x.number()->to<double>("number");
}

std::optional<optimizer::with_number> optimizer::operands_with_number(
    const binary& operation) const {
  const bool is_commutative =
      operation.function == binary_function::add || operation.function == binary_function::multiply;
  if (const auto b = number_of(operation.b); b && operation.a)
    return with_number{value_of(operation.a), *b};
  if (const auto a = number_of(operation.a); a && operation.b && is_commutative)
    return with_number{value_of(operation.b), *a};
  return std::nullopt;
}

bool optimizer::is_closed(std::span<const std::size_t> steps, std::size_t last) const {
  std::map<number, std::uint32_t> seen;  // uses by these steps
  const auto add = [&](std::size_t step) {
    for (const auto operand : graph_.steps()[step].operation->operands()) {
      ++seen[graph_.resolve(operand)];
    }
  };
  std::vector<std::size_t> all(steps.begin(), steps.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (const auto step : all) add(step);
  add(last);
  // A view that only these steps use is one use of what it views. Views follow that in `seen`.
  for (auto entry = seen.rbegin(); entry != seen.rend(); ++entry) {
    const auto& [value, uses] = *entry;
    if (graph_.kind(value) == value_kind::view && graph_.uses(value) == uses)
      ++seen[graph_.resolve(graph_.view_of(value).viewed)];
  }
  for (const auto step : all) {
    const auto& s = graph_.steps()[step];
    for (std::size_t i = 0; i < s.is_made.size(); ++i) {
      const auto result = s.first_result + static_cast<number>(i);
      const auto found = seen.find(result);
      if (graph_.uses(result) != (found != seen.end() ? found->second : 0U)) return false;
    }
  }
  return true;
}

std::optional<step_facts> optimizer::facts_of(const recorded_operation& operation) const {
  try {
    return graph_.infer(operation);
  } catch (const error&) {
    return std::nullopt;  // the operation does not take these operands
  }
}

namespace {

bool lie_equally(const tensor_spec& a, const tensor_spec& b) {
  return a.type == b.type && a.shape == b.shape && a.strides == b.strides;
}

}  // namespace

bool optimizer::replace_recorded(std::size_t step, std::unique_ptr<recorded_operation> operation) {
  const auto facts = facts_of(*operation);
  const auto& before = graph_.spec(graph_.steps()[step].first_result);
  if (!facts || !lie_equally(facts->results.front().value(), before)) return false;
  graph_.replace(step, std::move(operation), *facts);
  return true;
}
bool optimizer::replace_recorded(std::size_t step, std::unique_ptr<recorded_operation> operation,
                                 const value_view& what) {
  const auto facts = facts_of(*operation);
  const auto result = graph_.steps()[step].first_result;
  if (!facts || graph_.is_output(result)) return false;  // a view can be no output
  const auto viewed = what.spec_of(facts->results.front().value());
  if (!viewed || !lie_equally(*viewed, graph_.spec(result))) return false;
  graph_.replace(step, std::move(operation), *facts, what);
  return true;
}

std::optional<optimizer::number> optimizer::view(number value, const value_view& what) {
  const auto spec = what.spec_of(graph_.spec(value));
  if (!spec) return std::nullopt;
  return graph_.add_view(value, what, *spec);
}

bool optimizer::take_elements(std::size_t count) noexcept {
  constexpr std::size_t most = std::size_t{1} << 28U;
  if (count > most - elements_) return false;
  elements_ += count;
  return true;
}

void optimizer::log(std::string_view rule, std::size_t step) {
  done_.push_back({std::string(rule), graph_.steps()[step].name});
}

bool is_rounded(double number, double exact, element_type type) {
  const double unit = type == element_type::f64    ? 0x1p-52
                      : type == element_type::f32  ? 0x1p-23
                      : type == element_type::bf16 ? 0x1p-8
                                                   : 0x1p-11;
  return std::abs(number - exact) <= 2 * unit * std::abs(exact);
}

std::vector<model_optimization> optimize(step_graph& graph, derived_constants& derived,
                                         std::span<const step_graph::number> outputs) {
  optimizer state(graph, derived);
  for (const auto step : graph.count_uses(outputs)) state.log("unused", step);
  share_steps(state);
  for (const auto& rule : optimization_rules()) {
    for (std::size_t step = 0; step < graph.steps().size(); ++step) {
      if (graph.steps()[step].operation && rule.apply(state, step)) state.log(rule.name, step);
    }
  }
  return std::move(state.done());
}

}  // namespace sluice::models
