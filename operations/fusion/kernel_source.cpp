// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/kernel_source.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <variant>

namespace sluice::operations {
namespace {

constexpr int max_width = 8;
constexpr int vector_bytes = 16;

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
std::string value_name(std::size_t value) {
  return "v" + std::to_string(value);
}

/// Whether all operands lie alike without gaps, or are one number.
bool is_flat(const fused_map& map) noexcept {
  const auto& layout = map.layout;
  if (layout.rank != 1) return false;
  for (std::size_t k = 0; k <= map.inputs; ++k) {
    const auto stride = layout.strides[k][0];
    if (stride != 1 && (k == 0 || stride != 0)) return false;
  }
  return true;
}
bool is_one_number(const fused_map& map, std::size_t input) noexcept {
  return map.layout.strides[input + 1][0] == 0;
}

int width_of(const fused_map& map) noexcept {
  int width = max_width;
  for (std::size_t k = 0; k <= map.inputs; ++k) {
    if (k > 0 && is_one_number(map, k - 1)) continue;
    const auto size = bytes_of(map.layout.types[k]);
    const int aligned = std::max(static_cast<int>(map.alignments[k]) / size, 1);
    width = std::min({width, vector_bytes / size, aligned});
  }
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(width)));
}

/// The expression of function `i`.
class expression {
 public:
  expression(const fused_map& map, std::size_t i) : map_(map), i_(i) {}

