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
// Vectors of a thread whose reads are under way at once: more hide the latency of memory.
constexpr int vectors_in_flight = 2;

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
std::string elements_name(storage type) {
  return "fused_elements<" + type_name(type) + ", Size>";
}
std::string value_name(std::size_t value) {
  return "v" + std::to_string(value);
}

std::int64_t last_stride(const fused_map& map, std::size_t operand) noexcept {
  return map.layout.strides[operand][map.layout.rank - 1];
}
/// Whether an operand is repeated along the last dimension.
bool is_repeated(const fused_map& map, std::size_t operand) noexcept {
  return operand != 0 && last_stride(map, operand) == 0;
}

/// Whether vectors of `width` elements along the last dimension can be read and written at once.
bool fits(const fused_map& map, int width) noexcept {
  const auto& layout = map.layout;
  const int last = layout.rank - 1;
  if (last > 0 && layout.shape[last] % width != 0) return false;
  for (std::size_t k = 0; k <= map.inputs; ++k) {
    if (is_repeated(map, k)) continue;
    const auto bytes = width * bytes_of(layout.types[k]);
    if (last_stride(map, k) != 1 || bytes > vector_bytes || map.alignments[k] % bytes != 0) {
      return false;
    }
    for (int d = 0; d < last; ++d) {
      if (layout.strides[k][d] % width != 0) return false;
    }
  }
  return true;
}

int width_of(const fused_map& map) noexcept {
  int width = max_width;
  while (width > 1 && !fits(map, width)) width /= 2;
  return width;
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

/// The function of `Size` elements at once.
std::string compute_text(const fused_map& map) {
  std::string text = "template <int Size>\n__device__ __forceinline__ " +
                     elements_name(map.layout.types[0]) + " compute(const arguments& a";
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

/// The loop over vectors along the last dimension, and the elements behind the last whole one if
/// there is one dimension.
std::string loop_text(const fused_map& map, const kernel_source& source) {
  const bool is_flat = map.layout.rank == 1;
  const auto type = [&](std::size_t operand) {
    return operand == 0 ? map.layout.types[0] : map.type_of(operand - 1);
  };
  const auto address = [&](std::size_t operand, const std::string& offset) {
    return "static_cast<" + std::string(operand == 0 ? "" : "const ") +
           element_name(type(operand)) + "*>(a.addresses[" + std::to_string(operand) + "]) + " +
           offset;
  };
  // Reads an input, and writes the results: `size` elements, at an offset of the operand.
  const auto read = [&](std::size_t k, const std::string& size, const std::string& offset) {
    const auto of_size = "<" + type_name(type(k)) + ", " + size + ">(";
    return is_repeated(map, k) ? "repeated" + of_size + "*(" + address(k, offset) + "))"
                               : "elements_at" + of_size + address(k, offset) + ")";
  };
  const auto write = [&](const std::string& size, const std::string& offset, const auto& input) {
    std::string text = "put_elements<" + type_name(type(0)) + ", " + size + ">(" +
                       address(0, offset) + ", compute<" + size + ">(a";
    for (std::size_t k = 1; k <= map.inputs; ++k) text += ", " + input(k);
    return text + "))";
  };
  const auto input = [](std::size_t k) {
    return "x" + std::to_string(k);
  };
  std::string text;
  if (source.vectors == 1) {
    const auto offset = [](std::size_t k) {
      return "position.offsets[" + std::to_string(k) + "]";
    };
    text +=
        "  for (std::int64_t i = first; i < a.count / width; i += stride) {\n"
        "    const auto position = vector_position(a, i, width);\n";
    for (std::size_t k = 1; k <= map.inputs; ++k) {
      text += "    const auto " + input(k) + " = " + read(k, "width", offset(k)) + ";\n";
    }
    text += "    " + write("width", offset(0), input) + ";\n  }\n";
  } else {
    const auto offset = [&](std::size_t k) {
      return std::string(is_repeated(map, k) ? "0" : "(i + n * stride) * width");
    };
    const std::string each =
        "#pragma unroll\n"
        "    for (int n = 0; n < vectors; ++n) {\n"
        "      if (i + n * stride < a.count / width) ";
    text += "  constexpr int vectors = " + std::to_string(source.vectors) +
            ";\n  for (std::int64_t i = first; i < a.count / width; i += vectors * stride) {\n";
    for (std::size_t k = 1; k <= map.inputs; ++k) {
      const auto name = type_name(type(k));
      text += "    fused_elements<" + name + ", width> " + input(k) + "[vectors];\n";
    }
    text += each + "{\n";
    for (std::size_t k = 1; k <= map.inputs; ++k) {
      text += "        " + input(k) + "[n] = " + read(k, "width", offset(k)) + ";\n";
    }
    text += "      }\n    }\n" + each +
            write("width", offset(0), [&](std::size_t k) { return input(k) + "[n]"; }) +
            ";\n    }\n  }\n";
  }
  if (!is_flat || source.width == 1) return text;
  const auto rest = [&](std::size_t k) {
    return std::string(is_repeated(map, k) ? "0" : "rest");
  };
  return text + "  const std::int64_t rest = a.count / width * width + first;\n" +
         "  if (rest < a.count) " +
         write("1", "rest", [&](std::size_t k) { return read(k, "1", rest(k)); }) + ";\n";
}

/// The parameters of a function, as bits of its compute type.
std::array<std::uint64_t, 2> parameters_of(const fused_call& call) noexcept {
  if (const auto* const c = std::get_if<unary_call>(&call)) {
    return {c->alpha.get<std::uint64_t>(), c->beta.get<std::uint64_t>()};
  }
  const auto words = [](const element_number& number) {
    return number.bits<std::array<std::uint64_t, 2>>();
  };
  if (const auto* const c = std::get_if<binary_call>(&call)) return words(c->number);
  if (const auto* const c = std::get_if<where_call>(&call)) return words(c->number);
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
  kernel_source source{.width = width_of(map)};
  if (map.layout.rank == 1 && source.width > 1) source.vectors = vectors_in_flight;
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
      loop_text(map, source) + "}\n}\n";
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
