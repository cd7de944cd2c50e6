// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"
#include "tools/io/displayed.hpp"
#include "tools/io/wav.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/demo_reference.hpp"
#include "tools/sluice/mel_picture.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

struct demo_options {
  common_options common;
  std::string wav;
  std::string out = "out";
  std::optional<std::uint64_t> seed;
};

/// A row of the table.
struct check {
  std::string operation{};
  std::string shape{};
  std::string library{};
  double microseconds = 0;  ///< from the request to its reply
  double relative_error = 0;
  double bound = 0;
  std::string failure{};  ///< the error that the device replied with

  [[nodiscard]] bool held() const { return failure.empty() && relative_error <= bound; }
};

/// The bound on the relative error of an f32 result that is a sum of `terms` products.
double bound_for(std::int64_t terms) {
  return 1e-5 * std::sqrt(std::max(1.0, static_cast<double>(terms) / 1024));
}

/// A line on the terminal that names the current step. Each step replaces the line before.
class progress_line {
 public:
  explicit progress_line(bool quiet) : shown_(!quiet && ::isatty(STDERR_FILENO) == 1) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() { say(""); }

  void say(const std::string& step) const {
    if (!shown_) return;
    std::fprintf(stderr, "\r\033[K%s", step.empty() ? "" : (step + " ...").c_str());
    std::fflush(stderr);
  }

 private:
  bool shown_;
};

/// The environment of a check.
struct workbench {
  session& current;
  const progress_line& progress;
  std::mt19937_64 random;
  std::string blas_library{};
  std::string fft_library{};

  /// Random numbers, uniform in [-1, 1).
  std::vector<float> numbers(std::int64_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(random);
    return values;
  }

  /// Sends `request` and returns the reply. Then sends it nine more times and stores the median
  /// time from request to reply, because the first time includes the creation of plans.
  template <class Reply, class Actor, class Request>
  Reply measure(check& row, const Actor& actor, const Request& request) {
    Reply answer = current.ask<Reply>(actor, request);
    row.library = current.last_launch().library;
    std::vector<double> microseconds;
    for (int repetition = 0; repetition < 9; ++repetition) {
      const auto begun = std::chrono::steady_clock::now();
      static_cast<void>(current.ask<Reply>(actor, request));
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begun;
      microseconds.push_back(took.count());
    }
    std::nth_element(microseconds.begin(), microseconds.begin() + 4, microseconds.end());
    row.microseconds = microseconds[4];
    return answer;
  }
};

check check_sgemm(workbench& bench) {
  constexpr std::int64_t m = 500, n = 300, k = 400;
  check row{.operation = "sgemm", .shape = fmt::format("{} x {} x {}", m, n, k)};
  const auto a = bench.numbers(m * k);
  const auto b = bench.numbers(k * n);
  const auto c = bench.measure<gpu_ref<float>>(row, bench.current.device().blas(),
                                               sgemm{.m = m,
                                                     .n = n,
                                                     .k = k,
                                                     .a = upload_values(bench.current, a),
                                                     .b = upload_values(bench.current, b)});
  bench.blas_library = row.library;
  row.bound = bound_for(k);
  row.relative_error =
      reference::relative_error(download_values(bench.current, c), reference::gemm(m, n, k, a, b));
  return row;
}

check check_conv2d(workbench& bench) {
  const extents x_shape{2, 16, 45, 60};
  const extents w_shape{32, 16, 3, 3};
  check row{.operation = "conv2d",
            .shape = fmt::format("{} * {}", shape_text({x_shape.begin(), x_shape.end()}),
                                 shape_text({w_shape.begin(), w_shape.end()}))};
  const auto x = bench.numbers(x_shape[0] * x_shape[1] * x_shape[2] * x_shape[3]);
  const auto w = bench.numbers(w_shape[0] * w_shape[1] * w_shape[2] * w_shape[3]);
  const auto bias = bench.numbers(w_shape[0]);
  const auto put = [&](const std::vector<float>& values) {
    return tensor(upload_values(bench.current, values));
  };
  const auto y = bench.measure<tensor>(row, bench.current.device().dnn(),
                                       conv2d{.x = put(x).reshape(x_shape),
                                              .w = put(w).reshape(w_shape),
                                              .bias = put(bias),
                                              .geometry = {.padding = {.h = 1, .w = 1}},
                                              .activation = activation::relu});
  row.bound = bound_for(w_shape[1] * w_shape[2] * w_shape[3]);
  row.relative_error =
      reference::relative_error(download_values(bench.current, y.reshape({-1}).as<float>()),
                                reference::conv2d_relu(x_shape, w_shape, 1, x, w, bias));
  return row;
}

