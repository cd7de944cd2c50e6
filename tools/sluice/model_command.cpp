// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/model_report.hpp"
#include "tools/sluice/model_shapes.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/models/model.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

struct model_options {
  common_options common;
  std::string model;
  std::vector<std::string> shapes;      // "name=1,3", or "1,3"
  std::vector<std::string> dimensions;  // "batch=4", or "4"
  std::vector<std::string> inputs;      // "name=file", or "file"
  bool json = false;
};

/// Every reason why there is no program. Inputs that it must know are bound, if there is a file.
std::vector<model_refusal> refusals_of(const model& network, const named_tensors& inputs,
                                       named_specs& specs, named_tensors& values) {
  for (;;) {
    auto refusals = network.refusals(specs, values);
    bool has_bound = false;
    for (const auto& refusal : refusals) {
      if (bind_inputs(refusal.unbound, inputs, specs, values)) has_bound = true;
    }
    if (!has_bound) return refusals;
  }
}

/// Adds the program to a report, or the reasons why there is none.
void add_program(model_report& report, const model& network, const named_tensors& inputs,
                 named_specs specs) {
  named_tensors values;
  for (const auto& [name, spec] : specs) report.shapes.emplace(name, spec.shape);
  try {
    report.compiled = program_for(network, inputs, specs, values);
  } catch (const error&) {
    report.refusals = refusals_of(network, inputs, specs, values);
    if (report.refusals.empty()) throw;
  }
  for (const auto& [name, x] : values) report.bound.push_back(name);
}

/// The text of the error if there is no program; empty if there is one.
std::string failure_of(const model_report& report, const std::string& problem) {
  if (!problem.empty()) return problem;
  const auto count = report.refusals.size();
  if (count == 0) return {};
  if (count == 1 && report.refusals.front().node.empty()) return report.refusals.front().reason;
  return fmt::format("{} node{} cannot run", count, count == 1 ? "" : "s");
}

void run(const model_options& options) {
  const auto network = model::open(options.model);
  const auto names = names_of(network.inputs());
  const auto files = parse_named_files("--input", options.inputs, names, standard_input);
  std::vector<named_file> input_files{{"MODEL", options.model}};
  for (const auto& file : files) input_files.push_back({"--input", file.text});
  require_distinct_files(options.common, {}, input_files);
  if (options.common.trace) write_trace(*options.common.trace, chrome_trace(1));

  stated_shapes stated{
      .shapes = parse_named("--shape", options.shapes, names),
      .dimensions = parse_named("--dimension", options.dimensions, symbols_of(network))};
  stated.tensors = read_inputs(files, names);
  auto shapes = shapes_of(network, stated);

  model_report report{.path = options.model,
                      .summary = network.summary(),
                      .inputs = network.inputs(),
                      .outputs = network.outputs(),
                      .assumed = std::move(shapes.assumed)};
  if (shapes.problem.empty()) add_program(report, network, stated.tensors, std::move(shapes.specs));

  print(options.json
            ? report_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                  '\n'
            : report_text(report));
  if (const auto text = failure_of(report, shapes.problem); !text.empty())
    throw error(errc::unsupported, fmt::format("{}: {}", io::displayed(options.model), text));
}

}  // namespace

void add_model_command(CLI::App& program) {
  const auto options = std::make_shared<model_options>();
  CLI::App& command = add_command(
      program, "model", "Describe a model in the format of ONNX, and its program", options->common);
  command
      .add_option("MODEL", options->model,
                  "The model, an ONNX file; not -, because other files may belong to it")
      ->required()
      ->type_name("FILE");
  command
      .add_option(
          "--dimension", options->dimensions,
          "The extent of a symbol in the shapes of inputs; SYMBOL= may be left out if there "
          "is one")
      ->type_name("[SYMBOL=]N")
      ->allow_extra_args(false);
  command
      .add_option("--shape", options->shapes,
                  "The shape of an input; NAME= may be left out if there is one input")
      ->type_name("[NAME=]N,N,...")
      ->allow_extra_args(false);
  command
      .add_option("-i,--input", options->inputs,
                  "An input, a .npy file: its shape, and its elements if the program must know "
                  "them; NAME= may be left out if there is one input")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command.add_flag("--json", options->json, "Print JSON");
  command.footer(
      "Extents that the model leaves open, and no option states, are 1. If nodes cannot run, the "
      "command lists them and ends with exit code 2.");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
