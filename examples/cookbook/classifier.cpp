// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <utility>
#include <vector>

using namespace sluice;

/// Asks for the class that fits the features best.
struct classify {
  run_input features{};  ///< f32, of shape [1, features]
};
/// The answer to `classify`.
struct label {
  std::size_t index = 0;  ///< number of the class
  float score = 0;        ///< its score
};
using classifier = caf::typed_actor<takes<label(classify, request_options)>>;
SLUICE_MESSAGES(cookbook, 220, classify, label)

struct classifier_state {
  const char* name = "cookbook.classifier";
};

classifier::behavior_type behavior(classifier::stateful_pointer<classifier_state> self,
                                   const program_actor& programs, const program& scores) {
  return {[=](classify& query, const request_options& options) -> caf::result<label> {
    if (query.features.shape() != extents{1, 2}) {
      return to_caf_error(error(errc::invalid_argument, "features: must have the shape [1, 2]"));
    }
    auto promise = self->make_response_promise<label>();
    request(self, programs, caf::infinite, run_to_host{scores, {std::move(query.features)}},
            options)
        .then(
            [promise](const host_tensors& results) mutable {
              const auto values = results.front().values<float>();
              const auto best = std::max_element(values.begin(), values.end());
              promise.deliver(label{static_cast<std::size_t>(best - values.begin()), *best});
            },
            [promise](const caf::error& why) mutable { promise.deliver(why); });
    return promise;
  }};
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  program_builder p;
  const auto features = p.input("features");
  const auto weights =
      p.constant("weights", host_tensor(std::vector<float>{1, 0, 0, 1, 3, 4}, {3, 2}));
  const auto scores = p.add("scores", gemm{.a = features, .b = weights.transposed()});
  const auto service =
      system.spawn<caf::detached>(behavior, device.programs(), std::move(p).build({scores}));

  const host_tensor point(std::vector<float>{1, 2}, {1, 2});
  const auto found = ask<label>(system, service, classify{point}, request_options{});
  std::cout << "class " << found.index << ", score " << found.score << '\n';  // class 2, score 11
}
