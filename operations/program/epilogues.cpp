// SPDX-License-Identifier: Apache-2.0
#include "operations/program/epilogues.hpp"

#include "operations/program/following_steps.hpp"
#include "operations/program/permuted_copy.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/convolution.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/program_step.hpp>
#include <sluice/operations/scaled_gemm.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;
using detail::typed_program_step;
using value_kind = program_graph::value_kind;

constexpr auto no_value = program_graph::none;

enum class part : std::uint8_t { bias, activation, residual };

/// How operations compute their epilogues.
///@{
template <class Operation>
struct epilogue_rules {
  static constexpr std::array order{part::bias, part::residual, part::activation};
  static constexpr auto result = &Operation::y;
  /// The dimension of the result for whose indices the bias has numbers.
  static bool has_bias_along(std::size_t dimension, std::size_t) noexcept { return dimension == 1; }
  static constexpr bool takes_number = false;
};
template <class Operation>
requires(std::is_same_v<Operation, gemm> ||
         std::is_same_v<Operation, scaled_gemm>) struct epilogue_rules<Operation> {
  static constexpr std::array order{part::bias, part::activation, part::residual};
  static constexpr auto result = &Operation::c;
  static bool has_bias_along(std::size_t dimension, std::size_t rank) noexcept {
    return dimension + 2 >= rank;
  }
  static constexpr bool takes_number = true;  ///< a bias of one number
};
///@}

activation activation_of(const unary_call& call) noexcept {
  switch (call.function) {
    case unary_function::relu:
      return activation::relu;
    case unary_function::gelu:
      return activation::gelu;
    case unary_function::gelu_tanh:
      return activation::gelu_tanh;
    case unary_function::silu: {
      const bool is_f64 = call.layout.types[0] == storage::f64;
      const double factor = is_f64 ? call.alpha.get<double>() : call.alpha.get<float>();
      return factor == 1 ? activation::silu : activation::none;
    }
    case unary_function::sigmoid:
      return activation::sigmoid;
    case unary_function::tanh:
      return activation::tanh;
    default:
      return activation::none;
  }
}

/// A step behind an operation, as a part of its epilogue.
struct epilogue_step {
  activation function = activation::none;
  std::uint32_t summand = no_value;  ///< a value, if the step is a sum
  tensor_spec spec{};                ///< of the summand, with the shape of the result
};

class epilogue_finder {
 public:
  epilogue_finder(const program_graph& graph, const program_inference& inferred,
                  const folding& folded, device_kind kind)
      : graph_(graph),
        inferred_(inferred),
        kind_(kind),
        result_(graph),
        following_(graph, inferred, folded) {}

