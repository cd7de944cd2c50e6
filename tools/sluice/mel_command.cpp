// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"
#include "tools/io/displayed.hpp"
#include "tools/io/wav.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/mel_picture.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/operations/mel_filterbank.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

struct mel_options {
  common_options common;
  std::string input;
  std::string output;
  std::string png;
  std::int64_t n_fft = 2048;
  std::int64_t hop = 512;
  std::int64_t mels = 128;
  double fmin = 0;
  std::optional<double> fmax;
  bool decibels = false;
};

/// A validated request for a mel spectrogram.
struct mel_task {
  io::recording recording;
  double fmax = 0;
  std::size_t frames = 0;
  float peak = 0;    ///< the largest magnitude of the samples of the file
  int exponent = 0;  ///< the samples are divided by 2^exponent, so that their power is finite
};

std::vector<named_file> outputs_of(const mel_options& options) {
  std::vector<named_file> outputs{{"-o", options.output}};
  if (!options.png.empty()) outputs.push_back({"--png", options.png});
  return outputs;
}

mel_task task_for(const mel_options& options) {
  mel_task task{.recording = io::read_wav(options.input)};
  if (task.recording.samples.empty()) refuse_file(options.input, "the recording is empty");
  const double highest = task.recording.sample_rate / 2.0;
  task.fmax = options.fmax.value_or(highest);
  if (task.fmax > highest)
    throw error(errc::invalid_argument,
                fmt::format("--fmax: {} Hz is above half the recording's sampling rate, {} Hz",
                            task.fmax, highest));
  if (options.fmin < 0)
    throw error(errc::invalid_argument, fmt::format("--fmin: {} Hz is negative", options.fmin));
  if (options.fmin >= task.fmax)
    throw error(
        errc::invalid_argument,
        fmt::format("--fmin: {} Hz is not below {}, {} Hz", options.fmin,
                    options.fmax ? "--fmax" : "half the recording's sampling rate", task.fmax));
  try {
    task.frames = frame_count({.samples = task.recording.samples.size(),
                               .n_fft = static_cast<std::size_t>(options.n_fft),
                               .hop = static_cast<std::size_t>(options.hop)});
  } catch (const error&) {
    throw error(errc::invalid_argument,
                options.hop > options.n_fft
                    ? fmt::format("--hop: {} samples between frames are too many", options.hop)
                    : fmt::format("--n-fft: {} samples per frame are too many", options.n_fft));
  }
  for (const float sample : task.recording.samples)
    task.peak = std::max(task.peak, std::abs(sample));
  if (task.peak > 1) task.exponent = std::ilogb(task.peak);
  for (float& sample : task.recording.samples) sample = std::ldexp(sample, -task.exponent);
  return task;
}

/// Prints what the results may lack.
void warn(const mel_options& options, const mel_task& task) {
  if (task.recording.missing_bytes != 0)
    print_warning("mel", fmt::format("{}: ends {} bytes before the stated end of its samples",
                                     io::displayed(options.input), task.recording.missing_bytes));
  const auto filterbank =
      mel_filterbank({.sample_rate = static_cast<double>(task.recording.sample_rate),
                      .n_fft = options.n_fft,
                      .n_mels = options.mels,
                      .fmin = options.fmin,
                      .fmax = task.fmax});
  const auto filters = filterbank.values<float>();
  const auto bins = options.n_fft / 2 + 1;
  std::int64_t empty = 0;
  for (auto row = filters.begin(); row != filters.end(); row += bins)
    if (std::all_of(row, row + bins, [](float weight) { return weight == 0; })) ++empty;
  if (empty != 0)
    print_warning("mel", fmt::format("--mels: {} of {} bands are narrower than the distance of two "
                                     "bins of the FFT and stay empty; use fewer bands or a larger "
                                     "--n-fft",
                                     empty, options.mels));
}

/// The decibels of the samples as they are in the file.
decibel_options options_for(const mel_task& task) {
  // At the smallest value, all but silence is louder: the loudest sample is at least 1.
  constexpr double smallest = 1e-25;
  return {.amin = std::max(std::ldexp(decibel_options{}.amin, -2 * task.exponent), smallest)};
}

/// Turns powers of the divided samples into those of the samples in the file.
void restore_power(const mel_options& options, const mel_task& task, std::vector<float>& power) {
  if (task.exponent == 0) return;
  for (float& value : power) value = std::ldexp(value, 2 * task.exponent);
  if (!std::all_of(power.begin(), power.end(), [](float value) { return std::isfinite(value); }))
    refuse_file(options.input,
                fmt::format("has samples of up to {:.3g}, whose power exceeds the range of f32; "
                            "--db writes decibels",
                            task.peak));
}