check check_fft(workbench& bench) {
  constexpr std::int64_t length = 1000, batch = 64;
  check row{.operation = "fft", .shape = fmt::format("{} x {}", batch, length)};
  const auto rows = bench.numbers(batch * length);
  const auto bins = bench.measure<tensor>(
      row, bench.current.device().fft(),
      rfft{.x = tensor(upload_values(bench.current, rows)).reshape({batch, length})});
  bench.fft_library = row.library;
  row.bound = bound_for(length);
  row.relative_error = reference::relative_error(
      download_values(bench.current, bins.reinterpret(element_type::f32).as<float>()),
      reference::half_spectra(length, rows));
  return row;
}

check check_random(workbench& bench) {
  constexpr std::size_t count = 1'000'000;
  check row{.operation = "random", .shape = fmt::format("{} normal", count)};
  const auto seed = bench.random();
  const auto offset = bench.random() >> 2;
  const auto values =
      bench.measure<tensor>(row, bench.current.device().rng(),
                            random_normal{.shape = extents{count}, .seed = seed, .offset = offset});
  row.bound = bound_for(1);
  row.relative_error = reference::relative_error(download_values(bench.current, values.as<float>()),
                                                 reference::normal(seed, offset, count));
  return row;
}

/// The results of the mel service.
struct mel_result {
  std::vector<float> power;
  std::vector<float> decibels;
  mel_axes axes;
};

check check_mel(workbench& bench, const io::recording& recording, mel_result& result) {
  examples::mel_spectrogram request{.sample_rate = static_cast<double>(recording.sample_rate)};
  const auto samples = static_cast<std::int64_t>(recording.samples.size());
  result.axes = {.sample_rate = request.sample_rate,
                 .hop = request.hop,
                 .frames = 1 + samples / request.hop,
                 .bands = request.n_mels,
                 .fmin = request.fmin,
                 .fmax = request.fmax.value_or(request.sample_rate / 2)};
  check row{.operation = "mel spectrogram",
            .shape = fmt::format("{} x {}", result.axes.bands, result.axes.frames)};
  auto& current = bench.current;
  const auto service = examples::spawn_mel_service(current.system(), current.device().actor());
  request.samples = upload_values(current, recording.samples);
  const auto mel = bench.measure<tensors>(row, service, request);
  row.library = bench.fft_library + ", " + bench.blas_library;
  result.power = download_values(current, mel.front().as<float>());
  request.decibels = decibel_options{};
  result.decibels =
      download_values(current, current.ask<tensors>(service, request).front().as<float>());

  bench.progress.say("mel spectrogram: computing the reference");
  row.bound = bound_for(request.n_fft);
  row.relative_error = reference::relative_error(
      result.power, reference::mel_spectrogram(recording.samples, request.sample_rate,
                                               static_cast<std::size_t>(request.n_fft),
                                               static_cast<std::size_t>(request.hop),
                                               static_cast<std::size_t>(request.n_mels)));
  return row;
}

/// Runs one check and appends its row. An error becomes a part of the row.
template <class Check>
void add_row(std::vector<check>& rows, workbench& bench, const std::string& operation, Check run) {
  bench.progress.say(operation);
  try {
    rows.push_back(run(bench));
  } catch (const error& e) {
    rows.push_back(
        {.operation = operation, .failure = fmt::format("{}: {}", to_string(e.code()), e.what())});
  }
}

