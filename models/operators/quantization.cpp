// SPDX-License-Identifier: Apache-2.0
#include "models/element_types.hpp"
#include "models/operator_table.hpp"

#include <sluice/operations/quantization.hpp>

#include <array>

namespace sluice::models {

namespace {

/// How the scale of a node belongs to its data.
struct scaling {
  value scale;
  operand zero_point{};
  std::optional<std::int64_t> axis{};
};

/// One scale for all elements, one for each index along the axis, or one for each block.
scaling read_scaling(const node& n) {
  scaling result{.scale = n.input(1)};
  const bool one = result.scale.size() == 1 && result.scale.rank() <= 1;
  const auto arranged = [&](const value& parameter) {
    return one ? parameter.reshape({}) : parameter;
  };
  if (!one && result.scale.rank() == 1) result.axis = n.attribute("axis", std::int64_t{1});
  result.scale = arranged(result.scale);
  if (n.has_input(2)) result.zero_point = arranged(n.input(2));
  return result;
}
std::optional<element_type> output_type(const node& n) {
  const auto number = n.attribute("output_dtype", std::int64_t{0});
  return number != 0 ? std::optional(require_element_type(number)) : std::nullopt;
}

results import_quantize(const node& n) {
  // Only numbers of 8 bits could do anything else.
  if (n.attribute("saturate", std::int64_t{1}) == 0) throw n.unsupported("saturate", "is 0");
  const auto s = read_scaling(n);
  return n.add(quantize{.x = n.input(0),
                        .scale = s.scale,
                        .zero_point = s.zero_point,
                        .axis = s.axis,
                        .type = output_type(n)});
}
results import_dequantize(const node& n) {
  auto s = read_scaling(n);
  // The zero point of an i32 is 0.
  if (n.input(0).type() == element_type::i32) s.zero_point = {};
  return n.add(dequantize{.x = n.input(0),
                          .scale = s.scale,
                          .zero_point = s.zero_point,
                          .axis = s.axis,
                          .type = output_type(n)});
}
results import_dynamic_quantize(const node& n) {
  return n.add_all(dynamic_quantize{.x = n.input(0)});
}

constexpr std::array quantization_entries{
    operator_entry{"DequantizeLinear", import_dequantize},
    operator_entry{"DynamicQuantizeLinear", import_dynamic_quantize},
    operator_entry{"QuantizeLinear", import_quantize},
};

}  // namespace

std::span<const operator_entry> quantization_operators() {
  return quantization_entries;
}

}  // namespace sluice::models
