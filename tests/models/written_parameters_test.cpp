// SPDX-License-Identifier: Apache-2.0
// Parameters of operations as attributes of nodes.
#include "models/export/operation_form.hpp"
#include "models/recorded_operation.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/operation_table.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace sluice::test {
namespace {

using models::enumerator_names;

/// Draws parameters, valid or not: a file keeps all of them.
class parameter_dice {
 public:
  explicit parameter_dice(std::mt19937_64& generator) : generator_(generator) {}

  template <class T>
  void draw(T& parameter) {
    if constexpr (models::detail::is_optional<T>) {
      typename T::value_type drawn{};
      draw(drawn);
      if (coin()) parameter = drawn;
    } else if constexpr (models::detail::has_parts<T>) {
      models::detail::for_each_part(parameter, [&](std::string_view, auto& part) { draw(part); });
    } else if constexpr (std::is_same_v<T, scalar>) {
      draw_scalar(parameter);
    } else if constexpr (std::is_same_v<T, bool>) {
      parameter = coin();
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      parameter = integer();
    } else if constexpr (std::is_same_v<T, double>) {
      parameter = real();
    } else if constexpr (std::is_same_v<T, extents>) {
      parameter = {};
      for (auto count = generator_() % (extents::max_rank + 1); count > 0; --count) {
        parameter.push_back(integer());
      }
    } else if constexpr (models::detail::is_pair<T>) {
      parameter = {.h = integer(), .w = integer()};
    } else if constexpr (std::is_same_v<T, resize::numbers>) {
      for (auto& number : parameter) number = real();
    } else {
      parameter = static_cast<T>(generator_() % enumerator_names(T()).size());
    }
  }

 private:
  bool coin() { return generator_() % 2 == 0; }
  std::int64_t integer() {
    switch (generator_() % 4) {
      case 0:
        return static_cast<std::int64_t>(generator_());
      case 1:
        return std::numeric_limits<std::int64_t>::min();
      default:
        return static_cast<std::int64_t>(generator_() % 9) - 4;
    }
  }
  double real() {
    constexpr auto infinity = std::numeric_limits<double>::infinity();
    switch (generator_() % 7) {
      case 0:
        return infinity;
      case 1:
        return -0.0;
      case 2:
        return std::numeric_limits<double>::max();
      case 3:
        return std::numeric_limits<double>::denorm_min();
      case 4:
        return static_cast<double>(static_cast<float>(uniform()));
      default:
        return uniform();
    }
  }
  double uniform() { return std::uniform_real_distribution<>(-1, 1)(generator_); }
  void draw_scalar(scalar& parameter) {
    switch (generator_() % 5) {
      case 0:
        parameter = integer();
        return;
      case 1:
        parameter = static_cast<std::uint64_t>(generator_());
        return;
      case 2:
        parameter = static_cast<std::uint64_t>(generator_() % 5);
        return;
      case 3:
        parameter = std::complex<double>(uniform(), coin() ? 0 : uniform());
        return;
      default:
        parameter = real();
    }
  }

  std::mt19937_64& generator_;
};

/// The attributes of a node after it has been a string of bytes.
class parsed_node {
 public:
  explicit parsed_node(const onnx::NodeProto& message) {
    EXPECT_TRUE(message_.ParseFromString(message.SerializeAsString()));
    for (const auto& attribute : message_.attribute()) {
      EXPECT_TRUE(attributes_.emplace(attribute.name(), &attribute).second) << attribute.name();
    }
  }
  [[nodiscard]] const models::attribute_map& attributes() const { return attributes_; }

