// SPDX-License-Identifier: Apache-2.0
#include "models/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice::models {

namespace {

/// Operations whose results have elements of their operands, or numbers that are stated.
constexpr std::array<std::string_view, 25> moving{
    "cast",
    "concatenate",
    "depth_to_space",
    "eye",
    "fill",
    "gather",
    "gather_elements",
    "gather_nd",
    "im2col",
    "one_hot",
    "pad",
    "random_bits",
    "random_normal",
    "random_uniform",
    "reverse",
    "reverse_sequence",
    "roll",
    "scatter_elements",
    "scatter_nd",
    "space_to_depth",
    "stack",
    "strided_copy",
    "tile",
    "triangle",
    "where",
};

/// The operands of a step, by name.
class step_operands {
 public:
  explicit step_operands(std::span<const inference::use> uses) noexcept : uses_(uses) {}

  /// The number of elements of an operand, as a number that cannot overflow; 0 without one.
  [[nodiscard]] double size(std::string_view name) const {
    const auto* const spec = find(name);
    return spec != nullptr ? size_of(*spec) : 0;
  }
  /// The elements of a filter: of an operand at one index of its first dimension.
  [[nodiscard]] double filter_size(std::string_view name) const {
    const auto* const spec = find(name);
    if (spec == nullptr || spec->shape.empty() || *spec->shape.begin() == 0) return 0;
    return size_of(*spec) / static_cast<double>(*spec->shape.begin());
  }
  /// The number of vectors along the last dimension of an operand.
  [[nodiscard]] double rows(std::string_view name) const {
    const auto last = last_extent(name);
    return last == 0 ? 0 : size(name) / last;
  }
  /// The extent of an operand along its last dimension; 0 without one.
  [[nodiscard]] double last_extent(std::string_view name) const {
    const auto* const spec = find(name);
    if (spec == nullptr || spec->shape.empty()) return 0;
    return static_cast<double>(*(spec->shape.end() - 1));
  }
  [[nodiscard]] double largest() const {
    double most = 0;
    for (const auto& use : uses_) {
      if (use.spec) most = std::max(most, size_of(*use.spec));
    }
    return most;
  }

 private:
  [[nodiscard]] static double size_of(const tensor_spec& spec) {
    double elements = 1;
    for (const auto extent : spec.shape) elements *= static_cast<double>(extent);
    return elements;
  }
  [[nodiscard]] const tensor_spec* find(std::string_view name) const {
    for (const auto& use : uses_) {
      if (use.operand.name == name && use.spec) return &*use.spec;
    }
    return nullptr;
  }

  std::span<const inference::use> uses_;
};

/// The products that a step adds to sums.
double products_of(std::string_view operation, const launch_facts& facts,
                   const step_operands& operands) {
  const auto size = [&](std::size_t i) {
    return static_cast<double>(facts.sizes[i]);
  };
  if (operation == "gemm") return size(0) * size(1) * size(2) * size(3);
  if (operation == "conv2d" || operation == "convolution" || operation == "integer_convolution") {
    return operands.size("y") * operands.filter_size("w");
  }
  if (operation == "transposed_convolution") return operands.size("x") * operands.filter_size("w");
  if (operation == "lstm" || operation == "gru" || operation == "rnn") {
    return operands.rows("x") * (operands.size("w") + operands.size("r"));
  }
  if (operation == "attention") {
    return size(0) * size(1) * size(2) * (size(3) + operands.last_extent("v"));
  }
  return 0;
}

}  // namespace

double arithmetic_of(std::string_view operation, const launch_facts& facts,
                     std::span<const inference::use> uses) {
  if (std::binary_search(moving.begin(), moving.end(), operation)) return 0;
  const step_operands operands(uses);
  const auto products = products_of(operation, facts, operands);
  return products > 0 ? 2 * products : operands.largest();
}

}  // namespace sluice::models
