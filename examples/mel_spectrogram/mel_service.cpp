// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"

#include "examples/mel_spectrogram/mel_filterbank.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::examples {
namespace {

/// The program of a request. Its constants are brought to the device once.
program make_program(const mel_spectrogram& asked) {
  const auto fmax = asked.fmax.value_or(asked.sample_rate / 2);
  if (!std::isfinite(asked.sample_rate + asked.fmin + fmax)) {
    throw error(errc::invalid_argument, "sample_rate, fmin and fmax must be finite");
  }
  auto filters = mel_filterbank(asked.sample_rate, asked.n_fft, asked.n_mels, asked.fmin, fmax);
  program_builder p;
  const auto samples = p.input("samples");
  const auto window = p.constant("window", host_tensor(periodic_hann(asked.n_fft)));
  const auto filterbank = p.constant(
      "filterbank", host_tensor(std::move(filters), {asked.n_mels, asked.n_fft / 2 + 1}));
  const auto frames = p.add(
      "frames",
      frame_signal{.signal = samples, .window = window, .n_fft = asked.n_fft, .hop = asked.hop});
  const auto power = p.add("power", power_spectrum{.x = p.add("fft", rfft{.x = frames})});
  const auto mel = p.add("mel", gemm{.a = filterbank, .b = power.transposed()});
  if (!asked.decibels) return std::move(p).build({mel});
  const auto loudest = p.add("loudest", reduce{.x = mel, .kind = reduction::max});
  return std::move(p).build({p.add(
      "decibels", power_to_decibel{.x = mel, .reference = loudest, .options = *asked.decibels})});
}

struct service_state {
  const char* name = "sluice.mel";
  program_actor programs;
  // Of the parameters that were asked for last, the newest at the end.
  std::vector<std::pair<mel_spectrogram, program>> known;
};
using service = mel_service::stateful_pointer<service_state>;
constexpr std::size_t max_known = 16;

/// The program for `parameters`, a request without samples.
const program& find_program(service_state& state, mel_spectrogram parameters) {
  auto& known = state.known;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const auto& one) { return one.first == parameters; });
  if (found != known.end()) {
    std::rotate(found, found + 1, known.end());
  } else {
    auto made = make_program(parameters);
    if (known.size() == max_known) known.erase(known.begin());
    known.emplace_back(std::move(parameters), std::move(made));
  }
  return known.back().second;
}

caf::result<tensors> answer(service self, mel_spectrogram& asked) {
  try {
    if (std::visit([](const auto& all) { return all.size(); }, asked.samples) == 0) {
      throw error(errc::invalid_argument, "samples: the recording is empty");
    }
    auto samples =
        std::visit([](auto&& all) { return run_input(std::forward<decltype(all)>(all)); },
                   std::exchange(asked.samples, {}));
    return delegate(self, state_of(self).programs,
                    run{find_program(state_of(self), std::move(asked)), {std::move(samples)}});
  } catch (...) {
    return to_caf_error(current_error());
  }
}

mel_service::behavior_type behavior(service self, const device_actor& device,
                                    const program_actor& programs) {
  state_of(self).programs = programs;
  monitor(self, device);
  on_down(self, [self](caf::down_msg& down) { self->quit(down.reason); });
  return {[self](mel_spectrogram& asked) {
    return answer(self, asked);
  }};
}

}  // namespace

mel_service spawn_mel_service(caf::actor_system& system, const device_actor& device) {
  return system.spawn<caf::detached>(behavior, device,
                                     ask<program_actor>(system, device, get_programs{}));
}

}  // namespace sluice::examples
