// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/chain_source.hpp"

#include <type_traits>
#include <variant>

namespace sluice::operations {

std::string type_name(storage type) {
  return "storage(" + std::to_string(static_cast<int>(type)) + ")";
}
std::string element_name(storage type) {
  return "stored_t<" + type_name(type) + ">";
}
std::string compute_name(storage type) {
  switch (compute_type_of(type)) {
    case compute_type::i64:
      return "std::int64_t";
    case compute_type::u64:
      return "std::uint64_t";
    case compute_type::f32:
      return "float";
    case compute_type::f64:
      return "double";
    case compute_type::c64:
      return "complex_number<float>";
    default:
      return "complex_number<double>";
  }
}

namespace {

std::string elements_name(storage type) {
  return "fused_elements<" + type_name(type) + ", Size>";
}
std::string value_name(std::size_t value) {
  std::string name = "v";
  return name += std::to_string(value);
}

/// The expression of function `i`.
class expression {
 public:
  expression(const fused_map& map, std::size_t i) : map_(map), i_(i) {}

  std::string operator()(const cast_call& call) const {
    return "cast_of<" + compute_name(call.through()) +
           (call.saturates ? ", overflow::saturates" : ", overflow::becomes_infinite") +
           types(call, 1) + argument(0) + ")";
  }
  std::string operator()(const copy_call&) const { return argument(0); }
  std::string operator()(const affine_call& call) const {
    const std::string type = call.is_double() ? "double" : "float";
    const auto factor = [&](std::size_t k) {
      const auto value = arguments()[k];
      if (value == fused_map::none) {
        return "[&](int) { return parameter<" + type + ">(" + bits(k - 1) + "); }";
      }
      return "[&](int j) { return read_element<" + type + ", " +
             type_name(call.layout.types[k + 1]) + ">(element_of(" + value_name(value) + ", j)); }";
    };
    return "affine_of<" + type + types(call, 1) + argument(0) + ", " + factor(1) + ", " +
           factor(2) + ")";
  }
  std::string operator()(const unary_call& call) const {
    const auto function = "unary_function(" + std::to_string(static_cast<int>(call.function)) + ")";
    if (call.is_of_parts()) return "part_of<" + function + types(call, 1) + argument(0) + ")";
    return "unary_of<" + function + ", " + compute_name(call.layout.types[1]) + types(call, 1) +
           argument(0) + ", a.parameters[" + std::to_string(i_) + "])";
  }
  std::string operator()(const binary_call& call) const {
    return "binary_of<binary_function(" + std::to_string(static_cast<int>(call.function)) + "), " +
           compute_name(call.layout.types[1]) + types(call, 1) + argument_or_number(call, 0) +
           ", " + argument_or_number(call, 1) + ")";
  }
  std::string operator()(const where_call& call) const {
    return "where_of(" + argument(0) + ", " + argument_or_number(call, 1) + ", " +
           argument_or_number(call, 2) + ")";
  }

 private:
  [[nodiscard]] const std::array<std::uint8_t, fused_map::max_arguments>& arguments() const {
    return map_.functions[i_].arguments;
  }
  [[nodiscard]] std::string argument(std::size_t k) const { return value_name(arguments()[k]); }
  /// An argument, or the number of the call that stands for it.
  template <class Call>
  [[nodiscard]] std::string argument_or_number(const Call& call, std::size_t k) const {
    if (arguments()[k] != fused_map::none) return argument(k);
    const auto type = type_name(call.layout.types[k + 1]);
    return "repeated<" + type + ", Size>(number_of<" + type + ">(a.parameters[" +
           std::to_string(i_) + "]))";
  }
  [[nodiscard]] std::string bits(std::size_t number) const {
    return "a.parameters[" + std::to_string(i_) + "][" + std::to_string(number) + "]";
  }
  /// The types of the result and of an operand, as the last arguments of a template.
  template <class Call>
  [[nodiscard]] static std::string types(const Call& call, std::size_t operand) {
    return ", " + type_name(call.layout.types[0]) + ", " + type_name(call.layout.types[operand]) +
           ">(";
  }

  const fused_map& map_;
  std::size_t i_;
};

}  // namespace

std::string arguments_text(const fused_map& map) {
  return std::string(map.reduced ? "fused_reduction_arguments<" : "fused_arguments<") +
         std::to_string(map.inputs + 1) + ", " + std::to_string(map.functions.size()) + ">";
}

std::string compute_text(const fused_map& map) {
  std::string text = "template <int Size>\n__device__ __forceinline__ " +
                     elements_name(map.last_type()) + " compute(const arguments& a";
  for (std::size_t k = 0; k < map.inputs; ++k) {
    text += ", const " + elements_name(map.type_of(k)) + "& " + value_name(k);
  }
  text += ") {\n";
  for (std::size_t i = 0; i < map.functions.size(); ++i) {
    text += "  const " + elements_name(map.functions[i].type()) + " " + value_name(map.inputs + i) +
            " = " + std::visit(expression(map, i), map.functions[i].call) + ";\n";
  }
  return text + "  return " + value_name(map.inputs + map.functions.size() - 1) + ";\n}\n";
}

std::string address_text(const fused_map& map, std::size_t operand, const std::string& offset) {
  return "static_cast<" + std::string(operand == 0 ? "" : "const ") +
         element_name(map.layout.types[operand]) + "*>(a.addresses[" + std::to_string(operand) +
         "]) + " + offset;
}

std::string read_text(const fused_map& map, std::size_t operand, bool is_repeated,
                      const std::string& size, const std::string& offset) {
  const auto address = address_text(map, operand, offset);
  const auto types = type_name(map.layout.types[operand]) + ", " + size + ">(";
  return is_repeated ? "repeated<" + types + "*(" + address + "))"
                     : "elements_at<" + types + address + ")";
}

}  // namespace sluice::operations