/// Throws if the arrays do not fit into memory.
void require_memory_for(const mel_options& options, const mel_task& task,
                        const device_info& device) {
  const auto product = [](std::size_t a, std::size_t b, std::size_t bytes) {
    return saturating_multiply(saturating_multiply(a, b), bytes);
  };
  const auto n_fft = static_cast<std::size_t>(options.n_fft);
  const auto mels = static_cast<std::size_t>(options.mels);
  const std::size_t bins = n_fft / 2 + 1;
  const std::size_t samples = task.recording.samples.size() * sizeof(float);
  const std::size_t filterbank = product(mels, bins, sizeof(float));
  const std::size_t result = product(mels, task.frames, sizeof(float));
  // Frames, spectrum and power hold 1, 1 and 1/2 numbers for each sample of a frame.
  const std::size_t stages = product(task.frames, bins, 5 * sizeof(float));
  const std::size_t bands = saturating_add(filterbank, result);
  const std::size_t host =
      saturating_add(saturating_multiply(bands, 2), saturating_multiply(samples, 2));
  const std::size_t on_device = saturating_add(saturating_add(bands, samples), stages);
  const bool long_frames = bins > task.recording.samples.size() && bins > mels;
  require_memory(long_frames      ? "--n-fft"
                 : bands > stages ? "--mels"
                                  : io::displayed(options.input),
                 device, host, on_device);
}

/// The picture shows decibels, also if the output array holds power.
std::vector<float> decibels_of(session& current, const gpu_ref<float>& power,
                               const decibel_options& options) {
  const auto elementwise = current.device().elementwise();
  const auto loudest = current.ask<tensor>(elementwise, reduce{.x = power, .kind = reduction::max});
  const auto decibels = current.ask<tensor>(
      elementwise, power_to_decibel{.x = power, .reference = loudest, .options = options});
  return download_values(current, decibels.as<float>());
}

/// "1.43 s at 48 kHz"
std::string length_text(const io::recording& recording) {
  const double rate = recording.sample_rate;
  return fmt::format("{:.3g} s at {:.6g} kHz", static_cast<double>(recording.samples.size()) / rate,
                     rate / 1000);
}

void compute(const mel_options& options, mel_task& task) {
  session current(options.common);
  require_memory_for(options, task, current.info());
  warn(options, task);
  const auto length = length_text(task.recording);

  const auto mel_actor = examples::spawn_mel_service(current.system(), current.device().actor());
  const auto begun = std::chrono::steady_clock::now();
  const auto results = current.ask<tensors>(
      mel_actor,
      examples::mel_spectrogram{
          .sample_rate = static_cast<double>(task.recording.sample_rate),
          .samples = std::move(task.recording.samples),
          .n_fft = options.n_fft,
          .hop = options.hop,
          .n_mels = options.mels,
          .fmin = options.fmin,
          .fmax = task.fmax,
          .decibels = options.decibels ? std::optional(options_for(task)) : std::nullopt});
  const auto mel = results.front().as<float>();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;

  const auto frames = static_cast<std::int64_t>(task.frames);
  auto values = download_values(current, mel);
  if (!options.decibels) restore_power(options, task, values);
  write_array(options.output, std::vector<std::int64_t>{options.mels, frames}, values);
  if (!options.png.empty()) {
    const auto decibels = options.decibels ? values : decibels_of(current, mel, options_for(task));
    write_mel_picture(options.png, options.input, decibels,
                      {.sample_rate = static_cast<double>(task.recording.sample_rate),
                       .hop = options.hop,
                       .frames = frames,
                       .bands = options.mels,
                       .fmin = options.fmin,
                       .fmax = task.fmax});
  }
  current.finish();
  print_summary(options.common, outputs_of(options),
                fmt::format("mel of {}, {} bands x {} frames, {} on {}, {:.3g} ms: {} -> {}",
                            length, options.mels, frames, options.decibels ? "decibels" : "power",
                            current.device_name(), took.count(), options.input, options.output));
}

void run(const mel_options& options) {
  require_distinct_files(options.common, outputs_of(options), {{"WAV", options.input}});
  mel_task task = task_for(options);
  compute(options, task);
}

}  // namespace

void add_mel_command(CLI::App& program) {
  const auto options = std::make_shared<mel_options>();
  CLI::App& command = add_command(
      program, "mel", "Mel spectrogram of a recording, as librosa computes it", options->common);
  add_input(command, "WAV", options->input, "Input recording; channels are averaged")
      ->required()
      ->type_name("WAV");
  add_output(command, "-o,--output", options->output,
             "Output file: f32 (mels, 1 + samples/hop), the lowest band first")
      ->required()
      ->type_name("NPY");
  add_output(command, "--png", options->png,
             "Also write a picture: decibels over time and frequency, 80 dB down from the maximum")
      ->type_name("PNG");
  const auto add_size = [&](const std::string& name, std::int64_t& target,
                            const std::string& description) {
    command
        .add_option_function<std::string>(
            name,
            [options, &target, name](const std::string& text) {
              target = parse_integer(name, text, 1);
            },
            description + fmt::format(" [{}]", target))
        ->type_name("N");
  };
  add_size("--n-fft", options->n_fft, "Samples per frame");
  add_size("--hop", options->hop, "Samples from one frame to the next");
  add_size("--mels", options->mels, "Number of mel bands");
  command
      .add_option_function<std::string>(
          "--fmin",
          [options](const std::string& text) { options->fmin = parse_finite("--fmin", text); },
          "Lower edge of the lowest band [0]")
      ->type_name("HZ");
  command
      .add_option_function<std::string>(
          "--fmax",
          [options](const std::string& text) { options->fmax = parse_finite("--fmax", text); },
          "Upper edge of the highest band [half the sampling rate]")
      ->type_name("HZ");
  command.add_flag("--db", options->decibels,
                   "Write decibels relative to the maximum, from -80 to 0, instead of power");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