  fusion find() {
    for (std::uint32_t s = 0; s < graph_.steps().size(); ++s) {
      if (following_.is_apart(s)) continue;
      std::apply([&](const auto&... operation) { (grow(s, operation), ...); },
                 std::tuple<gemm, scaled_gemm, conv2d, convolution, transposed_convolution>());
      if (auto group = join_permuted_copy(graph_, inferred_, following_, result_, s, kind_))
        result_.add(std::move(*group));
    }
    result_.set_last_reads(graph_);
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::uint32_t result_of(std::uint32_t step) const {
    return first_result_of(graph_, step);
  }

  /// What step `number` does with the value `x`, which it reads.
  [[nodiscard]] std::optional<epilogue_step> epilogue_step_of(std::uint32_t number,
                                                              std::uint32_t x) const {
    const auto& step = graph_.steps()[number];
    const auto& inferred = inferred_.steps[number];
    if (step.outputs.size() != 1 || step.operands[step.outputs.front()] != no_value) {
      return std::nullopt;
    }
    const auto call = fused_call_of(*inferred.descriptor, inferred.call);
    if (!call) return std::nullopt;
    const auto& x_layout = inferred_.values[x].layout;
    const auto& y = inferred_.values[result_of(number)].layout;
    if (x_layout.type() != y.type() || x_layout.shape() != y.shape()) return std::nullopt;
    if (const auto* const unary = std::get_if<unary_call>(&*call)) {
      const auto function = activation_of(*unary);
      const bool reads_x =
          std::find(step.operands.begin(), step.operands.end(), x) != step.operands.end();
      if (function == activation::none || !reads_x) return std::nullopt;
      return epilogue_step{.function = function};
    }
    const auto* const binary = std::get_if<binary_call>(&*call);
    if (binary == nullptr || binary->function != binary_function::add) return std::nullopt;
    return sum_of(step, *call, x, y);
  }

  [[nodiscard]] std::optional<epilogue_step> sum_of(const program_graph::step& step,
                                                    const fused_call& call, std::uint32_t x,
                                                    const tensor_layout& y) const {
    std::array<std::optional<tensor_spec>, fused_map::max_arguments> specs;
    std::array<std::uint32_t, 2> summands{no_value, no_value};
    std::size_t k = 0;
    for (std::uint32_t i = 0; i < step.operands.size(); ++i) {
      if (i == step.outputs.front() || k == summands.size()) continue;
      summands[k] = step.operands[i];
      if (summands[k] != no_value) specs[k] = inferred_.values[summands[k]].spec();
      ++k;
    }
    const std::size_t other = summands[0] == x ? 1 : 0;
    if (summands[1 - other] != x || summands[other] == no_value) return std::nullopt;
    const auto& summand = inferred_.values[summands[other]];
    if (graph_.viewed(summands[other]) == x || summand.layout.type() != y.type()) {
      return std::nullopt;
    }
    const auto strides = input_strides(call, {y.type(), y.shape(), y.strides()}, specs);
    if (!strides) return std::nullopt;
    return epilogue_step{.summand = summands[other],
                         .spec = {y.type(), y.shape(), (*strides)[other], specs[other]->alignment}};
  }

  /// The bias that a summand is. Nothing if it is none.
  template <class Operation>
  [[nodiscard]] static std::optional<tensor_spec> bias_of(const tensor_spec& summand) {
    using rules = epilogue_rules<Operation>;
    std::optional<std::size_t> along;
    for (std::size_t d = 0; d < summand.rank(); ++d) {
      if (summand.shape[d] == 1 || summand.strides[d] == 0) continue;
      if (along || !rules::has_bias_along(d, summand.rank())) return std::nullopt;
      along = d;
    }
    tensor_spec bias{summand.type, {1}, {1}, summand.alignment};
    if (along) {
      bias.shape = {summand.shape[*along]};
      // A gemm takes numbers for the rows of its result in a column.
      if (*along + 2 == summand.rank() && rules::takes_number) bias.shape.push_back(1);
      bias.strides = {summand.strides[*along]};
      if (bias.rank() == 2) bias.strides.push_back(1);
    } else if (!rules::takes_number && summand.shape[1] != 1) {
      return std::nullopt;
    }
    return bias;
  }

  /// An operation with steps behind it.
  template <class Operation>
  struct candidate {
    using rules = epilogue_rules<Operation>;

    Operation operation;
    std::vector<std::uint32_t> operands;            ///< values
    std::vector<std::optional<tensor_spec>> specs;  ///< of the operands

    /// Whether `next` may come behind the parts that it has.
    [[nodiscard]] bool takes(part next) const {
      auto has = [&](part p) {
        switch (p) {
          case part::bias:
            return static_cast<bool>(operation.bias);
          case part::residual:
            return static_cast<bool>(operation.residual);
          default:
            return operation.activation != activation::none;
        }
      };
      auto position = std::find(rules::order.begin(), rules::order.end(), next);
      return std::none_of(position, rules::order.end(), has);
    }
    void set(operand Operation::*member, std::uint32_t value, tensor_spec spec) {
      const auto number = detail::operand_index(member);
      operation.*member = operand(value_reference{.program = 1, .index = value});
      operands[number] = value;
      specs[number] = std::move(spec);
    }
    [[nodiscard]] bool add(const epilogue_step& step) {
      if (step.summand == no_value) {
        if (!takes(part::activation)) return false;
        operation.activation = step.function;
        return true;
      }
      if (const auto bias = bias_of<Operation>(step.spec); bias && takes(part::bias)) {
        set(&Operation::bias, step.summand, *bias);
        return true;
      }
      if (!takes(part::residual)) return false;
      set(&Operation::residual, step.summand, step.spec);
      return true;
    }
  };

  /// The call of an operation whose result is `result`. Nothing if the operation cannot compute it
  /// so, or only with more copies than step `number` makes.
  template <class Operation>
  [[nodiscard]] std::optional<program_inference::step> inferred_step(
      candidate<Operation> with_epilogue, std::uint32_t number, std::uint32_t result) const {
    auto& operation = with_epilogue.operation;
    with_epilogue.set(epilogue_rules<Operation>::result, no_value, inferred_.values[result].spec());
    program_inference::step step;
    step.descriptor = &detail::find_descriptor(operation);
    const auto operands = detail::operands_of(operation);
    inference_for<Operation> inferred(operands, with_epilogue.specs);
    if (step.descriptor->try_infer(&operation, inferred, step.call)) return std::nullopt;
    try {
      step.descriptor->check(kind_, step.call);
    } catch (const error&) {
      return std::nullopt;
    }
    const auto& before = inferred_.steps[number].uses;
    step.uses.assign(inferred.uses().begin(), inferred.uses().end());
    for (std::size_t i = 0; i < step.uses.size(); ++i) {
      if (step.uses[i].packed && !before[i].packed) return std::nullopt;
      step.uses[i].operand.value = nullptr;
    }
    return step;
  }

  template <class Operation>
  void grow(std::uint32_t first, const Operation&) {
    const auto& step = graph_.steps()[first];
    const auto* const typed =
        dynamic_cast<const typed_program_step<Operation>*>(step.operation.get());
    if (typed == nullptr || step.operands[step.outputs.front()] != no_value) return;
    candidate<Operation> found{typed->operation(), step.operands, {}};
    for (const auto operand : step.operands) {
      auto& spec = found.specs.emplace_back();
      if (operand != no_value) spec = inferred_.values[operand].spec();
    }
    fused_group group{.steps = {first}};
    auto value = result_of(first);
    for (;;) {
      const auto reader = following_.only_reader_of(value, result_);
      if (reader == no_value || !following_.may_wait(group.steps, reader)) break;
      const auto next = epilogue_step_of(reader, value);
      auto larger = found;
      if (!next || following_.is_overwritten(next->summand, reader) || !larger.add(*next)) break;
      const auto result = result_of(reader);
      auto inferred = inferred_step(larger, first, result);
      if (!inferred) break;
      found = std::move(larger);
      group.steps.push_back(reader);
      group.operation = std::move(*inferred);
      group.operands = found.operands;
      value = result;
    }
    if (group.steps.size() == 1) return;
    result_.add(std::move(group));
  }

  const program_graph& graph_;
  const program_inference& inferred_;
  device_kind kind_;
  fusion result_;
  following_steps following_;
};

}  // namespace

fusion fuse_epilogues(const program_graph& graph, const program_inference& inferred,
                      const folding& folded, device_kind kind) {
  return epilogue_finder(graph, inferred, folded, kind).find();
}

}  // namespace sluice::operations
