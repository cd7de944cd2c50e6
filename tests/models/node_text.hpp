// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/models/onnx_graph.hpp"

#include <sluice/runtime/element_type.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

/// A node as text: "y = Softmax x axis=-1". An argument is the name of a value, a number without
/// dimensions, or a list of integers in brackets.
struct node_text {
  std::string output;
  std::string op_type;
  std::vector<std::string> arguments{};
  std::vector<std::string> attributes{};  ///< "axis=-1", "perm=0,2,1" or "alpha=0.5"
};

/// The nodes of a text, one for each line.
[[nodiscard]] std::vector<node_text> parse_nodes(std::string_view text);
/// Adds nodes. Their numbers become constants of `type`, rounded once.
void add_nodes(onnx_graph& graph, const std::vector<node_text>& nodes, element_type type);
/// The number of a type in ONNX.
[[nodiscard]] std::int64_t onnx_type(element_type type);

}  // namespace sluice::test
