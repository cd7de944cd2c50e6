// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice::cli {

namespace {

struct conv2d_options {
  common_options common;
  std::string x;
  std::string w;
  std::optional<std::string> bias;
  std::optional<std::string> residual;
  std::string output;
  conv2d_geometry geometry;
  sluice::activation activation = sluice::activation::none;
};

struct conv2d_inputs {
  io::array x;
  io::array w;
  std::optional<io::array> bias;
  std::optional<io::array> residual;
  extents result;  // shape
};

extents shape_of(const io::array& array) {
  return extents(std::span<const std::int64_t>(array.shape));
}

io::array read_f32(std::string_view name, const std::string& path, std::size_t dimensions,
                   std::string_view meaning) {
  constexpr std::array types{element_type::f32};
  io::array array = read_array(name, path, types);
  require_dimensions(path, array, dimensions, meaning);
  return array;
}

/// The shape of the result. Throws if the inputs do not match, naming the file or option at fault.
extents result_shape(const conv2d_options& options, const extents& x, const extents& w) {
  const std::int64_t groups = options.geometry.groups;
  if (x[1] % groups != 0)
    throw error(errc::invalid_argument,
                fmt::format("--groups: {} does not divide the {} channels of {}", groups, x[1],
                            io::displayed(options.x)));
  if (w[0] % groups != 0)
    throw error(errc::invalid_argument,
                fmt::format("--groups: {} does not divide the {} filters of {}", groups, w[0],
                            io::displayed(options.w)));
  if (w[1] != x[1] / groups)
    refuse_file(options.w, fmt::format("its filters have {} channels, but each group of {} has {}",
                                       w[1], io::displayed(options.x), x[1] / groups));
  if (w[2] == 0 || w[3] == 0)
    refuse_file(options.w, fmt::format("its filters are empty ({}x{})", w[2], w[3]));
  try {
    return conv2d_output_shape(x, w, options.geometry);
  } catch (const error& e) {
    refuse_file(options.w,
                fmt::format("does not match {}: {}", io::displayed(options.x), e.what()));
  }
}

conv2d_inputs read_inputs(const conv2d_options& options) {
  conv2d_inputs in;
  in.x = read_f32("X", options.x, 4, "a batch of images (N,C,H,W)");
  in.w = read_f32("W", options.w, 4, "a set of filters (K,C/G,R,S)");
  const auto filters = in.w.shape[0];
  if (options.bias) {
    in.bias = read_f32("--bias", *options.bias, 1, "a bias (K)");
    if (in.bias->shape[0] != filters)
      refuse_file(*options.bias, fmt::format("has {} elements, but {} has {} filters",
                                             in.bias->shape[0], io::displayed(options.w), filters));
  }
  in.result = result_shape(options, shape_of(in.x), shape_of(in.w));
  if (options.residual) {
    in.residual = read_f32("--residual", *options.residual, 4, "a residual (N,K,H',W')");
    if (shape_of(*in.residual) != in.result)
      refuse_file(*options.residual,
                  fmt::format("has the shape {}, but the result has {}",
                              to_string(shape_of(*in.residual)), to_string(in.result)));
  }
  return in;
}

/// Uploads an array with its shape.
tensor upload_tensor(session& current, io::array& array) {
  const auto shape = shape_of(array);
  return tensor(upload_array<float>(current, array)).reshape(shape);
}

void run(const conv2d_options& options) {
  std::vector<named_file> inputs{{"X", options.x}, {"W", options.w}};
  if (options.bias) inputs.push_back({"--bias", *options.bias});
  if (options.residual) inputs.push_back({"--residual", *options.residual});
  require_distinct_files(options.common, {{"-o", options.output}}, inputs);
  conv2d_inputs in = read_inputs(options);
  const std::span<const std::int64_t> shape(in.result.begin(), in.result.end());
  const std::size_t result_bytes =
      require_countable(io::displayed(options.w), element_type::f32, shape);

  session current(options.common);
  require_memory(options.output, current.info(), std::max(in.x.bytes.size(), result_bytes),
                 saturating_add(in.x.bytes.size() + in.w.bytes.size() +
                                    (in.residual ? in.residual->bytes.size() : 0),
                                result_bytes));

  conv2d request{.x = upload_tensor(current, in.x),
                 .w = upload_tensor(current, in.w),
                 .geometry = options.geometry,
                 .activation = options.activation};
  if (in.bias) request.bias = upload_tensor(current, *in.bias);
  if (in.residual) request.residual = upload_tensor(current, *in.residual);
  const auto result = current.ask<tensor>(current.device().dnn(), std::move(request));
  const launch_summary launch = current.last_launch();
  write_array(options.output, shape, download_values(current, result.reshape({-1}).as<float>()));
  current.finish();
  print_summary(options.common, {{"-o", options.output}},
                fmt::format("conv2d {} * {} = {} f32 on {}{}: {} -> {}", shape_text(in.x.shape),
                            shape_text(in.w.shape), shape_text(shape), current.device_name(),
                            library_text(launch), latency_text(launch), options.output));
}

activation parse_activation(const std::string& text) {
  using enum activation;
  constexpr std::pair<std::string_view, activation> names[] = {
      {"none", none}, {"relu", relu},       {"gelu", gelu}, {"gelu_tanh", gelu_tanh},
      {"silu", silu}, {"sigmoid", sigmoid}, {"tanh", tanh}};
  for (const auto& [name, function] : names) {
    if (text == name) return function;
  }
  std::string known;
  for (const auto& [name, function] : names)
    known += (known.empty() ? "" : ", ") + std::string(name);
  throw error(errc::invalid_argument, "--activation: " + io::quoted(text) + " is none of " + known);
}

/// Adds an option "H,W". The values fit into 32 bits, as the libraries require.
void add_pair(CLI::App& command, const std::string& name, std::int64_t smallest,
              std::int64_t& height, std::int64_t& width, const std::string& description) {
  command
      .add_option_function<std::string>(
          name,
          [name, smallest, &height, &width](const std::string& text) {
            std::tie(height, width) =
                parse_pair(name, text, smallest, std::numeric_limits<std::int32_t>::max());
          },
          description)
      ->type_name("H,W");
}

}  // namespace