 private:
  onnx::NodeProto message_;
  models::attribute_map attributes_;
};

template <class T>
bool is_same(const T& a, const T& b) {
  return models::detail::is_same_parameter(a, b);
}
bool is_same(const optional_extents& a, const optional_extents& b) {
  return a.has_value() == b.has_value() && (!a || *a == *b);
}

template <class Operation>
void expect_same_after_writing(std::mt19937_64& generator) {
  parameter_dice dice(generator);
  Operation operation;
  const auto draw = [&](const auto& member) {
    auto& value = operation.*member.pointer;
    using type = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<type, operand_or_number>) {
      std::optional<scalar> number;
      dice.draw(number);
      if (number) value = *number;
    } else if constexpr (!std::is_base_of_v<operand, type> &&
                         !std::is_same_v<type, std::vector<operand>> &&
                         !models::detail::is_function<type>) {
      dice.draw(value);
    }
  };
  std::apply([&](const auto&... member) { (draw(member), ...); }, Operation::members());
  onnx::NodeProto message;
  models::write_parameters(operation, message);
  const parsed_node parsed(message);
  Operation read;
  models::read_parameters(parsed.attributes(), "operation", read);
  const auto compare = [&](const auto& member) {
    const auto& a = operation.*member.pointer;
    const auto& b = read.*member.pointer;
    EXPECT_TRUE(is_same(a, b)) << member.name << " of " << message.ShortDebugString();
  };
  std::apply([&](const auto&... member) { (compare(member), ...); }, Operation::members());
}

template <class... Operation>
void expect_all_same(models::operation_types<Operation...>, std::mt19937_64& generator) {
  (expect_same_after_writing<Operation>(generator), ...);
}

TEST(written_parameters, are_read_as_they_were) {
  auto generator = make_generator();
  for (int i = 0; i < 40; ++i) {
    expect_all_same(models::element_operations(), generator);
    expect_all_same(models::layer_operations(), generator);
    expect_all_same(models::movement_operations(), generator);
    expect_all_same(models::array_operations(), generator);
  }
}

TEST(written_parameters, have_a_form_in_all_operations) {
  std::set<std::string_view> views;
  for (const auto& view : models::view_operators()) views.insert(view.name);
  for (const auto& description : describe_operations()) {
    const auto name = description.descriptor->name();
    if (!description.descriptor->composes() || name == "download") continue;
    const auto* const form = models::find_form(name);
    ASSERT_NE(form, nullptr) << name;
    EXPECT_EQ(form->name, name);
    EXPECT_FALSE(views.contains(name)) << name;
    EXPECT_EQ(models::find_own_operator(name)->import, form->import);
  }
}

/// The name of an enumerator in this program; a number in parentheses if it is none.
template <auto Enumerator>
std::string_view name_in_code() {
  const std::string_view function = __PRETTY_FUNCTION__;
  const auto first = function.find("Enumerator = ") + std::string_view("Enumerator = ").size();
  auto name = function.substr(first, function.find_first_of(";]", first) - first);
  if (name.starts_with('(')) return name;
  return name.substr(name.rfind(':') + 1);
}
template <class Enumeration, std::size_t... Number>
void expect_names_in_code(std::index_sequence<Number...>) {
  constexpr auto names = enumerator_names(Enumeration());
  const auto compare = [&](std::size_t number, std::string_view in_code) {
    // Those after the last one have no name.
    if (number == names.size()) {
      EXPECT_TRUE(in_code.starts_with('(')) << "no name for " << in_code;
    } else {
      const bool is_boolean = names[number] == "bool" && in_code == "boolean";
      EXPECT_TRUE(is_boolean || names[number] == in_code) << names[number] << " is " << in_code;
    }
  };
  (compare(Number, name_in_code<static_cast<Enumeration>(Number)>()), ...);
}
template <class... Enumeration>
void expect_all_names() {
  (expect_names_in_code<Enumeration>(
       std::make_index_sequence<enumerator_names(Enumeration()).size() + 1>()),
   ...);
}

TEST(written_parameters, have_names_for_all_enumerators) {
  expect_all_names<activation, causal_mask, layout, math_mode, cumulative_kind, fft_direction,
                   out_of_range_policy, grid_mode, grid_padding, pad_mode, pooling, depth_order,
                   recurrent_direction, sequence_layout, gate_order, reduction, resize_mode,
                   nearest_rounding, resize_coordinates, resize_policy, roi_pooling,
                   scatter_combine, element_type>();
}

