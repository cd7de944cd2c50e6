// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/model_arguments.hpp"
#include "tools/sluice/model_comparison.hpp"
#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/model_profile.hpp"
#include "tools/sluice/model_report.hpp"
#include "tools/sluice/model_shapes.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/models/model.hpp>
#include <sluice/models/write_model.hpp>

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

struct command_options {
  common_options common;
  model_arguments source;
  bool json = false;
  bool optimizations = false;
  bool profile = false;
  bool compare = false;
  model_options making{};
  profile_options profiling{};
  std::string chart;
  std::string written;
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
                 named_specs& specs, named_tensors& values, const model_options& making) {
  for (const auto& [name, spec] : specs) report.shapes.emplace(name, spec.shape);
  try {
    report.compiled = program_for(network, inputs, specs, values, making);
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

/// Refuses options that nothing uses. @throws error `invalid_argument`
void require_uses(const CLI::App& command, const command_options& options) {
  const auto require = [&](const char* name, bool has_use, const char* uses) {
    if (command.count(name) != 0 && !has_use)
      throw error(errc::invalid_argument, fmt::format("{}: needs {}", name, uses));
  };
  require("--chart", options.profile, "--profile");
  require("--runs", options.profile, "--profile");
  require("--seed", options.profile || options.compare, "--profile or --compare");
  require("--compare", options.making.precision != model_precision::original,
          "--precision tf32, f16 or bf16");
}

/// What `--profile` and `--compare` have found.
struct measurements {
  std::optional<model_profile> profile{};
  std::optional<model_comparison> comparison{};
};
measurements measure_program(const command_options& options, const model& network,
                             const model_program& compiled, const named_tensors& inputs,
                             const named_specs& specs, const named_tensors& values) {
  session current(options.common,
                  options.profile ? session::watch::run_times : session::watch::nothing);
  measurements found;
  if (options.profile)
    found.profile = measure(current, network, compiled, inputs, specs, values, options.making,
                            options.profiling);
  if (options.compare)
    found.comparison =
        compare(current, compiled,
                network.program_for(specs, values, {.optimize = options.making.optimize}), inputs,
                specs, options.profiling.seed);
  current.finish();
  return found;
}

void run(const CLI::App& command, const command_options& options) {
  require_uses(command, options);
  const auto opened = open_model(options.source);
  const auto& network = opened.network;
  std::vector<named_file> output_files{{"report", standard_output}};
  if (!options.chart.empty()) output_files.push_back({"--chart", options.chart});
  if (!options.written.empty()) output_files.push_back({"--write", options.written});
  require_distinct_files(options.common, std::move(output_files), opened.files(options.source));

  const auto stated = opened.read(options.source);
  auto shapes = shapes_of(network, stated);

  model_report report{.path = options.source.path,
                      .summary = network.summary(),
                      .inputs = network.inputs(),
                      .outputs = network.outputs(),
                      .assumed = std::move(shapes.assumed),
                      .lists_optimizations = options.optimizations};
  named_tensors values;
  if (shapes.problem.empty())
    add_program(report, network, stated.tensors, shapes.specs, values, options.making);
  measurements found;
  if ((options.profile || options.compare) && report.compiled) {
    found =
        measure_program(options, network, *report.compiled, stated.tensors, shapes.specs, values);
  } else if (options.common.trace) {
    write_trace(*options.common.trace, chrome_trace(1));
  }
  if (found.profile && !options.chart.empty())
    io::draw_bar_chart(profile_chart(*found.profile, options.source.path)).save(options.chart);

  if (!options.written.empty() && report.compiled) write_model(*report.compiled, options.written);

  if (options.json) {
    auto document = report_json(report);
    document["precision"] = name_of(options.making.precision);
    if (found.profile) document["profile"] = profile_json(*found.profile);
    if (found.comparison) document["comparison"] = comparison_json(*found.comparison);
    print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  } else {
    print(report_text(report) + (found.profile ? profile_text(*found.profile) : std::string()) +
          (found.comparison ? comparison_text(*found.comparison) : std::string()));
  }
  if (const auto text = failure_of(report, shapes.problem); !text.empty())
    throw error(errc::unsupported, fmt::format("{}: {}", io::displayed(options.source.path), text));
}

}  // namespace

void add_model_command(CLI::App& program) {
  const auto options = std::make_shared<command_options>();
  CLI::App& command = add_command(
      program, "model", "Describe a model in the format of ONNX, and its program", options->common);
  add_model_argument(command, options->source)->required();
  add_shape_options(command, options->source);
  add_precision_option(command, options->making.precision);
  add_optimize_option(command, options->making.optimize);
  command.add_flag("--json", options->json, "Print JSON");
  command.add_flag("--optimizations", options->optimizations,
                   "Also list which nodes are computed in another way, by which rule");
  command.add_flag("--profile", options->profile,
                   "Run the steps one by one on the device, and print the time of each");
  command.add_flag("--compare", options->compare,
                   "Run the model once at the precision of --precision and once at that of the "
                   "file, and print how far the outputs are apart");
  add_output(command, "--chart", options->chart,
             "With --profile, also draw a chart of the longest steps")
      ->type_name("PNG");
  add_output(command, "--write", options->written,
             "Write the program, with what has been optimised, as another model")
      ->type_name("FILE");
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
          "With --profile or --compare, seed of the random elements of inputs without a file [0]")
      ->type_name("S");
  command.footer(
      "Extents that the model leaves open, and no option states, are 1. If nodes cannot run, the "
      "command lists them and ends with exit code 2.");
  command.callback([options, &command] { run(command, *options); });
}

}  // namespace sluice::cli