void add_conv2d_command(CLI::App& program) {
  const auto options = std::make_shared<conv2d_options>();
  conv2d_geometry& geometry = options->geometry;
  CLI::App& command = add_command(
      program, "conv2d", "Convolve images with filters (cross-correlation, f32)", options->common);
  add_input(command, "X", options->x, "Images (N,C,H,W)")->required()->type_name("NPY");
  add_input(command, "W", options->w, "Filters (K,C/G,R,S)")->required()->type_name("NPY");
  add_output(command, "-o,--output", options->output, "Output file (N,K,H',W')")
      ->required()
      ->type_name("NPY");
  add_input(command, "--bias", options->bias, "Bias (K), added to each channel")->type_name("NPY");
  add_input(command, "--residual", options->residual,
            "Residual (N,K,H',W'), added before the activation")
      ->type_name("NPY");
  add_pair(command, "--stride", 1, geometry.stride.h, geometry.stride.w,
           "Stride: one number or H,W [1]");
  add_pair(command, "--padding", 0, geometry.padding.h, geometry.padding.w,
           "Zeros added at each side: one number or H,W [0]");
  command
      .add_option_function<std::string>(
          "--padding-after",
          [options](const std::string& text) {
            conv2d_geometry::widths after;
            std::tie(after.h, after.w) =
                parse_pair("--padding-after", text, 0, std::numeric_limits<std::int32_t>::max());
            options->geometry.padding_after = after;
          },
          "Instead of --padding, zeros added below and right: one number or H,W")
      ->type_name("H,W");
  add_pair(command, "--dilation", 1, geometry.dilation.h, geometry.dilation.w,
           "Dilation: one number or H,W [1]");
  command
      .add_option_function<std::string>(
          "--groups",
          [options](const std::string& text) {
            options->geometry.groups =
                parse_integer("--groups", text, 1, std::numeric_limits<std::int32_t>::max());
          },
          "Number of groups of channels [1]")
      ->type_name("G");
  command
      .add_option_function<std::string>(
          "--activation",
          [options](const std::string& text) { options->activation = parse_activation(text); },
          "none, relu, gelu, gelu_tanh, silu, sigmoid or tanh [none]")
      ->type_name("NAME");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