  std::string operator()(const cast_call& call) const {
    return "cast_of<" + compute_name(call.through()) + types(call, 1) + argument(0) + ")";
  }
  std::string operator()(const copy_call&) const { return argument(0); }
  std::string operator()(const affine_call& call) const {
    const std::string type = call.is_double() ? "double" : "float";
    const auto factor = [&](std::size_t k) {
      const auto value = arguments()[k];
      if (value == fused_map::none) return "parameter<" + type + ">(" + bits(k - 1) + ")";
      return "read_element<" + type + ", " + type_name(call.layout.types[k + 1]) + ">(" +
             value_name(value) + ")";
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
           compute_name(call.layout.types[1]) + types(call, 1) + argument(0) + ", " + argument(1) +
           ")";
  }
  std::string operator()(const where_call&) const {
    return argument(0) + " != 0 ? " + argument(1) + " : " + argument(2);
  }

 private:
  [[nodiscard]] const std::array<std::uint8_t, fused_map::max_arguments>& arguments() const {
    return map_.functions[i_].arguments;
  }
  [[nodiscard]] std::string argument(std::size_t k) const { return value_name(arguments()[k]); }
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

/// The function of one element.
std::string compute_text(const fused_map& map) {
  std::string text = "__device__ __forceinline__ " + element_name(map.layout.types[0]) +
                     " compute(const arguments& a";
  for (std::size_t k = 0; k < map.inputs; ++k) {
    text += ", " + element_name(map.type_of(k)) + " " + value_name(k);
  }
  text += ") {\n";
  for (std::size_t i = 0; i < map.functions.size(); ++i) {
    text += "  const " + element_name(map.functions[i].type()) + " " + value_name(map.inputs + i) +
            " = " + std::visit(expression(map, i), map.functions[i].call) + ";\n";
  }
  return text + "  return " + value_name(map.inputs + map.functions.size() - 1) + ";\n}\n";
}

std::string address_of(std::size_t operand, const std::string& element) {
  return "static_cast<" + std::string(operand == 0 ? "" : "const ") + element + "*>(a.addresses[" +
         std::to_string(operand) + "])";
}

/// A call of the function of one element, with each input as `text(input)`.
template <class Text>
std::string call_text(const fused_map& map, const Text& text) {
  std::string call = "compute(a";
  for (std::size_t k = 0; k < map.inputs; ++k) call += ", " + text(k);
  return call + ")";
}

std::string flat_text(const fused_map& map) {
  const auto y = element_name(map.layout.types[0]);
  const auto vector = [](const std::string& element) {
    return "fused_vector<" + element + ", width>";
  };
  const auto input = [](std::size_t k) {
    return "x" + std::to_string(k);
  };
  std::string text;
  for (std::size_t k = 0; k < map.inputs; ++k) {
    if (!is_one_number(map, k)) continue;
    const auto element = element_name(map.type_of(k));
    text += "  const " + element + " " + input(k) + " = *" + address_of(k + 1, element) + ";\n";
  }
  text += "  for (std::int64_t i = first; i < a.count / width; i += stride) {\n";
  for (std::size_t k = 0; k < map.inputs; ++k) {
    if (is_one_number(map, k)) continue;
    text += "    const auto " + input(k) + " = " +
            address_of(k + 1, vector(element_name(map.type_of(k)))) + "[i];\n";
  }
  text += "    " + vector(y) + " y;\n#pragma unroll\n    for (int j = 0; j < width; ++j) " +
          "y.elements[j] = " +
          call_text(map,
                    [&](std::size_t k) {
                      return input(k) + (is_one_number(map, k) ? "" : ".elements[j]");
                    }) +
          ";\n    " + address_of(0, vector(y)) + "[i] = y;\n  }\n";
  text += "  const std::int64_t rest = a.count / width * width + first;\n  if (rest < a.count) " +
          address_of(0, y) + "[rest] = " +
          call_text(map,
                    [&](std::size_t k) {
                      return is_one_number(map, k)
                                 ? input(k)
                                 : address_of(k + 1, element_name(map.type_of(k))) + "[rest]";
                    }) +
          ";\n";
  return text;
}

std::string strided_text(const fused_map& map) {
  const auto element = [&](std::size_t operand, storage type) {
    return address_of(operand, element_name(type)) + "[position.offsets[" +
           std::to_string(operand) + "]]";
  };
  return "  for (std::int64_t i = first; i < a.count; i += stride) {\n"
         "    const auto position = position_in(a, i);\n    " +
         element(0, map.layout.types[0]) + " = " +
         call_text(map, [&](std::size_t k) { return element(k + 1, map.type_of(k)); }) + ";\n  }\n";
}

/// The parameters of a function, as bits of its compute type.
std::array<std::uint64_t, 2> parameters_of(const fused_call& call) noexcept {
  if (const auto* const c = std::get_if<unary_call>(&call)) {
    return {c->alpha.get<std::uint64_t>(), c->beta.get<std::uint64_t>()};
  }
  const auto* const c = std::get_if<affine_call>(&call);
  if (c == nullptr) return {};
  const auto bits = [&](double value) {
    return c->is_double() ? unary_parameter(value).get<std::uint64_t>()
                          : unary_parameter(static_cast<float>(value)).get<std::uint64_t>();
  };
  return {bits(c->factor), bits(c->offset)};
}

}  // namespace

kernel_source source_of(const fused_map& map) {
  const bool flat = is_flat(map);
  kernel_source source{.width = flat ? width_of(map) : 1};
  source.text =
      "#include \"operations/fusion/fused_kernel.cuh\"\n"
      "namespace sluice::operations {\n"
      "using arguments = fused_arguments<" +
      std::to_string(map.inputs + 1) + ", " + std::to_string(map.functions.size()) + ">;\n" +
      compute_text(map) +
      "extern \"C\" __global__ void __launch_bounds__(fused_threads)\n"
      "    sluice_fused(const __grid_constant__ arguments a) {\n"
      "  constexpr int width = " +
      std::to_string(source.width) +
      ";\n"
      "  const std::int64_t first =\n"
      "      static_cast<std::int64_t>(blockIdx.x) * fused_threads + threadIdx.x;\n"
      "  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * fused_threads;\n" +
      (flat ? flat_text(map) : strided_text(map)) + "}\n}\n";
  return source;
}

kernel_argument argument_of(const fused_map& map, std::span<void* const> addresses) noexcept {
  static_assert(fused_dimensions == max_dimensions);
  kernel_argument argument;
  std::size_t count = 0;
  const auto add = [&](auto number) {
    argument.words[count++] = static_cast<std::uint64_t>(number);
  };
  add(map.layout.count);
  for (std::size_t k = 0; k <= map.inputs; ++k) {
    add(reinterpret_cast<std::uintptr_t>(addresses[k]));
  }
  for (const auto& function : map.functions) {
    for (const auto bits : parameters_of(function.call)) add(bits);
  }
  add(map.layout.rank);
  for (const auto extent : map.layout.shape) add(extent);
  for (std::size_t k = 0; k <= map.inputs; ++k) {
    for (const auto stride : map.layout.strides[k]) add(stride);
  }
  return argument;
}

}  // namespace sluice::operations
