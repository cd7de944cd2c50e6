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

/// All operations but `unary` and `binary`, by name. One that is not here mixes its runs.
constexpr std::pair<std::string_view, batch_rule> rules[] = {
    {"adaptive_pool", batch_rule::same_place},
    {"affine", batch_rule::moves},
    {"attention", batch_rule::aligned},
    {"batch_norm", batch_rule::same_place},
    {"cast", batch_rule::aligned},
    {"col2im", batch_rule::same_place},
    {"concatenate", batch_rule::same_place},
    {"conv2d", batch_rule::moves},
    {"convolution", batch_rule::moves},
    {"cumulative", batch_rule::same_place},
    {"depth_to_space", batch_rule::same_place},
    {"dequantize", batch_rule::moves},
    {"dynamic_quantize", batch_rule::mixes},
    {"eye", batch_rule::mixes},
    {"fft", batch_rule::same_place},
    {"fill", batch_rule::mixes},
    {"frame_signal", batch_rule::same_place},
    {"gather", batch_rule::moves},
    {"gather_elements", batch_rule::same_place},
    {"gather_nd", batch_rule::moves},
    {"gemm", batch_rule::moves},
    {"grid_sample", batch_rule::moves},
    {"group_norm", batch_rule::same_place},
    {"gru", batch_rule::moves},
    {"histogram", batch_rule::mixes},
    {"im2col", batch_rule::same_place},
    {"integer_convolution", batch_rule::moves},
    {"irfft", batch_rule::same_place},
    {"layer_norm", batch_rule::same_place},
    {"local_response_norm", batch_rule::same_place},
    {"log_softmax", batch_rule::same_place},
    {"lp_norm", batch_rule::same_place},
    {"lstm", batch_rule::moves},
    {"max_pool_with_indices", batch_rule::same_place},
    {"non_maximum_suppression", batch_rule::mixes},
    {"one_hot", batch_rule::moves},
    {"pad", batch_rule::same_place},
    {"pool", batch_rule::same_place},
    {"power_spectrum", batch_rule::same_place},
    {"power_to_decibel", batch_rule::aligned},
    {"quantize", batch_rule::moves},
    {"random_bits", batch_rule::mixes},
    {"random_normal", batch_rule::mixes},
    {"random_uniform", batch_rule::mixes},
    {"range", batch_rule::mixes},
    {"reduce", batch_rule::moves},
    {"resize", batch_rule::same_place},
    {"reverse", batch_rule::same_place},
    {"reverse_sequence", batch_rule::moves},
    {"rfft", batch_rule::same_place},
    {"rms_norm", batch_rule::same_place},
    {"rnn", batch_rule::moves},
    {"roi_align", batch_rule::same_place},
    {"roll", batch_rule::same_place},
    {"rotary_embedding", batch_rule::moves},
    {"scaled_gemm", batch_rule::moves},
    {"scatter_elements", batch_rule::same_place},
    {"scatter_nd", batch_rule::moves},
    {"softmax", batch_rule::same_place},
    {"sort", batch_rule::same_place},
    {"space_to_depth", batch_rule::same_place},
    {"stack", batch_rule::moves},
    {"strided_copy", batch_rule::aligned},
    {"tile", batch_rule::same_place},
    {"top_k", batch_rule::same_place},
    {"transposed_convolution", batch_rule::moves},
    {"triangle", batch_rule::same_place},
    {"where", batch_rule::aligned},
};

using rule_table = std::unordered_map<const operation_descriptor*, batch_rule>;

rule_table make_table() {
  rule_table table;
  for (std::size_t i = 0; i < binary_function_count; ++i) {
    table.emplace(&descriptor_of(binary{.function = static_cast<binary_function>(i)}),
                  batch_rule::aligned);
  }
  for (std::size_t i = 0; i < unary_function_count; ++i) {
    table.emplace(&descriptor_of(unary{.function = static_cast<unary_function>(i)}),
                  batch_rule::aligned);
  }
  // With an epilogue, and if it is large, it has another descriptor.
  table.emplace(&descriptor_of(gemm{.activation = activation::relu}), batch_rule::moves);
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
