// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>
#include <sluice/operations/mel_filterbank.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

using namespace sluice;

/// Asks which of the known words a clip contains.
struct find_keywords {
  std::vector<float> clip{};  ///< one second at 16 kHz
};
/// The three most probable words, the best one first.
struct keywords {
  std::vector<std::int64_t> words{};
  std::vector<float> probabilities{};
};
using keyword_service = caf::typed_actor<takes<keywords(find_keywords)>>;
SLUICE_MESSAGES(cookbook_keywords, 220, find_keywords, keywords)

/// The weights of two convolutions and of a linear layer.
struct keyword_weights {
  host_tensor w1, b1;  ///< [16, 1, 3, 3], [16]
  host_tensor w2, b2;  ///< [32, 16, 3, 3], [32]
  host_tensor w3, b3;  ///< [words, 32], [words]
};

program make_keyword_program(const keyword_weights& m) {
  program_builder p;
  const auto clip = p.input("clip", per_request);
  const auto window = p.constant("window", hann_window(400));
  const auto filters =
      p.constant("filters", mel_filterbank({.sample_rate = 16000, .n_fft = 512, .n_mels = 40}));
  const auto frames = p.add(frame_signal{
      .signal = clip, .window = window, .n_fft = 512, .hop = 160, .mode = pad_mode::reflect});
  const auto power = p.add(power_spectrum{.x = p.add(rfft{.x = frames})});
  const auto mel = p.add(gemm{.a = power, .b = filters.transposed()});
  const auto image = p.add(log(p.add(add(mel, 1e-6)))).reshape({-1, 1, 101, 40});
  const auto convolved = [&](const program_value& x, const host_tensor& w, const host_tensor& b) {
    return p.add(conv2d{.x = x,
                        .w = p.constant("w", w),
                        .bias = p.constant("b", b),
                        .geometry = {.padding = {1, 1}, .stride = {2, 2}},
                        .activation = activation::relu});
  };
  const auto features = convolved(convolved(image, m.w1, m.b1), m.w2, m.b2);
  const auto means = p.add(reduce{.x = features, .kind = reduction::mean, .axes = {2, 3}});
  const auto w3 = p.constant("w3", m.w3);
  const auto scores = p.add(gemm{.a = means, .b = w3.transposed(), .bias = p.constant("b3", m.b3)});
  const auto best = p.add(top_k{.x = p.add(softmax{.x = scores}), .k = 3});
  return std::move(p).build({best[0], best[1]}, {.max_in_batch = 32});
}

keyword_service::behavior_type behavior(keyword_service::pointer self,
                                        const program_actor& programs, const program& program) {
  const auto to_keywords = [](const host_tensors& best) {
    return keywords{best[1].to_vector<std::int64_t>(), best[0].to_vector<float>()};
  };
  return {[=](find_keywords& query) -> caf::result<keywords> {
    if (query.clip.size() != 16'000)
      return to_caf_error(error(errc::invalid_argument, "clip: is not one second at 16 kHz"));
    host_tensor clip(std::move(query.clip), {1, 16'000});
    return answer_with(self, programs, to_keywords, run_to_host{program, {std::move(clip)}});
  }};
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const auto filled = [](const extents& shape) {
    host_tensor weights(element_type::f32, shape);
    float number = 0;
    for (auto& w : weights.values<float>()) w = std::sin(++number) / 8;
    return weights;
  };
  const auto program = make_keyword_program({.w1 = filled({16, 1, 3, 3}),
                                             .b1 = filled({16}),
                                             .w2 = filled({32, 16, 3, 3}),
                                             .b2 = filled({32}),
                                             .w3 = filled({10, 32}),
                                             .b3 = filled({10})});
  const auto service = system.spawn<caf::detached>(behavior, device.programs(), program);
  const auto found =
      ask<keywords>(system, service, find_keywords{filled({16'000}).to_vector<float>()});
  std::cout << found.words.size() << " words\n";  // 3 words
}
