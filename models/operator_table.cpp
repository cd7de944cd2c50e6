// SPDX-License-Identifier: Apache-2.0
#include "models/operator_table.hpp"

#include <unordered_map>

namespace sluice::models {

namespace {

using operator_table = std::unordered_multimap<std::string_view, const operator_entry*>;

operator_table make_table() {
  operator_table table;
  for (const auto family :
       {activation_operators(), attention_operators(), blas_operators(), constant_operators(),
        control_flow_operators(), convolution_operators(), deformable_operators(),
        elementwise_operators(), indexing_operators(), movement_operators(),
        normalization_operators(), pooling_operators(), quantization_operators(),
        recurrent_operators(), reduction_operators(), shape_operators(), vision_operators()}) {
    for (const auto& entry : family) table.emplace(entry.name, &entry);
  }
  return table;
}

}  // namespace

const operator_entry* find_operator(std::string_view name, std::int64_t opset) {
  static const operator_table table = make_table();
  const operator_entry* newest = nullptr;
  const auto [first, last] = table.equal_range(name);
  for (auto entry = first; entry != last; ++entry) {
    const bool applies = entry->second->since <= opset;
    if (applies && (newest == nullptr || entry->second->since > newest->since)) {
      newest = entry->second;
    }
  }
  return newest;
}

}  // namespace sluice::models
