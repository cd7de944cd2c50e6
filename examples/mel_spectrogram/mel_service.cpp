#include "examples/mel_spectrogram/mel_service.hpp"

#include "examples/mel_spectrogram/mel_filterbank.hpp"

#include <complex>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

namespace sluice::examples {
namespace {

constexpr auto enqueued = reply_on::enqueued;

/// What depends on a request's parameters alone: made and uploaded for the first such request.
struct tables {
  gpu_ref<float> window;      // n_fft
  gpu_ref<float> filterbank;  // n_mels × bins
};
using parameters = std::tuple<double, std::int64_t, std::int64_t, double, double>;
constexpr std::size_t most_tables = 16;

struct service_state {
  device_actor device;
  fft_actor fft;
  blas_actor blas;
  elementwise_actor elementwise;
  std::map<parameters, tables> known;
  const char* name = "sluice.mel";
};
using self_pointer = mel_service::stateful_pointer<service_state>;
using promise = caf::typed_response_promise<gpu_ref<float>>;

/// One request on its way: each stage asks an actor and names the next stage. The references that
/// go from stage to stage stand for memory that the device is still going to write.
class spectrogram : public std::enable_shared_from_this<spectrogram> {
 public:
  spectrogram(self_pointer self, promise reply, mel_spectrogram request)
      : self_(self), reply_(std::move(reply)), request_(std::move(request)) {}
  spectrogram(const spectrogram&) = delete;
  spectrogram& operator=(const spectrogram&) = delete;
  /// Nobody is left without an answer, also when the service ends in the middle.
  ~spectrogram() { fail(make_error(errc::cancelled)); }

  void begin() try {
    const double fmax = request_.fmax.value_or(request_.sample_rate / 2);
    const parameters key{request_.sample_rate, request_.n_fft, request_.n_mels, request_.fmin, fmax};
    auto& known = self_->state.known;
    if (const auto found = known.find(key); found != known.end()) return bring(found->second);

    auto both = periodic_hann(request_.n_fft);
    const auto weights = std::apply(mel_filterbank, key);
    both.insert(both.end(), weights.begin(), weights.end());
    // Other requests wait meanwhile, so that nothing is uploaded twice, and a table is known only
    // once it has arrived.
    self_->request(self_->state.device, caf::infinite, upload<float>{std::move(both), {}})
        .await(
            [job = shared_from_this(), key](gpu_ref<float>& arrived) {
              const auto n_fft = static_cast<std::size_t>(job->request_.n_fft);
              auto& tables_known = job->self_->state.known;
              if (tables_known.size() == most_tables) tables_known.clear();
              tables_known[key] = {arrived.subspan(0, n_fft),
                                   arrived.subspan(n_fft, arrived.size() - n_fft)};
              job->bring(tables_known[key]);
            },
            [job = shared_from_this()](caf::error& why) { job->fail(std::move(why)); });
  } catch (...) {
    fail(to_caf_error(current_error()));
  }

 private:
