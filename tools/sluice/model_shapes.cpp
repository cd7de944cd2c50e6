// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/model_shapes.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/option_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace sluice::cli {

namespace {

/// The shape of an input, and the option that states it.
struct stated_shape {
  std::string_view option;
  extents shape;
};

/// The extents of symbols, and the options that state them.
class symbol_extents {
 public:
  /// @throws error `invalid_argument` if another option states another extent
  void add(std::string_view option, const std::string& symbol, std::int64_t extent) {
    const auto [entry, is_new] = extents_.try_emplace(symbol, option, extent);
    const auto& [other, known] = entry->second;
    if (is_new || known == extent) return;
    throw error(errc::invalid_argument, fmt::format("{}: {} would be {}, but {} states {}", option,
                                                    io::displayed(symbol), extent, other, known));
  }
  [[nodiscard]] std::optional<std::int64_t> find(const std::string& symbol) const {
    const auto found = extents_.find(symbol);
    if (found == extents_.end()) return std::nullopt;
    return found->second.second;
  }

 private:
  std::map<std::string, std::pair<std::string_view, std::int64_t>> extents_;
};

/// "" is the shape of a scalar.
extents parse_extents(const std::string& text) {
  if (text.empty()) return {};
  const auto shape = parse_shape("--shape", text);
  if (shape.size() > extents::max_rank)
    throw error(errc::invalid_argument,
                fmt::format("--shape: {} has {} dimensions; at most {} are possible",
                            io::quoted(text), shape.size(), extents::max_rank));
  return extents(std::span<const std::int64_t>(shape));
}

/// The shapes of inputs, by number, that options state.
std::map<std::size_t, stated_shape> explicit_shapes(const model& network,
                                                    const stated_shapes& stated) {
  std::map<std::size_t, stated_shape> shapes;
  for (const auto& text : stated.shapes) {
    shapes.insert_or_assign(text.number, stated_shape{"--shape", parse_extents(text.text)});
  }
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    const auto& name = network.inputs()[i].name;
    const auto tensor = stated.tensors.find(name);
    if (tensor == stated.tensors.end()) continue;
    if (!shapes.try_emplace(i, stated_shape{"--input", tensor->second.shape()}).second)
      throw error(errc::invalid_argument,
                  fmt::format("--shape: {} has the shape of its file", io::displayed(name)));
  }
  return shapes;
}

/// The declared shape of an input, with the extents of symbols. Extents that nothing states are 1,
/// and become elements of `assumed`.
extents complete(const model_value& input, const symbol_extents& symbols,
                 std::vector<std::string>& assumed) {
  extents shape;
  for (std::size_t i = 0; i < input.shape->size(); ++i) {
    const auto& dimension = (*input.shape)[i];
    const auto known = dimension.extent ? dimension.extent : symbols.find(dimension.symbol);
    shape.push_back(known.value_or(1));
    if (known) continue;
    auto name = dimension.symbol.empty() ? fmt::format("{}[{}]", input.name, i) : dimension.symbol;
    if (std::find(assumed.begin(), assumed.end(), name) == assumed.end())
      assumed.push_back(std::move(name));
  }
  return shape;
}

/// @throws error `invalid_argument` if the size in bytes overflows
tensor_spec spec_of(std::string_view option, const std::string& name, element_type type,
                    const extents& shape) {
  try {
    return tensor_spec::row_major(type, shape);
  } catch (const error& e) {
    throw error(e.code(), fmt::format("{}: {}: {}", option, io::displayed(name), e.what()));
  }
}

}  // namespace

std::vector<std::string> symbols_of(const model& network) {
  std::vector<std::string> symbols;
  for (const auto& input : network.inputs()) {
    if (!input.shape) continue;
    for (const auto& dimension : *input.shape) {
      const auto& symbol = dimension.symbol;
      if (symbol.empty() || dimension.extent) continue;
      if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end())
        symbols.push_back(symbol);
    }
  }
  return symbols;
}

input_shapes shapes_of(const model& network, const stated_shapes& stated) {
  const auto& inputs = network.inputs();
  const auto shapes = explicit_shapes(network, stated);
  symbol_extents symbols;
  const auto names = symbols_of(network);
  for (const auto& text : stated.dimensions) {
    symbols.add("--dimension", names[text.number], parse_integer("--dimension", text.text, 0));
  }
  for (const auto& [number, known] : shapes) {
    const auto& declared = inputs[number].shape;
    if (!declared || declared->size() != known.shape.size()) continue;
    for (std::size_t i = 0; i < declared->size(); ++i) {
      const auto& symbol = (*declared)[i].symbol;
      if (!symbol.empty()) symbols.add(known.option, symbol, known.shape[i]);
    }
  }

  input_shapes result;
  const auto report = [&](std::string_view name, std::string_view text) {
    if (result.problem.empty()) result.problem = fmt::format("{} {}", io::displayed(name), text);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& input = inputs[i];
    const auto tensor = stated.tensors.find(input.name);
    const auto type = tensor != stated.tensors.end() ? tensor->second.type() : input.type;
    const auto known = shapes.find(i);
    if (!type) {
      report(input.name, "is declared without a type that sluice has");
    } else if (known != shapes.end()) {
      result.specs.emplace(input.name,
                           spec_of(known->second.option, input.name, *type, known->second.shape));
    } else if (!input.shape) {
      report(input.name, "is declared without a shape: state one with --shape");
    } else if (input.shape->size() > extents::max_rank) {
      report(input.name, fmt::format("has {} dimensions; at most {} are possible",
                                     input.shape->size(), extents::max_rank));
    } else {
      const auto shape = complete(input, symbols, result.assumed);
      result.specs.emplace(input.name, spec_of("--dimension", input.name, *type, shape));
    }
  }
  return result;
}

}  // namespace sluice::cli
