// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"

#include "examples/mel_spectrogram/mel_filterbank.hpp"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace sluice::examples {
namespace {

/// What depends on the parameters alone: uploaded for the first request that has them, then reused.
struct tables {
  gpu_ref<float> window;      // n_fft
  gpu_ref<float> filterbank;  // n_mels × bins
};
/// Sampling rate, n_fft, n_mels, fmin, fmax.
using parameters = std::tuple<double, std::int64_t, std::int64_t, double, double>;
constexpr std::size_t max_tables = 16;

/// The actors that do the work.
struct workers {
  device_actor device;
  elementwise_actor elementwise;
  fft_actor fft;
  blas_actor blas;
};

struct service_state {
  const char* name = "sluice.mel";
  workers use;
  std::map<parameters, tables> known;
};
using service = mel_service::stateful_pointer<service_state>;
using promise = caf::typed_response_promise<gpu_ref<float>>;

std::size_t positive(std::int64_t value, const char* name) {
  if (value < 1)
    throw error(errc::invalid_argument,
                std::string(name) + " is " + std::to_string(value) + ": at least 1 needed");
  return static_cast<std::size_t>(value);
}

/// One request on its way. Each stage asks an actor and names the stage that goes on with the
/// answer, which comes as soon as the device has been told: the references passed on stand for
/// memory that it is still to write. Only the last stage waits until it has.
class spectrogram : public std::enable_shared_from_this<spectrogram> {
 public:
  spectrogram(service self, promise reply, mel_spectrogram request)
      : self_(self), reply_(std::move(reply)), request_(std::move(request)) {}
  spectrogram(const spectrogram&) = delete;
  spectrogram& operator=(const spectrogram&) = delete;
  ~spectrogram() {
    if (reply_.pending()) fail(make_error(errc::cancelled));  // the service ends in the middle
  }

  void start() {
    try {
      layout_ = {std::visit([](const auto& samples) { return samples.size(); }, request_.samples),
                 positive(request_.n_fft, "n_fft"), positive(request_.hop, "hop")};
      frames_ = frame_count(layout_);
      if (frames_ == 0) throw error(errc::invalid_argument, "samples: the recording is empty");
      find_tables();
    } catch (...) {
      fail(to_caf_error(current_error()));
    }
  }

 private:
  template <class Actor, class Answer, class... Message>
  void ask(const Actor& actor, void (spectrogram::*next)(Answer), Message... message) {
    request(self_, actor, caf::infinite, std::move(message)...)
        .then([job = shared_from_this(), next](Answer& answer) { (*job.*next)(std::move(answer)); },
              failed());
  }
  auto failed() {
    return [job = shared_from_this()](caf::error& why) {
      job->fail(std::move(why));
    };
  }
  const workers& use() const { return state_of(self_).use; }
  std::map<parameters, tables>& known() const { return state_of(self_).known; }

  void find_tables() {
    const auto fmax = request_.fmax.value_or(request_.sample_rate / 2);
    if (!std::isfinite(request_.sample_rate + request_.fmin + fmax))
      throw error(errc::invalid_argument, "sample_rate, fmin and fmax must be finite");
    const parameters key(request_.sample_rate, request_.n_fft, request_.n_mels, request_.fmin,
                         fmax);
    if (const auto found = known().find(key); found != known().end()) return begin(found->second);

    const auto filterbank = std::apply(mel_filterbank, key);
    auto values = periodic_hann(request_.n_fft);
    values.insert(values.end(), filterbank.begin(), filterbank.end());
    // `await`: no other request is looked at before the tables are there, so none uploads them
    // again.
    request(self_, use().device, caf::infinite, upload{.values = std::move(values)})
        .await(
            [job = shared_from_this(), key](const tensor& uploaded) {
              const auto both = uploaded.as<float>();
              const auto n_fft = job->layout_.n_fft;
              if (job->known().size() == max_tables) job->known().clear();
              job->begin(job->known()[key] = {both.subspan(0, n_fft),
                                              both.subspan(n_fft, both.size() - n_fft)});
            },
            failed());
  }

  void begin(tables t) {
    tables_ = std::move(t);
    if (auto* on_host = std::get_if<std::vector<float>>(&request_.samples))
      ask(use().device, &spectrogram::frame, upload{.values = std::move(*on_host)},
          request_options{.reply = reply_on::enqueued});
    else
      frame(tensor(std::get<gpu_ref<float>>(std::move(request_.samples))));
  }

  void frame(tensor samples) {
    ask(use().elementwise, &spectrogram::transform,
        frame_signal{.signal = samples,
                     .window = tables_.window,
                     .n_fft = request_.n_fft,
                     .hop = request_.hop},
        request_options{.reply = reply_on::enqueued});
  }

  void transform(tensor frames) {
    ask(use().fft, &spectrogram::square, rfft{.x = std::move(frames)},
        request_options{.reply = reply_on::enqueued});
  }

  void square(tensor spectrum) {
    ask(use().elementwise, &spectrogram::gather, power_spectrum{.x = std::move(spectrum)},
        request_options{.reply = reply_on::enqueued});
  }

  /// mel = filterbank · powerᵀ: n_mels × bins times bins × frames.
  void gather(tensor power) {
    ask(use().blas, request_.decibels ? &spectrogram::find_loudest : &spectrogram::succeed,
        sgemm{.transpose_b = transpose::yes,
              .m = request_.n_mels,
              .n = static_cast<std::int64_t>(frames_),
              .k = request_.n_fft / 2 + 1,
              .a = tables_.filterbank,
              .b = power.as<float>()},
        request_options{.reply = request_.decibels ? reply_on::enqueued : reply_on::finished});
  }

  void find_loudest(gpu_ref<float> mel) {
    mel_ = std::move(mel);
    ask(use().elementwise, &spectrogram::to_decibels, reduce{.x = mel_, .kind = reduction::max},
        request_options{.reply = reply_on::enqueued});
  }

  void to_decibels(tensor loudest) {
    ask(use().elementwise, &spectrogram::succeed_with_tensor,
        power_to_decibel{
            .x = mel_, .reference = std::move(loudest), .options = *request_.decibels, .y = mel_});
  }

  void succeed_with_tensor(tensor result) { succeed(result.as<float>()); }
  void succeed(gpu_ref<float> result) { reply_.deliver(std::move(result)); }
  void fail(caf::error why) { reply_.deliver(std::move(why)); }

  service self_;
  promise reply_;
  mel_spectrogram request_;
  frame_layout layout_{};
  std::size_t frames_ = 0;
  tables tables_;
  gpu_ref<float> mel_;
};

mel_service::behavior_type behavior(service self, const workers& use) {
  state_of(self).use = use;
  monitor(self, use.device);
  on_down(self, [self](caf::down_msg& device) { self->quit(device.reason); });
  return {[self](mel_spectrogram& request) {
    auto reply = self->make_response_promise<promise>();
    std::make_shared<spectrogram>(self, reply, std::move(request))->start();
    return reply;
  }};
}

}  // namespace

mel_service spawn_mel_service(caf::actor_system& system, const device_actor& device) {
  const workers use{device, ask<elementwise_actor>(system, device, get_elementwise{}),
                    ask<fft_actor>(system, device, get_fft{}),
                    ask<blas_actor>(system, device, get_blas{})};
  return system.spawn<caf::detached>(behavior, use);
}

}  // namespace sluice::examples
