// SPDX-License-Identifier: Apache-2.0
#include "models/rules/rules.hpp"

#include <array>

namespace sluice::models {

std::span<const optimization_rule> optimization_rules() {
  static constexpr std::array rules{
      optimization_rule{"softmax", recognize_softmax},
      optimization_rule{"attention", recognize_attention},
      optimization_rule{"projections", join_projections},
      optimization_rule{"layer_norm", recognize_layer_norm},
      optimization_rule{"rms_norm", recognize_rms_norm},
      optimization_rule{"norm_scale", add_norm_scale},
      optimization_rule{"norm_bias", add_norm_bias},
      optimization_rule{"gelu", recognize_gelu},
      optimization_rule{"silu", recognize_silu},
      optimization_rule{"hard_swish", recognize_hard_swish},
      optimization_rule{"batch_norm", fold_batch_norm},
      optimization_rule{"channel_factor", fold_channel_factor},
      optimization_rule{"channel_summand", fold_channel_summand},
  };
  return rules;
}

}  // namespace sluice::models