/// Reads the parameters of `conv2d`, `pad` or `resize` after a change of the node.
template <class Operation, class Change>
void expect_bad_attribute(const std::string& text, const Change& change) {
  onnx::NodeProto message;
  models::write_parameters(Operation(), message);
  change(message);
  const parsed_node parsed(message);
  Operation operation;
  EXPECT_TRUE(throws(errc::invalid_argument, text, [&] {
    models::read_parameters(parsed.attributes(), "the operation", operation);
  }));
}
onnx::AttributeProto& attribute_of(onnx::NodeProto& message, const std::string& name) {
  for (auto& attribute : *message.mutable_attribute()) {
    if (attribute.name() == name) return attribute;
  }
  auto& added = *message.add_attribute();
  added.set_name(name);
  return added;
}
/// Makes an attribute a tensor of doubles.
void set_reals(onnx::AttributeProto& attribute, std::initializer_list<std::int64_t> shape,
               const std::vector<double>& numbers) {
  attribute.set_type(onnx::AttributeProto::TENSOR);
  attribute.mutable_t()->set_data_type(onnx::TensorProto::DOUBLE);
  for (const auto extent : shape) attribute.mutable_t()->add_dims(extent);
  attribute.mutable_t()->set_raw_data(numbers.data(), numbers.size() * sizeof(double));
}

TEST(written_parameters, that_are_not_valid_are_refused_by_name) {
  using node = onnx::NodeProto;
  expect_bad_attribute<pad>("nothing: is no attribute of the operation", [](node& message) {
    attribute_of(message, "nothing").set_type(onnx::AttributeProto::INT);
  });
  expect_bad_attribute<pad>("mode: is 'twice', which is none of constant, edge",
                            [](node& message) { attribute_of(message, "mode").set_s("twice"); });
  expect_bad_attribute<pad>("mode: is an attribute of another type", [](node& message) {
    attribute_of(message, "mode").set_type(onnx::AttributeProto::INT);
  });
  expect_bad_attribute<pad>("before: has 9 numbers, but at most 8", [](node& message) {
    for (int i = 0; i < 9; ++i) attribute_of(message, "before").add_ints(1);
  });
  expect_bad_attribute<pad>("value: is an attribute of another type", [](node& message) {
    attribute_of(message, "value").set_type(onnx::AttributeProto::STRING);
  });
  expect_bad_attribute<pad>("value: has not 1 number", [](node& message) {
    set_reals(attribute_of(message, "value"), {}, {1, 2});
  });
  expect_bad_attribute<pad>("value: has not 1 number", [](node& message) {
    set_reals(attribute_of(message, "value"), {1}, {1});
  });
  expect_bad_attribute<resize>("scales: has not 3 numbers", [](node& message) {
    attribute_of(message, "scales").clear_t();
    set_reals(attribute_of(message, "scales"), {std::int64_t{1} << 60}, {1, 2, 3});
  });
  expect_bad_attribute<resize>("antialias: is 2 instead of 0 or 1",
                               [](node& message) { attribute_of(message, "antialias").set_i(2); });
  expect_bad_attribute<conv2d>("stride: has not 2 numbers",
                               [](node& message) { attribute_of(message, "stride").add_ints(1); });
}

TEST(written_parameters, of_tools_are_ignored) {
  onnx::NodeProto message;
  attribute_of(message, "__of_a_tool").set_type(onnx::AttributeProto::INT);
  const parsed_node parsed(message);
  pad operation;
  EXPECT_NO_THROW(models::read_parameters(parsed.attributes(), "pad", operation));
}

TEST(written_parameters, that_a_run_gives_are_refused) {
  program_builder p;
  onnx::NodeProto message;
  EXPECT_TRUE(throws(errc::unsupported, "factor: is a number that each run gives",
                     [&] { models::write_parameters(affine{.factor = p.scalar("f")}, message); }));
}

}  // namespace
}  // namespace sluice::test
