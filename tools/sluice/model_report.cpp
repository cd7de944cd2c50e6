// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/model_report.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::cli {

namespace {

using nlohmann::ordered_json;

/// "12.5 G", with a prefix of powers of 1000.
std::string scaled(double number) {
  constexpr std::array prefixes{"", " K", " M", " G", " T", " P"};
  std::size_t i = 0;
  for (; number >= 1000 && i + 1 < prefixes.size(); ++i) number /= 1000;
  return i == 0 ? fmt::format("{:.0f}", number) : fmt::format("{:.3g}{}", number, prefixes[i]);
}

/// "12.5 MiB", with a prefix of powers of 1024.
std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto number = static_cast<double>(bytes);
  std::size_t i = 0;
  for (; number >= 1024 && i + 1 < units.size(); ++i) number /= 1024;
  return i == 0 ? fmt::format("{} {}", bytes, bytes == 1 ? "byte" : units[0])
                : fmt::format("{:.1f} {}", number, units[i]);
}

/// "1 node", "2 nodes"
std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string_view type_text(const model_value& value) {
  return value.type ? to_string(*value.type) : "?";
}

/// "[batch, 3, ?]"
std::string declared_text(const model_value& value) {
  if (!value.shape) return "of any shape";
  std::vector<std::string> extents;
  for (const auto& dimension : *value.shape) {
    extents.push_back(dimension.extent           ? std::to_string(*dimension.extent)
                      : dimension.symbol.empty() ? "?"
                                                 : io::displayed(dimension.symbol));
  }
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

/// "3x4"
std::string extents_text(const extents& shape) {
  return shape_text(std::span(shape.begin(), shape.end()));
}

/// The domain and the name: "com.microsoft.Gelu".
std::string full_name(const std::string& domain, const std::string& name) {
  return io::displayed(domain.empty() ? name : domain + '.' + name);
}

/// The longest of `texts`, up to a limit: a width for a column.
template <class Values, class Text>
std::size_t width_of(const Values& values, const Text& text) {
  constexpr std::size_t limit = 40;
  std::size_t width = 0;
  for (const auto& value : values) width = std::max(width, std::string(text(value)).size());
  return std::min(width, limit);
}

std::string values_text(std::string_view title, const std::vector<model_value>& values) {
  const auto name = [](const model_value& value) {
    return io::displayed(value.name);
  };
  const auto width = width_of(values, name);
  std::string text = fmt::format("{}\n", counted(values.size(), title));
  for (const auto& value : values) {
    text += fmt::format("  {:<{}}  {:<4}  {}\n", name(value), width, type_text(value),
                        declared_text(value));
  }
  return text;
}

std::string summary_text(const model_report& report) {
  const auto& summary = report.summary;
  std::vector<std::string> opsets;
  for (const auto& opset : summary.opsets) {
    opsets.push_back(opset.domain.empty()
                         ? fmt::format("opset {}", opset.version)
                         : fmt::format("{} {}", io::displayed(opset.domain), opset.version));
  }
  auto text = fmt::format("{}: format {}, {}", io::displayed(report.path), summary.ir_version,
                          opsets.empty() ? "no opset" : fmt::format("{}", fmt::join(opsets, ", ")));
  if (!summary.producer.empty()) {
    text += ", by " + io::displayed(summary.producer);
    if (!summary.producer_version.empty()) text += ' ' + io::displayed(summary.producer_version);
  }
  text += '\n' + values_text("input", report.inputs) + values_text("output", report.outputs);
  text += fmt::format("{}, {}\n", counted(summary.parameters, "parameter"),
                      bytes_text(summary.parameter_bytes));
  std::uint64_t nodes = 0;
  for (const auto& entry : summary.operators) nodes += entry.nodes;
  text += fmt::format("{} of {}\n", counted(nodes, "node"),
                      counted(summary.operators.size(), "operator"));
  const auto name = [](const model_operator& entry) {
    return full_name(entry.domain, entry.name);
  };
  const auto width = width_of(summary.operators, name);
  for (const auto& entry : summary.operators) {
    text += fmt::format("  {:<{}}  {:>6}\n", name(entry), width, entry.nodes);
  }
  return text;
}

/// The inputs that the program is for.
std::string shapes_text(const model_report& report) {
  std::vector<std::string> inputs;
  for (const auto& input : report.inputs) {
    const auto found = report.shapes.find(input.name);
    if (found == report.shapes.end()) continue;
    inputs.push_back(fmt::format("{} {}", io::displayed(input.name), extents_text(found->second)));
  }
  std::string text =
      inputs.empty() ? "Without inputs" : fmt::format("For {}", fmt::join(inputs, ", "));
  if (!report.assumed.empty()) {
    std::vector<std::string> names;
    for (const auto& name : report.assumed) names.push_back(io::displayed(name));
    text +=
        fmt::format("\n  1 is assumed for {}: see --dimension and --shape", fmt::join(names, ", "));
  }
  if (!report.bound.empty()) {
    std::vector<std::string> names;
    for (const auto& name : report.bound) names.push_back(io::displayed(name));
    text += fmt::format("\n  bound by value: {}", fmt::join(names, ", "));
  }
  return text + '\n';
}

std::string program_text(const model_program& compiled) {
  const auto& cost = compiled.cost;
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < compiled.outputs.size(); ++i) {
    outputs.push_back(fmt::format("{} {} {}", io::displayed(compiled.outputs[i]),
                                  extents_text(compiled.results[i].shape),
                                  to_string(compiled.results[i].type)));
  }
  return fmt::format(
      "  {}, {} arithmetic operations\n"
      "  {} of constants\n"
      "  {} of intermediate values, at most {} at one time\n"
      "  outputs: {}\n",
      counted(compiled.program.steps(), "step"), scaled(cost.arithmetic),
      bytes_text(cost.constant_bytes), bytes_text(cost.intermediate_bytes),
      bytes_text(cost.live_bytes), fmt::join(outputs, ", "));
}

