// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_filterbank.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/load_client.hpp"
#include "tools/sluice/paired_rounds.hpp"
#include "tools/sluice/plain_calls.hpp"
#include "tools/sluice/request_times.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/rng.hpp>
#include <sluice/operations/spectral.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

/// The tensors that the steps share. They have been written.
class operands_of_steps {
 public:
  explicit operands_of_steps(session& current) : session_(current) {}

  [[nodiscard]] tensor values(const std::vector<float>& values, const extents& shape) {
    return tensor(upload_values(session_, values)).reshape(shape);
  }
  [[nodiscard]] host_tensor on_host(const tensor& x) {
    return session_.ask<host_tensor>(session_.device().actor(), download{.x = x});
  }
  [[nodiscard]] tensor noise(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> numbers(count);
    for (float& number : numbers) number = uniform(random_);
    return values(numbers, shape);
  }

 private:
  session& session_;
  std::mt19937_64 random_;
};

/// A mel spectrogram with 128 bands of 1 s at 16 kHz: four steps.
class mel_steps {
 public:
  static constexpr const char* name = "mel spectrogram, 1 s at 16 kHz";
  static constexpr const char* key = "mel";

  explicit mel_steps(session& current) : make_(current) {
    auto& make = make_;
    clip_ = make.noise({samples});
    window_ = make.values(examples::periodic_hann(n_fft), {n_fft});
    filterbank_ = make.values(examples::mel_filterbank(samples, n_fft, bands, 0, samples / 2.0),
                              {bands, 1 + n_fft / 2});
  }
  [[nodiscard]] const tensor& input() const { return clip_; }
  /// New clips, one behind the other.
  [[nodiscard]] tensor clips(std::int64_t count) { return make_.noise({count, samples}); }
  /// A new clip of a random length from half a second to one.
  [[nodiscard]] tensor clip_of_random_length() {
    return make_.noise({1, std::uniform_int_distribution(samples / 2, samples)(random_)});
  }
  [[nodiscard]] host_tensor on_host(const tensor& clip) { return make_.on_host(clip); }
  /// Adds the steps to a `program_builder` or to `plain_calls`.
  template <class To, class Value>
  [[nodiscard]] Value add_to(To& to, const Value& clip) const {
    const auto frames =
        to.add("frames", frame_signal{.signal = clip, .window = window_, .hop = 512});
    const auto spectrum = to.add("spectrum", rfft{.x = frames});
    const auto power = to.add("power", power_spectrum{.x = spectrum});
    return to.add("mel", gemm{.a = filterbank_, .b = power.transposed()});
  }

 private:
  static constexpr std::int64_t samples = 16000;
  static constexpr std::int64_t n_fft = 2048;
  static constexpr std::int64_t bands = 128;

  operands_of_steps make_;
  std::mt19937_64 random_;
  tensor clip_;
  tensor window_;
  tensor filterbank_;
};

/// Eight steps on small operands.
class small_steps {
 public:
  static constexpr const char* name = "eight small steps";
  static constexpr const char* key = "small";

  explicit small_steps(session& current) {
    operands_of_steps make(current);
    x_ = make.noise({64, 64});
    weights_ = make.noise({129, 16});
  }
  [[nodiscard]] const tensor& input() const { return x_; }
  template <class To, class Value>
  [[nodiscard]] Value add_to(To& to, const Value& x) const {
    const auto noise = to.add("noise", random_uniform{.shape = extents{64, 64}, .seed = 1});
    const auto scaled = to.add("scaled", affine{.x = noise, .factor = 2, .offset = -1});
    const auto product = to.add("product", gemm{.a = scaled, .b = x});
    const auto sum = to.add("sum", sluice::add{.a = product, .b = x});
    const auto spectrum = to.add("spectrum", rfft{.x = sum.reshape({16, 256})});
    const auto power = to.add("power", power_spectrum{.x = spectrum});
    const auto features = to.add("features", gemm{.a = power, .b = weights_});
    return to.add("reduced", reduce{.x = features, .axes = extents{0}});
  }

 private:
  tensor x_;
  tensor weights_;
};

/// Times of one program and of plain calls of its steps.
struct figures {
  times plain_call;
  times round_trip;
  times plain_piece;      ///< of one of many calls in a row
  times pipelined_piece;  ///< of one run, with `bench_in_flight` runs in flight
};

template <class Steps>
figures measure(session& current, const bench_settings& settings) {
  const Steps steps(current);
  plain_calls plain(current.device().service().runtime());
  (void)steps.add_to(plain, steps.input());
  program_builder builder;
  const auto result = steps.add_to(builder, builder.input("x"));
  const run request{std::move(builder).build({result}, {.capture = capture_policy::automatic}),
                    {steps.input()}};
  const auto programs = current.device().programs();

  const auto measure_into = [&](figures& into, int calls, int many) {
    for (int i = 0; i < calls; ++i) {
      const auto begun = clock::now();
      plain.call();
      plain.synchronize();
      into.plain_call.add(microseconds_since(begun));
    }
    time_round_trips<tensors>(current.system(), programs, request, calls, into.round_trip);
    const auto begun = clock::now();
    for (int i = 0; i < many; ++i) plain.call();
    plain.synchronize();
    into.plain_piece.add(microseconds_since(begun) / many);
    time_pipelined<tensors>(
        current.system(), programs, [&](std::size_t) -> const run& { return request; }, many,
        into.pipelined_piece);
  };
  figures warm_up;
  measure_into(warm_up, 20, 100);
  figures measured;
  // In turn, so that other load on the machine affects all alike.
  for (int round = 0; round < settings.rounds; ++round) measure_into(measured, 20, 200);
  return measured;
}

