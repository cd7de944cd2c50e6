// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/model_arguments.hpp"

#include "tools/io/displayed.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace sluice::cli {

namespace {

constexpr std::array precisions{
    std::pair{model_precision::original, "original"}, std::pair{model_precision::tf32, "tf32"},
    std::pair{model_precision::f16, "f16"}, std::pair{model_precision::bf16, "bf16"}};

model_precision parse_precision(const std::string& text) {
  for (const auto& [precision, name] : precisions) {
    if (text == name) return precision;
  }
  throw error(
      errc::invalid_argument,
      fmt::format("--precision: {} is not one of original, tf32, f16, bf16", io::quoted(text)));
}

}  // namespace

CLI::Option* add_model_argument(CLI::App& command, model_arguments& arguments) {
  return command
      .add_option("MODEL", arguments.path,
                  "The model, an ONNX file; not -, because other files may belong to it")
      ->type_name("FILE");
}

void add_shape_options(CLI::App& command, model_arguments& arguments) {
  command
      .add_option(
          "--dimension", arguments.dimensions,
          "The extent of a symbol in the shapes of inputs; SYMBOL= may be left out if there "
          "is one")
      ->type_name("[SYMBOL=]N")
      ->allow_extra_args(false);
  command
      .add_option("--shape", arguments.shapes,
                  "The shape of an input; NAME= may be left out if there is one input")
      ->type_name("[NAME=]N,N,...")
      ->allow_extra_args(false);
  command
      .add_option("-i,--input", arguments.inputs,
                  "An input, a .npy file: its shape, and its elements if the program must know "
                  "them; NAME= may be left out if there is one input")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
}

void add_precision_option(CLI::App& command, model_precision& precision) {
  command
      .add_option_function<std::string>(
          "--precision",
          [&precision](const std::string& text) { precision = parse_precision(text); },
          "The type in which products, convolutions and what follows them are computed if the "
          "model has f32: original, tf32, f16 or bf16 [original]")
      ->type_name("TYPE");
}

void add_optimize_option(CLI::App& command, bool& optimize) {
  command.add_flag_callback(
      "--no-optimize", [&optimize] { optimize = false; },
      "Compute each node as the model states it");
}

std::string_view name_of(model_precision precision) {
  for (const auto& [known, name] : precisions) {
    if (known == precision) return name;
  }
  return "unknown";
}

opened_model open_model(const model_arguments& arguments) {
  auto network = model::open(arguments.path);
  auto inputs =
      parse_named_files("--input", arguments.inputs, names_of(network.inputs()), standard_input);
  return {std::move(network), std::move(inputs)};
}

std::vector<named_file> opened_model::files(const model_arguments& arguments) const {
  std::vector<named_file> all{{"MODEL", arguments.path}};
  for (const auto& file : inputs) all.push_back({"--input", file.text});
  return all;
}

stated_shapes opened_model::read(const model_arguments& arguments) const {
  const auto names = names_of(network.inputs());
  stated_shapes stated{
      .shapes = parse_named("--shape", arguments.shapes, names),
      .dimensions = parse_named("--dimension", arguments.dimensions, symbols_of(network))};
  stated.tensors = read_inputs(inputs, names);
  return stated;
}

}  // namespace sluice::cli
