// SPDX-License-Identifier: Apache-2.0
#include "models/precision.hpp"

#include "models/element_types.hpp"

#include <sluice/operations/elementwise.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace sluice::models {

namespace {

/// What an operator does with values of f32.
enum class narrowing : std::uint8_t {
  products,  ///< its inputs become narrow
  bounded,   ///< as `follows`; its first result becomes narrow, which cannot exceed the type
  follows,   ///< it computes in the type of its inputs
};

struct narrowing_entry {
  std::string_view op_type;
  narrowing what;
  std::uint32_t positions = ~0U;  ///< a bit for each input that is converted
};

// Sorted by name. All other operators compute in f32.
constexpr std::array entries{
    narrowing_entry{"Abs", narrowing::follows},
    narrowing_entry{"Add", narrowing::follows},
    narrowing_entry{"ArgMax", narrowing::follows},
    narrowing_entry{"ArgMin", narrowing::follows},
    narrowing_entry{"Attention", narrowing::products},
    narrowing_entry{"AveragePool", narrowing::follows},
    narrowing_entry{"BatchNormalization", narrowing::bounded},
    narrowing_entry{"Ceil", narrowing::follows},
    narrowing_entry{"Celu", narrowing::follows},
    narrowing_entry{"CenterCropPad", narrowing::follows},
    narrowing_entry{"Clip", narrowing::follows},
    narrowing_entry{"Concat", narrowing::follows},
    narrowing_entry{"Conv", narrowing::products},
    narrowing_entry{"ConvTranspose", narrowing::products},
    narrowing_entry{"DepthToSpace", narrowing::follows},
    narrowing_entry{"Div", narrowing::follows},
    narrowing_entry{"Dropout", narrowing::follows, 1},
    narrowing_entry{"Einsum", narrowing::products},
    narrowing_entry{"Elu", narrowing::follows},
    narrowing_entry{"Equal", narrowing::follows},
    narrowing_entry{"Erf", narrowing::follows},
    narrowing_entry{"Expand", narrowing::follows},
    narrowing_entry{"Flatten", narrowing::follows},
    narrowing_entry{"Floor", narrowing::follows},
    narrowing_entry{"Gather", narrowing::follows},
    narrowing_entry{"GatherElements", narrowing::follows},
    narrowing_entry{"GatherND", narrowing::follows},
    narrowing_entry{"Gelu", narrowing::follows},
    narrowing_entry{"Gemm", narrowing::products},
    narrowing_entry{"GlobalAveragePool", narrowing::follows},
    narrowing_entry{"GlobalMaxPool", narrowing::follows},
    narrowing_entry{"Greater", narrowing::follows},
    narrowing_entry{"GreaterOrEqual", narrowing::follows},
    narrowing_entry{"GroupNormalization", narrowing::bounded},
    narrowing_entry{"HardSigmoid", narrowing::follows},
    narrowing_entry{"HardSwish", narrowing::follows},
    narrowing_entry{"Hardmax", narrowing::follows},
    narrowing_entry{"Identity", narrowing::follows},
    narrowing_entry{"InstanceNormalization", narrowing::bounded},
    narrowing_entry{"IsInf", narrowing::follows},
    narrowing_entry{"IsNaN", narrowing::follows},
    narrowing_entry{"LayerNormalization", narrowing::bounded},
    narrowing_entry{"LeakyRelu", narrowing::follows},
    narrowing_entry{"Less", narrowing::follows},
    narrowing_entry{"LessOrEqual", narrowing::follows},
    narrowing_entry{"LogSoftmax", narrowing::follows},
    narrowing_entry{"MatMul", narrowing::products},
    narrowing_entry{"Max", narrowing::follows},
    narrowing_entry{"MaxPool", narrowing::follows},
    narrowing_entry{"Mean", narrowing::follows},
    narrowing_entry{"Min", narrowing::follows},
    narrowing_entry{"Mish", narrowing::follows},
    narrowing_entry{"Mul", narrowing::follows},
    narrowing_entry{"Neg", narrowing::follows},
    narrowing_entry{"PRelu", narrowing::follows},
    narrowing_entry{"Pad", narrowing::follows},
    narrowing_entry{"RMSNormalization", narrowing::bounded},
    narrowing_entry{"ReduceMax", narrowing::follows},
    narrowing_entry{"ReduceMin", narrowing::follows},
    narrowing_entry{"Relu", narrowing::follows},
    narrowing_entry{"Reshape", narrowing::follows},
    narrowing_entry{"Resize", narrowing::follows, 1},
    narrowing_entry{"RotaryEmbedding", narrowing::follows},
    narrowing_entry{"Round", narrowing::follows},
    narrowing_entry{"Selu", narrowing::follows},
    narrowing_entry{"Shape", narrowing::follows},
    narrowing_entry{"Shrink", narrowing::follows},
    narrowing_entry{"Sigmoid", narrowing::follows},
    narrowing_entry{"Sign", narrowing::follows},
    narrowing_entry{"Size", narrowing::follows},
    narrowing_entry{"Slice", narrowing::follows},
    narrowing_entry{"Softmax", narrowing::bounded},
    narrowing_entry{"Softplus", narrowing::follows},
    narrowing_entry{"Softsign", narrowing::follows},
    narrowing_entry{"SpaceToDepth", narrowing::follows},
    narrowing_entry{"Split", narrowing::follows},
    narrowing_entry{"Squeeze", narrowing::follows},
    narrowing_entry{"Sub", narrowing::follows},
    narrowing_entry{"Sum", narrowing::follows},
    narrowing_entry{"SwiGLU", narrowing::follows},
    narrowing_entry{"Swish", narrowing::follows},
    narrowing_entry{"Tanh", narrowing::follows},
    narrowing_entry{"ThresholdedRelu", narrowing::follows},
    narrowing_entry{"Tile", narrowing::follows},
    narrowing_entry{"TopK", narrowing::follows},
    narrowing_entry{"Transpose", narrowing::follows},
    narrowing_entry{"Trilu", narrowing::follows},
    narrowing_entry{"Unsqueeze", narrowing::follows},
    narrowing_entry{"Upsample", narrowing::follows, 1},
    narrowing_entry{"Where", narrowing::follows},
};
static_assert(std::is_sorted(entries.begin(), entries.end(),
                             [](const auto& a, const auto& b) { return a.op_type < b.op_type; }));

const narrowing_entry* find_entry(std::string_view op_type) noexcept {
  const auto* const found = std::lower_bound(
      entries.begin(), entries.end(), op_type,
      [](const narrowing_entry& entry, std::string_view name) { return entry.op_type < name; });
  return found != entries.end() && found->op_type == op_type ? found : nullptr;
}

std::optional<element_type> narrow_type(model_precision precision) {
  switch (precision) {
    case model_precision::original:
    case model_precision::tf32:
      return std::nullopt;
    case model_precision::f16:
      return element_type::f16;
    case model_precision::bf16:
      return element_type::bf16;
  }
  throw invalid_argument("precision", "is not an enumerator");
}

/// Whether no finite element becomes infinite.
bool stays_finite(const host_tensor& x, element_type type) {
  const auto elements = x.values<float>();
  const auto largest = range_of(type).largest;
  return std::all_of(elements.begin(), elements.end(), [&](float element) {
    return std::abs(element) <= largest || !std::isfinite(element);
  });
}
/// Likewise, and the largest element keeps its digits. Of divisors, each one does.
bool keeps_digits(const host_tensor& x, element_type type, bool is_divisor) {
  if (!stays_finite(x, type)) return false;
  const auto elements = x.values<float>();
  const auto is_small = [smallest = range_of(type).smallest](float element) {
    return element != 0 && std::abs(element) < smallest;
  };
  const auto small = std::count_if(elements.begin(), elements.end(), is_small);
  const auto zeros = std::count(elements.begin(), elements.end(), 0.0F);
  return small == 0 || (!is_divisor && small + zeros < std::ssize(elements));
}

}  // namespace