std::string latency_text(double microseconds) {
  if (microseconds < 999.5) return fmt::format("{:.3g} µs", microseconds);
  if (microseconds < 999'500) return fmt::format("{:.3g} ms", microseconds / 1e3);
  return fmt::format("{:.3g} s", microseconds / 1e6);
}

std::string table(const std::vector<check>& rows, const std::string& device) {
  const bool colours = ::isatty(STDOUT_FILENO) == 1;
  const auto coloured = [&](const char* colour, const std::string& text) {
    return colours ? fmt::format("\033[{}m{}\033[0m", colour, text) : text;
  };
  std::size_t device_width = device.size();
  std::size_t library_width = 0;
  for (const check& row : rows) library_width = std::max(library_width, row.library.size());
  device_width = std::max<std::size_t>(device_width, 6);
  library_width = std::max<std::size_t>(library_width, 7);

  const auto line = [&](const auto& operation, const auto& shape, const auto& device_name,
                        const auto& library, const auto& latency, const auto& deviation) {
    return fmt::format("  {:<15}  {:<24}  {:<{}}  {:<{}}  {:>8}  {:>14}  ", operation, shape,
                       device_name, device_width, library, library_width, latency, deviation);
  };
  const std::string head =
      line("operation", "shape", "device", "library", "latency", "relative error") + "verdict";
  std::string text = coloured("1", head) + "\n  " + std::string(head.size() - 2, '-') + '\n';
  for (const check& row : rows) {
    const bool answered = row.failure.empty();
    text += line(row.operation, row.shape, device, row.library,
                 answered ? latency_text(row.microseconds) : "",
                 answered ? fmt::format("{:.1e}", row.relative_error) : "");
    text += row.held() ? coloured("32", "ok")
                       : coloured("31", answered ? fmt::format("WRONG, over {:.1e}", row.bound)
                                                 : "FAILED, " + row.failure);
    text += '\n';
  }
  return text;
}

/// The recording of `--wav`, else one from the package alsa-utils.
fs::path chosen_recording(const demo_options& options) {
  if (!options.wav.empty()) return options.wav;
  const fs::path folder = "/usr/share/sounds/alsa";
  std::error_code missing;
  if (fs::path spoken = folder / "Front_Center.wav"; fs::exists(spoken, missing)) return spoken;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (entry.path().extension() == ".wav") found.push_back(entry.path());
  if (found.empty())
    throw error(errc::invalid_argument, "--wav: required, because " + folder.string() +
                                            " (package alsa-utils) has no recording");
  return *std::min_element(found.begin(), found.end());
}

void run(demo_options options) {
  const fs::path folder = options.out;
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw error(errc::invalid_argument,
                "--out: " + io::displayed(folder) + ": " + failure.message());
  const fs::path npy = folder / "mel.npy";
  const fs::path png = folder / "mel.png";
  if (!options.common.trace) options.common.trace = folder / "trace.json";
  const fs::path wav = chosen_recording(options);
  require_distinct_files(options.common, {{"--out", npy}, {"--out", png}}, {{"--wav", wav}});
  const io::recording recording = io::read_wav(wav);
  if (recording.samples.empty()) refuse_file(wav, "the recording is empty");
  const auto seed =
      options.seed.value_or(std::uint64_t{std::random_device()()} << 32 | std::random_device()());

  const progress_line progress(options.common.quiet);
  progress.say("opening the device");
  session current(options.common);
  workbench bench{current, progress, std::mt19937_64(seed)};
  std::vector<check> rows;
  mel_result mel;
  add_row(rows, bench, "sgemm", check_sgemm);
  add_row(rows, bench, "conv2d", check_conv2d);
  add_row(rows, bench, "fft", check_fft);
  add_row(rows, bench, "random", check_random);
  add_row(rows, bench, "mel spectrogram",
          [&](workbench& with) { return check_mel(with, recording, mel); });

  const double rate = recording.sample_rate;
  const auto length = fmt::format("{:.3g} s at {:.6g} kHz",
                                  static_cast<double>(recording.samples.size()) / rate, rate / 1e3);
  const bool have_mel = !mel.decibels.empty();
  if (have_mel) {
    progress.say("writing " + io::displayed(folder));
    write_array(npy, std::vector{mel.axes.bands, mel.axes.frames}, mel.power);
    write_mel_picture(png, wav, mel.decibels, mel.axes);
  }
  current.finish();
  progress.say("");

  const bool held = std::all_of(rows.begin(), rows.end(), [](const check& c) { return c.held(); });
  if (!options.common.quiet) {
    const auto info = current.info();
    std::string text = fmt::format(
        "\nsluice {} on {}: {}, {:.1f} GiB\n"
        "Random inputs (--seed {}), compared with double-precision references.\n\n{}\n",
        version, current.device_name(), info.name,
        static_cast<double>(info.memory_bytes) / (1024.0 * 1024.0 * 1024.0), seed,
        table(rows, current.device_name()));
    text += fmt::format("{}, {}:\n", io::displayed(wav), length);
    const auto file = [&](const fs::path& path, const std::string& description) {
      const auto name = io::displayed(path);
      text += fmt::format("  {:<{}}  {}\n", name, io::displayed(folder).size() + 11, description);
    };
    if (have_mel) {
      file(npy, fmt::format("{} bands x {} frames of power, f32", mel.axes.bands, mel.axes.frames));
      file(png, "the spectrogram as a picture, in decibels");
    }
    file(*options.common.trace, "all launches; open it in https://ui.perfetto.dev");
    print(text);
  }
  if (!held) throw error(errc::library_failure, "at least one check failed");
}

}  // namespace

void add_demo_command(CLI::App& program) {
  const auto options = std::make_shared<demo_options>();
  CLI::App& command =
      add_command(program, "demo", "Run every library, check the results and draw a spectrogram",
                  options->common);
  add_input(command, "--wav", options->wav, "Input recording [one from /usr/share/sounds/alsa]")
      ->type_name("WAV");
  command
      .add_option("--out", options->out,
                  "Output folder for mel.npy, mel.png and trace.json; created if missing [out]")
      ->type_name("FOLDER");
  command
      .add_option_function<std::string>(
          "--seed",
          [options](const std::string& text) { options->seed = parse_unsigned("--seed", text); },
          "Seed of the random inputs [a random one]")
      ->type_name("S");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
