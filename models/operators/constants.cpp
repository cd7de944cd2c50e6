// SPDX-License-Identifier: Apache-2.0
// Values that do not depend on elements of others, and changes of type.
#include "models/element_types.hpp"
#include "models/host_numbers.hpp"
#include "models/operator_table.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/transfer.hpp>

#include <array>
#include <utility>
#include <vector>

namespace sluice::models {

namespace {

/// So many numbers take about the memory of a value.
constexpr std::size_t numbers_of_value = 16;

/// The only attribute is the value.
results import_constant(const node& n) {
  if (n.has_attribute("value")) return n.constant(n.tensor("value"));
  if (n.has_attribute("value_float")) {
    return n.number(element_type::f32, n.attribute("value_float", 0.0));
  }
  if (n.has_attribute("value_floats")) {
    const auto& numbers = n.require_attribute("value_floats").floats();
    n.take_values(static_cast<std::size_t>(numbers.size()) / numbers_of_value);
    return n.constant(std::vector<float>(numbers.begin(), numbers.end()));
  }
  if (n.has_attribute("value_int")) {
    return n.constant(host_tensor(std::vector{n.attribute("value_int", std::int64_t{0})}, {}));
  }
  if (n.has_attribute("value_ints")) {
    auto numbers = n.attribute("value_ints", std::vector<std::int64_t>{});
    n.take_values(numbers.size() / numbers_of_value);
    return n.constant(std::move(numbers));
  }
  throw n.unsupported("value", "is a text or sparse");
}
results import_constant_of_shape(const node& n) {
  const extents shape(n.integers(0, "input"));
  auto element = number_of_type(element_type::f32, 0);
  if (n.has_attribute("value")) element = n.tensor("value");
  return n.add(strided_copy{.x = n.constant(element.reshape({})).broadcast_to(shape)});
}
/// A number of a known input of one element, with all of its digits.
scalar scalar_of(const node& n, std::size_t number, std::string_view name, bool is_integer) {
  if (is_integer) return n.integer(number, name);
  return n.real(number, name);
}
results import_range(const node& n) {
  const auto type = n.known(0, "start").type();
  const bool is_integer = type != element_type::f16 && type != element_type::bf16 &&
                          type != element_type::f32 && type != element_type::f64;
  if (n.real(2, "delta") == 0) throw n.refusal("delta", "is 0");
  return n.add(range{.start = scalar_of(n, 0, "start", is_integer),
                     .limit = scalar_of(n, 1, "limit", is_integer),
                     .step = scalar_of(n, 2, "delta", is_integer),
                     .type = type});
}
results import_eye(const node& n) {
  const auto& x = n.input(0);
  return n.add(eye{.shape = x.shape(),
                   .diagonal = n.attribute("k", std::int64_t{0}),
                   .type = n.has_attribute("dtype")
                               ? require_element_type(n.attribute("dtype", std::int64_t{0}))
                               : x.type()});
}
/// Whether numbers beyond the range of a type of 8 bits become the largest one.
bool saturates(const node& n) {
  return n.attribute("saturate", std::int64_t{1}) != 0;
}
results import_cast(const node& n) {
  return n.cast_to(n.input(0), require_element_type(n.attribute("to", std::int64_t{0})),
                   saturates(n));
}
results import_cast_like(const node& n) {
  return n.cast_to(n.input(0), n.input(1).type(), saturates(n));
}
results import_bit_cast(const node& n) {
  const auto type = require_element_type(n.attribute("to", std::int64_t{0}));
  if (size_of(type) != size_of(n.input(0).type())) {
    throw n.refusal("to", "is a type of another size");
  }
  return n.input(0).reinterpret(type);
}
results import_identity(const node& n) {
  return n.input(0);
}
/// Drops nothing outside of training. The mask, if it is wanted, has only ones.
results import_dropout(const node& n) {
  if (n.has_input(2) && n.integer(2, "training_mode") != 0 &&
      !(n.has_input(1) && n.real(1, "ratio") == 0)) {
    throw n.unsupported("training_mode", "is true");
  }
  if (!n.has_output(1)) return n.input(0);
  const auto type = n.opset() < 10 ? n.input(0).type() : element_type::boolean;
  return {n.input(0), n.add(fill{.value = 1, .shape = n.input(0).shape(), .type = type})};
}

constexpr std::array constant_entries{
    operator_entry{"BitCast", import_bit_cast},
    operator_entry{"Cast", import_cast},
    operator_entry{"CastLike", import_cast_like},
    operator_entry{"Constant", import_constant},
    operator_entry{"ConstantOfShape", import_constant_of_shape},
    operator_entry{"Dropout", import_dropout},
    operator_entry{"EyeLike", import_eye},
    operator_entry{"Identity", import_identity},
    operator_entry{"Range", import_range},
};

}  // namespace

std::span<const operator_entry> constant_operators() {
  return constant_entries;
}

}  // namespace sluice::models