precision_import::precision_import(step_scope& scope, derived_constants& derived,
                                   model_precision precision)
    : scope_(scope), derived_(derived), precision_(precision), type_(narrow_type(precision)) {}

math_mode precision_import::math(std::string_view op_type) const noexcept {
  if (precision_ != model_precision::tf32) return math_mode::f32;
  const auto* const entry = find_entry(op_type);
  return entry != nullptr && entry->what == narrowing::products ? math_mode::tf32 : math_mode::f32;
}

precision_import::result_types precision_import::convert(
    std::string_view op_type, std::vector<std::optional<value>>& inputs) {
  if (!type_) return {};
  const auto* const entry = find_entry(op_type);
  const auto list = inputs_of_f32(inputs, entry != nullptr ? entry->positions : ~0U);
  if (list.empty()) return {};
  // A square exceeds the type of 16 bits where its root does not.
  const bool is_square =
      op_type == "Mul" && list.size() == 2 && list[0]->identity() == list[1]->identity();
  if (entry != nullptr && entry->what == narrowing::products && narrow_all(list))
    return {.narrow = true};
  if (entry == nullptr || entry->what == narrowing::products || is_square) {
    restore_all(list);
    return {};
  }
  const bool narrow = unify(list, op_type == "Div");
  return {.narrow = narrow || entry->what == narrowing::bounded,
          .converted = entry->what == narrowing::bounded};
}

