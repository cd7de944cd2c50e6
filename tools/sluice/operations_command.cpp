// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/command.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/operations/operation_table.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::cli {

namespace {

struct operations_options {
  common_options common;
  bool json = false;
  bool markdown = false;
};

std::string_view library(const operation_description& o, device_kind kind) {
  return o.descriptor->library(kind);
}

std::string as_json() {
  auto list = nlohmann::json::array();
  for (const auto& o : describe_operations()) {
    list.push_back({{"operation", o.descriptor->name()},
                    {"result", o.result},
                    {"types", o.types},
                    {"layouts", o.layouts},
                    {"gpu", library(o, device_kind::cuda)},
                    {"host", library(o, device_kind::host)}});
  }
  return nlohmann::json{{"operations", std::move(list)}}.dump(2) + '\n';
}

std::string as_markdown() {
  std::string table =
      "| operation | result | element types | layouts | on a GPU | on the host |\n"
      "|---|---|---|---|---|---|\n";
  for (const auto& o : describe_operations()) {
    table +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", o.descriptor->name(), o.result, o.types,
                    o.layouts, library(o, device_kind::cuda), library(o, device_kind::host));
  }
  return table;
}

std::string as_table() {
  const auto operations = describe_operations();
  std::size_t width = 0;
  for (const auto& o : operations) width = std::max(width, o.descriptor->name().size());
  std::string table;
  for (const auto& o : operations) {
    table += fmt::format("{:<{}} {}\n{:<{}}   {}; {}; {} on a GPU, {} on the host\n",
                         o.descriptor->name(), width, o.result, "", width, o.types, o.layouts,
                         library(o, device_kind::cuda), library(o, device_kind::host));
  }
  return table;
}

void run(const operations_options& options) {
  require_distinct_files(options.common, {}, {});
  if (options.common.trace) write_trace(*options.common.trace, chrome_trace(1));
  print(options.json ? as_json() : options.markdown ? as_markdown() : as_table());
}

}  // namespace

void add_operations_command(CLI::App& program) {
  const auto options = std::make_shared<operations_options>();
  CLI::App& command = add_command(program, "operations", "List the operations and their libraries",
                                  options->common);
  auto* const json = command.add_flag("--json", options->json, "Print JSON");
  command.add_flag("--markdown", options->markdown, "Print a table in Markdown")->excludes(json);
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
