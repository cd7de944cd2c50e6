// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/model_profile.hpp"
#include "tools/sluice/model_report.hpp"
#include "tools/sluice/model_shapes.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/models/model.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <memory>
#include <optional>
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
  bool optimizations = false;
  bool profile = false;
  profile_options profiling{};
  std::string chart;
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

/// Adds the program to a report, or the reasons why there is none. Inputs are bound by value.
void add_program(model_report& report, const model& network, const named_tensors& inputs,
                 named_specs& specs, named_tensors& values, bool optimize) {
  for (const auto& [name, spec] : specs) report.shapes.emplace(name, spec.shape);
  try {
    report.compiled = program_for(network, inputs, specs, values, {.optimize = optimize});
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
  // A reason that is about no single node ends the import, so it is the last one.
  if (report.refusals.back().node.empty()) return report.refusals.back().reason;
  return fmt::format("{} node{} cannot run", count, count == 1 ? "" : "s");
}

/// The options that only `--profile` uses. @throws error `invalid_argument` if there is one
void require_profile(const CLI::App& command, const model_options& options) {
  if (options.profile) return;
  for (const auto* const name : {"--chart", "--runs", "--seed"}) {
    if (command.count(name) != 0)
      throw error(errc::invalid_argument, fmt::format("{}: needs --profile", name));
  }
}

void run(const CLI::App& command, const model_options& options) {
  require_profile(command, options);
  const auto network = model::open(options.model);
  const auto names = names_of(network.inputs());
  const auto files = parse_named_files("--input", options.inputs, names, standard_input);
  std::vector<named_file> input_files{{"MODEL", options.model}};
  for (const auto& file : files) input_files.push_back({"--input", file.text});
  std::vector<named_file> output_files{{"report", standard_output}};
  if (!options.chart.empty()) output_files.push_back({"--chart", options.chart});
  require_distinct_files(options.common, std::move(output_files), input_files);

  stated_shapes stated{
      .shapes = parse_named("--shape", options.shapes, names),
      .dimensions = parse_named("--dimension", options.dimensions, symbols_of(network))};
  stated.tensors = read_inputs(files, names);
  auto shapes = shapes_of(network, stated);

  model_report report{.path = options.model,
                      .summary = network.summary(),
                      .inputs = network.inputs(),
                      .outputs = network.outputs(),
                      .assumed = std::move(shapes.assumed),
                      .lists_optimizations = options.optimizations};
  named_tensors values;
  if (shapes.problem.empty()) {
    add_program(report, network, stated.tensors, shapes.specs, values, options.profiling.optimize);
  }
  std::optional<model_profile> profile;
  if (options.profile && report.compiled) {
    session current(options.common, session::watch::run_times);
    profile = measure(current, network, *report.compiled, stated.tensors, shapes.specs, values,
                      options.profiling);
    current.finish();
  } else if (options.common.trace) {
    write_trace(*options.common.trace, chrome_trace(1));
  }
  if (profile && !options.chart.empty())
    io::draw_bar_chart(profile_chart(*profile, options.model)).save(options.chart);

  if (options.json) {
    auto document = report_json(report);
    if (profile) document["profile"] = profile_json(*profile);
    print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  } else {
    print(report_text(report) + (profile ? profile_text(*profile) : std::string()));
  }
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
  command.add_flag("--optimizations", options->optimizations,
                   "Also list which nodes are computed in another way, by which rule");
  command.add_flag_callback(
      "--no-optimize", [options] { options->profiling.optimize = false; },
      "Compute each node as the model states it");
  command.add_flag("--profile", options->profile,
                   "Run the steps one by one on the device, and print the time of each");
  add_output(command, "--chart", options->chart,
             "With --profile, also draw a chart of the longest steps")
      ->type_name("PNG");
  command
      .add_option_function<std::string>(
          "--runs",
          [options](const std::string& text) {
            options->profiling.runs =
                static_cast<std::size_t>(parse_integer("--runs", text, 1, 10'000));
          },
          "With --profile, how often each step is measured [10]")
      ->type_name("N");
  command
      .add_option_function<std::string>(
          "--seed",
          [options](const std::string& text) {
            options->profiling.seed = parse_unsigned("--seed", text);
          },
          "With --profile, seed of the random elements of inputs without a file [0]")
      ->type_name("S");
  command.footer(
      "Extents that the model leaves open, and no option states, are 1. If nodes cannot run, the "
      "command lists them and ends with exit code 2.");
  command.callback([options, &command] { run(command, *options); });
}

}  // namespace sluice::cli
