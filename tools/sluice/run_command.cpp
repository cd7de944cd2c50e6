// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/models/model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
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
};

/// The file of an input or an output of the model.
struct bound_file {
  std::string name;
  std::string path;
};

using named_specs = std::map<std::string, tensor_spec>;
using named_tensors = std::map<std::string, host_tensor>;

std::string listed(const std::vector<model_value>& values) {
  std::string names;
  for (const auto& value : values) names += (names.empty() ? "" : ", ") + io::displayed(value.name);
  return names.empty() ? "none" : names;
}

/// Parses the values of `option`: "name=file", or "file" if the model has one value of this kind.
std::vector<bound_file> parse_files(std::string_view option, const std::vector<std::string>& texts,
                                    const std::vector<model_value>& values,
                                    std::string_view standard_stream) {
  std::vector<bound_file> files;
  for (const auto& text : texts) {
    // Names may contain '=', too: the longest one counts.
    const model_value* named = nullptr;
    for (const auto& value : values) {
      if (text.starts_with(value.name + '=') &&
          (named == nullptr || value.name.size() > named->name.size())) {
        named = &value;
      }
    }
    if (named == nullptr && values.size() != 1) {
      throw error(
          errc::invalid_argument,
          fmt::format("{}: {} does not begin with the name of one and '='; the model has {}",
                      option, io::displayed(text), listed(values)));
    }
    bound_file file{named != nullptr ? named->name : values.front().name,
                    named != nullptr ? text.substr(named->name.size() + 1) : text};
    if (file.path == "-") file.path = standard_stream;
    if (file.path.empty())
      throw error(errc::invalid_argument, fmt::format("{}: the file name is empty", option));
    const auto other = std::find_if(files.begin(), files.end(), [&](const bound_file& earlier) {
      return earlier.name == file.name;
    });
    if (other != files.end())
      throw error(errc::invalid_argument,
                  fmt::format("{}: {} is named twice", option, io::displayed(file.name)));
    files.push_back(std::move(file));
  }
  return files;
}

host_tensor read_tensor(const bound_file& input) {
  const auto array = read_array("--input", input.path, io::npy_types);
  if (array.shape.size() > extents::max_rank)
    refuse_file(input.path, fmt::format("has {} dimensions; at most {} are possible",
                                        array.shape.size(), extents::max_rank));
  host_tensor x(array.type, extents(std::span<const std::int64_t>(array.shape)));
  if (x.bytes() != 0) std::memcpy(x.data().get(), array.bytes.data(), x.bytes());
  return x;
}

/// The program for inputs of these types and shapes. Those that it must know are bound by value.
model_program program_for(const model& network, const named_tensors& inputs) {
  named_specs specs;
  for (const auto& [name, x] : inputs) {
    specs.emplace(name, tensor_spec::row_major(x.type(), x.shape()));
  }
  named_tensors values;
  for (;;) {
    try {
      return network.program_for(specs, values);
    } catch (const unbound_inputs& e) {
      if (e.names().empty()) throw;
      for (const auto& name : e.names()) {
        specs.erase(name);
        if (!values.emplace(name, inputs.at(name)).second) throw;  // it is bound already
      }
    }
  }
}

/// The number of an output among those of the model.
std::size_t number_of(const model_program& compiled, const bound_file& output) {
  const auto position = std::find(compiled.outputs.begin(), compiled.outputs.end(), output.name);
  return static_cast<std::size_t>(position - compiled.outputs.begin());
}

std::string text_of(std::string_view name, const host_tensor& x) {
  return fmt::format("{} {} {}", name, shape_text(std::span(x.shape().begin(), x.shape().end())),
                     to_string(x.type()));
}

void run(const run_options& options) {
  const auto network = model::open(options.model);
  const auto inputs = parse_files("--input", options.inputs, network.inputs(), standard_input);
  const auto outputs = parse_files("--output", options.outputs, network.outputs(), standard_output);
  std::vector<named_file> input_files{{"MODEL", options.model}};
  for (const auto& file : inputs) input_files.push_back({"--input", file.path});
  std::vector<named_file> output_files;
  output_files.reserve(outputs.size());
  for (const auto& file : outputs) output_files.push_back({"--output", file.path});
  require_distinct_files(options.common, output_files, input_files);

  named_tensors tensors;
  for (const auto& file : inputs) tensors.emplace(file.name, read_tensor(file));
  const auto compiled = program_for(network, tensors);
  for (const auto& file : outputs) {
    const auto type = compiled.results[number_of(compiled, file)].type;
    if (std::find(io::npy_types.begin(), io::npy_types.end(), type) == io::npy_types.end())
      throw error(errc::unsupported,
                  fmt::format("--output: {} has elements of type {}, which .npy files do not have",
                              io::displayed(file.name), to_string(type)));
  }

  session current(options.common);
  run_to_host request{.what = compiled.program};
  for (const auto& name : compiled.inputs) request.inputs.emplace_back(tensors.at(name));
  const auto results = current.ask<host_tensors>(current.device().programs(), std::move(request));
  const launch_summary launch = current.last_launch();
  for (const auto& file : outputs) {
    const auto& y = results[number_of(compiled, file)];
    io::write_npy(file.path, y.type(), std::span(y.shape().begin(), y.shape().end()),
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
  command.footer("The elements of inputs have the types that the model declares.");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
