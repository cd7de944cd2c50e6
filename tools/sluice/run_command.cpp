// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/model_arguments.hpp"
#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/models/model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

struct run_options {
  common_options common;
  std::string model;
  std::vector<std::string> inputs;   // "name=file", or "file"
  std::vector<std::string> outputs;  // likewise
  model_options making{};
};

std::string text_of(std::string_view name, const host_tensor& x) {
  return fmt::format("{} {} {}", name, shape_text(std::span(x.shape().begin(), x.shape().end())),
                     to_string(x.type()));
}

void run(const run_options& options) {
  const auto network = model::open(options.model);
  const auto names = names_of(network.inputs());
  const auto inputs = parse_named_files("--input", options.inputs, names, standard_input);
  const auto outputs =
      parse_named_files("--output", options.outputs, names_of(network.outputs()), standard_output);
  std::vector<named_file> input_files{{"MODEL", options.model}};
  for (const auto& file : inputs) input_files.push_back({"--input", file.text});
  std::vector<named_file> output_files;
  output_files.reserve(outputs.size());
  for (const auto& file : outputs) output_files.push_back({"--output", file.text});
  require_distinct_files(options.common, output_files, input_files);

  const auto tensors = read_inputs(inputs, names);
  named_specs specs;
  for (const auto& [name, x] : tensors) {
    specs.emplace(name, tensor_spec::row_major(x.type(), x.shape()));
  }
  named_tensors values;
  const auto compiled = program_for(network, tensors, specs, values, options.making);
  for (const auto& file : outputs) {
    const auto type = compiled.results[file.number].type;
    if (std::find(io::npy_types.begin(), io::npy_types.end(), type) == io::npy_types.end())
      throw error(errc::unsupported,
                  fmt::format("--output: {} has elements of type {}, which .npy files do not have",
                              io::displayed(compiled.outputs[file.number]), to_string(type)));
  }

  session current(options.common);
  run_to_host request{.what = compiled.program};
  for (const auto& name : compiled.inputs) request.inputs.emplace_back(tensors.at(name));
  const auto results = current.ask<host_tensors>(current.device().programs(), std::move(request));
  const launch_summary launch = current.last_launch();
  for (const auto& file : outputs) {
    const auto& y = results[file.number];
    io::write_npy(file.text, y.type(), std::span(y.shape().begin(), y.shape().end()),
                  {static_cast<const std::byte*>(y.data().get()), y.bytes()});
  }
  current.finish();

  std::string text;
  for (const auto& [name, x] : tensors) text += (text.empty() ? "" : ", ") + text_of(name, x);
  text += " -> ";
  for (std::size_t i = 0; i < results.size(); ++i)
    text += (i == 0 ? "" : ", ") + text_of(compiled.outputs[i], results[i]);
  print_summary(options.common, output_files,
                fmt::format("{} on {}: {}: {}", options.model, current.device_name(), text,
                            latency_text(launch)));
}

}  // namespace

void add_run_command(CLI::App& program) {
  const auto options = std::make_shared<run_options>();
  CLI::App& command =
      add_command(program, "run", "Run a model in the format of ONNX once", options->common);
  command
      .add_option("MODEL", options->model,
                  "The model, an ONNX file; not -, because other files may belong to it")
      ->required()
      ->type_name("FILE");
  command
      .add_option("-i,--input", options->inputs,
                  "An input, a .npy file; NAME= may be left out if there is one input")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command
      .add_option("-o,--output", options->outputs,
                  "An output, a .npy file; NAME= may be left out if there is one output. Outputs "
                  "without a file are computed and not written")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  add_precision_option(command, options->making.precision);
  add_optimize_option(command, options->making.optimize);
  command.footer("The elements of inputs have the types that the model declares.");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
