// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/reduction_source.hpp"

#include "operations/fusion/chain_source.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace sluice::operations {
namespace {

using layout_type = fused_map::layout_type;

// The values of a vector of results stay in registers.
constexpr int max_value_bytes = 64;

/// Whether elements are compared as f32, which holds them.
bool is_short_float(storage type) noexcept {
  return type == storage::f16 || type == storage::bf16 || type == storage::f32;
}

/// The text of a reducer, and the size of its values.
struct reducer_text {
  const fused_map& map;
  std::string& text;

  template <class T>
  int operator()(const sum_reducer<T>& reducer) const {
    return set(
        "sum_reducer<" + name<T>() + ">{reduction(" + number(reducer.kind) + "), a.elements.count}",
        reducer);
  }
  template <class T>
  int operator()(const product_reducer<T>& reducer) const {
    return set("product_reducer<" + name<T>() + ">()", reducer);
  }
  template <class T>
  int operator()(const extremum_reducer<T>& reducer) const {
    const std::string is_max = reducer.is_max ? "{true}" : "{false}";
    if (is_short_float(map.last_type())) {
      return set("extremum_reducer<float>" + is_max, extremum_reducer<float>{});
    }
    return set("extremum_reducer<" + name<T>() + ">" + is_max, reducer);
  }
  int operator()(const exponential_reducer& reducer) const {
    return set("exponential_reducer()", reducer);
  }
  int operator()(const variance_reducer& reducer) const {
    return set("variance_reducer{a.correction}", reducer);
  }
  // Such reductions are computed alone.
  template <class T>
  int operator()(const position_reducer<T>&) const {
    return 0;
  }

 private:
  template <class T>
  [[nodiscard]] static std::string name() {
    if constexpr (is_complex_v<T>) return compute_name(storage::c128);
    if constexpr (std::is_same_v<T, std::int64_t>) return compute_name(storage::i64);
    if constexpr (std::is_same_v<T, std::uint64_t>) return compute_name(storage::u64);
    return compute_name(storage::f64);
  }
  [[nodiscard]] static std::string number(reduction kind) {
    return std::to_string(static_cast<int>(kind));
  }
  template <class Reducer>
  int set(std::string new_text, const Reducer&) const {
    text = std::move(new_text);
    return static_cast<int>(sizeof(typename Reducer::value));
  }
};

/// The dimension along which a thread computes vectors: the last one of `layout`.
struct inner_dimension {
  const layout_type& layout;
  const layout_type& other;  ///< the layout of the other dimensions

  [[nodiscard]] int last() const noexcept { return layout.rank - 1; }
  [[nodiscard]] bool repeats(std::size_t operand) const noexcept {
    return layout.strides[operand][last()] == 0;
  }
};

/// Whether vectors of `width` elements can be read at once.
bool fits(const fused_map& map, const inner_dimension& inner, int width) noexcept {
  const auto are_multiples = [&](const std::int64_t* strides, int count) {
    return std::all_of(strides, strides + count,
                       [&](std::int64_t stride) { return stride % width == 0; });
  };
  // Behind whole vectors of a row, elements are computed one by one.
  const bool takes_rest = map.reduced->along_rows && inner.layout.rank == 1;
  if (!takes_rest && inner.layout.shape[inner.last()] % width != 0) return false;
  for (std::size_t k = 1; k <= map.inputs; ++k) {
    if (inner.repeats(k)) continue;
    const auto bytes = width * bytes_of(map.layout.types[k]);
    if (inner.layout.strides[k][inner.last()] != 1 || bytes > max_vector_bytes ||
        map.alignments[k] % bytes != 0 || !are_multiples(inner.layout.strides[k], inner.last()) ||
        !are_multiples(inner.other.strides[k], inner.other.rank)) {
      return false;
    }
  }
  return true;
}

/// The type `chain`; see fused_reduction.cuh.
std::string chain_text(const fused_map& map, const inner_dimension& inner, int width) {
  const auto operands = std::to_string(map.inputs + 1);
  std::string text =
      "struct chain {\n"
      "  static constexpr int operands = " +
      operands + ";\n  static constexpr storage y = " + type_name(map.layout.types[0]) +
      ";\n"
      "  template <int Size>\n"
      "  static __device__ __forceinline__ fused_elements<" +
      type_name(map.last_type()) +
      ", Size> at(\n"
      "      const arguments& a, const map_position<operands>& position) {\n"
      "    return compute<Size>(a";
  for (std::size_t k = 1; k <= map.inputs; ++k) {
    text += ",\n        " + read_text(map, k, width > 1 && inner.repeats(k), "Size",
                                      "position.offsets[" + std::to_string(k) + "]");
  }
  return text + ");\n  }\n};\n";
}

}  // namespace

kernel_source source_of_reduction(const fused_map& map) {
  const auto& reduced = *map.reduced;
  const inner_dimension inner = reduced.along_rows ? inner_dimension{reduced.elements, map.layout}
                                                   : inner_dimension{map.layout, reduced.elements};
  std::string reducer;
  const int value_bytes = visit(reduced.call, reducer_text{map, reducer});
  kernel_source source{.width = max_vector_width};
  while (source.width > 1 &&
         (!fits(map, inner, source.width) ||
          (!reduced.along_rows && source.width * value_bytes > max_value_bytes))) {
    source.width /= 2;
  }
  source.text =
      "#include \"operations/fusion/fused_reduction.cuh\"\n"
      "namespace sluice::operations {\n"
      "using arguments = " +
      arguments_text(map) + ";\n" + compute_text(map) + chain_text(map, inner, source.width) +
      "extern \"C\" __global__ void __launch_bounds__(reduce_threads)\n"
      "    sluice_fused(const __grid_constant__ arguments a) {\n"
      "  reduce_" +
      std::string(reduced.along_rows ? "rows" : "columns") + "<chain, " +
      std::to_string(source.width) + ", " + (reduced.elements.rank == 1 ? "true" : "false") +
      ">(a, " + reducer + ");\n}\n}\n";
  auto units = map.layout.count * reduced.call.parts;
  if (reduced.along_rows) {
    source.lanes = flat_lanes(reduced.call, source.width);
    units *= source.lanes;
  } else {
    units /= source.width;
  }
  source.blocks = blocks_for(units);
  return source;
}

}  // namespace sluice::operations
