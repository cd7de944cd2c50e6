// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/kernel_source.hpp"

#include "operations/fusion/chain_source.hpp"
#include "operations/fusion/reduction_source.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <variant>

namespace sluice::operations {
namespace {

// Vectors of a thread whose reads are under way at once: more hide the latency of memory.
constexpr int vectors_in_flight = 2;

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
    if (last_stride(map, k) != 1 || bytes > max_vector_bytes || map.alignments[k] % bytes != 0) {
      return false;
    }
    for (int d = 0; d < last; ++d) {
      if (layout.strides[k][d] % width != 0) return false;
    }
  }
  return true;
}

int width_of(const fused_map& map) noexcept {
  int width = max_vector_width;
  while (width > 1 && !fits(map, width)) width /= 2;
  return width;
}

/// The loop over vectors along the last dimension, and the elements behind the last whole one if
/// there is one dimension.
std::string loop_text(const fused_map& map, const kernel_source& source) {
  const bool is_flat = map.layout.rank == 1;
  const auto type = [&](std::size_t operand) {
    return map.layout.types[operand];
  };
  // Reads an input, and writes the results: `size` elements, at an offset of the operand.
  const auto read = [&](std::size_t k, const std::string& size, const std::string& offset) {
    return read_text(map, k, is_repeated(map, k), size, offset);
  };
  const auto write = [&](const std::string& size, const std::string& offset, const auto& input) {
    std::string text = "put_elements<" + type_name(type(0)) + ", " + size + ">(" +
                       address_text(map, 0, offset) + ", compute<" + size + ">(a";
    for (std::size_t k = 1; k <= map.inputs; ++k) text += ", " + input(k);
    return text + "))";
  };
  const auto input = [](std::size_t k) {
    std::string name = "x";
    return name += std::to_string(k);
  };
  std::string text;
  if (source.vectors == 1) {
    const auto offset = [](std::size_t k) {
      return "position.offsets[" + std::to_string(k) + "]";
    };
    text +=
        "  for (std::int64_t i = first; i < a.indices.count / width; i += stride) {\n"
        "    const auto position = vector_position(a.indices, i, width);\n";
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
        "      if (i + n * stride < a.indices.count / width) ";
    text +=
        "  constexpr int vectors = " + std::to_string(source.vectors) +
        ";\n  for (std::int64_t i = first; i < a.indices.count / width; i += vectors * stride) {\n";
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
  return text + "  const std::int64_t rest = a.indices.count / width * width + first;\n" +
         "  if (rest < a.indices.count) " +
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
  if (map.reduced) return source_of_reduction(map);
  kernel_source source{.width = width_of(map)};
  if (map.layout.rank == 1 && source.width > 1) source.vectors = vectors_in_flight;
  source.text =
      "#include \"operations/fusion/fused_kernel.cuh\"\n"
      "namespace sluice::operations {\n"
      "using arguments = " +
      arguments_text(map) + ";\n" + compute_text(map) +
      "extern \"C\" __global__ void __launch_bounds__(fused_threads)\n"
      "    sluice_fused(const __grid_constant__ arguments a) {\n"
      "  constexpr int width = " +
      std::to_string(source.width) +
      ";\n"
      "  const std::int64_t first =\n"
      "      static_cast<std::int64_t>(blockIdx.x) * fused_threads + threadIdx.x;\n"
      "  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * fused_threads;\n" +
      loop_text(map, source) + "}\n}\n";
  const std::int64_t of_thread = std::int64_t{source.width} * source.vectors;
  source.blocks = blocks_for((map.layout.count + of_thread - 1) / of_thread);
  return source;
}

std::int64_t blocks_for(std::int64_t threads) noexcept {
  // Beyond this the loops in the kernels take the rest.
  constexpr std::int64_t max_blocks = 16384;
  return std::min((threads + fused_threads - 1) / fused_threads, max_blocks);
}

kernel_argument argument_of(const fused_map& map, const kernel_source& source,
                            std::span<void* const> addresses, void* workspace) noexcept {
  static_assert(fused_dimensions == max_dimensions);
  kernel_argument argument;
  std::size_t count = 0;
  const auto add = [&](auto number) {
    argument.words[count++] = static_cast<std::uint64_t>(number);
  };
  const auto add_address = [&](const void* address) {
    add(reinterpret_cast<std::uintptr_t>(address));
  };
  const auto add_indices = [&](const fused_map::layout_type& layout) {
    add(layout.count);
    add(layout.rank);
    for (const auto extent : layout.shape) add(extent);
    for (std::size_t k = 0; k <= map.inputs; ++k) {
      for (const auto stride : layout.strides[k]) add(stride);
    }
  };
  for (std::size_t k = 0; k <= map.inputs; ++k) add_address(addresses[k]);
  for (const auto& function : map.functions) {
    for (const auto bits : parameters_of(function.call)) add(bits);
  }
  add_indices(map.layout);
  if (!map.reduced) return argument;
  add_indices(map.reduced->elements);
  add(source.lanes);
  add(map.reduced->call.parts);
  add(map.reduced->call.part_length);
  add(map.reduced->call.correction);
  add_address(workspace);
  return argument;
}

}  // namespace sluice::operations
