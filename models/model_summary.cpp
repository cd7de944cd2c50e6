// SPDX-License-Identifier: Apache-2.0
#include "models/element_types.hpp"
#include "models/model_file.hpp"

#include <sluice/models/model.hpp>
#include <sluice/models/model_summary.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace sluice {

namespace {

constexpr auto most = std::numeric_limits<std::uint64_t>::max();

/// The sum, or the largest number there is.
std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) noexcept {
  return a > most - b ? most : a + b;
}
/// Likewise.
std::uint64_t product_of(std::uint64_t a, std::uint64_t b) noexcept {
  return a != 0 && b > most / a ? most : a * b;
}

/// Counts the nodes and the constants of graphs.
class graph_contents {
 public:
  template <class Nodes>
  void add_nodes(const Nodes& nodes) {
    for (const auto& node : nodes) {
      const auto& domain = node.domain() == "ai.onnx" ? std::string() : node.domain();
      ++operators_[{domain, node.op_type()}];
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_t() && node.op_type() == "Constant") add_constant(attribute.t());
        if (attribute.has_g()) add_graph(attribute.g());
        for (const auto& graph : attribute.graphs()) add_graph(graph);
      }
    }
  }
  void add_graph(const onnx::GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) add_constant(tensor);
    add_nodes(graph.node());
  }
  /// Adds the counts to a summary.
  void write(model_summary& summary) const {
    for (const auto& [name, nodes] : operators_) {
      summary.operators.push_back({.domain = name.first, .name = name.second, .nodes = nodes});
    }
    std::sort(summary.operators.begin(), summary.operators.end(), [](const auto& a, const auto& b) {
      return std::tie(b.nodes, a.name, a.domain) < std::tie(a.nodes, b.name, b.domain);
    });
    summary.parameters = elements_;
    summary.parameter_bytes = bytes_;
  }

 private:
  void add_constant(const onnx::TensorProto& tensor) {
    std::uint64_t elements = 1;
    for (const auto extent : tensor.dims()) {
      // A negative extent is an error of the file, which `program_for` refuses.
      elements =
          product_of(elements, static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 0)));
    }
    elements_ = sum_of(elements_, elements);
    if (const auto type = models::find_element_type(tensor.data_type())) {
      bytes_ = sum_of(bytes_, product_of(elements, size_of(*type)));
    }
  }

  std::map<std::pair<std::string, std::string>, std::uint64_t> operators_;  // by domain and name
  std::uint64_t elements_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

namespace models {

model_summary model_file::summary() const {
  model_summary summary{.ir_version = message_.ir_version(),
                        .producer = message_.producer_name(),
                        .producer_version = message_.producer_version()};
  for (const auto& opset : message_.opset_import()) {
    summary.opsets.push_back(
        {.domain = opset.domain() == "ai.onnx" ? "" : opset.domain(), .version = opset.version()});
  }
  graph_contents contents;
  contents.add_graph(graph());
  for (const auto& function : message_.functions()) contents.add_nodes(function.node());
  contents.write(summary);
  return summary;
}

}  // namespace models

model_summary model::summary() const {
  return source_->summary();
}

}  // namespace sluice
