// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/optimizer.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace sluice::models {

/// A rule for a step and those before it. Returns whether it has changed the graph.
using step_rule = bool (*)(optimizer&, std::size_t step);

/// Lets steps that compute the same thing, and constants and views that are the same, be one.
void share_steps(optimizer& state);

/// One file for each.
///@{
[[nodiscard]] bool recognize_gelu(optimizer& state, std::size_t step);
[[nodiscard]] bool recognize_silu(optimizer& state, std::size_t step);
[[nodiscard]] bool recognize_hard_swish(optimizer& state, std::size_t step);
[[nodiscard]] bool recognize_softmax(optimizer& state, std::size_t step);
[[nodiscard]] bool recognize_layer_norm(optimizer& state, std::size_t step);
[[nodiscard]] bool recognize_rms_norm(optimizer& state, std::size_t step);
[[nodiscard]] bool add_norm_scale(optimizer& state, std::size_t step);
[[nodiscard]] bool add_norm_bias(optimizer& state, std::size_t step);
[[nodiscard]] bool recognize_attention(optimizer& state, std::size_t step);
[[nodiscard]] bool join_projections(optimizer& state, std::size_t step);
[[nodiscard]] bool fold_batch_norm(optimizer& state, std::size_t step);
[[nodiscard]] bool fold_channel_factor(optimizer& state, std::size_t step);
[[nodiscard]] bool fold_channel_summand(optimizer& state, std::size_t step);
///@}

struct optimization_rule {
  std::string_view name;
  step_rule apply;
};

/// The rules, in the order in which each is applied to all steps.
[[nodiscard]] std::span<const optimization_rule> optimization_rules();

}  // namespace sluice::models