/// Mel spectrograms of many clips: plain calls by one thread, and runs that clients send.
paired_rounds measure_many(session& current, const bench_settings& settings) {
  constexpr std::size_t clients = 4;
  constexpr std::size_t clips_of_client = 2 * bench_in_flight;
  constexpr std::int64_t stacked = 32;
  mel_steps steps(current);
  plain_calls one(current.device().service().runtime());
  (void)steps.add_to(one, steps.clips(1));
  plain_calls many(current.device().service().runtime());
  (void)steps.add_to(many, steps.clips(stacked));
  std::vector<std::unique_ptr<plain_calls>> of_random_lengths;
  for (std::int64_t i = 0; i < stacked; ++i) {
    auto& made = *of_random_lengths.emplace_back(
        std::make_unique<plain_calls>(current.device().service().runtime()));
    (void)steps.add_to(made, steps.clip_of_random_length());
  }
  const auto build = [&](std::size_t max_in_batch, bool pads = false) {
    program_builder builder;
    const auto clip =
        pads ? builder.input("clip", per_request, padded{1}) : builder.input("clip", per_request);
    return std::move(builder).build(
        {steps.add_to(builder, clip)},
        {.capture = capture_policy::automatic, .max_in_batch = max_in_batch});
  };
  std::vector<tensor> clips;
  std::vector<tensor> unequal_clips;
  for (std::size_t i = 0; i < clients * clips_of_client; ++i) {
    clips.push_back(steps.clips(1));
    unequal_clips.push_back(steps.clip_of_random_length());
  }
  std::vector<host_tensor> clips_on_host;
  clips_on_host.reserve(clips.size());
  for (const auto& clip : clips) clips_on_host.push_back(steps.on_host(clip));
  const auto programs = current.device().programs();
  const auto load_of = [&](const program& what, const auto& inputs) {
    return std::make_shared<load_clients<tensors>>(
        current.system(), clients, bench_in_flight, programs,
        [&inputs, what](std::size_t client, std::size_t i) {
          return std::tuple(run{what, {inputs[client * clips_of_client + i % clips_of_client]}});
        });
  };
  paired_rounds all(settings);
  all.add("plain calls, one clip each", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) one.call();
    one.synchronize();
  });
  all.add(fmt::format("plain calls, {} clips each", stacked), [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += stacked) many.call();
    many.synchronize();
  });
  all.add("plain calls, clips of random lengths", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      of_random_lengths[static_cast<std::size_t>(i % stacked)]->call();
    }
    for (const auto& each : of_random_lengths) each->synchronize();
  });
  const auto alone = load_of(build(1), clips);
  all.add("4 clients, launched alone", [alone](std::int64_t n) { alone->send(n); });
  const auto together = load_of(build(bench_in_flight), clips);
  all.add(fmt::format("4 clients, up to {} launched together", bench_in_flight),
          [together](std::int64_t n) { together->send(n); });
  const auto from_host = load_of(build(bench_in_flight), clips_on_host);
  all.add("the same, with clips from the host",
          [from_host](std::int64_t n) { from_host->send(n); });
  const auto unequal = load_of(build(bench_in_flight, true), unequal_clips);
  all.add("the same, with clips of random lengths",
          [unequal](std::int64_t n) { unequal->send(n); });
  all.measure();
  return all;
}

nlohmann::ordered_json json_of(const figures& f) {
  const auto pair = [](const times& plain, const times& program) {
    return nlohmann::ordered_json{{"plain_us", plain.median()},
                                  {"program_us", program.median()},
                                  {"ratio", program.median() / plain.median()}};
  };
  return {{"alone", pair(f.plain_call, f.round_trip)},
          {"pipelined", pair(f.plain_piece, f.pipelined_piece)}};
}

std::string table(const std::string& name, const figures& f) {
  const auto line = [](const std::string& what, const times& plain, const times& program) {
    return fmt::format("  {:<44}  {:>9.2f} us  {:>9.2f} us  {:>7.2f}\n", what, plain.median(),
                       program.median(), program.median() / plain.median());
  };
  return line(name + ", alone", f.plain_call, f.round_trip) +
         line(fmt::format("  {} in flight", bench_in_flight), f.plain_piece, f.pipelined_piece);
}

}  // namespace

bench_report bench_programs(session& current, const bench_settings& settings) {
  const auto mel = measure<mel_steps>(current, settings);
  const auto small = measure<small_steps>(current, settings);
  const auto many = measure_many(current, settings);
  return {.library = library_of(row_of(operation_type<rfft>{}), current) + ", " +
                     library_of(row_of(operation_type<gemm>{}), current),
          .json = {{mel_steps::key, json_of(mel)},
                   {small_steps::key, json_of(small)},
                   {"many_mel", many.json()}},
          .table = fmt::format("  {:<44}  {:>12}  {:>12}  {:>7}\n", "", "plain calls", "program",
                               "as long") +
                   table(mel_steps::name, mel) + table(small_steps::name, small) +
                   fmt::format("\n{}, {} runs of each client in flight\n", mel_steps::name,
                               bench_in_flight) +
                   many.table()};
}

}  // namespace sluice::cli
