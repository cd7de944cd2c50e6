// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"

#include <sluice/operations/mel_filterbank.hpp>

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace sluice::examples {
namespace {

constexpr program_options options{.max_in_batch = 64};

/// The window is this much smaller than one, so that the power of loud recordings stays finite: the
/// product with the filterbank multiplies infinity by weights of 0, which makes every band NaN.
constexpr float window_scale = 0x1p-20F;
constexpr double power_scale = double{window_scale} * window_scale;

host_tensor scaled_window(std::int64_t n) {
  auto window = hann_window(n);
  for (float& factor : window.values<float>()) factor *= window_scale;
  return window;
}

/// The options for powers that are multiplied by `power_scale`.
decibel_options scaled(decibel_options decibels) {
  constexpr double smallest{std::numeric_limits<float>::min()};
  if (decibels.amin >= smallest) decibels.amin = std::max(decibels.amin * power_scale, smallest);
  return decibels;
}

/// The program of a request. Its constants are brought to the device once.
program make_program(const mel_spectrogram& request) {
  auto filters = mel_filterbank({.sample_rate = request.sample_rate,
                                 .n_fft = request.n_fft,
                                 .n_mels = request.n_mels,
                                 .fmin = request.fmin,
                                 .fmax = request.fmax});
  program_builder p;
  // Zeros behind a recording change no frame of it, but there may be a louder one behind them.
  const auto samples = request.decibels ? p.input("samples", per_request)
                                        : p.input("samples", per_request, padded{1});
  const auto window = p.constant("window", scaled_window(request.n_fft));
  const auto filterbank = p.constant("filterbank", std::move(filters));
  const auto frames =
      p.add("frames",
            frame_signal{
                .signal = samples, .window = window, .n_fft = request.n_fft, .hop = request.hop});
  const auto power = p.add("power", power_spectrum{.x = p.add("fft", rfft{.x = frames})});
  const double alpha = request.decibels ? 1 : 1 / power_scale;
  const auto mel = p.add("mel", gemm{.a = filterbank, .b = power.transposed(), .alpha = alpha});
  if (!request.decibels) return std::move(p).build({mel}, options);
  const auto loudest =
      p.add("loudest",
            reduce{.x = mel, .kind = reduction::max, .axes = extents{1, 2}, .keep_dims = true});
  const auto decibels =
      p.add("decibels",
            power_to_decibel{.x = mel, .reference = loudest, .options = scaled(*request.decibels)});
  return std::move(p).build({decibels}, options);
}

/// What the program of a request depends on.
auto parameters_of(const mel_spectrogram& request) {
  return std::tuple(request.sample_rate, request.n_fft, request.hop, request.n_mels, request.fmin,
                    request.fmax, request.decibels);
}

struct service_state {
  const char* name = "sluice.mel";
  // In the order in which they were made.
  std::deque<std::pair<decltype(parameters_of({})), program>> known;
};

const program& find_program(service_state& state, const mel_spectrogram& request) {
  const auto parameters = parameters_of(request);
  for (const auto& [key, known_program] : state.known)
    if (key == parameters) return known_program;
  state.known.emplace_back(parameters, make_program(request));
  // The newest ones are kept.
  if (state.known.size() > 16) state.known.pop_front();
  return state.known.back().second;
}

/// The recordings of a request; a vector of samples is one.
run_input recordings_of(mel_spectrogram& request) {
  const auto& samples = request.samples;
  if (samples.size() == 0) throw error(errc::invalid_argument, "samples: are empty");
  const auto shape = samples.shape();
  if (shape.size() == 2) return std::move(request.samples);
  if (shape.size() != 1) {
    throw error(errc::invalid_argument, "samples: have " + std::to_string(shape.size()) +
                                            " dimensions, but must have 1 or 2");
  }
  const extents one{1, shape[0]};
  if (samples.on_host()) return samples.on_host().reshape(one);
  return samples.on_device().reshape(one);
}

mel_service::behavior_type behavior(mel_service::stateful_pointer<service_state> self,
                                    const program_actor& programs) {
  return {[=](mel_spectrogram& request) -> caf::result<tensors> {
    try {
      auto recordings = recordings_of(request);
      return delegate(self, programs,
                      run{find_program(state_of(self), request), {std::move(recordings)}});
    } catch (...) {
      return to_caf_error(current_error());
    }
  }};
}

}  // namespace

mel_service spawn_mel_service(caf::actor_system& system, const device_actor& device) {
  return system.spawn<caf::detached>(behavior, ask<program_actor>(system, device, get_programs{}));
}

}  // namespace sluice::examples
