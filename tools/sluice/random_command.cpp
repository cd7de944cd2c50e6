// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

enum class random_distribution { uniform, normal };

std::string_view to_string(random_distribution distribution) {
  return distribution == random_distribution::normal ? "normal" : "uniform";
}

struct random_options {
  common_options common;
  std::string output;
  std::vector<std::int64_t> shape;
  element_type type = element_type::f32;
  random_distribution distribution = random_distribution::uniform;
  std::optional<double> mean;
  std::optional<double> stddev;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// Checks the options. Returns the size of the result in bytes.
std::size_t require_valid_options(const random_options& options) {
  const bool normal = options.distribution == random_distribution::normal;
  const auto require_normal = [&](std::string_view option, const std::optional<double>& value) {
    if (!value) return;
    if (!normal)
      throw error(errc::invalid_argument, fmt::format("{}: needs --distribution normal", option));
    if (options.type == element_type::f32 && !std::isfinite(static_cast<float>(*value)))
      throw error(errc::invalid_argument,
                  fmt::format("{}: {} is too large for f32", option, *value));
  };
  require_normal("--mean", options.mean);
  require_normal("--stddev", options.stddev);
  if (options.stddev && *options.stddev < 0)
    throw error(errc::invalid_argument, fmt::format("--stddev: {} is negative", *options.stddev));

  const std::size_t bytes = require_countable("--shape", options.type, options.shape);
  const std::size_t count = bytes / size_of(options.type);
  if (count != 0 && count - 1 > std::numeric_limits<std::uint64_t>::max() - options.offset)
    throw error(errc::invalid_argument,
                fmt::format("--offset: {} elements from {} exceed the last index, 2^64 - 1", count,
                            options.offset));
  return bytes;
}

template <class T>
gpu_ref<T> generate(session& current, const random_options& options, std::size_t count) {
  const auto generator = current.device().rng();
  const extents shape{static_cast<std::int64_t>(count)};
  const auto ask = [&](auto operation) {
    return current.ask<tensor>(generator, std::move(operation)).template as<T>();
  };
  if (options.distribution == random_distribution::uniform) {
    return ask(random_uniform{
        .shape = shape, .type = element_type_v<T>, .seed = options.seed, .offset = options.offset});
  }
  return ask(random_normal{.shape = shape,
                           .type = element_type_v<T>,
                           .seed = options.seed,
                           .offset = options.offset,
                           .mean = options.mean.value_or(0),
                           .stddev = options.stddev.value_or(1)});
}

template <class T>
void compute(const random_options& options, std::size_t bytes) {
  session current(options.common);
  require_memory("--shape", current.info(), bytes, bytes);
  const auto numbers = generate<T>(current, options, bytes / sizeof(T));
  const launch_summary launch = current.last_launch();
  write_array(options.output, options.shape, download_values(current, numbers));
  current.finish();
  print_summary(
      options.common, {{"-o", options.output}},
      fmt::format("random {} {} {} on {}{}: {} -> {}", shape_text(options.shape),
                  to_string(options.type), to_string(options.distribution), current.device_name(),
                  library_text(launch), latency_text(launch), options.output));
}

void run(const random_options& options) {
  const std::size_t bytes = require_valid_options(options);
  require_distinct_files(options.common, {{"-o", options.output}}, {});
  with_real_type(options.type, [&](auto zero) { compute<decltype(zero)>(options, bytes); });
}

/// Adds an option whose value `read` parses.
template <class Read>
void add_text(CLI::App& command, const std::string& name, const std::string& type, Read read,
              const std::string& description) {
  command
      .add_option_function<std::string>(
          name, [name, read](const std::string& text) { read(name, text); }, description)
      ->type_name(type);
}

}  // namespace

void add_random_command(CLI::App& program) {
  const auto options = std::make_shared<random_options>();
  CLI::App& command =
      add_command(program, "random", "Draw random numbers (Philox4x32-10)", options->common);
  add_output(command, "-o,--output", options->output, "Output file")->required()->type_name("NPY");
  command
      .add_option_function<std::string>(
          "--shape",
          [options](const std::string& text) { options->shape = parse_shape("--shape", text); },
          "Shape, for example 1000,64")
      ->required()
      ->type_name("N,...");
  add_text(
      command, "--dtype", "TYPE",
      [options](const std::string& name, const std::string& text) {
        if (text != "f32" && text != "f64")
          throw error(errc::invalid_argument,
                      name + ": " + io::quoted(text) + " is neither f32 nor f64");
        options->type = text == "f64" ? element_type::f64 : element_type::f32;
      },
      "Element type: f32 or f64 [f32]");
  add_text(
      command, "--distribution", "NAME",
      [options](const std::string& name, const std::string& text) {
        if (text != "uniform" && text != "normal")
          throw error(errc::invalid_argument,
                      name + ": " + io::quoted(text) + " is neither uniform nor normal");
        options->distribution =
            text == "normal" ? random_distribution::normal : random_distribution::uniform;
      },
      "Distribution: uniform in (0, 1], or normal [uniform]");
  add_text(
      command, "--mean", "M",
      [options](const std::string& name, const std::string& text) {
        options->mean = parse_finite(name, text);
      },
      "Mean of the normal distribution [0]");
  add_text(
      command, "--stddev", "S",
      [options](const std::string& name, const std::string& text) {
        options->stddev = parse_finite(name, text);
      },
      "Standard deviation of the normal distribution [1]");
  add_text(
      command, "--seed", "S",
      [options](const std::string& name, const std::string& text) {
        options->seed = parse_unsigned(name, text);
      },
      "Seed of the sequence, 0 to 2^64-1 [0]");
  add_text(
      command, "--offset", "K",
      [options](const std::string& name, const std::string& text) {
        options->offset = parse_unsigned(name, text);
      },
      "Index of the first element, 0 to 2^64-1 [0]");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