std::string optimizations_text(const model_program& compiled) {
  const auto rule = [](const model_optimization& done) -> const std::string& {
    return done.rule;
  };
  const auto width = width_of(compiled.optimizations, rule);
  auto text = fmt::format("{}\n", counted(compiled.optimizations.size(), "optimization"));
  for (const auto& done : compiled.optimizations) {
    text += fmt::format("  {:<{}}  {}\n", done.rule, width, io::displayed(done.node));
  }
  return text;
}

std::string refusals_text(const std::vector<model_refusal>& refusals) {
  const bool has_unbound = std::any_of(refusals.begin(), refusals.end(), [](const auto& refusal) {
    return !refusal.unbound.empty();
  });
  std::string text =
      has_unbound ? "  no program (--input binds an input by value):\n" : "  no program:\n";
  for (const auto& refusal : refusals) {
    text += refusal.node.empty()
                ? fmt::format("  {}\n", refusal.reason)
                : fmt::format("  {} ({}): {}\n", io::displayed(refusal.node),
                              full_name(refusal.domain, refusal.operator_name), refusal.reason);
  }
  return text;
}

ordered_json json_of(const std::vector<model_value>& values) {
  auto list = ordered_json::array();
  for (const auto& value : values) {
    ordered_json shape;
    if (value.shape) {
      shape = ordered_json::array();
      for (const auto& dimension : *value.shape) {
        if (dimension.extent) {
          shape.push_back(*dimension.extent);
        } else {
          shape.push_back(dimension.symbol.empty() ? ordered_json()
                                                   : ordered_json(dimension.symbol));
        }
      }
    }
    list.push_back({{"name", value.name},
                    {"type", value.type ? ordered_json(to_string(*value.type)) : ordered_json()},
                    {"shape", std::move(shape)}});
  }
  return list;
}

std::vector<std::int64_t> json_of(const extents& shape) {
  return {shape.begin(), shape.end()};
}

ordered_json optimizations_json(const model_program& compiled) {
  auto list = ordered_json::array();
  for (const auto& done : compiled.optimizations) {
    list.push_back({{"rule", done.rule}, {"node", done.node}});
  }
  return list;
}

ordered_json json_of(const model_program& compiled) {
  auto outputs = ordered_json::array();
  for (std::size_t i = 0; i < compiled.outputs.size(); ++i) {
    outputs.push_back({{"name", compiled.outputs[i]},
                       {"type", to_string(compiled.results[i].type)},
                       {"shape", json_of(compiled.results[i].shape)}});
  }
  return {{"steps", compiled.program.steps()},
          {"arithmetic", compiled.cost.arithmetic},
          {"constant_bytes", compiled.cost.constant_bytes},
          {"intermediate_bytes", compiled.cost.intermediate_bytes},
          {"live_bytes", compiled.cost.live_bytes},
          {"outputs", std::move(outputs)}};
}

}  // namespace

std::string report_text(const model_report& report) {
  auto text = summary_text(report);
  if (report.shapes.size() != report.inputs.size()) return text;
  text += shapes_text(report);
  if (report.compiled) text += program_text(*report.compiled);
  if (report.compiled && report.lists_optimizations) text += optimizations_text(*report.compiled);
  if (!report.refusals.empty()) text += refusals_text(report.refusals);
  return text;
}

ordered_json report_json(const model_report& report) {
  const auto& summary = report.summary;
  auto opsets = ordered_json::array();
  for (const auto& opset : summary.opsets) {
    opsets.push_back({{"domain", opset.domain}, {"version", opset.version}});
  }
  auto operators = ordered_json::array();
  for (const auto& entry : summary.operators) {
    operators.push_back({{"domain", entry.domain}, {"name", entry.name}, {"nodes", entry.nodes}});
  }
  auto shapes = ordered_json::object();
  for (const auto& [name, shape] : report.shapes) shapes[name] = json_of(shape);
  auto refusals = ordered_json::array();
  for (const auto& refusal : report.refusals) {
    refusals.push_back({{"node", refusal.node},
                        {"domain", refusal.domain},
                        {"operator", refusal.operator_name},
                        {"code", to_string(refusal.code)},
                        {"reason", refusal.reason},
                        {"unbound", refusal.unbound}});
  }
  ordered_json document{{"model", report.path},
                        {"ir_version", summary.ir_version},
                        {"opsets", std::move(opsets)},
                        {"producer", summary.producer},
                        {"producer_version", summary.producer_version},
                        {"inputs", json_of(report.inputs)},
                        {"outputs", json_of(report.outputs)},
                        {"parameters", summary.parameters},
                        {"parameter_bytes", summary.parameter_bytes},
                        {"operators", std::move(operators)},
                        {"shapes", std::move(shapes)},
                        {"assumed", report.assumed},
                        {"bound", report.bound},
                        {"program", report.compiled ? json_of(*report.compiled) : ordered_json()},
                        {"refusals", std::move(refusals)}};
  if (report.compiled && report.lists_optimizations) {
    document["program"]["optimizations"] = optimizations_json(*report.compiled);
  }
  return document;
}

}  // namespace sluice::cli