void precision_import::record(const result_types& types, results& outputs) {
  if (!types.narrow) return;
  if (types.converted && outputs.front().type() == element_type::f32)
    outputs.front() = narrowed(outputs.front());
  for (const auto& output : outputs) {
    if (output.type() == type_ && !output.known()) narrow_.emplace(output.identity(), output);
  }
}

value precision_import::restore(const value& x) {
  return is_narrow(x) ? converted(to_f32_, x, element_type::f32) : x;
}

precision_import::input_list precision_import::inputs_of_f32(
    std::vector<std::optional<value>>& inputs, std::uint32_t positions) const {
  input_list list;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    constexpr std::size_t last = 31;
    const bool is_converted = (positions >> std::min(i, last) & 1U) != 0;
    if (is_converted && inputs[i] &&
        (inputs[i]->type() == element_type::f32 || is_narrow(*inputs[i])))
      list.push_back(&*inputs[i]);
  }
  return list;
}

bool precision_import::narrow_all(const input_list& list) {
  const bool is_finite = std::all_of(list.begin(), list.end(), [&](const value* x) {
    return !x->known() || to_narrow_.contains(x->identity()) || stays_finite(x->known(), *type_);
  });
  if (!is_finite) return false;
  for (auto* const x : list) *x = narrowed(*x);
  return true;
}

bool precision_import::unify(const input_list& list, bool divides) {
  const auto is_f32 = [&](const value* x) {
    return !x->known() && !is_narrow(*x);
  };
  const auto has_narrow =
      std::any_of(list.begin(), list.end(), [&](const value* x) { return is_narrow(*x); });
  if (!has_narrow) return false;
  const bool narrow = std::none_of(list.begin(), list.end(), is_f32) &&
                      std::all_of(list.begin(), list.end(), [&](const value* x) {
                        return !x->known() || keeps_digits(x->known(), *type_, divides);
                      });
  if (!narrow) {
    restore_all(list);
    return false;
  }
  for (auto* const x : list) *x = narrowed(*x);
  return true;
}

void precision_import::restore_all(const input_list& list) {
  for (auto* const x : list) *x = restore(*x);
}

value precision_import::narrowed(const value& x) {
  if (is_narrow(x)) return x;
  const auto found = to_narrow_.find(x.identity());
  if (found != to_narrow_.end()) return found->second.converted;
  // A value that was narrow before has the elements of this one, rounded.
  auto y = converted(to_narrow_, x, *type_);
  if (!y.known()) narrow_.emplace(y.identity(), y);
  return y;
}

value precision_import::converted(conversions& known, const value& x, element_type type) {
  const auto found = known.find(x.identity());
  if (found != known.end()) return found->second.converted;
  const auto convert = [&] {
    return x.known().to(type);
  };
  const auto y = x.known()
                     ? value(scope_, derived_.find_or_make(
                                         x.known(), "as " + std::string(to_string(type)), convert))
                     : scope_.add(cast{.x = x, .type = type});
  y.add_sources(x.sources());
  known.emplace(x.identity(), conversion{x, y});
  return y;
}

}  // namespace sluice::models
