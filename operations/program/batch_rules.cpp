// SPDX-License-Identifier: Apache-2.0
#include "operations/program/batch_rules.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/operation_table.hpp>
#include <sluice/operations/unary.hpp>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace sluice::operations {
namespace {

using enum batch_rule;

/// All operations but `unary` and `binary`, by name. One that is not here mixes its runs.
constexpr std::pair<std::string_view, batch_rule> rules[] = {
    {"adaptive_pool", same_place},
    {"affine", aligned},
    {"attention", aligned},
    {"batch_norm", same_place},
    {"cast", aligned},
    {"col2im", same_place},
    {"concatenate", same_place},
    {"conv2d", moves},
    {"convolution", moves},
    {"cumulative", same_place},
    {"depth_to_space", same_place},
    {"dequantize", aligned},
    {"dynamic_quantize", mixes},
    {"eye", mixes},
    {"fft", same_place},
    {"fill", mixes},
    {"frame_signal", same_place},
    {"gather", moves},
    {"gather_elements", same_place},
    {"gather_nd", moves},
    {"gemm", moves},
    {"grid_sample", moves},
    {"group_norm", same_place},
    {"gru", moves},
    {"histogram", mixes},
    {"im2col", same_place},
    {"integer_convolution", moves},
    {"irfft", same_place},
    {"layer_norm", same_place},
    {"local_response_norm", same_place},
    {"log_softmax", same_place},
    {"lp_norm", same_place},
    {"lstm", moves},
    {"max_pool_with_indices", same_place},
    {"non_maximum_suppression", mixes},
    {"one_hot", moves},
    {"pad", same_place},
    {"pool", same_place},
    {"power_spectrum", same_place},
    {"power_to_decibel", aligned},
    {"quantize", aligned},
    {"random_bits", mixes},
    {"random_normal", mixes},
    {"random_uniform", mixes},
    {"range", mixes},
    {"reduce", moves},
    {"resize", same_place},
    {"reverse", same_place},
    {"reverse_sequence", moves},
    {"rfft", same_place},
    {"rms_norm", same_place},
    {"rnn", moves},
    {"roi_align", same_place},
    {"roll", same_place},
    {"rotary_embedding", same_place},
    {"scaled_gemm", moves},
    {"scatter_elements", same_place},
    {"scatter_nd", moves},
    {"softmax", same_place},
    {"sort", same_place},
    {"space_to_depth", same_place},
    {"stack", moves},
    {"strided_copy", aligned},
    {"tile", same_place},
    {"top_k", same_place},
    {"transposed_convolution", moves},
    {"triangle", same_place},
    {"where", aligned},
};

using rule_table = std::unordered_map<const operation_descriptor*, batch_rule>;

rule_table make_table() {
  rule_table table;
  for (std::size_t i = 0; i < binary_function_count; ++i) {
    table.emplace(&descriptor_of(binary{.function = static_cast<binary_function>(i)}), aligned);
  }
  for (std::size_t i = 0; i < unary_function_count; ++i) {
    table.emplace(&descriptor_of(unary{.function = static_cast<unary_function>(i)}), aligned);
  }
  // With an epilogue, it has a descriptor of its own.
  table.emplace(&descriptor_of(gemm{.activation = activation::relu}), moves);
  for (const auto& description : describe_operations()) {
    if (const auto rule = rule_of(description.descriptor->name())) {
      table.emplace(description.descriptor, *rule);
    }
  }
  return table;
}

}  // namespace

std::optional<batch_rule> rule_of(std::string_view name) noexcept {
  const auto* const found = std::find_if(std::begin(rules), std::end(rules),
                                         [&](const auto& entry) { return entry.first == name; });
  if (found == std::end(rules)) return std::nullopt;
  return found->second;
}

std::optional<batch_rule> rule_of(const operation_descriptor& descriptor) {
  static const rule_table table = make_table();
  const auto found = table.find(&descriptor);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

}  // namespace sluice::operations
